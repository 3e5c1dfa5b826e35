"""nfs://HOST[:PORT]/PATH (RFC 2224)."""

from __future__ import annotations

import os
from urllib.parse import unquote_to_bytes, urlsplit

PORT = 2049


def parse(url: str) -> tuple[str, int, bytes]:
    """Host, port, and where relative paths begin."""
    parts = urlsplit(url)
    if parts.scheme != "nfs" or not parts.hostname:
        raise ValueError(f"{url}: write nfs://HOST[:PORT]/PATH")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{url}: only a host, a port and a path, with %40, %3F and %23 for @, ? and #")
    path = unquote_to_bytes(os.fsencode(parts.path)).rstrip(b"/")
    return parts.hostname, parts.port or PORT, path
