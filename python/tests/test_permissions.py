"""What an ordinary user may and may not do, and servers and clients that take little at once."""

import errno
import os
import stat
import traceback

import pytest
from conftest import World, closing, folder, memory_server

import kurma

from kurma import AttributeSet, Copy, HardLink, Open, Read, Remove, Rename, SetAttributes, Write
from kurma import MakeDirectory as Make

USER = 1000


def prepare(owner):
    owner.vmkdir([("open", 0o1777), ("others", 0o755), ("closed", 0o700)])
    for path, mode in [("others/secret", 0o600), ("others/known", 0o644), ("open/other", 0o644), ("closed/file", 0o666)]:
        owner.write_files({path: b"text"}, mode)
    owner.chmod("open", 0o1777)


def attempt(user):
    whole = {"truncate": True}
    attempts = [
        (Write("open/own", b"own", create=0o400, **whole), None),
        (Read("open/own", 0, 9), None),
        (Write("open/own", b"x"), errno.EACCES),
        (SetAttributes("open/own", mode=0o640), None),
        (SetAttributes("open/own", modified_ns=7), None),
        (SetAttributes("open/own", owner=0), errno.EPERM),
        (Read("others/known", 0, 9), None),
        (Read("others/secret", 0, 9), errno.EACCES),
        (Write("others/known", b"x"), errno.EACCES),
        (Write("others/new", b"x", create=0o600, **whole), errno.EACCES),
        (Make("others/new"), errno.EACCES),
        (Remove("others/known"), errno.EACCES),
        (Remove("open/other"), errno.EPERM),
        (Rename("open/own", "others/own"), errno.EACCES),
        (SetAttributes("others/known", mode=0o666), errno.EPERM),
        (SetAttributes("others/known", size=0), errno.EACCES),
        (SetAttributes("others/known", modified_ns=7), errno.EPERM),
        (SetAttributes("others/known", accessed_ns="now", modified_ns="now"), errno.EACCES),
        (Read("closed/file", 0, 9), errno.EACCES),
        (Remove("open/own"), None),
    ]
    for step, expected in attempts:
        # Each in a vector of its own: steps on the same file would share an open.
        (result,) = user.execute_each([step])
        assert getattr(result, "errno", None) == expected, step
        assert expected is None or isinstance(result, PermissionError)
    with pytest.raises(PermissionError) as failure:
        user.execute([Read("others/known", 0, 9), Read("others/known", 1, 9), Write("others/known", b"x")])
    assert (failure.value.index, failure.value.results) == (2, [b"text", b"ext"])
    with pytest.raises(PermissionError):
        user.listdir("closed")
    user.vwrite([Write("mine", b"x", create=0o600)])
    mine = user.stat("mine")
    assert (mine.owner, mine.mode) == (USER, 0o600)
    # Nothing of what is refused is done, and all of what is allowed.
    for target in ("mine", user.open("mine", write=True)):
        with pytest.raises(PermissionError) as failure:
            user.vsetattrs([SetAttributes(target, owner=0, size=0)])
        assert failure.value.errno == errno.EPERM and user.stat("mine").size == 1
        user.vsetattrs([SetAttributes(target, mode=0o4700, size=1)])
        assert user.stat("mine").mode == 0o4700


def test_what_is_forbidden_is_refused_for_the_right_reason(nfs_world):
    prepare(nfs_world.client)
    attempt(nfs_world.another(uid=USER, gid=USER, groups=[]))


def test_what_is_forbidden_on_this_machine_is_refused_for_the_same_reason(root):
    with folder() as place:
        os.chmod(place, 0o777)
        prepare(kurma.Client.local(place))
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(USER, USER, USER)
                os.setresuid(USER, USER, USER)
                attempt(kurma.Client.local(place))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("operations", [6, 8, 12, 30])
def test_a_server_that_takes_few_operations_at_once_gives_the_same_results(operations, face, loop):
    with memory_server(operations) as server, closing(World("nfs", face, f"nfs://{server}/home", loop)) as world:
        client, deep = world.client, "d/d/d/d/d/d/d"
        client.vmkdir(deep[: 2 * depth - 1] for depth in range(1, 8))
        client.write_files({f"{deep}/{n}": f"{n}".encode() for n in range(20)})
        client.symlink(deep, "link")
        client.execute(
            [
                Copy(f"{deep}/1", "copy"),
                Rename(f"{deep}/2", "d/renamed"),
                HardLink(f"{deep}/3", "link/hard"),
                SetAttributes(f"{deep}/4", size=5),
                Remove(f"{deep}/5"),
            ]
        )
        read = client.read_files(["copy", "d/renamed", "link/hard", "link/4", "link/7"])
        assert read == [b"1", b"2", b"3", b"4\0\0\0\0", b"7"]
        assert len(list(client.vlistdir(["."], AttributeSet.SIZE, recursive=True))) == 2 + 7 + 1 + 19


