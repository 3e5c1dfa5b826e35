"""The same random vectors over NFS and on this machine: the same results, the same failures, the same tree at the end."""

import random

import pytest
from conftest import World, closing

from kurma import (
    APPEND,
    AttributeSet,
    Copy,
    Error,
    GetAttributes,
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
    Write,
)

#: Where everything is to begin with: so deep that no `..` leads out of what both have.
BASE = "1/2/3"

#: Few names, so that the steps get into each other's way.
NAMES = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "link", "link/a", "d/../a"]


class Player:
    """A client, and the files that were opened with it."""

    def __init__(self, world):
        self.client, self.opened = world.client, []
        self.done = self.failed = 0
        self.client.ensure_directory(f"{BASE}/d/e")
        self.client.write_files({f"{BASE}/a": b"start"})
        self.client.symlink("d", f"{BASE}/link")

    def play(self, numbers):
        """What comes of the steps of a vector: of each that is done, and why the others failed."""
        steps, everything = [random_step(numbers, self.opened) for _ in range(12)], []
        # After what fails the rest is another vector.
        while steps:
            try:
                results, why = self.client.execute(steps), []
            except Error as error:
                results, why = error.results, [(reason(steps[error.index], error.errno), error.unknown)]
            self.opened += [result for step, result in zip(steps, results) if isinstance(step, Open)]
            everything.append([*map(told, results), *why])
            self.done, self.failed = self.done + len(results), self.failed + len(why)
            del steps[: len(results) + 1]
        return everything

    def tree(self):
        found = {}
        for entry in self.client.vlistdir(["."], recursive=True):
            kind = entry.attributes.kind
            content = self.client.readlink(entry.path) if kind == Kind.SYMBOLIC_LINK else None
            if kind == Kind.FILE:
                (content,) = self.client.read_files([entry.path])
            found[entry.path.partition("./")[2]] = (content, told(entry.attributes))
        return found


def told(result):
    """What both have to agree on: a directory is as large as its file system likes, and links have no permission bits."""
    if isinstance(result, (int, bytes, str, tuple, type(None))):
        return result
    if not hasattr(result, "kind"):
        return "opened"
    counts = None if result.kind == Kind.DIRECTORY else (result.size, result.links)
    return result.kind, None if result.kind == Kind.SYMBOLIC_LINK else result.mode, counts


def reason(step, number):
    """What two paths may each forbid is forbidden for either reason."""
    return "not done" if isinstance(step, (Copy, HardLink, Rename)) else number


def random_step(numbers, opened):
    number, one, other = numbers.randrange(30), *(f"{BASE}/{name}" for name in numbers.sample(NAMES, 2))
    mode = numbers.choice([0o600, 0o644, 0o755, 0o777])
    target = numbers.choice(opened) if opened and number % 4 == 0 else one
    create = mode if numbers.random() < 0.6 else None
    is_new = create is not None and numbers.random() < 0.2
    offset = APPEND if number % 7 == 0 else number % 5 * 3
    wanted = AttributeSet.KIND | AttributeSet.MODE | AttributeSet.SIZE | AttributeSet.LINKS
    steps = [
        lambda: Write(target, b"content %d" % number, offset, create=create, exclusive=is_new, truncate=number % 3 == 0),
        lambda: Read(target, number % 9, number, with_end=True),
        lambda: Open(one, write=number % 2 == 0, create=create, exclusive=is_new, truncate=number % 6 == 0),
        lambda: Copy(target, other, source_offset=number % 3, create=create, exclusive=is_new, truncate=number % 2 == 0),
        lambda: MakeDirectory(one, mode),
        lambda: Remove(one),
        lambda: Rename(one, other),
        lambda: HardLink(target, other),
        lambda: MakeSymbolicLink(one, numbers.choice(["a", "d", "e/a", "../b", "link"])),
        lambda: ReadLink(one),
        lambda: GetAttributes(target, wanted, follow=number % 2 == 0),
        lambda: SetAttributes(target, mode=mode, size=number if number % 2 else None),
    ]
    return numbers.choice(steps[:2] + steps)()


@pytest.mark.parametrize("seed", range(12))
def test_random_vectors_do_the_same_everywhere(nfs_world, tmp_path, seed):
    with closing(World("local", nfs_world.face, str(tmp_path), nfs_world.loop)) as local:
        players = [Player(nfs_world), Player(local)]
        for vector in range(25):
            nfs, here = (player.play(random.Random(1000 * seed + vector)) for player in players)
            assert nfs == here, f"vector {vector}"
        assert players[0].tree() == players[1].tree()
        assert players[0].done > 50 and players[0].failed > 50
