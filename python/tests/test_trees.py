"""Trees: made, removed, copied."""

import contextlib
import errno
import functools

import pytest
from conftest import at_once, connected

import kurma
from kurma import AttributeSet, Kind


def test_a_deep_directory_takes_two_round_trips(world, client):
    client.vmkdir(["a", "a/b"])
    deep = "a/b/c/d/e/f"
    with world.costing(2):
        made = client.ensure_directory(deep, 0o750)
    assert [path[-len(name) :] for path, name in zip(made, ["b/c", "b/c/d", "b/c/d/e", "b/c/d/e/f"], strict=True)] == [
        "b/c", "b/c/d", "b/c/d/e", "b/c/d/e/f",
    ]  # fmt: skip
    assert client.lstat(deep).mode == 0o750
    with world.costing(1):
        assert client.ensure_directory(deep) == []
    client.write_files({"file": b"x"})
    for path in ("file/below", "file"):
        with pytest.raises(NotADirectoryError):
            client.ensure_directory(path)


def tree(client):
    client.vmkdir(["tree", *(f"tree/d{n}" for n in range(10)), *(f"tree/d{n}/e" for n in range(10))])
    client.write_files({f"tree/d{n}/f{m}": bytes([m]) * m * 100 for n in range(10) for m in range(20)})
    client.write_files({"tree/large": b"7" * ((3 << 20) + 5)})
    client.vsymlink((f"tree/d{n}/link", "../no/where") for n in range(10))
    client.vhardlink((f"tree/d{n}/f1", f"tree/d{n}/name") for n in range(10))
    client.utime("tree/d3/f3", modified_ns=10**18 + 5_000)
    return 1 + 20 + 200 + 1 + 20


def content(client, root):
    """All that a copy has to have."""
    found = {}
    for entry in client.vlistdir([root], AttributeSet.STAT, recursive=True):
        name = entry.path.split(f"{root}/", 1)[1]
        it = entry.attributes
        is_file = it.kind == Kind.FILE
        data = client.read_files([entry.path])[0] if is_file else None
        if it.kind == Kind.SYMBOLIC_LINK:
            found[name] = client.readlink(entry.path)
        else:
            found[name] = (it.kind, it.mode, it.modified_ns, data, it.links if is_file else 0)
    return found


def test_a_copied_tree_is_the_same_between_all_clients(world, client, tmp_path_factory):
    objects = tree(client)
    there = tmp_path_factory.mktemp("there")
    other = kurma.Client.local(there)
    to = other if world.face == "blocking" else kurma.aio.Client.local(there)
    original = content(client, "tree")
    preserve = ("mode", "times", "links")
    assert client.cp_recursive([("tree", "copy")], preserve=preserve) == objects
    assert content(client, "copy") == original
    assert client.cp_recursive([("tree", "copy")], to=to, preserve=preserve) == objects
    assert content(other, "copy") == original


def test_what_cannot_be_copied_is_told_and_the_rest_goes_on(client):
    client.vmkdir(["a", "a/x", "b", "b/a"])
    client.write_files({"a/1": b"1", "b/a/x": b"in the way"})
    with pytest.raises(OSError) as failure:
        client.cp_recursive([("none", "b/none"), ("a", "b/a"), ("a/1", "a/1")])
    error = failure.value
    assert error.failed == 3
    expected = {(0, errno.ENOENT), (1, errno.ENOTDIR), (2, errno.EINVAL)}
    assert {(one.index, one.errno) for one in error.errors} == expected
    assert client.read_files(["b/a/1"]) == [b"1"]


def test_files_stay_where_they_are_not_to_be_replaced(client):
    client.vmkdir("ab")
    client.write_files({"a/x": b"new", "a/y": b"new", "b/x": b"old"})
    client.cp_recursive([("a", "b")], replace=False)
    assert client.read_files(["b/x", "b/y"]) == [b"old", b"new"]
    client.cp_recursive([("a", "hard")], make="hard-link")
    assert client.stat("hard/x").links == 2
    for wrong in ({"links": "all"}, {"preserve": ["soul"]}, {"make": "noise"}):
        with pytest.raises(ValueError):
            client.cp_recursive([("a", "c")], **wrong)
    with pytest.raises(TypeError):
        client.cp_recursive([("a", "c")], colour="red")


def test_a_tree_is_removed_and_links_are_not_followed(world, client):
    objects = tree(client)
    client.vmkdir(["outside"])
    client.write_files({"outside/stays": b"x"})
    client.symlink("../outside", "tree/out")
    client.symlink("outside", "argument")
    before = client.statistics().round_trips
    with pytest.raises(FileNotFoundError) as failure:
        client.rm_recursive(["none", "tree", "argument"])
    assert client.statistics().round_trips - before <= 10
    assert [error.index for error in failure.value.errors] == [0]
    assert client.exists("outside/stays")
    assert sorted(entry.name for entry in client.listdir(".")) == ["outside"]
    tree(client)
    assert client.rm_recursive(["tree"]) == objects


