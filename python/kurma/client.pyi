# Written by `stubs` from _core.py.

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from ._core import Steps, Stream
from ._native import Attributes, Copy, Descriptor, Entry, Open, Read, Session, SetAttributes, Step, Write
from ._types import AttributeSet, Found, PathLike, Statistics, TransactionLimits

class Client:
    """Files of an NFS server or of a local directory."""

    def __init__(self, session: Session) -> None: ...
    @classmethod
    def connect(cls, url: str, **options: Any) -> Self:
        """Connects to the server of `nfs://HOST[:PORT]/PATH`; relative paths begin at PATH."""
    @classmethod
    def local(cls, directory: str | os.PathLike[str]) -> Self:
        """Files of this machine; paths begin at `directory`, and nothing leads out of it."""
    def transaction(self) -> Transaction:
        """Collects steps, and does all of them at one instant, or none."""
    def batch(self) -> Batch:
        """Collects steps, and does them in order, up to the first that fails."""
    def writer(self, descriptor: Descriptor, offset: int = 0) -> Writer:
        """Writes an open file from `offset` on, while the program goes on."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def execute(self, steps: Iterable[Step]) -> list[Any]:
        """Does steps of any kinds in order, up to the first that fails, in as few round trips as possible."""
    def execute_each(self, steps: Iterable[Step]) -> list[Any]:
        """Does all of the steps, also those after one that fails: the result of each, or its exception."""
    def vread(self, reads: Iterable[Read | PathLike | tuple[Any, ...]]) -> list[Any]:
        """Reads extents of files: of each its bytes, or how many were put into the buffer that it names."""
    def vwrite(self, writes: Iterable[Write | tuple[Any, ...]]) -> list[int]:
        """Writes extents of files; how many bytes each. An element is a `Write`, or a tuple of its arguments."""
    def vopen(self, opens: Iterable[Open | PathLike]) -> list[Descriptor]:
        """Opens files. Those that were opened before one fails stay open, and are in `Error.results`."""
    def vclose(self, descriptors: Iterable[Descriptor]) -> None:
        """Closes files. Whoever opens them then sees what was written to them."""
    def vcommit(self, descriptors: Iterable[Descriptor]) -> None:
        """Makes safe what was written through descriptors (fsync)."""
    def vgetattrs(self, targets: Iterable[PathLike], wanted: int=AttributeSet.STAT) -> list[Attributes]:
        """Attributes of objects; of what a symbolic link leads to."""
    def vlgetattrs(self, targets: Iterable[PathLike], wanted: int=AttributeSet.STAT) -> list[Attributes]:
        """Attributes of objects; those of a symbolic link itself."""
    def vsetattrs(self, changes: Iterable[SetAttributes]) -> None:
        """Sets attributes of objects; of what a symbolic link leads to, unless it says `follow=False`."""
    def vcopy(self, copies: Iterable[Copy | tuple[Any, ...]], to: Client | None=None) -> list[int]:
        """Copies through memory to another client, or the same one; how many bytes each."""
    def vsscopy(self, copies: Iterable[Copy | tuple[Any, ...]]) -> list[int]:
        """Copies within the server, without the data passing the client; how many bytes each."""
    def vmkdir(self, directories: Iterable[PathLike | tuple[PathLike, int]], mode: int=493) -> None:
        """Makes directories: paths, or pairs of a path and permission bits. One that exists already is an error."""
    def vsymlink(self, links: Iterable[tuple[PathLike, str | bytes]]) -> None:
        """Makes symbolic links: where, and where each leads."""
    def vreadlink(self, links: Iterable[PathLike]) -> list[str]:
        """Where symbolic links lead."""
    def vhardlink(self, links: Iterable[tuple[PathLike, PathLike]]) -> None:
        """Gives files further names: the file, and the name."""
    def vremove(self, targets: Iterable[PathLike]) -> None:
        """Removes files and empty directories."""
    def vrename(self, renames: Iterable[tuple[PathLike, PathLike]]) -> None:
        """Renames: from, and to."""
    def walk(self, directories: Iterable[PathLike], wanted: int=AttributeSet.STAT, recursive: bool=True) -> Iterator[Found]:
        """Reads directories page by page, with all below them if `recursive`, breadth first."""
    def vlistdir(self, directories: Iterable[PathLike], wanted: int=AttributeSet.STAT, recursive: bool=False) -> Iterator[Entry]:
        """Every entry of these directories, with all below them if `recursive`, breadth first."""
    def listdir(self, directory: PathLike, wanted: int=AttributeSet.STAT) -> list[Entry]:
        """What is in a directory, all at once."""
    def read_files(self, targets: Iterable[PathLike]) -> list[bytes]:
        """Whole files: one round trip for the sizes of 256, and one for each 256 files or 1 MiB of content."""
    def write_files(self, files: Mapping[Any, Any], mode: int=420, stable: bool=False) -> None:
        """Whole files, made or replaced: paths and what they shall contain."""
    def ensure_directory(self, target: PathLike, mode: int=493) -> list[str]:
        """Makes a directory and those above it that are missing; which were made, outermost first."""
    def rm_recursive(self, targets: Iterable[PathLike]) -> int:
        """Removes these with all below them; how many objects. Symbolic links are removed, not followed."""
    def cp_recursive(self, copies: Iterable[tuple[PathLike, PathLike]], to: Client | None=None, **options: Any) -> int:
        """Copies objects to another client, or the same one, with all below them: what, and as what; how many objects."""
    def open(self, target: PathLike, **how: Any) -> Descriptor:
        """Opens a file, as `Open` has it; its place is at the start."""
    def create(self, target: PathLike, mode: int=420) -> Descriptor:
        """Makes a file, or empties an existing one, for reading and writing."""
    def close_file(self, descriptor: Descriptor) -> None:
        """Closes a file."""
    def read(self, descriptor: Descriptor, length: int) -> bytes:
        """Reads where the descriptor is, and moves on; fewer bytes than `length` only at the end of the file."""
    def pread(self, descriptor: Descriptor, offset: int, length: int) -> bytes:
        """Reads from `offset`."""
    def write(self, descriptor: Descriptor, data: Any) -> int:
        """Writes where the descriptor is, and moves on; how many bytes, which are all."""
    def pwrite(self, descriptor: Descriptor, offset: int, data: Any) -> int:
        """Writes from `offset` on."""
    def append(self, descriptor: Descriptor, data: Any) -> int:
        """Writes at the end of the file, wherever that is when the data is written."""
    def lseek(self, descriptor: Descriptor, offset: int, whence: int=os.SEEK_SET) -> int:
        """Moves the place of a descriptor; where it is then."""
    def fsync(self, descriptor: Descriptor) -> None:
        """Makes safe what was written."""
    def stat(self, target: PathLike) -> Attributes:
        """Attributes; of what a symbolic link leads to."""
    def lstat(self, target: PathLike) -> Attributes:
        """Attributes; those of a symbolic link itself."""
    def fstat(self, descriptor: Descriptor) -> Attributes:
        """Attributes of an open file."""
    def exists(self, target: PathLike) -> bool:
        """Whether there is something of this name; a symbolic link that leads nowhere is nothing."""
    def mkdir(self, target: PathLike, mode: int=493) -> None:
        """Makes a directory."""
    def unlink(self, target: PathLike) -> None:
        """Removes a name that is no directory."""
    def rmdir(self, target: PathLike) -> None:
        """Removes an empty directory."""
    def rename(self, source: PathLike, destination: PathLike) -> None:
        """Gives an object another name, replacing what has it."""
    def link(self, existing: PathLike, new: PathLike) -> None:
        """Gives a file a further name."""
    def symlink(self, text: str | bytes, new: PathLike) -> None:
        """Makes a symbolic link that leads to `text`."""
    def readlink(self, target: PathLike) -> str:
        """Where a symbolic link leads."""
    def truncate(self, target: PathLike, size: int) -> None:
        """Makes a file this long: cuts off, or adds a hole."""
    def chmod(self, target: PathLike, mode: int) -> None:
        """Sets permission bits."""
    def chown(self, target: PathLike, owner: int | str | None=None, group: int | str | None=None, follow: bool=True) -> None:
        """Sets owner and group, each if given."""
    def utime(self, target: PathLike, accessed_ns: int | str | None=None, modified_ns: int | str | None=None) -> None:
        """Sets when it was last read and modified, each if given: nanoseconds since 1970, or "now"."""
    def transaction_limits(self) -> TransactionLimits | None:
        """How much one transaction may be; `None` if there are none here."""
    def statistics(self) -> Statistics:
        """What was sent so far."""
    def close(self) -> None:
        """Closes every file and ends the connection; other calls fail from then on."""

class Batch(Steps):
    """Steps that are done in order, up to the first that fails, in as few round trips as possible."""

    def commit(self) -> list[Any]:
        """Does the steps; the result of each."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, *_: object) -> None: ...

class Transaction(Batch):
    """Steps that are done all at one instant, or not at all."""

class Writer(Stream):
    """Writes one open file from front to back, while the program goes on."""

    def write(self, data: Any) -> int:
        """Takes these bytes to be written after those before; how many, which are all."""
    def sync(self) -> None:
        """Waits until all that was written is on stable storage."""
    def close(self) -> None:
        """The same, and closes the file, whether or not it is."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, *_: object) -> None: ...
