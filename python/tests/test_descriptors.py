"""Open files."""

import errno
import itertools

import pytest

import kurma
from kurma import APPEND, AttributeSet, Close, Copy, Error, Handle, Open, Read, SetAttributes, Target, Write


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


@pytest.fixture(params=["usual", "stranger"])
def user(request, world):
    """A client, and one that does without what only this server has; on this machine just another one."""
    return world.client if request.param == "usual" else world.another(extensions=False)


def test_what_is_open_for_reading_alone_is_not_written_however_little(user):
    user.write_files({"a": b"a"})
    read = user.open("a")
    steps = [Write(read, data, offset) for data in (b"", b"x") for offset in (0, APPEND)]
    for step in [*steps, Copy("a", read, length=0, create=None, truncate=False)]:
        with pytest.raises(Error) as refused:
            user.execute([step])
        assert refused.value.errno == errno.EBADF


def test_what_is_too_far_out_for_a_file_is_not_appended(user):
    user.write_files({"a": b"keep"})
    for target in (user.open("a", write=True), "a"):
        with pytest.raises(Error):
            user.vwrite([Write(target, bytes(5 << 20), 2**64 - 1 - (2 << 20))])
        assert user.stat("a").size == 4


def test_a_copy_between_open_files_may_replace_what_is_there(client):
    client.write_files({"a": b"new", "b": b"longer"})
    sources, destinations = [client.open("a"), "a"], [client.open("b", write=True), "b"]
    for source, destination in itertools.product(sources, destinations):
        client.write_files({"b": b"longer"})
        client.vsscopy([Copy(source, destination, create=None)])
        assert client.read_files(["b"]) == [b"new"]


def test_an_open_that_a_failed_vector_left_behind_is_closed(client):
    client.write_files({"a": b"a"})
    # Fails after the OPEN: there is nothing so far out.
    with pytest.raises(Error) as failure:
        client.vwrite([Write("a", b"beyond", 2**64 - 2)])
    assert failure.value.index == 0
    client.vremove(["a"])
    # The client can go only when it holds nothing (RFC 8881 §18.50).
    client.close()


def test_what_is_written_and_closed_by_one_vector_is_safe(nfs_world):
    def operations(stable):
        file = nfs_world.client.create("a")
        with nfs_world.spending() as spent:
            nfs_world.client.execute([Write(file, b"x", stable=stable), Close(file)])
        return spent.operations

    assert operations(stable=False) == operations(stable=True) + 1, "COMMIT"


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


def test_a_path_may_begin_at_a_handle(nfs_world, tmp_path):
    client = nfs_world.client
    client.vmkdir(["a", "a/b"])
    client.write_files({"a/b/c": b"here"})
    handle = client.vgetattrs(["a"], AttributeSet.HANDLE)[0].handle
    assert Handle(bytes(handle)) == handle
    assert client.read_files([Target(handle, "b/c")]) == [b"here"]
    with pytest.raises(Error) as failure:
        kurma.Client.local(tmp_path).vread([Target(handle, "b/c")])
    assert failure.value.errno == errno.EOPNOTSUPP


def test_what_was_opened_before_a_failure_stays_open(client):
    client.write_files({"a": b"a"})
    with pytest.raises(FileNotFoundError) as failure:
        client.vopen(["a", "none", "a"])
    (still,) = failure.value.results
    assert client.vread([(still, 0, 9)]) == [b"a"]


def test_an_open_that_makes_no_sense_is_refused_and_changes_nothing(client):
    client.write_files({"a": b"a"})
    for name, how in (("a", {"truncate": True}), ("a", {"read": False}), ("b", {"read": False, "create": 0o600})):
        with pytest.raises(Error) as failure:
            client.vopen([Open(name, **how)])
        assert failure.value.errno == errno.EINVAL
    assert client.stat("a").size == 1 and not client.exists("b")


def test_a_client_is_closed_and_does_nothing_more(world):
    client = world.another()
    client.close()
    with pytest.raises(OSError):
        client.mkdir("a")
    assert not world.client.exists("a")