def test_a_tree_of_small_files_is_copied_and_removed_in_few_round_trips(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    client.vmkdir(["tree", *(f"tree/d{n}" for n in range(50))])
    client.write_files({f"tree/d{n % 50}/f{n}": b"some data" for n in range(1000)})
    before = [it.statistics().round_trips for it in (client, other)]
    assert client.cp_recursive([("tree", "copy")], other) == 1051
    trips = [it.statistics().round_trips - was for it, was in zip((client, other), before)]
    assert sum(trips) <= 40, trips
    before = client.statistics().round_trips
    assert client.rm_recursive(["tree", "copy"]) == 2 * 1051
    assert client.statistics().round_trips - before <= 20


def test_several_may_make_the_same_directory_at_once(place, back_end):
    clients = [connected(back_end, place) for _ in range(6)]
    at_once(*(functools.partial(client.ensure_directory, "x/y/z") for client in clients))
    assert clients[0].stat("x/y/z").kind == Kind.DIRECTORY
    for client in clients:
        client.close()


def test_what_others_put_into_a_tree_meanwhile_goes_too(place, back_end):
    client, other = (connected(back_end, place) for _ in range(2))
    client.ensure_directory("busy/below")
    client.write_files({f"busy/below/f{n}": b"x" for n in range(600)})

    def come():
        # Later than the listing or not: both are right.
        with contextlib.suppress(FileNotFoundError):
            other.write_files({"busy/below/late": b"x"})

    at_once(lambda: client.rm_recursive(["busy"]), come)
    assert not client.exists("busy")
    client.close()
    other.close()


def test_a_server_that_has_no_copy_is_not_asked_for_one_again_and_again(nfs_world):
    # As NFSv4.1, and servers of 4.2 that leave it out.
    client = nfs_world.another(minor_versions=[1], cache_bytes=0)
    client.mkdir("tree")
    client.write_files({f"tree/{n}": f"content {n}".encode() for n in range(100)})
    with pytest.raises(OSError) as failure:
        client.vsscopy([("tree/1", "copy")])
    assert failure.value.errno == errno.EOPNOTSUPP
    with nfs_world.spending(client) as spent:
        client.cp_recursive([("tree", "other")])
    # The argument, the directory, its names, COPY, then reading and writing, mode and times of the directory.
    assert spent.round_trips <= 9
    copied = client.read_files(f"other/{n}" for n in range(100))
    assert copied == [f"content {n}".encode() for n in range(100)]


def test_small_files_are_copied_in_three_round_trips(world, client):
    client.write_files({f"f{n}": f"content {n}".encode() for n in range(60)})
    with world.costing(3):
        copied = client.vcopy((f"f{n}", f"c{n}") for n in range(60))
    assert copied == [9] * 10 + [10] * 50
    assert client.read_files(f"c{n}" for n in range(60)) == [f"content {n}".encode() for n in range(60)]


def test_a_directory_is_not_copied_into_itself_without_end(client):
    client.ensure_directory("a/b")
    client.symlink("a/b", "disguise")
    for to in ("a/copy", "disguise/copy"):
        with pytest.raises(OSError, match="into itself") as failure:
            client.cp_recursive([("a", to)])
        assert failure.value.errno == errno.EINVAL


def test_a_copy_over_a_link_to_its_original_replaces_the_link(client):
    client.vmkdir("ab")
    client.write_files({"a/x": b"precious"})
    client.symlink("../a/x", "b/x")
    client.cp_recursive([("a", "b")])
    assert client.lstat("b/x").kind == Kind.FILE
    assert client.read_files(["a/x", "b/x"]) == [b"precious"] * 2


def test_a_directory_of_many_pages_is_removed_whole(client):
    client.mkdir("wide")
    client.vsymlink((f"wide/a-name-{n}", "x") for n in range(12_000))
    client.vmkdir(f"wide/directory-{n}" for n in range(3000))
    assert client.rm_recursive(["wide"]) == 15_001
    assert not client.exists("wide")


def test_links_are_copied_as_links_or_followed(client):
    client.vmkdir(["a", "a/b"])
    client.write_files({"a/b/x": b"there"})
    client.vsymlink([("a/link", "b/x"), ("named", "a")])
    client.cp_recursive([("a", "kept"), ("named", "itself")])
    assert client.readlink("kept/link") == "b/x" and client.readlink("itself") == "a"
    client.cp_recursive([("named", "followed")], links="follow-named")
    assert client.readlink("followed/link") == "b/x"
    client.cp_recursive([("named", "all")], links="follow")
    assert client.lstat("all/link").kind == Kind.FILE
    client.cp_recursive([("a", "soft")], make="symbolic-link")
    assert client.lstat("soft/b/x").kind == Kind.SYMBOLIC_LINK
    with pytest.raises(IsADirectoryError):
        client.cp_recursive([("a", "none")], recursive=False)
    with pytest.raises(OSError) as failure:
        client.cp_recursive([("a", "a/b/c")])
    assert failure.value.errno == errno.EINVAL
