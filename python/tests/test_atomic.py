"""Vectors whose requests are done whole or not at all."""

import errno
import subprocess

import pytest
from conftest import KURMA, World, closing

import kurma
from kurma import APPEND, Error, Open, Write


@pytest.fixture
def atomic(nfs_world):
    return nfs_world.another(atomic=True)


def test_a_vector_is_one_round_trip_and_done_up_to_the_first_that_fails(nfs_world, atomic):
    names = [f"{n}" for n in range(50)]
    with nfs_world.spending(atomic) as spent:
        atomic.write_files({name: b"content" for name in names})
    assert spent.round_trips == 1
    names[20] = "missing"
    with nfs_world.spending(atomic) as spent, pytest.raises(FileNotFoundError) as failure:
        atomic.vremove(names)
    # All of them; those before the one that failed; that one.
    assert (spent.round_trips, failure.value.index, failure.value.unknown) == (3, 20, 0)
    assert len(atomic.listdir(".")) == 30


def test_a_file_is_as_it_was_when_it_cannot_be_written(nfs_world, atomic):
    def write(client, name):
        with pytest.raises(Error) as failure:
            client.vwrite([Write(name, b"new", 2**63 - 1, create=0o600, truncate=True)])
        assert (failure.value.index, failure.value.unknown) == (0, 0)

    plain = nfs_world.client
    plain.write_files({"file": b"old"})
    write(atomic, "file")
    assert nfs_world.read("file") == b"old"
    write(atomic, "new")
    assert [entry.name for entry in plain.listdir(".")] == ["file"]
    # Otherwise it is empty by then.
    write(plain, "file")
    assert nfs_world.read("file") == b""


def test_what_opens_asks_and_copies_goes_as_it_always_does(atomic):
    atomic.write_files({"file": b"content"})
    opened = atomic.vopen(["file", Open("new", write=True, create=0o600)])
    atomic.vwrite([Write(opened[1], b"more")])
    assert atomic.vread([(opened[0], 0, 100)]) == [b"content"]
    atomic.vclose(opened)
    atomic.vsscopy([("file", "copy")])
    atomic.vwrite([Write("copy", b"!", APPEND)])
    assert atomic.read_files(["copy", "new"]) == [b"content!", b"more"]


def test_a_copy_that_no_transaction_can_hold_is_made_without_one(face, loop, restarting):
    subprocess.run([KURMA, "volume", "create", "other", "--data", f"{restarting.data}/gateway"], check=True)
    with closing(World("nfs", face, restarting.place, loop)) as world:
        atomic = world.another(atomic=True)
        atomic.write_files({"file": b"content"})
        # A transaction is of one volume.
        assert atomic.vsscopy(("file", to) for to in ("copy", "/other/copy", "more")) == [7] * 3
        assert world.read("/other/copy") == b"content"
        # What cannot be done in two, either, is refused.
        with pytest.raises(OSError) as failure:
            atomic.rename("file", "/other/file")
        assert failure.value.errno == errno.EXDEV


def test_a_server_without_transactions_is_refused(nfs_world, nfs_place):
    with pytest.raises(Error) as refused:
        kurma.Client.connect(nfs_place, atomic=True, extensions=False)
    assert refused.value.errno == errno.EOPNOTSUPP
    assert nfs_world.another(atomic=True).transaction_limits().operations > 0
