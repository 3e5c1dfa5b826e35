"""Open files for fsspec."""

from __future__ import annotations

import secrets
from typing import Any

from fsspec.spec import AbstractBufferedFile
from fsspec.transaction import Transaction

from ._native import Open, Read, Write


class KurmaFile(AbstractBufferedFile):
    """A file that is read ahead, or written in blocks. What is wrong with opening it is said at once."""

    def __init__(self, fs: Any, path: str, mode: str = "rb", **kwargs: Any) -> None:
        self._descriptor: Any = None
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
        (self._descriptor,) = self.fs._with_parents(self.path, lambda: client.vopen([step]))
        self._start = client.fstat(self._descriptor).size if self.mode == "ab" else 0
        self.loc = self._start

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.client.vread([Read(self.path, start, end - start)])[0]

    def _upload_chunk(self, final: bool = False) -> bool:
        data = self.buffer.getvalue()
        if data:
            self.fs.client.vwrite([Write(self._descriptor, data, self._start + self.offset)])
        return True

    def close(self) -> None:
        try:
            super().close()
        finally:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                self.fs.client.vclose([descriptor])

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
