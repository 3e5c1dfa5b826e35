"""Connections, threads, signals, forks, servers that are gone; and what is of asyncio alone."""

import asyncio
import functools
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading

import pytest

from conftest import at_once, connected

import kurma
from kurma import APPEND, Read, Write


def test_urls_say_where_relative_paths_begin(server, nfs_place):
    place = nfs_place.split(server)[1]
    with kurma.Client.connect(f"{nfs_place}/", uid=0, gid=0) as client:
        client.write_files({"100% ä": b"here", f"{place}/absolute": b"there"})
    encoded = "/%31".join(["", "00%25%20%C3%A4"]).replace("/", "", 1)
    with kurma.Client.connect(f"nfs://{server}/%68ome", uid=0, gid=0) as client:
        relative = place.removeprefix("/home/")
        assert client.read_files([f"{relative}/100% ä", f"{relative}/absolute"]) == [b"here", b"there"]
    assert encoded == "%3100%25%20%C3%A4"


@pytest.mark.parametrize("url", ["http://host/", "nfs:///home", "nfs://host:x/", "/home", "nfs://me@host/", "nfs://h/a?b"])
def test_wrong_urls_are_refused(url):
    with pytest.raises(ValueError):
        kurma.Client.connect(url)


def test_wrong_options_are_refused():
    with pytest.raises(TypeError, match="colour"):
        kurma.Client.connect("nfs://127.0.0.1", colour="red")
    with pytest.raises(ValueError):
        kurma.Client.connect("nfs://127.0.0.1", timeout=-1)
    with pytest.raises(ValueError, match="tls"):
        kurma.Client.connect("nfs://127.0.0.1", tls=b"no certificate")


def test_requests_are_made_as_whom_the_options_say(nfs_place):
    with kurma.Client.connect(nfs_place, uid=1000, gid=1001, groups=[7]) as client:
        client.vwrite([Write("mine", b"x", create=0o600)])
        mine = client.stat("mine")
    assert (mine.owner, mine.group) == (1000, 1001)
    with kurma.Client.connect(nfs_place, uid=2000, gid=2000, groups=[]) as other:
        with pytest.raises(PermissionError) as failure:
            other.read_files(["mine"])
        assert failure.value.index == 0


def test_many_threads_share_a_client(place, back_end):
    client = connected(back_end, place)

    def work(thread):
        for round in range(20):
            line = f"{thread:02} {round:02}\n".encode()
            own = Write(f"{thread}", line, create=0o600, truncate=True)
            client.vwrite([Write("log", line, APPEND, create=0o600), own])
            assert client.read_files([f"{thread}"]) == [line]

    at_once(*(functools.partial(work, thread) for thread in range(16)))
    lines = client.read_files(["log"])[0].decode().splitlines()
    assert sorted(lines) == [f"{thread:02} {round:02}" for thread in range(16) for round in range(20)]
    client.close()


