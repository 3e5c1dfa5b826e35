"""The client for asyncio: each call is awaited, and waits on no thread of its own."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Generator
from typing import Any, Self

from . import _core
from ._native import Descriptor, Pending, Session


async def wait(pending: Pending) -> Any:
    """The result of pending work. Whoever is cancelled meanwhile has not undone it: it goes on to its end."""
    if pending.is_done:
        return pending.result()
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    pending.then(functools.partial(loop.call_soon_threadsafe, _settle, future, pending))
    return await future


def _settle(future: asyncio.Future[Any], pending: Pending) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(pending.result())
    except BaseException as error:
        future.set_exception(error)


class Client(_core.Core):
    __doc__ = _core.Core.__doc__

    async def _wait(self, pending: Pending) -> Any:
        return await wait(pending)

    @classmethod
    def connect(cls, url: str, **options: Any) -> Connecting:
        """`await` it, or use it in `async with`. Everything else is as for `kurma.Client.connect`."""
        return Connecting(cls, url, options)

    @classmethod
    def local(cls, directory: Any) -> Client:
        """Files of this machine; paths begin at `directory`, and nothing leads out of it."""
        return cls(Session.local(directory))

    def transaction(self) -> Transaction:
        """Collects steps, and does all of them at one instant, or none: when the `async with` ends, or by `commit`."""
        return Transaction(self)

    def batch(self) -> Batch:
        """Collects steps, and does them in order, up to the first that fails: when the `async with` ends, or by `commit`."""
        return Batch(self)

    def writer(self, descriptor: Descriptor, offset: int = 0) -> Writer:
        """Writes an open file from `offset` on, while the program goes on."""
        return Writer(self, descriptor, offset)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Connecting:
    """A client that is about to be connected."""

    def __init__(self, kind: type[Client], url: str, options: dict[str, Any]) -> None:
        self._kind, self._url, self._options = kind, url, options
        self._client: Client | None = None

    async def _connect(self) -> Client:
        self._client = self._kind(await wait(_core.Core._connecting(self._url, self._options)))
        return self._client

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        return await self._connect()

    async def __aexit__(self, *_: object) -> None:
        if self._client:
            await self._client.close()


class Batch(_core.Steps):
    """Steps that are done in order, up to the first that fails, in as few round trips as possible."""

    async def commit(self) -> list[Any]:
        """Does the steps; the result of each."""
        return await self._commit()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if self._leave(kind is not None):
            await self.commit()


class Transaction(Batch):
    """Steps that are done all at one instant, or not at all."""

    _whole = True


class Writer(_core.Stream):
    __doc__ = _core.Stream.__doc__

    async def write(self, data: Any) -> int:
        """Takes these bytes to be written after those before; how many, which are all."""
        return await wait(self._writer.write(data))

    async def sync(self) -> None:
        """Waits until all that was written is on stable storage."""
        await wait(self._writer.sync())

    async def close(self) -> None:
        """The same, and closes the file, whether or not it is. A file of up to 1 MiB is written and closed by one round trip."""
        await wait(self._writer.close())

    async def __aenter__(self) -> Writer:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self._leave(kind is not None)
