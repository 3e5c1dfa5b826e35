"""Directories."""

import os

import pytest

from kurma import AttributeSet, Kind


def tree(client, depth, width, files):
    """Directories `width` wide in each of `depth` levels, with files; the paths of everything."""
    level, everything = [""], set()
    for _ in range(depth):
        level = [f"{path}d{n}/" for path in level for n in range(width)]
        client.vmkdir(level)
        paths = [f"{path}f{n}" for path in level for n in range(files)]
        client.write_files({path: b"x" for path in paths})
        everything |= {path.rstrip("/") for path in level} | set(paths)
    return everything


def test_a_walk_finds_everything_once_breadth_first(world, client):
    expected = tree(client, 3, 4, 3)
    before = client.statistics().round_trips
    entries = list(client.vlistdir(["."], AttributeSet.KIND | AttributeSet.SIZE, recursive=True))
    assert client.statistics().round_trips - before <= 4
    paths = [os.path.normpath(entry.path.partition("./")[2]) for entry in entries]
    assert len(paths) == len(set(paths)) and set(paths) == expected
    assert [path.count("/") for path in paths] == sorted(path.count("/") for path in paths)
    for entry in entries:
        assert (entry.attributes.kind == Kind.FILE) == entry.name.startswith("f")
        assert entry.attributes.mode is None and entry.path == f"{entry.directory}/{entry.name}"


def test_a_directory_of_many_pages_is_listed_once(client):
    client.vmkdir(["small", "large"])
    client.vsymlink((f"large/a-rather-long-name-{n}", "x") for n in range(5000))
    assert len({entry.name for entry in client.listdir("large")}) == 5000
    pages = list(client.walk(["small", "large"], AttributeSet.NONE, recursive=False))
    assert sum(len(page.entries) for page in pages) == 5000
    assert [page.last for page in pages].count(True) == 2


def test_a_directory_that_cannot_be_read_ends_a_listing_but_not_a_walk(client):
    client.vmkdir("ab")
    client.write_files({"a/1": b"", "b/2": b""})
    names = []
    with pytest.raises(FileNotFoundError) as failure:
        for entry in client.vlistdir(["a", "none", "b"]):
            names.append(entry.name)
    assert (names, failure.value.index, failure.value.done) == (["1"], 1, 1)
    pages = list(client.walk(["a", "none", "b"]))
    assert [len(page.entries) for page in pages] == [1, 0, 1]
    assert isinstance(pages[1].error, FileNotFoundError)
    with pytest.raises(NotADirectoryError):
        client.listdir("a/1")


def test_a_walk_may_be_left_and_other_calls_made_from_within(client):
    tree(client, 2, 3, 2)
    for entry in client.vlistdir(["."], recursive=True):
        assert client.lstat(entry.path).kind == entry.attributes.kind
        if entry.name.startswith("f"):
            break
