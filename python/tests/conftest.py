"""Where the calls are tried: a gateway and a directory of this machine, each by the blocking client and the one for asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import itertools
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import tempfile
import types

import pytest

import kurma

ROOT = pathlib.Path(__file__).parents[2]
NUMBERS = itertools.count()


def free_port() -> int:
    """One that nobody has now. Below those that connections begin at, so that none takes it before the server does; by chance, so that
    tests side by side do not take the same."""
    while True:
        with contextlib.suppress(OSError):
            with socket.create_server(("127.0.0.1", random.randrange(10_240, 32_240))) as listener:
                return listener.getsockname()[1]


#: The gateway, unless KURMA names another program.
KURMA = os.environ.get("KURMA", str(ROOT / "target/debug/kurma"))


@contextlib.contextmanager
def running(command, data):
    """A server, while it is needed; where it is."""
    with open(f"{data}/log", "ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        for line in process.stdout:
            if line.startswith(b"ready"):
                break
        else:
            pytest.fail(pathlib.Path(data, "log").read_text()[-4000:])
        yield re.search(rb"nfs=(\S+)", line)[1].decode()
    finally:
        # Nobody wants its files any more, so it need not bring them to its clouds.
        process.kill()
        process.wait()
        process.stdout.close()


def gateway(data, nfs, admin):
    """A gateway, while it is needed."""
    return running([KURMA, "up", "--data", f"{data}/gateway", "--nfs", nfs, "--admin", admin], data)


@contextlib.contextmanager
def memory_server(operations=2048, room=1 << 50):
    """A server that takes so many operations at once, with room for so many bytes, while it is needed. MEMORY_SERVER names another program."""
    program = os.environ.get("MEMORY_SERVER", str(ROOT / "target/debug/examples/memory_server"))
    with folder() as data, running([program, "127.0.0.1:0", "90", "-", f"{operations}", f"{room}"], data) as nfs:
        yield nfs


@contextlib.contextmanager
def folder():
    """A folder that is not under those that pytest keeps."""
    data = tempfile.mkdtemp(prefix="kurma-python-")
    try:
        yield data
    finally:
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture(scope="session")
def server():
    """The address of a gateway that is ended with the tests."""
    with folder() as data:
        nfs = f"127.0.0.1:{free_port()}"
        with gateway(data, nfs, f"127.0.0.1:{free_port()}"):
            yield nfs


class Restarting:
    """A gateway that can be killed, and started again with what it has stored."""

    def __init__(self, data):
        self.data, self.nfs, self.admin = data, *(f"127.0.0.1:{free_port()}" for _ in range(2))
        self.place = f"nfs://{self.nfs}/home"
        self.process = contextlib.ExitStack()
        self.start()

    def start(self):
        self.process.enter_context(gateway(self.data, self.nfs, self.admin))

    def stop(self):
        self.process.close()

    def restart(self):
        self.stop()
        self.start()


@pytest.fixture
def restarting():
    with folder() as data:
        server = Restarting(data)
        yield server
        server.stop()


def known(call):
    """What comes of a call, which is made again as long as nobody knows whether it was done."""
    while True:
        try:
            return call()
        except kurma.Error as error:
            if not error.unknown:
                raise


def outcome(call):
    """What comes of a call: its result, or the number of its error."""
    try:
        return call()
    except kurma.Error as error:
        return error.errno


def at_once(*calls):
    """Makes these calls at the same time, each on a thread of its own."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as threads:
        for future in [threads.submit(call) for call in calls]:
            future.result()


def connected(back_end, place, kind=kurma.Client):
    """A client of files of either kind."""
    return kind.local(place) if back_end == "local" else kind.connect(place, uid=0, gid=0, groups=[])


class Driven:
    """The client for asyncio, each call run to its end on a loop of its own."""

    def __init__(self, client, loop):
        self._client, self._loop = client, loop

    def __getattr__(self, name):
        def call(*args, **kwargs):
            args = [argument._client if isinstance(argument, Driven) else argument for argument in args]
            result = getattr(self._client, name)(*args, **kwargs)
            if inspect.isasyncgen(result):
                return self._all(result)
            if inspect.isawaitable(result):
                return self._loop.run_until_complete(result)
            if name == "writer":
                return DrivenWriter(result, self._loop)
            return DrivenTransaction(result, self._loop) if name in ("batch", "transaction") else result

        return call

    def _all(self, generator):
        while True:
            try:
                yield self._loop.run_until_complete(generator.__anext__())
            except StopAsyncIteration:
                return


