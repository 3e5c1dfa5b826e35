"""Files for fsspec, and so for pandas, pyarrow, dask and whatever else opens URLs by it.

    pandas.read_parquet("kurma://nas:2049/home/data.parquet")

The path is that of the server, from its root. What fsspec does with many files goes in vectors.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import infer_storage_options, stringify_path

from . import aio
from ._batch import Batch, Budget
from ._errors import Error
from ._file import KurmaFile, KurmaTransaction
from ._native import Attributes, Copy, GetAttributes, Kind, Read, Remove, Session, SetAttributes, Write
from ._types import AttributeSet, Found
from ._url import PORT
from .client import Client

T = TypeVar("T")

#: Bytes that are held in memory for one file.
PIECE = 8 << 20
#: Bytes from which on a file has a vector of its own.
LARGE = 1 << 20
#: Bytes that `get` and `put` hold in memory at once.
HELD = 64 << 20
#: Files that are worked on at once.
FILES = 1024

# What else there is, but when it was read, which changes with the reading.
_WANTED = AttributeSet.STAT & ~(AttributeSet.ACCESSED | AttributeSet.DEVICE | AttributeSet.SPACE_USED)
_OPTIONS = (
    "uid", "gid", "groups", "tls", "certificate", "key", "minor_versions", "connections", "slots", "message_bytes",
    "transfer", "cache_bytes", "entry_timeout", "timeout", "connect_timeout", "patience", "extensions",
)  # fmt: skip
_TYPES: dict[Kind | None, str] = {Kind.FILE: "file", Kind.DIRECTORY: "directory", Kind.SYMBOLIC_LINK: "link"}


class KurmaFileSystem(AsyncFileSystem):
    """Files of an NFS server, `kurma://HOST[:PORT]/PATH`, or of a local directory (`root`).

    Parameters
    ----------
    host, port: the server.
    root: a directory of this machine, instead of a server.
    mode: permission bits of files that are made.
    auto_mkdir: whether to make directories that are missing on the way to a file that is made.
    uid, gid, groups, tls, ...: as for `kurma.Client.connect`.
    """

    protocol = "kurma"
    root_marker = "/"
    cachable = True
    transaction_type = KurmaTransaction

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        root: str | os.PathLike[str] | None = None,
        mode: int = 0o644,
        auto_mkdir: bool = False,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        if self._cached:
            return
        self._options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        super().__init__(host=host, port=port, root=root, batch_size=batch_size or FILES, **kwargs)
        if (host is None) == (root is None):
            raise ValueError("give a server (kurma://HOST[:PORT]/PATH) or a root directory")
        self.host, self.port, self.root = host, int(port or PORT), os.fspath(root or "")
        self.mode, self.auto_mkdir = mode, auto_mkdir
        self._session: Session | None = None
        self._connecting = threading.Lock()
        self._batches: weakref.WeakKeyDictionary[Any, Batch] = weakref.WeakKeyDictionary()
        self._budgets: weakref.WeakKeyDictionary[Any, Budget] = weakref.WeakKeyDictionary()

    # -------------------------------------------------------- the connection

    def _connect(self) -> Session:
        with self._connecting:
            if self._session is None:
                if self.host is None:
                    self._session = Session.local(self.root)
                else:
                    self._session = Session.connect(self.host, self.port, b"", self._options).wait()
                weakref.finalize(self, _goodbye, self._session)
            return self._session

    @property
    def client(self) -> Client:
        """The client beneath, which waits."""
        return Client(self._session or self._connect())

    async def _client(self) -> aio.Client:
        if self._session is None:
            await asyncio.get_running_loop().run_in_executor(None, self._connect)
        assert self._session is not None
        return aio.Client(self._session)

    async def _do(self, step: Any) -> Any:
        client = await self._client()
        loop = asyncio.get_running_loop()
        batch = self._batches.get(loop)
        if batch is None:
            batch = self._batches[loop] = Batch(client._session)
        return await batch.do(step)

    def _hold(self, amount: int) -> contextlib.AbstractAsyncContextManager[None]:
        loop = asyncio.get_running_loop()
        budget = self._budgets.get(loop)
        if budget is None:
            budget = self._budgets[loop] = Budget(HELD)
        return budget.hold(min(amount, PIECE))

    # ------------------------------------------------------------------ names

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith("kurma://"):
            _, slash, path = path[len("kurma://") :].partition("/")
            path = slash + path
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        options = infer_storage_options(path)
        return {name: options[name] for name in ("host", "port") if options.get(name)}

    def unstrip_protocol(self, name: str) -> str:
        host = "" if self.host is None else f"[{self.host}]" if ":" in self.host else self.host
        return f"kurma://{host}{f':{self.port}' if host else ''}{self._strip_protocol(name)}"

    @property
    def fsid(self) -> str:
        return self.unstrip_protocol("/")

    # ------------------------------------------------------------ information

    def _described(self, path: str, own: Attributes, followed: Attributes | None = None) -> dict[str, Any]:
        there = followed or own
        return {
            "name": path,
            "size": there.size if there.kind == Kind.FILE else 0,
            "type": _TYPES.get(there.kind, "other"),
            "mtime": (there.modified_ns or 0) / 1e9,
            "ctime": (there.changed_ns or 0) / 1e9,
            "mode": there.mode,
            "uid": there.owner,
            "gid": there.group,
            "nlink": there.links,
            "ino": there.file_id,
            "islink": own.kind == Kind.SYMBOLIC_LINK,
        }

    async def _followed(self, path: str) -> Attributes | None:
        try:
            return await self._do(GetAttributes(path, _WANTED))
        except OSError:
            # It leads nowhere, and is only a link.
            return None

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        own = await self._do(GetAttributes(path, _WANTED, follow=False))
        return self._described(path, own, await self._followed(path) if own.kind == Kind.SYMBOLIC_LINK else None)

    async def _all_described(self, entries: Iterable[tuple[str, Attributes]]) -> list[dict[str, Any]]:
        async def one(path: str, own: Attributes) -> dict[str, Any]:
            return self._described(path, own, await self._followed(path))

        described, links = [], []
        for path, own in entries:
            if own.kind == Kind.SYMBOLIC_LINK:
                links.append(one(path, own))
            else:
                described.append(self._described(path, own))
        return described + list(await asyncio.gather(*links))

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        client = await self._client()
        try:
            entries = await client.listdir(path, _WANTED if detail else AttributeSet.NONE)
        except NotADirectoryError:
            return [await self._info(path)] if detail else [path]
        if not detail:
            return sorted(_joined(path, entry.name) for entry in entries)
        listed = await self._all_described((_joined(path, entry.name), entry.attributes) for entry in entries)
        return sorted(listed, key=lambda info: info["name"])

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> Any:
        # Directories of one depth are read together. Links to directories are found, but not walked.
        detail = kwargs.pop("detail", False)
        path = self._strip_protocol(path)
        client = await self._client()
        found: list[tuple[str, Attributes]] = []
        level, depth = [path], 0
        while level and (maxdepth is None or depth < maxdepth):
            below: list[str] = []
            async for page in client.walk(level, _WANTED, recursive=False):
                if page.error:
                    if depth == 0:
                        return await self._found_none(page, path, detail)
                    continue
                for entry in page.entries:
                    name = _joined(page.directory, entry.name)
                    found.append((name, entry.attributes))
                    if entry.attributes.kind == Kind.DIRECTORY:
                        below.append(name)
            level, depth = below, depth + 1
        infos = {info["name"]: info for info in await self._all_described(found)}
        if withdirs:
            infos[path] = await self._info(path)
        names = sorted(name for name, info in infos.items() if withdirs or info["type"] != "directory")
        return {name: infos[name] for name in names} if detail else names

    async def _found_none(self, page: Found, path: str, detail: bool) -> Any:
        if isinstance(page.error, NotADirectoryError):
            return {path: await self._info(path)} if detail else [path]
        if isinstance(page.error, FileNotFoundError):
            return {} if detail else []
        assert page.error is not None
        raise page.error

    async def _du(self, path: str, total: bool = True, maxdepth: int | None = None, **kwargs: Any) -> Any:
        found = await self._find(path, maxdepth=maxdepth, detail=True, **kwargs)
        sizes = {name: info["size"] for name, info in found.items()}
        return sum(sizes.values()) if total else sizes

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def created(self, path: str) -> datetime.datetime:
        raise NotImplementedError("when a file was made is not kept")

    # ---------------------------------------------------------------- content

    async def _read(self, path: str, start: int, length: int) -> tuple[bytes, bool]:
        read = Read(path, start, length, with_end=True)
        if length < LARGE:
            return await self._do(read)
        return (await (await self._client()).execute([read]))[0]

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        if end is not None and end >= 0 and (start or 0) >= 0:
            return (await self._read(path, start or 0, max(0, end - (start or 0))))[0]
        size = (await self._do(GetAttributes(path, AttributeSet.SIZE))).size
        first = max(0, size + start) if start is not None and start < 0 else start or 0
        if end is not None:
            last = size + end if end < 0 else end
            return (await self._read(path, first, max(0, last - first)))[0]
        # One more than there is, to see whether the file grew meanwhile.
        data, is_all = await self._read(path, first, max(0, size - first) + 1)
        while not is_all:
            more, is_all = await self._read(path, first + len(data), PIECE)
            data += more
        return data

    async def _write(self, path: str, data: Any, offset: int = 0, **how: Any) -> None:
        write = Write(path, data, offset, **how)

        async def once() -> None:
            if len(data) < LARGE:
                await self._do(write)
            else:
                await (await self._client()).execute([write])

        try:
            await once()
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
            await self._makedirs(self._parent(path), exist_ok=True)
            await once()

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        is_new = mode == "create"
        await self._write(
            self._strip_protocol(path), value, create=self.mode, exclusive=is_new, truncate=not is_new
        )

    async def _get_file(
        self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **kwargs: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        attributes = await self._do(GetAttributes(rpath, AttributeSet.KIND | AttributeSet.SIZE))
        if attributes.kind == Kind.DIRECTORY:
            os.makedirs(lpath, exist_ok=True)
            return
        callback.set_size(attributes.size)
        async with self._hold(attributes.size + 1):
            with contextlib.nullcontext(lpath) if hasattr(lpath, "write") else open(lpath, "wb") as file:
                offset, is_all = 0, False
                while not is_all:
                    wanted = min(PIECE, max(attributes.size - offset, 0) + 1)
                    data, is_all = await self._read(rpath, offset, wanted)
                    file.write(data)
                    offset += len(data)
                    callback.relative_update(len(data))

    async def _put_file(
        self, lpath: Any, rpath: str, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **kwargs: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        size = os.path.getsize(lpath)
        callback.set_size(size)
        async with self._hold(size):
            with open(lpath, "rb") as file:
                data, offset = file.read(PIECE), 0
                await self._pipe_file(rpath, data, mode=mode)
                while data:
                    callback.relative_update(len(data))
                    offset += len(data)
                    data = file.read(PIECE)
                    if data:
                        await self._write(rpath, data, offset)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        attributes = await self._do(GetAttributes(source, AttributeSet.KIND | AttributeSet.MODE))
        if attributes.kind == Kind.DIRECTORY:
            await self._makedirs(destination, exist_ok=True)
            return
        copy = Copy(source, destination, create=attributes.mode)
        try:
            await self._copied(copy)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
            await self._makedirs(self._parent(destination), exist_ok=True)
            await self._copied(copy)

    async def _copied(self, copy: Copy) -> None:
        try:
            await self._do(copy)
        except Error as error:
            # A server that cannot copy, or not between two of its file systems.
            if error.errno not in (errno.EIO, errno.EOPNOTSUPP, errno.EXDEV):
                raise
            await (await self._client()).vcopy([copy])

    # ------------------------------------------------------------------ names

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        await self._do(Remove(self._strip_protocol(path)))

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not recursive or maxdepth is not None:
            await super()._rm(path, recursive=recursive, batch_size=batch_size, maxdepth=maxdepth, **kwargs)
            return
        paths = await self._expand_path(path)
        if "/" in paths:
            raise ValueError("the root is not removed")
        await (await self._client()).rm_recursive(paths)

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        client = await self._client()
        if create_parents:
            await client.ensure_directory(self._parent(path))
        await client.mkdir(path)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if exist_ok:
            await (await self._client()).ensure_directory(path)
        else:
            await self._mkdir(path)

    async def _rmdir(self, path: str) -> None:
        await (await self._client()).rmdir(self._strip_protocol(path))

    def rmdir(self, path: str) -> None:
        self.client.rmdir(self._strip_protocol(path))

    async def _mv_file(self, path1: str, path2: str) -> None:
        await (await self._client()).rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        from fsspec.core import has_magic

        if not isinstance(path1, str) or has_magic(path1) or maxdepth is not None:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        if path2.endswith("/") or self.isdir(destination):
            destination = _joined(destination, source.rpartition("/")[2])
        self._with_parents(destination, lambda: self.client.rename(source, destination))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        write = Write(path, b"", create=self.mode, truncate=truncate)
        now = SetAttributes(path, accessed_ns="now", modified_ns="now")
        self._with_parents(path, lambda: self.client.execute([write, now]))

    def _with_parents(self, path: str, make: Callable[[], T]) -> T:
        try:
            return make()
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
            self.client.ensure_directory(self._parent(path))
            return make()

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> KurmaFile:
        return KurmaFile(
            self,
            path,
            mode,
            block_size=block_size or "default",
            autocommit=autocommit,
            cache_options=cache_options,
            **kwargs,
        )


def _joined(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _goodbye(session: Session) -> None:
    """A server that does not answer is not waited for: it forgets whoever says nothing."""
    try:
        session.close().wait(2)
    except (OSError, RuntimeError):
        pass
