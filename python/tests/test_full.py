"""A server without room."""

import errno

import pytest

import kurma
from conftest import World, closing, memory_server

MIB = 1 << 20


@pytest.fixture
def small(face, loop):
    """Files of a server that has room for 1 MiB."""
    with memory_server(room=MIB) as server, closing(World("nfs", face, f"nfs://{server}/home", loop)) as world:
        yield world


def test_a_vector_ends_at_what_has_no_room_and_a_transaction_leaves_nothing(small):
    client = small.client
    with pytest.raises(kurma.Error) as failure:
        client.write_files({"a": bytes(1000), "b": bytes(MIB), "c": bytes(1000)})
    assert (failure.value.errno, failure.value.index, failure.value.unknown) == (errno.ENOSPC, 1, 0)
    assert small.read("a") == bytes(1000) and not client.exists("c")

    t = client.transaction()
    t.mkdir("d")
    t.write_file("d/e", bytes(1000))
    t.write_file("d/f", bytes(MIB))
    with pytest.raises(kurma.Error) as failure:
        t.commit()
    assert (failure.value.errno, failure.value.index, failure.value.unknown) == (errno.ENOSPC, 2, 0)
    assert not client.exists("d")

    # A file of many pieces.
    with pytest.raises(kurma.Error) as failure:
        client.write_files({"large": bytes(20 * MIB)})
    assert (failure.value.errno, failure.value.index) == (errno.ENOSPC, 0)
    client.vremove(["large", "b"])
    client.write_files({"c": bytes(900 << 10)})


def test_a_writer_says_at_the_latest_when_it_is_closed_that_there_is_no_room(small):
    writer = small.client.writer(small.client.create("a"))
    said = None
    try:
        for _ in range(64):
            writer.write(bytes(256 << 10))
    except kurma.Error as refused:
        said = refused.errno
    with pytest.raises(kurma.Error) as failure:
        writer.close()
    assert (said or failure.value.errno) == errno.ENOSPC
