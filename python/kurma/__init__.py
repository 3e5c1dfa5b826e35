"""Files by the hundred: one call, one round trip, over NFSv4.1 or a local directory.

    import kurma

    with kurma.Client.connect("nfs://nas/home") as client:
        client.write_files({f"greeting-{n}": b"hello" for n in range(100)})
        print(client.read_files(f"greeting-{n}" for n in range(100)))

`kurma.aio` has the same for asyncio, `kurma.fs` a file system for fsspec, and so for pandas, pyarrow and dask.
"""

import atexit as _atexit

from . import _native, aio
from ._errors import Error
from ._native import (
    Attributes,
    Close,
    Commit,
    Copy,
    Descriptor,
    Entry,
    GetAttributes,
    Handle,
    HardLink,
    Kind,
    MakeDirectory,
    MakeSymbolicLink,
    Open,
    Read,
    ReadLink,
    Remove,
    Rename,
    SetAttributes,
    Step,
    Target,
    Write,
)
from ._types import APPEND, AttributeSet, Found, Statistics, TransactionLimits
from .client import Batch, Client, Transaction, Writer

# The threads of the native module must not call an interpreter that is no more.
_atexit.register(_native.end)

__all__ = [
    "APPEND", "AttributeSet", "Attributes", "Batch", "Client", "Close", "Commit", "Copy", "Descriptor", "Entry", "Error",
    "Found", "GetAttributes", "Handle", "HardLink", "Kind", "MakeDirectory", "MakeSymbolicLink", "Open", "Read",
    "ReadLink", "Remove", "Rename", "SetAttributes", "Statistics", "Step", "Target", "Transaction",
    "TransactionLimits", "Write", "Writer", "aio",
]
