"""All calls, written once: as coroutines that wait by `_wait`, which is all that the two kinds of clients differ in."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from . import _url
from ._errors import Error, of_tree
from ._native import (
    Attributes,
    Close,
    Commit,
    Copy,
    Descriptor,
    Entry,
    GetAttributes,
    HardLink,
    MakeDirectory,
    MakeSymbolicLink,
    Open,
    Pending,
    Read,
    ReadLink,
    Remove,
    Rename,
    Session,
    SetAttributes,
    Step,
    Write,
)
from ._types import APPEND, AttributeSet, Found, PathLike, Statistics, TransactionLimits

T = TypeVar("T")

#: Bytes that are read at once by `read_files`.
HELD = 8 << 20


class Core:
    """Files of an NFS server or of a local directory. May be used by many at once.

    Every call whose name begins with `v` takes a vector and does its elements in order, up to the first that fails
    (`kurma.Error`): those before it are done, those after it are not begun. A path that does not begin with `/` begins
    where the URL leads, any other at the root.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def _wait(self, pending: Pending) -> Any:
        raise NotImplementedError

    @staticmethod
    def _connecting(url: str, options: Mapping[str, Any]) -> Pending:
        host, port, base = _url.parse(url)
        return Session.connect(host, port, base, dict(options))

    # ---------------------------------------------------------------- vectors

    async def execute(self, steps: Iterable[Step]) -> list[Any]:
        """Does steps of any kinds in order, up to the first that fails, in as few round trips as possible."""
        return await self._wait(self._session.execute(steps))

    async def execute_each(self, steps: Iterable[Step]) -> list[Any]:
        """Does all of the steps, also those after one that fails: the result of each, or its exception."""
        return await self._wait(self._session.execute_each(steps))

    async def vread(self, reads: Iterable[Read | PathLike | tuple[Any, ...]]) -> list[Any]:
        """Reads extents of files: of each its bytes, or how many were put into the buffer that it names.

        An element is a `Read`, a tuple of its arguments, or a file, which is read to its end. Fewer bytes than wanted come
        only at the end of the file. For whole files of unknown size `read_files` takes fewer round trips.
        """
        return await self.execute([_step(Read, read) for read in reads])

    async def vwrite(self, writes: Iterable[Write | tuple[Any, ...]]) -> list[int]:
        """Writes extents of files; how many bytes each. An element is a `Write`, or a tuple of its arguments."""
        return await self.execute([_step(Write, write) for write in writes])

    async def vopen(self, opens: Iterable[Open | PathLike]) -> list[Descriptor]:
        """Opens files. Those that were opened before one fails stay open, and are in `Error.results`."""
        return await self.execute([_step(Open, one) for one in opens])

    async def vclose(self, descriptors: Iterable[Descriptor]) -> None:
        """Closes files. Whoever opens them then sees what was written to them."""
        await self._wait(self._session.vclose(list(descriptors)))

    async def vcommit(self, descriptors: Iterable[Descriptor]) -> None:
        """Makes safe what was written through descriptors (fsync)."""
        await self.execute([Commit(descriptor) for descriptor in descriptors])

    async def vgetattrs(
        self, targets: Iterable[PathLike], wanted: int = AttributeSet.STAT
    ) -> list[Attributes]:
        """Attributes of objects; of what a symbolic link leads to."""
        return await self.execute([GetAttributes(target, wanted) for target in targets])

    async def vlgetattrs(
        self, targets: Iterable[PathLike], wanted: int = AttributeSet.STAT
    ) -> list[Attributes]:
        """Attributes of objects; those of a symbolic link itself."""
        return await self.execute([GetAttributes(target, wanted, follow=False) for target in targets])

    async def vsetattrs(self, changes: Iterable[SetAttributes]) -> None:
        """Sets attributes of objects; of what a symbolic link leads to, unless it says `follow=False`."""
        await self.execute(changes)

    async def vcopy(self, copies: Iterable[Copy | tuple[Any, ...]], to: Core | None = None) -> list[int]:
        """Copies through memory to another client, or the same one; how many bytes each."""
        session = (to or self)._session
        return await self._wait(self._session.vcopy([_step(Copy, copy) for copy in copies], session))

    async def vsscopy(self, copies: Iterable[Copy | tuple[Any, ...]]) -> list[int]:
        """Copies within the server, without the data passing the client; how many bytes each."""
        return await self.execute([_step(Copy, copy) for copy in copies])

    async def vmkdir(self, directories: Iterable[PathLike | tuple[PathLike, int]], mode: int = 0o755) -> None:
        """Makes directories: paths, or pairs of a path and permission bits. One that exists already is an error."""
        await self.execute(
            [MakeDirectory(*one) if isinstance(one, tuple) else MakeDirectory(one, mode) for one in directories]
        )

    async def vsymlink(self, links: Iterable[tuple[PathLike, str | bytes]]) -> None:
        """Makes symbolic links: where, and where each leads."""
        await self.execute([MakeSymbolicLink(target, text) for target, text in links])

    async def vreadlink(self, links: Iterable[PathLike]) -> list[str]:
        """Where symbolic links lead."""
        return await self.execute([ReadLink(link) for link in links])

    async def vhardlink(self, links: Iterable[tuple[PathLike, PathLike]]) -> None:
        """Gives files further names: the file, and the name."""
        await self.execute([HardLink(existing, new) for existing, new in links])

    async def vremove(self, targets: Iterable[PathLike]) -> None:
        """Removes files and empty directories."""
        await self.execute([Remove(target) for target in targets])

    async def vrename(self, renames: Iterable[tuple[PathLike, PathLike]]) -> None:
        """Renames: from, and to."""
        await self.execute([Rename(source, destination) for source, destination in renames])

    # ------------------------------------------------------------ directories

    async def walk(
        self, directories: Iterable[PathLike], wanted: int = AttributeSet.STAT, recursive: bool = True
    ) -> AsyncIterator[Found]:
        """Reads directories page by page, with all below them if `recursive`, breadth first.

        A directory that cannot be read does not end the walk: `Found.error` says why.
        """
        walk = self._session.walk(directories, wanted, recursive)
        while (page := await self._wait(walk.next())) is not None:
            yield Found(*page)

    async def vlistdir(
        self, directories: Iterable[PathLike], wanted: int = AttributeSet.STAT, recursive: bool = False
    ) -> AsyncIterator[Entry]:
        """Every entry of these directories, with all below them if `recursive`, breadth first.

        Stops at the first directory that cannot be read; for `Error.index`, those below count to those listed.
        """
        walk, read = self._session.walk(directories, wanted, recursive), 0
        while (page := await self._wait(walk.next())) is not None:
            found = Found(*page)
            if found.error:
                found.error.index, found.error.results = read, [None] * read
                raise found.error
            for entry in found.entries:
                yield entry
            read += found.last

    async def listdir(self, directory: PathLike, wanted: int = AttributeSet.STAT) -> list[Entry]:
        """What is in a directory, all at once."""
        entries: list[Entry] = []
        walk = self._session.walk([directory], wanted, False)
        while (page := await self._wait(walk.next())) is not None:
            found = Found(*page)
            if found.error:
                raise found.error
            entries += found.entries
        return entries

    # ------------------------------------------------------------------ files

    async def read_files(self, targets: Iterable[PathLike]) -> list[bytes]:
        """Whole files: one round trip for the sizes of 256, and one for each 256 files or 1 MiB of content."""
        targets = list(targets)
        content: list[bytes] = []
        for attributes in _parts(targets, 1024):
            sizes = await self.execute([GetAttributes(target, AttributeSet.SIZE) for target in attributes])
            begin = 0
            while begin < len(attributes):
                end, held = begin, 0
                while end < len(attributes) and (end == begin or held + sizes[end].size < HELD):
                    held += sizes[end].size
                    end += 1
                # One more than there is, to see whether the file grew meanwhile.
                reads = [
                    Read(attributes[n], 0, sizes[n].size + 1, with_end=True) for n in range(begin, end)
                ]
                for target, (data, is_all) in zip(attributes[begin:end], await self.execute(reads)):
                    if not is_all:
                        data += (await self.execute([Read(target, len(data))]))[0]
                    content.append(data)
                begin = end
        return content

    async def write_files(self, files: Mapping[Any, Any], mode: int = 0o644, stable: bool = False) -> None:
        """Whole files, made or replaced: paths and what they shall contain."""
        await self.execute(
            [Write(target, data, create=mode, truncate=True, stable=stable) for target, data in files.items()]
        )

    # ------------------------------------------------------------------ trees

    async def ensure_directory(self, target: PathLike, mode: int = 0o755) -> list[str]:
        """Makes a directory and those above it that are missing; which were made, outermost first."""
        return await self._wait(self._session.ensure_directory(target, mode))

    async def rm_recursive(self, targets: Iterable[PathLike]) -> int:
        """Removes these with all below them; how many objects. Symbolic links are removed, not followed.

        Goes on after errors. If something could not be removed, the first of them is raised at the end, with all in `errors`.
        """
        done, failed, errors = await self._wait(self._session.rm_recursive(targets))
        if failed:
            raise of_tree(failed, errors)
        return done

    async def cp_recursive(
        self, copies: Iterable[tuple[PathLike, PathLike]], to: Core | None = None, **options: Any
    ) -> int:
        """Copies objects to another client, or the same one, with all below them: what, and as what; how many objects.

        Options: `recursive`, `links` ("keep", "follow-named", "follow"), `preserve` (some of "mode", "owner", "times",
        "links"), `make` ("copy", "symbolic-link", "hard-link"), `umask`, `force`, `remove`, `replace` as those of
        `kurma cp`. Errors are as those of `rm_recursive`.
        """
        if "preserve" in options:
            options["preserve"] = list(options["preserve"])
        session = (to or self)._session
        done, failed, errors = await self._wait(self._session.cp_recursive(list(copies), session, options))
        if failed:
            raise of_tree(failed, errors)
        return done

    # --------------------------------------------------------- one at a time

    async def open(self, target: PathLike, **how: Any) -> Descriptor:
        """Opens a file, as `Open` has it; its place is at the start."""
        return (await self.execute([Open(target, **how)]))[0]

    async def create(self, target: PathLike, mode: int = 0o644) -> Descriptor:
        """Makes a file, or empties an existing one, for reading and writing."""
        return await self.open(target, write=True, create=mode, truncate=True)

    async def close_file(self, descriptor: Descriptor) -> None:
        """Closes a file."""
        await self._wait(self._session.vclose([descriptor]))

    async def read(self, descriptor: Descriptor, length: int) -> bytes:
        """Reads where the descriptor is, and moves on; fewer bytes than `length` only at the end of the file."""
        return await self._wait(self._session.read(descriptor, length))

    async def pread(self, descriptor: Descriptor, offset: int, length: int) -> bytes:
        """Reads from `offset`."""
        return (await self.execute([Read(descriptor, offset, length)]))[0]

    async def write(self, descriptor: Descriptor, data: Any) -> int:
        """Writes where the descriptor is, and moves on; how many bytes, which are all."""
        return await self._wait(self._session.write(descriptor, data))

    async def pwrite(self, descriptor: Descriptor, offset: int, data: Any) -> int:
        """Writes from `offset` on."""
        return (await self.execute([Write(descriptor, data, offset)]))[0]

    async def append(self, descriptor: Descriptor, data: Any) -> int:
        """Writes at the end of the file, wherever that is when the data is written."""
        return (await self.execute([Write(descriptor, data, APPEND)]))[0]

    async def lseek(self, descriptor: Descriptor, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the place of a descriptor; where it is then."""
        return await self._wait(self._session.lseek(descriptor, offset, whence))

    async def fsync(self, descriptor: Descriptor) -> None:
        """Makes safe what was written."""
        await self.execute([Commit(descriptor)])

    async def stat(self, target: PathLike) -> Attributes:
        """Attributes; of what a symbolic link leads to."""
        return (await self.execute([GetAttributes(target)]))[0]

    async def lstat(self, target: PathLike) -> Attributes:
        """Attributes; those of a symbolic link itself."""
        return (await self.execute([GetAttributes(target, follow=False)]))[0]

    async def fstat(self, descriptor: Descriptor) -> Attributes:
        """Attributes of an open file."""
        return (await self.execute([GetAttributes(descriptor)]))[0]

    async def exists(self, target: PathLike) -> bool:
        """Whether there is something of this name; a symbolic link that leads nowhere is nothing."""
        try:
            await self.execute([GetAttributes(target, AttributeSet.KIND)])
        except FileNotFoundError:
            return False
        return True

    async def mkdir(self, target: PathLike, mode: int = 0o755) -> None:
        """Makes a directory."""
        await self.execute([MakeDirectory(target, mode)])

    async def unlink(self, target: PathLike) -> None:
        """Removes a name that is no directory."""
        await self._wait(self._session.unlink(target))

    async def rmdir(self, target: PathLike) -> None:
        """Removes an empty directory."""
        await self._wait(self._session.rmdir(target))

    async def rename(self, source: PathLike, destination: PathLike) -> None:
        """Gives an object another name, replacing what has it."""
        await self.execute([Rename(source, destination)])

    async def link(self, existing: PathLike, new: PathLike) -> None:
        """Gives a file a further name."""
        await self.execute([HardLink(existing, new)])

    async def symlink(self, text: str | bytes, new: PathLike) -> None:
        """Makes a symbolic link that leads to `text`."""
        await self.execute([MakeSymbolicLink(new, text)])

    async def readlink(self, target: PathLike) -> str:
        """Where a symbolic link leads."""
        return (await self.execute([ReadLink(target)]))[0]

    async def truncate(self, target: PathLike, size: int) -> None:
        """Makes a file this long: cuts off, or adds a hole."""
        await self.execute([SetAttributes(target, size=size)])

    async def chmod(self, target: PathLike, mode: int) -> None:
        """Sets permission bits."""
        await self.execute([SetAttributes(target, mode=mode)])

    async def chown(
        self,
        target: PathLike,
        owner: int | str | None = None,
        group: int | str | None = None,
        follow: bool = True,
    ) -> None:
        """Sets owner and group, each if given."""
        await self.execute([SetAttributes(target, owner=owner, group=group, follow=follow)])

    async def utime(
        self, target: PathLike, accessed_ns: int | str | None = None, modified_ns: int | str | None = None
    ) -> None:
        """Sets when it was last read and modified, each if given: nanoseconds since 1970, or "now"."""
        await self.execute([SetAttributes(target, accessed_ns=accessed_ns, modified_ns=modified_ns)])

    # ------------------------------------------------------------ the client

    def transaction_limits(self) -> TransactionLimits | None:
        """How much one transaction may be; `None` if there are none here."""
        limits = self._session.transaction_limits()
        return limits and TransactionLimits(*limits)

    def statistics(self) -> Statistics:
        """What was sent so far."""
        return Statistics(*self._session.statistics())

    async def close(self) -> None:
        """Closes every file and ends the connection; other calls fail from then on."""
        await self._wait(self._session.close())


class Stream:
    """Writes one open file from front to back, while the program goes on.

    What is written is gathered into pieces of 1 MiB, up to 16 of which are sent at once; a call waits only while there
    are more. The file belongs to the writer, which closes it. That something could not be written is said by the first
    call that can, and by every one after it, at the latest by `close`: nothing is written then of what follows.
    """

    def __init__(self, core: Core, descriptor: Descriptor, offset: int) -> None:
        self._core = core
        self._writer = core._session.writer(descriptor, offset)

    @property
    def position(self) -> int:
        """Where the next byte belongs."""
        return self._writer.position

    async def _leave(self, failed: bool) -> None:
        try:
            await self._core._wait(self._writer.close())
        except Error:
            # Why something failed already says more than that it did.
            if not failed:
                raise


class Ticket(Generic[T]):
    """Stands for the result of a step of a batch or a transaction."""

    __slots__ = ("_results", "_place")

    def __init__(self, results: list[Any], place: int) -> None:
        self._results, self._place = results, place

    @property
    def result(self) -> T:
        """What came of it."""
        if self._place >= len(self._results):
            raise RuntimeError("the step is not done yet, or nobody knows whether it was: see what was raised")
        return self._results[self._place]


class Steps:
    """Steps that are collected one by one, each with a ticket for its result."""

    #: Whether they are done all at one instant, or not at all.
    _whole = False

    def __init__(self, core: Core) -> None:
        self._core = core
        self._steps: list[Step] = []
        self._results: list[Any] = []
        self._ended = False
        #: What the next steps are to be chained to.
        self._chain: Chain | None = None

    def add(self, step: Step) -> Ticket[Any]:
        """A step of any kind."""
        self._check(None)
        return self._add(step)

    def _add(self, step: Step) -> Ticket[Any]:
        self._steps.append(step)
        return Ticket(self._results, len(self._steps) - 1)

    def _check(self, chain: Chain | None) -> None:
        if self._ended:
            raise RuntimeError(f"the {type(self).__name__.lower()} has ended")
        if self._chain is not chain:
            raise RuntimeError("steps are chained to a file within its `with`, and nothing else comes between")

    async def _commit(self) -> list[Any]:
        self._check(None)
        self._ended = True
        if self._steps:
            session = self._core._session
            do = session.transact if self._whole else session.execute
            try:
                self._results += await self._core._wait(do(self._steps))
            except Error as error:
                if not self._whole:
                    self._results += error.results
                raise
        return list(self._results)

    def _leave(self, failed: bool) -> bool:
        """Whether it is to be committed now."""
        commit = not failed and not self._ended
        self._ended = self._ended or failed
        return commit

    def read(self, target: PathLike, offset: int = 0, length: int | None = None, **how: Any) -> Ticket[bytes]:
        """Reads an extent, as `Read` has it."""
        return self.add(Read(target, offset, length, **how))

    def write(self, target: PathLike, data: Any, offset: int = 0, **how: Any) -> Ticket[int]:
        """Writes an extent, as `Write` has it; how many bytes."""
        return self.add(Write(target, data, offset, **how))

    def write_file(self, target: PathLike, data: Any, mode: int = 0o644) -> Ticket[int]:
        """A whole file, made or replaced."""
        return self.add(Write(target, data, create=mode, truncate=True))

    def append(self, target: PathLike, data: Any, **how: Any) -> Ticket[int]:
        """Writes at the end of a file."""
        return self.add(Write(target, data, APPEND, **how))

    def chain(self, target: PathLike, create: int | None = None) -> Chain:
        """With a file that exists, or is made with this mode, or emptied; to be used in `with`."""
        return Chain(self, target, create)

    def open(self, target: PathLike, **how: Any) -> Ticket[Descriptor]:
        """Opens a file, as `Open` has it."""
        return self.add(Open(target, **how))

    def getattrs(self, target: PathLike, wanted: int = AttributeSet.STAT, **how: Any) -> Ticket[Attributes]:
        """Asks for attributes."""
        return self.add(GetAttributes(target, wanted, **how))

    def setattrs(self, target: PathLike, **what: Any) -> Ticket[None]:
        """Sets attributes, as `SetAttributes` has them."""
        return self.add(SetAttributes(target, **what))

    def copy(self, source: PathLike, destination: PathLike, **how: Any) -> Ticket[int]:
        """Copies within the server, as `Copy` has it; how many bytes."""
        return self.add(Copy(source, destination, **how))

    def mkdir(self, target: PathLike, mode: int = 0o755) -> Ticket[None]:
        """Makes a directory."""
        return self.add(MakeDirectory(target, mode))

    def symlink(self, text: str | bytes, new: PathLike) -> Ticket[None]:
        """Makes a symbolic link that leads to `text`."""
        return self.add(MakeSymbolicLink(new, text))

    def link(self, existing: PathLike, new: PathLike) -> Ticket[None]:
        """Gives a file a further name."""
        return self.add(HardLink(existing, new))

    def remove(self, target: PathLike) -> Ticket[None]:
        """Removes a file or an empty directory."""
        return self.add(Remove(target))

    def rename(self, source: PathLike, destination: PathLike) -> Ticket[None]:
        """Renames, replacing what has the new name."""
        return self.add(Rename(source, destination))


class Chain:
    """A file that is opened for what is chained to it, and closed behind the last of that: one OPEN, one CLOSE (V44).

    It is opened to be read and written as what is chained to it asks for, and if that is nothing, only opened.
    """

    def __init__(self, steps: Steps, target: PathLike, create: int | None) -> None:
        self._steps, self._target, self._create = steps, target, create
        self._is_used = False

    def _add(self, step: Step) -> Ticket[Any]:
        self._steps._check(self)
        self._is_used = True
        return self._steps._add(step)

    def read(self, offset: int, length: int) -> Ticket[bytes]:
        """Then reads an extent of it."""
        if self._create is not None:
            self.write(b"")
        return self._add(Read(self._target, offset, length))

    def write(self, data: Any, offset: int = 0) -> Ticket[int]:
        """Then writes an extent of it; how many bytes."""
        create = self._create
        written = self._add(Write(self._target, data, offset, create=create, truncate=create is not None))
        self._create = None
        return written

    def append(self, data: Any) -> Ticket[int]:
        """Then writes at its end; how many bytes."""
        return self.write(data, APPEND)

    def __enter__(self) -> Chain:
        self._steps._check(None)
        self._steps._chain = self
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and not self._is_used:
            self.read(0, 0) if self._create is None else self.write(b"")
        self._steps._chain = None


def _step(kind: Any, element: Any) -> Any:
    """An element of a vector: a step of this kind, a tuple of its arguments, or its first argument alone."""
    if isinstance(element, kind):
        return element
    return kind(*element) if isinstance(element, tuple) else kind(element)


def _parts(elements: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (elements[at : at + size] for at in range(0, len(elements), size))
