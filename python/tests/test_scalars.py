"""One file at a time, as in POSIX."""

import asyncio
import errno
import os

import pytest
from conftest import at_once, connected

import kurma
from kurma import Kind


def test_a_posix_program_runs_after_renaming_calls(world, client):
    client.mkdir("d")
    file = client.create("d/f", 0o640)
    assert client.write(file, b"hello ") == 6
    assert client.write(file, bytearray(b"world")) == 5
    client.fsync(file)
    assert client.lseek(file, 4) == 4
    assert client.read(file, 3) == b"o w"
    assert client.read(file, 99) == b"orld"
    assert client.read(file, 99) == b""
    assert client.pread(file, 0, 5) == b"hello"
    assert client.lseek(file, 0, os.SEEK_CUR) == 11
    assert client.lseek(file, -1, os.SEEK_END) == 10
    client.pwrite(file, 0, b"J")
    client.append(file, b"!")
    assert client.read(file, 99) == b"d!"
    with pytest.raises(OSError) as failure:
        client.lseek(file, -99, os.SEEK_CUR)
    assert failure.value.errno == errno.EINVAL
    with pytest.raises(ValueError):
        client.lseek(file, -1)
    assert client.fstat(file).size == 12
    client.truncate(file, 5)
    client.close_file(file)
    with pytest.raises(OSError) as failure:
        client.read(file, 1)
    assert failure.value.errno == errno.EBADF

    client.symlink("f", "d/s")
    assert client.readlink("d/s") == "f"
    assert client.lstat("d/s").kind == Kind.SYMBOLIC_LINK
    assert client.stat("d/s").size == 5
    client.link("d/f", "d/g")
    assert client.stat("d/f").links == 2
    client.rename("d/g", "d/h")
    assert not client.exists("d/g")
    client.chmod("d/s", 0o600)
    client.truncate("d/f", 2)
    client.utime("d/f", modified_ns=1234_000_005_000)
    stat = client.stat("d/f")
    assert (stat.mode, stat.size, stat.modified_ns) == (0o600, 2, 1234_000_005_000)
    client.chown("d/f", owner=world.user)
    assert sorted(entry.name for entry in client.listdir("d")) == ["f", "h", "s"]
    for name in ("d/f", "d/h", "d/s"):
        client.unlink(name)
    client.rmdir("d")
    assert not client.exists("d")


def test_calls_fail_as_posix_says(client):
    client.mkdir("d")
    client.close_file(client.create("f"))
    for expected, call in [
        (IsADirectoryError, lambda: client.unlink("d")),
        (NotADirectoryError, lambda: client.rmdir("f")),
        (FileNotFoundError, lambda: client.unlink("none")),
        (FileExistsError, lambda: client.mkdir("f")),
        (FileNotFoundError, lambda: client.truncate("none", 0)),
        (FileExistsError, lambda: client.open("f", write=True, create=0o644, exclusive=True)),
    ]:
        with pytest.raises(expected) as failure:
            call()
        assert failure.value.strerror == os.strerror(failure.value.errno)
    assert client.exists("d") and client.exists("f")


def test_readers_of_one_descriptor_never_get_the_same_bytes(back_end, place):
    with connected(back_end, place) as client:
        file, got = client.create("f"), []
        client.pwrite(file, 0, bytes(range(256)))
        at_once(*([lambda: got.append(client.read(file, 8))] * 32))
        assert sorted(b"".join(got)) == list(range(256))


def test_tasks_that_read_one_descriptor_never_get_the_same_bytes(back_end, place):
    async def main():
        opened = connected(back_end, place, kurma.aio.Client)
        async with opened as client:
            file = await client.create("f")
            await client.pwrite(file, 0, bytes(range(256)))
            got = await asyncio.gather(*(client.read(file, 8) for _ in range(32)))
            assert sorted(b"".join(got)) == list(range(256))

    asyncio.run(main())
