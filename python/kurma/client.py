"""The client that waits: each call returns when it is done."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Self

from . import _core
from ._native import Descriptor, Pending, Session


class _Waiting(_core.Core):
    """Its coroutines never wait for anybody else: they are done when they are begun."""

    async def _wait(self, pending: Pending) -> Any:
        return pending.wait()


def _run(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call that waits for somebody else")


def _iterate(generator: Any) -> Any:
    try:
        while True:
            try:
                yield _run(generator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        _run(generator.aclose())


def _meant(argument: Any) -> Any:
    """Another client is what it is made of."""
    return argument._core if isinstance(argument, Client) else argument


def _call(method: Any) -> Any:
    finish = _iterate if inspect.isasyncgenfunction(method) else _run

    @functools.wraps(method)
    def call(self: Client, *args: Any, **kwargs: Any) -> Any:
        named = {name: _meant(argument) for name, argument in kwargs.items()}
        return finish(method(self._core, *map(_meant, args), **named))

    return call


class Client:
    __doc__ = _core.Core.__doc__

    def __init__(self, session: Session) -> None:
        self._core = _Waiting(session)

    @classmethod
    def connect(cls, url: str, **options: Any) -> Client:
        """Connects to the server of `nfs://HOST[:PORT]/PATH`; relative paths begin at PATH.

        Options: `uid`, `gid`, `groups` (those of the process), `tls` (certificates of authorities as PEM),
        `certificate` and `key` (of the client, PEM), `connections`, `slots`, `message_bytes`, `transfer`,
        `cache_bytes` (memory for what was read, 64 MiB; 0 for none), `minor_versions`, `entry_timeout` (how long
        paths are believed, 0), `timeout`, `connect_timeout`, `patience` (seconds), `extensions` (whether to use what only Kurma has).
        """
        return cls(_core.Core._connecting(url, options).wait())

    @classmethod
    def local(cls, directory: Any) -> Client:
        """Files of this machine; paths begin at `directory`, and nothing leads out of it."""
        return cls(Session.local(directory))

    def transaction(self) -> Transaction:
        """Collects steps, and does all of them at one instant, or none: when the `with` ends, or by `commit`."""
        return Transaction(self._core)

    def batch(self) -> Batch:
        """Collects steps, and does them in order, up to the first that fails: when the `with` ends, or by `commit`."""
        return Batch(self._core)

    def writer(self, descriptor: Descriptor, offset: int = 0) -> Writer:
        """Writes an open file from `offset` on, while the program goes on."""
        return Writer(self._core, descriptor, offset)

    def statistics(self) -> _core.Statistics:
        """What was sent so far."""
        return self._core.statistics()

    def transaction_limits(self) -> _core.TransactionLimits | None:
        """How much one transaction may be; `None` if there are none here."""
        return self._core.transaction_limits()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Batch(_core.Steps):
    """Steps that are done in order, up to the first that fails, in as few round trips as possible."""

    def commit(self) -> list[Any]:
        """Does the steps; the result of each."""
        return _run(self._commit())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._leave(kind is not None):
            self.commit()


class Transaction(Batch):
    """Steps that are done all at one instant, or not at all."""

    _whole = True


class Writer(_core.Stream):
    __doc__ = _core.Stream.__doc__

    def write(self, data: Any) -> int:
        """Takes these bytes to be written after those before; how many, which are all."""
        return self._writer.write(data).wait()

    def sync(self) -> None:
        """Waits until all that was written is on stable storage."""
        self._writer.sync().wait()

    def close(self) -> None:
        """The same, and closes the file, whether or not it is. A file of up to 1 MiB is written and closed by one round trip."""
        self._writer.close().wait()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        _run(self._leave(kind is not None))


for _name, _method in vars(_core.Core).items():
    if not _name.startswith("_") and (
        inspect.iscoroutinefunction(_method) or inspect.isasyncgenfunction(_method)
    ):
        setattr(Client, _name, _call(_method))