class DrivenTransaction:
    def __init__(self, transaction, loop):
        self._transaction, self._loop = transaction, loop

    def __getattr__(self, name):
        return getattr(self._transaction, name)

    def commit(self):
        return self._loop.run_until_complete(self._transaction.commit())

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self._loop.run_until_complete(self._transaction.__aexit__(*how))


class DrivenWriter:
    def __init__(self, writer, loop):
        self._writer, self._loop = writer, loop

    @property
    def position(self):
        return self._writer.position

    def write(self, data):
        return self._loop.run_until_complete(self._writer.write(data))

    def sync(self):
        return self._loop.run_until_complete(self._writer.sync())

    def close(self):
        return self._loop.run_until_complete(self._writer.close())

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self._loop.run_until_complete(self._writer.__aexit__(*how))


class World:
    """A client, and the files it has to itself."""

    def __init__(self, back_end, face, place, loop):
        self.back_end, self.face, self.place, self.loop = back_end, face, place, loop
        self.clients = []
        self.client = self.another()

    @property
    def is_nfs(self):
        return self.back_end == "nfs"

    @property
    def user(self):
        """Who makes the calls."""
        return 0 if self.is_nfs else os.getuid()

    def another(self, **options):
        """Another client of the same files."""
        if self.is_nfs:
            options = {"uid": 0, "gid": 0, "groups": [], **options}
            if self.face == "asyncio":
                client = self.loop.run_until_complete(_awaited(kurma.aio.Client.connect(self.place, **options)))
            else:
                client = kurma.Client.connect(self.place, **options)
        else:
            client = (kurma.aio.Client if self.face == "asyncio" else kurma.Client).local(self.place)
        client = Driven(client, self.loop) if self.face == "asyncio" else client
        self.clients.append(client)
        return client

    @contextlib.contextmanager
    def spending(self, client=None):
        """What is sent and received meanwhile, to be looked at afterwards."""
        client = client or self.client
        before, spent = client.statistics(), types.SimpleNamespace()
        yield spent
        for name, then, now in zip(before._fields, before, client.statistics()):
            setattr(spent, name, now - then)

    @contextlib.contextmanager
    def costing(self, round_trips):
        """What is done meanwhile sends as many requests, if there is a server to send any to."""
        with self.spending() as spent:
            yield
        assert spent.round_trips == (round_trips if self.is_nfs else 0), "round trips"

    def read(self, path):
        return self.client.read_files([path])[0]


async def _awaited(awaitable):
    return await awaitable


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def places(back_end, server, tmp_path):
    """A directory that is empty, as the clients name it."""
    if back_end == "local":
        return str(tmp_path)
    place = f"/home/{next(NUMBERS)}"
    with kurma.Client.connect(f"nfs://{server}", uid=0, gid=0, groups=[]) as client:
        client.mkdir(place)
        client.chmod(place, 0o777)
    return f"nfs://{server}{place}"


@pytest.fixture(params=["nfs", "local"])
def back_end(request):
    return request.param


@pytest.fixture
def place(back_end, server, tmp_path):
    return places(back_end, server, tmp_path)


@pytest.fixture
def nfs_place(server, tmp_path):
    return places("nfs", server, tmp_path)


@contextlib.contextmanager
def closing(world):
    yield world
    for client in world.clients:
        with contextlib.suppress(OSError):
            client.close()


@pytest.fixture(params=["blocking", "asyncio"])
def face(request):
    return request.param


@pytest.fixture
def world(face, back_end, place, loop):
    with closing(World(back_end, face, place, loop)) as world:
        yield world


@pytest.fixture
def client(world):
    return world.client


@pytest.fixture
def nfs_world(face, nfs_place, loop):
    with closing(World("nfs", face, nfs_place, loop)) as world:
        yield world


@pytest.fixture
def root():
    """For what only the superuser may do."""
    if os.getuid() != 0:
        pytest.skip("only the superuser")
