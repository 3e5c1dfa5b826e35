"""Files that the server has delegated: nothing is asked, and nothing is older than what others, or the client itself, wrote."""

import asyncio
import errno
import os

import pytest
from conftest import at_once

import kurma
from kurma import AttributeSet, Close, Error, Open, Write

WANTED = AttributeSet.SIZE | AttributeSet.MODE | AttributeSet.CHANGE


def size(client, file):
    return client.vgetattrs([file], WANTED)[0].size


def test_what_was_read_of_a_delegated_file_is_read_again_without_asking(nfs_world):
    client, data = nfs_world.client, bytes(range(251)) * 21_000
    client.write_files({"a": data})
    file = client.open("a")
    assert client.pread(file, 0, 6 << 20) == data and size(client, file) == len(data)
    with nfs_world.spending() as spent:
        assert client.pread(file, 0, 6 << 20) == data
        for _ in range(2):
            assert client.pread(file, 1000, 3 << 20) == data[1000 : 1000 + (3 << 20)]
            assert client.pread(file, len(data) - 3, 1000) == data[-3:]
            assert client.pread(file, 6 << 20, 1000) == b""
        assert size(client, file) == len(data)
        assert client.lseek(file, 0, os.SEEK_END) == len(data)
    assert (spent.round_trips, spent.bytes_in) == (0, 0)
    # The open and the delegation go together.
    with nfs_world.costing(1):
        client.close_file(file)


def test_what_another_client_writes_is_seen_after_the_recall(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    client.write_files({"a": b"0123456789"})
    file = client.open("a")
    for costs in (2, 0):
        with nfs_world.costing(costs):
            assert (client.pread(file, 0, 100), size(client, file)) == (b"0123456789", 10)
    other.vwrite([Write("a", b"xxx", 3)])
    assert client.pread(file, 0, 100) == b"012xxx6789"
    other.truncate("a", 5)
    assert (client.pread(file, 0, 100), size(client, file)) == (b"012xx", 5)
    # Nothing is promised any more.
    with nfs_world.costing(1):
        assert client.pread(file, 0, 100) == b"012xx"
    client.close_file(file)


def test_what_the_client_writes_itself_is_seen_though_the_server_recalls_nothing(nfs_world):
    client = nfs_world.client
    client.write_files({"a": b"0123456789"})
    client.link("a", "b")
    file, writing = client.vopen(["a", Open("b", write=True)])

    def check(expected):
        assert client.pread(file, 0, 100) == expected
        with nfs_world.costing(0):
            assert client.pread(file, 0, 100) == expected
        assert size(client, file) == len(expected)

    check(b"0123456789")
    client.pwrite(writing, 0, b"w")
    check(b"w123456789")
    client.vwrite([Write("b", b"x", 1)])
    check(b"wx23456789")
    with client.transaction() as t:
        t.setattrs("b", size=4)
    check(b"wx23")
    cut = client.open("b", write=True, truncate=True)
    check(b"")
    client.truncate(cut, 2)
    check(b"\0\0")
    client.vclose([file, writing, cut])


def test_what_is_closed_is_in_nobodys_way(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    client.write_files({"a": b"a"})
    file = client.open("a")
    client.pread(file, 0, 1)
    client.close_file(file)
    with nfs_world.spending(other) as spent:
        other.vwrite([Write("a", b"b")])
    assert spent.round_trips == 1, "nothing is recalled"


def test_opens_that_nobody_waited_for_are_in_nobodys_way_for_long(nfs_place):
    async def main():
        connect = kurma.aio.Client.connect
        async with connect(nfs_place, uid=0, gid=0) as client, connect(nfs_place, uid=0, gid=0) as other:
            await client.write_files({"a": b"a"})
            tasks = [asyncio.create_task(client.open("a")) for _ in range(8)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # What waits for the server to give up the holder waits for a lease.
            await asyncio.wait_for(other.vwrite([Write("a", b"b")]), 20)
            assert await client.read_files(["a"]) == [b"b"]

    asyncio.run(main())


def test_a_delegated_file_is_closed_in_a_transaction_and_the_delegation_goes_back_after_it(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    client.write_files({"a": b"a"})
    for letter in (b"b", b"c"):
        file = client.open("a")
        client.pread(file, 0, 1)
        with client.transaction() as t:
            t.write("a", letter)
            t.add(Close(file))
        with pytest.raises(Error) as failure:
            client.pread(file, 0, 1)
        assert failure.value.errno == errno.EBADF
        other.vwrite([Write("a", letter, 1)])
        assert nfs_world.read("a") == letter * 2


def test_one_client_opens_a_file_that_is_delegated_to_it_as_often_as_it_likes(nfs_world):
    client = nfs_world.client
    client.write_files({"a": b"0123"})
    opened = client.vopen(["a"] * 5)
    client.vread((file, 0, 9) for file in opened)
    # What is promised to one is true for all.
    with nfs_world.costing(0):
        assert client.vread((file, 0, 9) for file in opened) == [b"0123"] * 5
    client.close_file(opened[0])
    nfs_world.another().vwrite([Write("a", b"x")])
    assert client.vread((file, 0, 9) for file in opened[1:]) == [b"x123"] * 4
    client.vclose(opened[1:])


def test_readers_never_read_what_is_older_than_the_last_write_that_had_ended(nfs_place):
    with (
        kurma.Client.connect(nfs_place, uid=0, gid=0) as client,
        kurma.Client.connect(nfs_place, uid=0, gid=0) as writer,
    ):
        # A file that was recalled is not delegated for some time.
        for name in map(str, range(12)):
            client.write_files({name: b"0000"})
            own, *read = client.vopen([Open(name, write=True), name, name])
            written = 0

            def write():
                nonlocal written
                for number in range(1, 40):
                    data = b"%04d" % number
                    # By each way to write, the client's own too, which nobody recalls anything for.
                    if number % 3 == 1:
                        client.pwrite(own, 0, data)
                    else:
                        (client if number % 3 else writer).vwrite([Write(name, data)])
                    written = number

            def check(file):
                while written < 39:
                    before = written
                    assert int(client.pread(file, 0, 4)) >= before

            at_once(write, *(lambda file=file: check(file) for file in read))
            client.vclose([own, *read])
