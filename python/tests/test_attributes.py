"""Attributes."""

import os

import pytest

from kurma import AttributeSet, Kind, SetAttributes, Write


def test_attributes_of_250_files_come_in_one_round_trip_and_only_those_wanted(world, client):
    client.vwrite(Write(f"{n}", bytes(n), create=0o640) for n in range(250))
    with world.costing(1):
        got = client.vgetattrs([f"{n}" for n in range(250)], AttributeSet.SIZE | AttributeSet.MODE)
    assert (got[249].size, got[249].mode, got[249].kind) == (249, 0o640, None)
    everything = client.stat("3")
    assert (everything.kind, everything.links, everything.owner) == (Kind.FILE, 1, world.user)
    assert everything.modified_ns > 10**18


def test_mode_owner_times_and_size_of_100_files_are_set_in_one_round_trip(world, client):
    client.write_files({f"{n}": b"long enough" for n in range(100)})
    time = 1_000_000_000_000_000_005
    owner, group = (1000, 1001) if world.user == 0 else (os.getuid(), None)
    with world.costing(1):
        client.vsetattrs(
            SetAttributes(
                f"{n}", mode=0o600, owner=owner, group=group, size=4, accessed_ns="now", modified_ns=time
            )
            for n in range(100)
        )
    got = client.stat("99")
    assert (got.mode, got.size, got.modified_ns, got.owner) == (0o600, 4, time, owner)
    assert group is None or got.group == group


def test_times_before_1970_are_those(world, client):
    client.write_files({"a": b""})
    client.utime("a", modified_ns=-1)
    assert client.stat("a").modified_ns == -1


def test_links_are_followed_or_not_as_asked(client):
    client.vsymlink([("link", "to"), ("to", "0")])
    client.write_files({"0": b"x"})
    own = client.lstat("link")
    assert (own.kind, own.size) == (Kind.SYMBOLIC_LINK, 2)
    wanted = AttributeSet.KIND | AttributeSet.SIZE
    one, other = client.vgetattrs(["link", "0"], wanted)
    assert one == other and (one.kind, one.size) == (Kind.FILE, 1)
    client.chmod("link", 0o604)
    assert client.stat("0").mode == 0o604
    client.vsetattrs([SetAttributes("link", modified_ns=7 * 10**9, follow=False)])
    assert client.lstat("link").modified_ns == 7 * 10**9
    assert client.stat("0").modified_ns > 10**18


def test_what_makes_no_sense_is_refused(client):
    with pytest.raises(ValueError):
        SetAttributes("a", modified_ns="yesterday")
    with pytest.raises(TypeError):
        SetAttributes("a", modified_ns=1.5)
    with pytest.raises(OverflowError):
        SetAttributes("a", mode=-1)
