#!/usr/bin/env python3
"""Finds text in all files of a tree, as `grep -rF` does, and says how many round trips that took.

    search.py TEXT nfs://HOST[:PORT]/PATH
    search.py TEXT DIRECTORY
"""

import sys

import kurma


def search(client: kurma.Client, text: bytes) -> None:
    entries = client.vlistdir(["."], kurma.AttributeSet.KIND, recursive=True)
    paths = sorted(entry.path for entry in entries if entry.attributes.kind == kurma.Kind.FILE)
    for path, content in zip(paths, client.read_files(paths)):
        for number, line in enumerate(content.splitlines(), 1):
            if text in line:
                print(f"{path}:{number}:{line.decode(errors='replace')}")
    statistics = client.statistics()
    print(f"{len(paths)} files, {statistics.round_trips} round trips", file=sys.stderr)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    text, place = sys.argv[1:]
    connect = kurma.Client.connect if place.startswith("nfs://") else kurma.Client.local
    with connect(place) as client:
        search(client, text.encode())


if __name__ == "__main__":
    main()