class Silent:
    """A server that takes connections and says nothing. It runs in Python, so only while others wait without its lock."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nfs://127.0.0.1:{self.listener.getsockname()[1]}"
        self.asked = threading.Event()
        self.thread = threading.Thread(target=self._take, daemon=True)
        self.thread.start()

    def _take(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                if connection.recv(1):
                    self.asked.set()
        except OSError:
            return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def test_others_run_while_a_call_waits():
    with Silent() as silent:
        with pytest.raises(OSError):
            kurma.Client.connect(silent.url, patience=0.5, timeout=0.2, connect_timeout=0.2)
        assert silent.asked.is_set()


def test_a_signal_ends_the_waiting():
    def interrupt():
        silent.asked.wait()
        signal.raise_signal(signal.SIGINT)

    # Who starts the tests in the background may have it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Silent() as silent:
            helper = threading.Thread(target=interrupt)
            helper.start()
            with pytest.raises(KeyboardInterrupt):
                kurma.Client.connect(silent.url)
            helper.join()
    finally:
        signal.signal(signal.SIGINT, before)


class Between:
    """Between a client and a server: all is passed on until the answers are lost."""

    def __init__(self, server):
        host, _, port = server.rpartition(":")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.server = (host, int(port))
        self.lost = False
        self.sockets = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        try:
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.server)
                self.sockets += [client, server]
                for here, there, answers in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(here, there, answers), daemon=True).start()
        except OSError:
            return

    def _pass(self, here, there, answers):
        try:
            while data := here.recv(1 << 16):
                if answers and self.lost:
                    self.close()
                    return
                there.sendall(data)
        except OSError:
            return

    def close(self):
        for one in [self.listener, *self.sockets]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_lost_answer_is_told_and_nothing_is_done_twice(server, nfs_place):
    between = Between(server)
    place = nfs_place.replace(server, f"127.0.0.1:{between.port}")
    client = kurma.Client.connect(place, uid=0, gid=0, patience=1, timeout=0.5)
    client.vwrite([Write("log", b"first ", create=0o600)])
    between.lost = True
    with pytest.raises(kurma.Error) as failure:
        client.vwrite([Write("log", b"second", APPEND), Write("log", b"third", APPEND)])
    assert (failure.value.index, failure.value.unknown) == (0, 2)
    with kurma.Client.connect(nfs_place, uid=0, gid=0) as other:
        assert other.read_files(["log"]) == [b"first secondthird"]


def test_errors_survive_pickling(tmp_path):
    client = kurma.Client.local(tmp_path)
    with pytest.raises(FileNotFoundError) as failure:
        client.vread([("none", 0, 1)])
    again = pickle.loads(pickle.dumps(failure.value))
    assert type(again) is type(failure.value) and isinstance(again, kurma.Error)
    assert (again.errno, again.filename, again.index) == (2, "none", 0)


def test_a_client_of_the_process_before_a_fork_says_so_and_a_new_one_works(tmp_path):
    client = kurma.Client.local(tmp_path)
    client.write_files({"a": b"parent"})
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                client.read_files(["a"])
            except RuntimeError:
                if kurma.Client.local(tmp_path).read_files(["a"]) == [b"parent"]:
                    status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.read_files(["a"]) == [b"parent"]


def test_programs_end_while_calls_are_under_way(tmp_path):
    program = """
import asyncio, kurma, sys
async def main():
    client = kurma.aio.Client.local(sys.argv[1])
    steps = [kurma.Write(f"{n}", bytes(1 << 16), create=0o600) for n in range(500)]
    tasks = [asyncio.create_task(client.execute(steps)) for _ in range(8)]
    await asyncio.sleep(0)
    print("under way")
    return tasks
loop = asyncio.new_event_loop()
tasks = loop.run_until_complete(main())
"""
    ended = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", program, str(tmp_path)], capture_output=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, b"under way\n")


def test_many_calls_of_asyncio_run_at_once(tmp_path):
    async def main():
        client = kurma.aio.Client.local(tmp_path)
        names = [f"{n}" for n in range(200)]
        await asyncio.gather(*(client.write_files({name: name.encode()}) for name in names))
        read = await asyncio.gather(*(client.read_files([name]) for name in names))
        assert [data for (data,) in read] == [name.encode() for name in names]

    asyncio.run(main())


def test_the_loop_goes_on_while_a_call_waits_and_a_call_can_be_cancelled():
    async def main():
        with Silent() as silent:
            connecting = asyncio.create_task(_connect(silent.url))
            while not silent.asked.is_set():
                await asyncio.sleep(0)
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting

    async def _connect(url):
        return await kurma.aio.Client.connect(url)

    asyncio.run(main())


def test_a_call_that_nobody_waits_for_any_more_is_done_all_the_same(tmp_path):
    async def main():
        client = kurma.aio.Client.local(tmp_path)
        steps = [Write(f"{n}", b"x", create=0o600) for n in range(300)]
        task = asyncio.create_task(client.execute(steps))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not await client.exists("299"):
            await asyncio.sleep(0)

    asyncio.run(main())


def test_clients_of_asyncio_are_contexts(nfs_place):
    async def main():
        async with kurma.aio.Client.connect(nfs_place, uid=0, gid=0) as client:
            async with client.transaction() as t:
                t.mkdir("d")
                t.write_file("d/a", b"x")
            names = [entry.name async for entry in client.vlistdir(["."], recursive=True)]
            assert names == ["d", "a"]
        with pytest.raises(OSError):
            await client.stat("d")

    asyncio.run(main())


def test_a_reading_call_leaves_one_piece_of_memory(tmp_path):
    client = kurma.Client.local(tmp_path)
    client.write_files({"a": b"0123456789"})
    view = memoryview(bytearray(6)).cast("H")
    assert client.vread([Read("a", 2, into=view)]) == [6]
    assert bytes(view) == b"234567"
