"""Errors: what a vector did before it stopped, and the number that the C library has for why."""

from __future__ import annotations

import errno as _numbers
from typing import Any


class Error(OSError):
    """A call failed. Also an instance of the subclass of OSError for its `errno`: FileNotFoundError and so on.

    `index` is the place of the element that failed, `done` how many before it are done, `results` what came of those.
    `unknown` is how many elements from `index` on may have been done or not, because the answer of the server was lost: 0
    if the one that failed is known to have failed, and nothing after it was begun.
    """

    index: int | None = None
    results: list[Any]
    unknown: int = 0
    #: Of a tree: all errors (the first 1,000), this one among them.
    errors: list[Error]
    #: Of a tree: how many objects could not be done.
    failed: int = 0

    @property
    def done(self) -> int:
        return len(self.results)


class NotFoundError(Error, FileNotFoundError):
    """There is no such file."""


class ExistsError(Error, FileExistsError):
    """There is such a file already."""


class DirectoryError(Error, IsADirectoryError):
    """It is a directory."""


class NoDirectoryError(Error, NotADirectoryError):
    """It is no directory."""


class RefusedError(Error, PermissionError):
    """It is not allowed."""


_CLASSES = {
    _numbers.ENOENT: NotFoundError,
    _numbers.EEXIST: ExistsError,
    _numbers.EISDIR: DirectoryError,
    _numbers.ENOTDIR: NoDirectoryError,
    _numbers.EACCES: RefusedError,
    _numbers.EPERM: RefusedError,
}


def make(
    number: int, message: str, path: Any, index: int | None, results: list[Any], unknown: int
) -> Error:
    """What the native module raises."""
    kind = _CLASSES.get(number, Error)
    error = kind(number, message) if path is None else kind(number, message, path)
    error.index, error.results, error.unknown, error.errors = index, results, unknown, []
    return error


def of_tree(failed: int, errors: list[Error]) -> Error:
    """What is raised when something of a tree could not be done."""
    error = errors[0]
    error.errors, error.failed = errors, failed
    return error
