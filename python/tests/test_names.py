"""Making, linking, renaming and removing; symbolic links on the way; names that are no text."""

import errno
import os
import pathlib

import pytest

from kurma import AttributeSet, GetAttributes, MakeDirectory, Open, Read, Remove, Rename, Write


def test_a_tree_is_made_in_one_round_trip(world, client):
    with world.costing(1), world.spending() as spent:
        client.vmkdir(["a", "a/b", ("a/b/c", 0o700), "a/d", "e"])
    # PUTROOTFH LOOKUP LOOKUP CREATE, CREATE, CREATE, up twice and CREATE, up twice and CREATE.
    assert spent.operations == (12 if world.is_nfs else 0)
    assert client.stat("a/b/c").mode == 0o700
    with pytest.raises(FileExistsError) as failure:
        client.vmkdir(["a"])
    assert failure.value.index == 0


def test_the_next_directory_is_reached_from_the_one_before(nfs_world):
    client = nfs_world.client
    client.ensure_directory("2/3/4/5/6/7/a")
    client.mkdir("2/3/4/5/6/7/b")
    with nfs_world.spending() as spent:
        assert list(client.vlistdir(["2/3/4/5/6/7/a", "2/3/4/5/6/7/b"], AttributeSet.NONE)) == []
    # PUTROOTFH, 9 LOOKUPs, READDIR; LOOKUPP, LOOKUP, READDIR.
    assert spent.operations == 14


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
def base(world):
    """Where relative paths begin."""
    return "/" + world.place.split("/", 3)[3] if world.is_nfs else ""


@pytest.fixture
def linked(client, base):
    client.vmkdir(["real", "real/deep"])
    links = [("short", "real/deep"), ("absolute", f"{base}/real"), ("real/deep/up", "../..")]
    client.vsymlink([*links, ("file", "short/content"), ("loop", "loop")])
    client.write_files({"real/deep/content": b"found"})
    return client


def test_links_lead_on_wherever_they_are_in_a_path(linked, base):
    paths = ["short/content", "file", "short/up/short/content", "short/../deep/content", "real/deep/content"]
    paths += ["absolute/deep/content", f"short/../../../../../{base}/file", f"/../{base}/absolute/../../../../{base}/file"]
    assert linked.read_files(paths) == [b"found"] * len(paths)
    linked.write_files({"short/new": b"new"})
    linked.rename("short/new", "absolute/new")
    linked.mkdir("short/directory")
    assert linked.exists("real/new") and linked.exists("real/deep/directory")
    assert sorted(entry.name for entry in linked.listdir("short")) == ["content", "directory", "up"]


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


def test_a_link_is_in_the_way_of_what_has_to_be_new_wherever_it_leads(linked):
    linked.symlink("missing", "nowhere")
    for path in ("nowhere", "file"):
        for step in (Open(path, create=0o600, exclusive=True), Write(path, b"new", create=0o600, exclusive=True)):
            with pytest.raises(FileExistsError):
                linked.execute([step])
    assert not linked.exists("missing")


def test_a_link_is_followed_before_what_comes_after_is_done(linked):
    done = linked.execute([GetAttributes("file"), Remove("file"), Remove("real/deep/content")])
    assert done[0].size == 5
    assert not linked.exists("real/deep/content")
