"""Open files for fsspec."""

from __future__ import annotations

import secrets
from typing import Any

from fsspec.spec import AbstractBufferedFile
from fsspec.transaction import Transaction

from ._errors import Error
from ._native import Open, Read


class KurmaFile(AbstractBufferedFile):
    """A file that is read ahead, or written in blocks, while the program goes on.

    What is wrong with opening it is said at once; that a block could not be written, by the first call that can, and by
    `close`.
    """

    def __init__(self, fs: Any, path: str, mode: str = "rb", **kwargs: Any) -> None:
        self._writer: Any = None
        self._failure: Error | None = None
        super().__init__(fs, path, mode, **kwargs)
        if mode == "rb":
            return
        try:
            self._begin()
        except BaseException:
            self.closed = True
            raise

    def _begin(self) -> None:
        client = self.fs.client
        # Until it is committed, it is beside where it shall be.
        self._written = self.path if self.autocommit else f"{self.path}.{secrets.token_hex(8)}.part"
        how = {"create": self.fs.mode, "exclusive": self.mode == "xb", "truncate": self.mode == "wb"}
        if not self.autocommit and self.mode == "xb" and client.exists(self.path):
            raise FileExistsError(self.path)
        if not self.autocommit and self.mode == "ab" and client.exists(self.path):
            client.vsscopy([(self.path, self._written)])
        step = Open(self._written, write=True, **how)
        (descriptor,) = self.fs._with_parents(self.path, lambda: client.vopen([step]))
        self.loc = client.fstat(descriptor).size if self.mode == "ab" else 0
        self._writer = client.writer(descriptor, self.loc)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.client.vread([Read(self.path, start, end - start)])[0]

    def _upload_chunk(self, final: bool = False) -> bool:
        if self._failure:
            raise self._failure
        try:
            self._writer.write(self.buffer.getvalue())
        except Error as error:
            self._failure = error
            raise
        return True

    def close(self) -> None:
        if self._writer is None:
            super().close()
            return
        with self._writer:
            super().close()

    def commit(self) -> None:
        """Gives it the name it shall have."""
        self.fs.client.rename(self._written, self.path)

    def discard(self) -> None:
        """It shall not be."""
        self.fs.client.unlink(self._written)


class KurmaTransaction(Transaction):
    """Files that get their names together: at one instant, where the server can do that."""

    fs: Any

    def complete(self, commit: bool = True) -> None:
        files = list(self.files)
        self.files.clear()
        try:
            for file in files:
                file.close()
            client = self.fs.client
            if not files:
                return
            if not commit:
                client.vremove([file._written for file in files])
            elif client.transaction_limits():
                with client.transaction() as transaction:
                    for file in files:
                        transaction.rename(file._written, file.path)
            else:
                client.vrename([(file._written, file.path) for file in files])
        finally:
            self.fs._intrans = False
            self.fs._transaction = None
