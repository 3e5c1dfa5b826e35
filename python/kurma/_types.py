"""What calls are told, beside the steps."""

from __future__ import annotations

import enum
import os
from typing import NamedTuple, Union

from ._errors import Error
from ._native import Descriptor, Entry, Handle, Target

#: The offset that stands for the end of the file, wherever that is when the data is written.
APPEND = 2**64 - 1

#: Which file: a path, an open file, or a path from one.
PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", Descriptor, Handle, Target]


class AttributeSet(enum.IntFlag):
    """A choice of attributes."""

    NONE = 0
    KIND = 1
    MODE = 1 << 1
    OWNER = 1 << 2
    GROUP = 1 << 3
    SIZE = 1 << 4
    SPACE_USED = 1 << 5
    LINKS = 1 << 6
    FILE_ID = 1 << 7
    FILE_SYSTEM = 1 << 8
    DEVICE = 1 << 9
    ACCESSED = 1 << 10
    MODIFIED = 1 << 11
    CHANGED = 1 << 12
    CHANGE = 1 << 13
    HANDLE = 1 << 14
    #: What `stat` shows.
    STAT = (1 << 13) - 1


class Statistics(NamedTuple):
    """What a client has sent and received; zeros where nothing has to be sent."""

    round_trips: int
    operations: int
    bytes_out: int
    bytes_in: int


class TransactionLimits(NamedTuple):
    """How much one transaction may be."""

    operations: int
    bytes: int


class Found:
    """Some entries of a directory, or why it cannot be read (any further)."""

    __slots__ = ("directory", "entries", "error", "last")

    def __init__(self, directory: str, entries: list[Entry] | Error, last: bool) -> None:
        self.directory = directory
        self.entries: list[Entry] = entries if isinstance(entries, list) else []
        self.error: Error | None = None if isinstance(entries, list) else entries
        #: Whether this is all there is to come of this directory.
        self.last = last
