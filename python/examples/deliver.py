#!/usr/bin/env python3
"""Delivers messages into mailboxes, many at once: each message and its line in the index appear together, or not at all.

    deliver.py nfs://HOST[:PORT]/PATH USER... < message
"""

import asyncio
import sys
import uuid

import kurma
from kurma import aio


async def deliver(client: aio.Client, user: str, message: bytes) -> str:
    name = uuid.uuid4().hex
    async with client.transaction() as transaction:
        transaction.write_file(f"{user}/{name}", message, 0o600)
        transaction.append(f"{user}/index", f"{name} {len(message)}\n".encode(), create=0o600)
    return name


async def main() -> int:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    place, *users = sys.argv[1:]
    message = sys.stdin.buffer.read()
    async with aio.Client.connect(place) as client:
        there = await client.execute_each(kurma.MakeDirectory(user, 0o700) for user in users)
        for error in there:
            if error and not isinstance(error, FileExistsError):
                raise error
        names = await asyncio.gather(*(deliver(client, user, message) for user in users), return_exceptions=True)
    for user, name in zip(users, names):
        print(f"{user}: {name}", file=sys.stderr if isinstance(name, BaseException) else sys.stdout)
    return any(isinstance(name, BaseException) for name in names)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
