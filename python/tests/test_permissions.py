"""What an ordinary user may and may not do, and servers and clients that take little at once."""

import errno
import stat

import pytest

from kurma import Copy, Open, Read, Remove, Rename, SetAttributes, Write
from kurma import MakeDirectory as Make

USER = 1000


@pytest.fixture
def user(nfs_world):
    owner = nfs_world.client
    owner.vmkdir([("open", 0o1777), ("others", 0o755), ("closed", 0o700)])
    for path, mode in [("others/secret", 0o600), ("others/known", 0o644), ("open/other", 0o644), ("closed/file", 0o666)]:
        owner.write_files({path: b"text"}, mode)
    owner.chmod("open", 0o1777)
    return nfs_world.another(uid=USER, gid=USER, groups=[])


def test_what_is_forbidden_is_refused_for_the_right_reason(user):
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
    import os

    import kurma

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
    import kurma

    (tmp_path / "outside").write_bytes(b"outside")
    (tmp_path / "root").mkdir()
    client = kurma.Client.local(tmp_path / "root")
    client.symlink("/../../outside", "absolute")
    for path in ("../outside", "absolute", "/../../outside"):
        assert not client.exists(path)
