"""Open files."""

import errno

import pytest

from kurma import AttributeSet, Copy, Error, Handle, Open, Read, SetAttributes, Target, Write


def test_files_are_opened_as_each_is_wanted_in_one_round_trip(world, client):
    client.write_files({"a": b"a"})
    with world.costing(1):
        read, create, write = client.vopen(
            ["a", Open("b", write=True, create=0o640), Open("a", write=True, truncate=True)]
        )
    with pytest.raises(OSError) as refused:
        client.vwrite([Write(read, b"x")])
    assert refused.value.errno == errno.EBADF
    client.vwrite([Write(create, b"made"), Write(write, b"again", stable=True)])
    client.vcommit([create])
    with world.costing(1):
        client.vclose([read, create, write])
    with pytest.raises(OSError) as closed:
        client.vread([Read(read, 0, 1)])
    assert closed.value.errno == errno.EBADF
    assert world.another().read_files(["a", "b"]) == [b"again", b"made"]
    assert len({read, create, write}) == 3 and read.number != write.number


def test_an_open_file_is_a_target_of_every_kind_of_call(world, client):
    client.write_files({"c": b"here"})
    (file,) = client.vopen([Open("c", write=True)])
    client.vrename([("c", "d")])
    assert client.vgetattrs([file], AttributeSet.SIZE)[0].size == 4
    client.vsetattrs([SetAttributes(file, size=3)])
    client.vhardlink([(file, "e")])
    client.vsscopy([Copy(file, "f")])
    assert client.read_files("ef") == [b"her"] * 2
    (again,) = client.vopen([Open(file)])
    assert client.vread([(again, 1, 9)]) == [b"er"]
    with pytest.raises(NotADirectoryError):
        client.vread([(Target(file, "below"), 0, 9)])
    with pytest.raises(OSError) as failure:
        client.vremove([file])
    assert failure.value.errno == errno.EINVAL


def test_a_path_may_begin_at_a_handle(nfs_world):
    client = nfs_world.client
    client.vmkdir(["a", "a/b"])
    client.write_files({"a/b/c": b"here"})
    handle = client.vgetattrs(["a"], AttributeSet.HANDLE)[0].handle
    assert Handle(bytes(handle)) == handle
    assert client.read_files([Target(handle, "b/c")]) == [b"here"]


def test_what_was_opened_before_a_failure_stays_open(client):
    client.write_files({"a": b"a"})
    with pytest.raises(FileNotFoundError) as failure:
        client.vopen(["a", "none", "a"])
    (still,) = failure.value.results
    assert client.vread([(still, 0, 9)]) == [b"a"]


def test_an_open_that_makes_no_sense_is_refused_and_changes_nothing(client):
    client.write_files({"a": b"a"})
    for how in ({"truncate": True}, {"read": False}):
        with pytest.raises(Error) as failure:
            client.vopen([Open("a", **how)])
        assert failure.value.errno == errno.EINVAL
    assert client.stat("a").size == 1


def test_a_client_is_closed_and_does_nothing_more(world):
    client = world.another()
    client.close()
    with pytest.raises(OSError):
        client.mkdir("a")
    assert not world.client.exists("a")
