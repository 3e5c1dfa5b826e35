"""The native module. Most of it is what `kurma` exports; `Session` and `Pending` are what its clients are made of."""

import os
from collections.abc import Iterable
from typing import Any, final

from typing_extensions import Buffer, disjoint_base

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes] | Descriptor | Handle | Target

__all__ = [
    "Attributes", "Close", "Commit", "Copy", "Descriptor", "Entry", "GetAttributes", "Handle", "HardLink",
    "Kind", "MakeDirectory", "MakeSymbolicLink", "Open", "Pending", "Read", "ReadLink", "Remove", "Rename",
    "Session", "SetAttributes", "Step", "Target", "Walk", "Write", "Writer", "end",
]

def end() -> None: ...
@final
class Pending:
    def wait(self, seconds: float | None = None) -> Any: ...
    def then(self, function: Any) -> None: ...
    @property
    def is_done(self) -> bool: ...
    def result(self) -> Any: ...

@final
class Descriptor:
    """An open file of one client, until it is closed."""

    @property
    def number(self) -> int: ...
    def __lt__(self, other: Descriptor, /) -> bool: ...
    def __le__(self, other: Descriptor, /) -> bool: ...
    def __gt__(self, other: Descriptor, /) -> bool: ...
    def __ge__(self, other: Descriptor, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Handle:
    """A server's name for a file, whatever its path is."""

    def __new__(cls, bytes: bytes) -> Handle: ...
    def __bytes__(self) -> bytes: ...
    def __hash__(self) -> int: ...

@final
class Target:
    """A path from an open directory or a handle."""

    def __new__(cls, base: Descriptor | Handle, path: str | bytes | os.PathLike[str] | None = None) -> Target: ...
    def __hash__(self) -> int: ...

@final
class Kind:
    """What kind of object."""

    FILE: Kind
    DIRECTORY: Kind
    SYMBOLIC_LINK: Kind
    BLOCK_DEVICE: Kind
    CHARACTER_DEVICE: Kind
    FIFO: Kind
    SOCKET: Kind
    def __hash__(self) -> int: ...

@final
class Attributes:
    """Attributes of an object; `None` where they were not asked for, or cannot be had. Times are nanoseconds since 1970."""

    @property
    def kind(self) -> Kind | None: ...
    @property
    def mode(self) -> int | None: ...
    @property
    def owner(self) -> int | str | None: ...
    @property
    def group(self) -> int | str | None: ...
    @property
    def size(self) -> int | None: ...
    @property
    def space_used(self) -> int | None: ...
    @property
    def links(self) -> int | None: ...
    @property
    def file_id(self) -> int | None: ...
    @property
    def file_system(self) -> tuple[int, int] | None: ...
    @property
    def device(self) -> tuple[int, int] | None: ...
    @property
    def accessed_ns(self) -> int | None: ...
    @property
    def modified_ns(self) -> int | None: ...
    @property
    def changed_ns(self) -> int | None: ...
    @property
    def change(self) -> int | None: ...
    @property
    def handle(self) -> Handle | None: ...

@final
class Entry:
    """One name in a directory."""

    @property
    def directory(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def attributes(self) -> Attributes: ...

@final
class Walk:
    def next(self) -> Pending: ...

@disjoint_base
class Step:
    """One element of a vector; each of its subclasses is a kind."""

    @property
    def target(self) -> str | Target: ...
    @property
    def only_reads(self) -> bool: ...

@final
class Open(Step):
    """Opens a file; its descriptor is the result."""

    def __new__(
        cls,
        target: _Path,
        *,
        read: bool = True,
        write: bool = False,
        create: int | None = None,
        exclusive: bool = False,
        truncate: bool = False,
        follow: bool = True,
    ) -> Open: ...

@final
class Close(Step):
    """Closes a file."""

    def __new__(cls, descriptor: Descriptor) -> Close: ...

@final
class Commit(Step):
    """Makes safe what was written through a descriptor."""

    def __new__(cls, descriptor: Descriptor) -> Commit: ...

@final
class Read(Step):
    """Reads an extent: its bytes, or with `into` how many were put into that buffer, or with `with_end` also whether the file ends."""

    def __new__(
        cls,
        target: _Path,
        offset: int = 0,
        length: int | None = None,
        *,
        follow: bool = True,
        into: Buffer | None = None,
        with_end: bool = False,
    ) -> Read: ...

@final
class Write(Step):
    """Writes an extent; how many bytes is the result. `create` is the permission bits of a file that is made."""

    def __new__(
        cls,
        target: _Path,
        data: Buffer,
        offset: int = 0,
        *,
        create: int | None = None,
        exclusive: bool = False,
        truncate: bool = False,
        stable: bool = False,
        follow: bool = True,
    ) -> Write: ...

@final
class Copy(Step):
    """Copies an extent within the server; how many bytes is the result."""

    def __new__(
        cls,
        source: _Path,
        destination: _Path,
        *,
        source_offset: int = 0,
        destination_offset: int = 0,
        length: int | None = None,
        create: int | None = ...,
        exclusive: bool = False,
        truncate: bool = True,
    ) -> Copy: ...

@final
class GetAttributes(Step):
    """Asks for attributes."""

    def __new__(cls, target: _Path, wanted: int = ..., *, follow: bool = True) -> GetAttributes: ...

@final
class SetAttributes(Step):
    """Sets attributes, those that are given. Times are nanoseconds since 1970, or "now"."""

    def __new__(
        cls,
        target: _Path,
        *,
        mode: int | None = None,
        owner: int | str | None = None,
        group: int | str | None = None,
        size: int | None = None,
        accessed_ns: int | str | None = None,
        modified_ns: int | str | None = None,
        follow: bool = True,
    ) -> SetAttributes: ...

@final
class MakeDirectory(Step):
    """Makes a directory."""

    def __new__(cls, target: _Path, mode: int = 0o755) -> MakeDirectory: ...

@final
class MakeSymbolicLink(Step):
    """Makes a symbolic link."""

    def __new__(cls, target: _Path, text: str | bytes | os.PathLike[str]) -> MakeSymbolicLink: ...

@final
class ReadLink(Step):
    """Asks where a symbolic link leads."""

    def __new__(cls, target: _Path) -> ReadLink: ...

@final
class HardLink(Step):
    """Gives a file a further name."""

    def __new__(cls, existing: _Path, new: _Path) -> HardLink: ...

@final
class Remove(Step):
    """Removes a file or an empty directory."""

    def __new__(cls, target: _Path) -> Remove: ...

@final
class Rename(Step):
    """Gives an object another name."""

    def __new__(cls, source: _Path, destination: _Path) -> Rename: ...

@final
class Writer:
    def write(self, data: Buffer) -> Pending: ...
    @property
    def position(self) -> int: ...
    def sync(self) -> Pending: ...
    def close(self) -> Pending: ...

@final
class Session:
    @staticmethod
    def connect(host: str, port: int, base: bytes, options: dict[str, Any]) -> Pending: ...
    @staticmethod
    def local(directory: str | os.PathLike[str]) -> Session: ...
    def execute(self, steps: Iterable[Step]) -> Pending: ...
    def execute_each(self, steps: Iterable[Step]) -> Pending: ...
    def transact(self, steps: Iterable[Step]) -> Pending: ...
    def transaction_limits(self) -> tuple[int, int] | None: ...
    def vclose(self, descriptors: list[Descriptor]) -> Pending: ...
    def walk(self, directories: Iterable[_Path], wanted: int, recursive: bool) -> Walk: ...
    def vcopy(self, copies: Iterable[Copy], to: Session) -> Pending: ...
    def ensure_directory(self, target: _Path, mode: int) -> Pending: ...
    def rm_recursive(self, targets: Iterable[_Path]) -> Pending: ...
    def cp_recursive(
        self, copies: list[tuple[_Path, _Path]], to: Session, options: dict[str, Any]
    ) -> Pending: ...
    def read(self, descriptor: Descriptor, length: int) -> Pending: ...
    def write(self, descriptor: Descriptor, data: Buffer) -> Pending: ...
    def writer(self, descriptor: Descriptor, offset: int) -> Writer: ...
    def lseek(self, descriptor: Descriptor, offset: int, whence: int) -> Pending: ...
    def unlink(self, target: _Path) -> Pending: ...
    def rmdir(self, target: _Path) -> Pending: ...
    def statistics(self) -> tuple[int, int, int, int]: ...
    def close(self) -> Pending: ...
