"""A gateway that is killed, and started again with what it has stored."""

import errno

import pytest
from conftest import World, closing, known, outcome

from kurma import Close, Commit, Error, Open, Rename, Write


@pytest.fixture
def world(face, loop, restarting):
    with closing(World("nfs", face, restarting.place, loop)) as world:
        yield world


def test_a_copy_from_an_open_file_survives_a_restart_of_the_server(world, restarting):
    client = world.client
    client.write_files({"a": b"new", "b": b"before"})
    file = client.open("a")
    restarting.restart()
    known(lambda: client.vsscopy([(file, "b")]))
    assert client.read_files(["b"]) == [b"new"]


@pytest.mark.parametrize("safe", [Close, Commit])
def test_nothing_is_done_behind_data_that_turns_out_to_be_lost(world, restarting, safe):
    client = world.client
    client.write_files({"final": b"before"})
    opened = client.vopen(Open(name, write=True, create=0o600) for name in ("new", "other"))
    client.vwrite(Write(file, b"after") for file in opened)
    restarting.restart()
    with pytest.raises(Error, match="lost") as failure:
        known(lambda: client.execute([*map(safe, opened), Rename("new", "final")]))
    assert (failure.value.errno, failure.value.done) == (errno.EIO, 0)
    assert world.read("final") == b"before"
    # Both were closed in one request, or none.
    assert (outcome(lambda: client.vclose(opened)) == errno.EBADF) == (safe is Close)


def test_after_a_restart_of_the_server_everything_is_as_true_as_before(world, restarting):
    client, other = world.client, world.another()
    before = b"0123"
    client.write_files({"a": before})
    file = client.open("a")
    for letter in (b"x", b"y", b"z"):
        assert [client.pread(file, 0, 9), *client.vread(["a"])] == [before] * 2
        restarting.restart()
        assert [client.pread(file, 0, 9), *client.vread(["a"])] == [before] * 2
        known(lambda: other.vwrite([Write("a", letter, 1)]))
        before = b"0" + letter + b"23"
        assert [client.pread(file, 0, 9), *client.vread(["a"])] == [before] * 2
    client.close_file(file)
