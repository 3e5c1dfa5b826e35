"""Making, linking, renaming and removing; symbolic links on the way; names that are no text."""

import errno
import os
import pathlib

import pytest

from kurma import MakeDirectory, Read, Remove, Rename, Write


def test_a_tree_is_made_in_one_round_trip(world, client):
    with world.costing(1):
        client.vmkdir(["a", "a/b", ("a/b/c", 0o700), "a/d", "e"])
    assert client.stat("a/b/c").mode == 0o700
    with pytest.raises(FileExistsError) as failure:
        client.vmkdir(["a"])
    assert failure.value.index == 0


def test_a_hundred_links_are_made_and_read_in_one_round_trip_each(world, client):
    with world.costing(1):
        client.vsymlink((f"link-{n}", f"to/{n}") for n in range(100))
    with world.costing(1):
        assert client.vreadlink(f"link-{n}" for n in range(100)) == [f"to/{n}" for n in range(100)]
    client.write_files({"file": b"x"})
    with world.costing(1):
        client.vhardlink(("file", f"hard-{n}") for n in range(100))
    assert client.stat("hard-7").links == 101


def test_a_hundred_files_are_renamed_across_directories_in_one_round_trip(world, client):
    client.vmkdir("ab")
    client.write_files({f"a/{n}": b"" for n in range(100)})
    with world.costing(1):
        client.vrename((f"a/{n}", f"b/{n}") for n in range(100))
    assert len(client.listdir("b")) == 100


def test_two_hundred_objects_are_removed_in_one_round_trip_and_a_full_directory_is_not(world, client):
    client.write_files({f"{n}": b"" for n in range(200)})
    with world.costing(1):
        client.vremove(f"{n}" for n in range(200))
    client.vmkdir(["full"])
    client.write_files({"one": b"", "full/two": b""})
    with pytest.raises(OSError) as failure:
        client.vremove(["one", "full", "full/two"])
    assert (failure.value.index, failure.value.errno) == (1, errno.ENOTEMPTY)


def test_a_thousand_elements_are_four_round_trips(world, client):
    with world.costing(4):
        client.vmkdir(f"{n}" for n in range(1000))


def test_names_that_moved_are_not_mistaken_for_what_they_were(world, client):
    def write(path, data):
        return Write(path, data, create=0o600)

    with world.costing(1):
        client.execute(
            [
                MakeDirectory("a"),
                write("a/old", b"old"),
                Rename("a", "b"),
                MakeDirectory("a"),
                write("a/new", b"new"),
                Rename("a/new", "b/new"),
                Remove("a"),
            ]
        )
    assert client.read_files(["b/old", "b/new"]) == [b"old", b"new"]


def test_names_are_text_bytes_or_paths_and_need_not_be_utf_8(world, client):
    names = ["plain", "Grüße", "日本"]
    # A gateway may insist on UTF-8; a Linux file system does not.
    odd = [] if world.is_nfs else [os.fsdecode(b"not\xffutf-8")]
    client.write_files({name: os.fsencode(name) for name in names + odd})
    assert sorted(entry.name for entry in client.listdir(".")) == sorted(names + odd)
    assert client.read_files([pathlib.PurePath("Grüße"), os.fsencode("日本")]) == [b"Gr\xc3\xbc\xc3\x9fe", "日本".encode()]
    assert client.read_files(odd) == [os.fsencode(name) for name in odd]
    with pytest.raises(TypeError):
        client.vread([7])


@pytest.fixture
def linked(client):
    client.vmkdir(["real", "real/deep"])
    client.vsymlink(
        [("short", "real/deep"), ("real/deep/up", "../.."), ("file", "short/content"), ("loop", "loop")]
    )
    client.write_files({"real/deep/content": b"found"})
    return client


def test_links_lead_on_wherever_they_are_in_a_path(linked):
    paths = ["short/content", "file", "short/up/short/content", "short/../deep/content", "real/deep/content"]
    assert linked.read_files(paths) == [b"found"] * len(paths)
    linked.write_files({"short/new": b"new"})
    linked.rename("short/new", "real/new")
    assert linked.exists("real/new")


def test_a_link_itself_is_what_is_removed_and_renamed(linked):
    linked.rename("file", "other")
    assert linked.readlink("other") == "short/content"
    linked.vremove(["other", "short"])
    assert linked.exists("real/deep/content")


def test_links_that_lead_nowhere_or_round_and_round_are_errors(linked):
    for read in (Read("loop", 0, 9), Read("file", 0, 9, follow=False)):
        with pytest.raises(OSError) as failure:
            linked.vread([read])
        assert failure.value.errno == errno.ELOOP
    with pytest.raises(NotADirectoryError):
        linked.vread([("real/deep/content/x", 0, 9)])