def test_a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts(face, loop):
    with memory_server(16) as server, closing(World("nfs", face, f"nfs://{server}/home", loop)) as world:
        client = world.client
        client.vmkdir("/".join("d" * depth) for depth in range(1, 30))
        client.vsymlink([("link", "d/" * 28), ("loop", "loop/on")])
        assert [entry.name for entry in client.listdir("link")] == ["d"]
        with pytest.raises(OSError) as failure:
            client.listdir("loop")
        assert failure.value.errno == errno.ELOOP


@pytest.mark.parametrize(
    "little",
    [{"message_bytes": 64 << 10, "transfer": 16 << 10}, {"slots": 1}, {"connections": 3}, {"extensions": False}, {"minor_versions": [1]}],
    ids=lambda little: next(iter(little)),
)
def test_clients_that_ask_for_little_get_the_same_results(nfs_world, little):
    client = nfs_world.another(**little)
    client.ensure_directory("d/d/d/d")
    data = bytes(range(256)) * 2000
    client.write_files({f"d/d/d/d/{n}": data[n:] for n in range(20)})
    client.vsymlink([("link", "d/d/d/d")])
    client.execute([Rename("link/1", "d/renamed"), SetAttributes("link/2", size=5), Remove("link/3")])
    assert client.read_files(["d/renamed", "link/2", "link/19"]) == [data[1:], data[2:7], data[19:]]
    assert len(list(client.vlistdir(["."], recursive=True))) == 4 + 1 + 1 + 18
    if little == {"minor_versions": [1]}:
        with pytest.raises(OSError):
            client.vsscopy([("link/4", "copy")])
        client.vcopy([("link/4", "copy")])
    else:
        client.vsscopy([Copy("link/4", "copy")])
    assert client.read_files(["copy"]) == [data[4:]]


def test_only_what_is_in_regular_files_can_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    client = kurma.Client.local(tmp_path)
    for step in (Read("pipe", 0, 9), Write("pipe", b"x"), Open("pipe"), SetAttributes("pipe", size=0)):
        with pytest.raises(OSError) as failure:
            client.execute([step])
        assert failure.value.errno == errno.EINVAL
    with pytest.raises(IsADirectoryError):
        client.vread([(".", 0, 9)])
    assert client.stat("pipe").kind == kurma.Kind.FIFO
    client.chmod("pipe", 0o644)
    assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0o644
    client.vremove(["pipe"])


def test_nothing_leads_out_of_a_local_directory(tmp_path):
    (tmp_path / "outside").write_bytes(b"outside")
    (tmp_path / "root").mkdir()
    client = kurma.Client.local(tmp_path / "root")
    client.symlink("/../../outside", "absolute")
    for path in ("../outside", "absolute", "/../../outside"):
        assert not client.exists(path)
    client.mkdir("home")
    client.write_files({"secret": b"inside"})
    client.vsymlink([("home/absolute", "/secret"), ("home/up", "../../../../secret"), ("home/top", "/")])
    paths = ["/../../secret", "home/absolute", "home/up", "home/top/secret", "home/../../secret", "home/top/../../secret"]
    assert client.read_files(paths) == [b"inside"] * len(paths)


def test_the_whole_machine_is_what_everybody_sees(tmp_path):
    with kurma.Client.local("/") as machine:
        machine.write_files({tmp_path / "file": b"there"})
        assert (tmp_path / "file").read_bytes() == b"there"
        # A file that does not say how long it is.
        ((status, is_all),) = machine.vread([Read("/proc/self/status", 0, 1 << 20, with_end=True)])
        assert len(status) > 100 and is_all
    with pytest.raises(NotADirectoryError):
        kurma.Client.local(tmp_path / "file")


@pytest.fixture
def strict_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.parametrize("mode", [0o666, 0o777, 0o7777, 0o2755, 0o200, 0], ids=oct)
def test_new_files_have_exactly_the_permission_bits_that_were_asked_for(tmp_path, strict_umask, mode):
    client = kurma.Client.local(tmp_path)
    client.write_files({"file": b"x"}, mode)
    client.mkdir("directory", mode)
    for name in ("file", "directory"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    with pytest.raises(OSError) as failure:
        client.mkdir("other", 0o10000)
    assert failure.value.errno == errno.EINVAL
