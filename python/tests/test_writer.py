"""Writing while the program goes on."""

import asyncio
import errno
import functools
import itertools

import pytest

import kurma
from conftest import World, at_once, closing, connected

MIB = 1 << 20


def content(length):
    return bytes(n * 7919 >> 8 & 255 for n in range(65_537)) * (length // 65_537 + 1)


def test_what_is_written_in_pieces_of_any_size_is_one_file(world, client):
    everything = content(7 * MIB + 77)[: 7 * MIB + 77]
    writer = client.writer(client.create("a"))
    done, is_synced = 0, False
    for size in itertools.cycle([1, 1000, 3 * MIB, 70_000, MIB, 0, 12_345]):
        part = everything[done : done + size]
        kind = [bytes, bytearray, memoryview][size % 3]
        assert writer.write(kind(part)) == len(part)
        done += len(part)
        assert writer.position == done
        if 2 * MIB < len(everything) - done < 3 * MIB:
            writer.sync()
            assert world.another().read_files(["a"]) == [everything[:done]]
            is_synced = True
        if done == len(everything):
            break
    writer.close()
    assert is_synced and world.another().read_files(["a"]) == [everything]

    with client.writer(client.open("a", write=True), 100) as writer:
        assert writer.position == 100
        writer.write(b"in the middle")
    assert world.another().read_files(["a"]) == [everything[:100] + b"in the middle" + everything[113:]]


def test_what_is_taken_is_not_what_a_buffer_has_later(world, client):
    with client.writer(client.create("a")) as writer:
        buffer = bytearray(b"a" * MIB)
        for letter in b"bc":
            writer.write(buffer)
            buffer[:] = bytes([letter]) * MIB
    assert world.read("a") == b"a" * MIB + b"b" * MIB


def test_a_small_file_is_one_round_trip_and_a_large_one_one_for_each_piece(world, client):
    descriptor = client.create("small")
    with world.costing(1), client.writer(descriptor) as writer:
        for _ in range(1000):
            writer.write(b"line\n")
    descriptor = client.create("empty")
    with world.costing(1), client.writer(descriptor):
        pass
    descriptor, half = client.create("large"), content(MIB // 2)[: MIB // 2]
    # Seventy pieces; what is not safe is made so after 64, and at the end; the file is closed.
    with world.costing(70 + 1 + 1 + 1), client.writer(descriptor) as writer:
        for _ in range(140):
            writer.write(half)
    sizes = [one.size for one in world.another().vgetattrs(["small", "empty", "large"])]
    assert sizes == [5000, 0, 70 * MIB]


def test_a_failure_is_said_once_and_that_there_was_one_ever_after(client):
    client.close_file(client.create("b"))

    def fails(number, call, *arguments):
        with pytest.raises(kurma.Error) as failure:
            call(*arguments)
        assert failure.value.errno == number

    writer = client.writer(client.open("b"))
    writer.write(b"gathered")
    fails(errno.EBADF, writer.sync)
    fails(errno.EINVAL, writer.sync)
    fails(errno.EINVAL, writer.write, b"more")
    fails(errno.EINVAL, writer.close)

    descriptor = client.open("b")
    writer = client.writer(descriptor)
    writer.write(b"gathered")
    fails(errno.EBADF, writer.close)
    fails(errno.EBADF, client.close_file, descriptor)
    writer.close()

    writer = client.writer(client.create("c"), 2**63 - 2)
    fails(errno.EINVAL, writer.write, b"too far")
    writer.close()
    for call in [lambda: writer.write(b""), writer.sync]:
        with pytest.raises(ValueError, match="closed"):
            call()
    with pytest.raises(TypeError):
        client.writer(client.create("d")).write("text")


def test_a_file_is_closed_whatever_happens_and_the_first_error_is_raised(client):
    descriptor = client.create("a")
    with pytest.raises(ZeroDivisionError), client.writer(descriptor) as writer:
        writer.write(b"before")
        1 / 0
    assert client.read_files(["a"]) == [b"before"]
    with pytest.raises(OSError):
        client.close_file(descriptor)

    with pytest.raises(kurma.Error) as failure, client.writer(client.open("a")) as writer:
        writer.write(b"cannot")
        writer.sync()
    assert failure.value.errno == errno.EBADF
    with pytest.raises(kurma.Error) as failure, client.writer(client.open("a")) as writer:
        writer.write(b"cannot")
    assert failure.value.errno == errno.EBADF
    assert client.read_files(["a"]) == [b"before"]


def test_a_writer_that_is_dropped_goes_on(world, client):
    writer = client.writer(client.create("a"))
    writer.write(b"dropped")
    del writer
    other = world.another()
    while other.stat("a").size != 7:
        pass
    assert other.read_files(["a"]) == [b"dropped"]


def test_what_a_gateway_loses_when_it_is_killed_is_written_again(face, loop, restarting):
    everything = content(5 * MIB + 5)[: 5 * MIB + 5]
    with closing(World("nfs", face, restarting.place, loop)) as world:
        other = world.another()
        writer = world.client.writer(world.client.create("a"))
        writer.write(everything[: 3 * MIB])
        while other.stat("a").size != 3 * MIB:
            pass
        # As if it had never been written down.
        other.truncate("a", 7)
        restarting.stop()
        writer.write(everything[3 * MIB :])
        restarting.start()
        writer.close()
        assert other.read_files(["a"]) == [everything]


def test_tasks_write_in_the_order_of_their_calls_and_none_is_undone(back_end, place):
    pieces = [bytes([n]) * (MIB + n) for n in range(60)]

    async def main():
        opened = connected(back_end, place, kurma.aio.Client)
        async with opened as client:
            async with client.writer(await client.create("a")) as writer:
                assert await asyncio.gather(*map(writer.write, pieces)) == list(map(len, pieces))
            assert await client.read_files(["a"]) == [b"".join(pieces)]

            writer = client.writer(await client.create("b"))
            tasks = [asyncio.create_task(writer.write(piece)) for piece in pieces]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await writer.write(b"end")
            await writer.close()
            assert await client.read_files(["b"]) == [b"".join(pieces) + b"end"]

    asyncio.run(main())


def test_threads_share_a_writer(back_end, place):
    with connected(back_end, place) as client:
        writer = client.writer(client.create("log"))

        def record(number):
            for _ in range(20):
                writer.write(bytes([number]) * 50_000)
            writer.sync()

        at_once(*(functools.partial(record, number) for number in range(16)))
        writer.close()
        log = client.read_files(["log"])[0]
        records = [log[at : at + 50_000] for at in range(0, len(log), 50_000)]
        assert all(record == record[:1] * 50_000 for record in records)
        assert sorted(record[0] for record in records) == sorted(list(range(16)) * 20)
