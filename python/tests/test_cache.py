"""What was read before: what reading it again costs, and that it is never anything but what is there."""

import errno
import random

import pytest
from conftest import outcome

from kurma import Copy, Error, Open, Read, SetAttributes, Write

#: Bytes of messages without any content of files.
NO_PAYLOAD = 1024


def content(length, seed):
    return (bytes(range(251)) * (length // 251 + 2))[seed : seed + length]


@pytest.mark.parametrize("length", [0, 1, 10_000, 1 << 20, (9 << 20) + 5])
def test_an_unchanged_file_is_read_again_in_one_round_trip_without_its_content(nfs_world, length):
    client, data = nfs_world.client, content(length, 1)
    client.write_files({"a": data})
    assert client.vread(["a"]) == [data]
    for wanted in (None, max(length, 1), length + 10):
        with nfs_world.spending() as spent:
            assert client.vread([Read("a", 0, wanted, with_end=True)]) == [(data, True)]
        assert spent.round_trips == 1 and spent.bytes_in < NO_PAYLOAD


def test_a_path_that_is_believed_costs_nothing_until_the_file_changes(nfs_world):
    client, other = nfs_world.another(entry_timeout=30), nfs_world.another()
    for change in range(1, 4):
        other.write_files({f"{change}": b"one"})
        assert client.vread([(f"{change}", 0, 10)]) == [b"one"]
        before = client.statistics()
        for _ in range(3):
            assert client.vread([(f"{change}", 0, 10)]) == [b"one"]
        assert client.statistics().round_trips == before.round_trips
        other.vwrite([Write(f"{change}", b"two")])
        assert client.vread([(f"{change}", 0, 10)]) == [b"two"]
        other.unlink(f"{change}")
        with pytest.raises(FileNotFoundError):
            client.vread([(f"{change}", 0, 10)])


def test_what_another_client_has_changed_comes_in_the_same_round_trip(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    other.write_files({"a": content(5000, 1)})
    assert client.vread(["a"]) == [content(5000, 1)]
    for change in range(2, 5):
        other.vwrite([Write("a", content(5000, change))])
        with nfs_world.costing(1):
            assert client.vread([("a", 0, 5000)]) == [content(5000, change)]


def test_a_long_file_that_was_changed_is_read_anew_whole(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    for change in range(1, 4):
        data = content((6 << 20) + 3, change)
        other.write_files({"a": data})
        assert client.vread(["a"]) == [data]
        assert client.vread(["a"]) == [data]


def test_of_many_files_those_that_were_changed_cost_one_round_trip_more(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    old, new, names = content(4096, 1), content(4096, 2), [f"{n}" for n in range(256)]
    reads = [Read(name, 0, 4096) for name in names]
    other.write_files({name: old for name in names})
    with nfs_world.costing(1):
        client.vread(reads)
    with nfs_world.costing(1), nfs_world.spending() as spent:
        assert client.vread(reads) == [old] * 256
    assert spent.bytes_in < 256 * 256
    for changed in (["7"], ["0", "1", "100", "255"], names):
        other.vwrite(Write(name, new) for name in changed)
        with nfs_world.costing(2):
            assert client.vread(reads) == [new if name in changed else old for name in names]
        other.vwrite(Write(name, old) for name in changed)
        client.vread(reads)


def test_of_more_files_than_one_request_holds_those_that_were_changed_cost_one_round_more(nfs_world):
    client, other = nfs_world.client, nfs_world.another()
    reads, changed = [Read(f"{n}", 0, 100) for n in range(600)], [3, 250, 300, 301, 511, 512, 599]
    other.write_files({f"{n}": b"1" for n in range(600)})
    client.vread(reads)
    with nfs_world.costing(3):
        client.vread(reads)
    other.vwrite(Write(f"{n}", b"2") for n in changed)
    with nfs_world.spending() as spent:
        assert client.vread(reads) == [b"2" if n in changed else b"1" for n in range(600)]
    assert spent.round_trips <= 6


@pytest.mark.parametrize(("count", "expected"), [(2, 2), (256, 2), (257, 4)])
def test_of_many_files_that_were_changed_the_content_of_the_last_comes_once(nfs_world, count, expected):
    client, other, last = nfs_world.client, nfs_world.another(), 500_000
    lengths = [1] * (count - 1) + [last]
    reads = [Read(f"{n}", 0, length) for n, length in enumerate(lengths)]
    for change in (1, 2):
        data = [content(length, change) for length in lengths]
        other.write_files({f"{n}": data[n] for n in range(count)})
        with nfs_world.spending() as spent:
            assert client.vread(reads) == data
    assert (spent.round_trips, spent.bytes_in // last) == (expected, 1)


def test_a_name_that_leads_elsewhere_is_never_the_file_it_led_to(world, client):
    other = world.another()
    client.write_files({"a": b"was a", "b": b"was b"})
    for _ in range(2):
        assert client.vread("ab") == [b"was a", b"was b"]
    other.rename("b", "a")
    assert client.vread("a") == [b"was b"]
    with pytest.raises(FileNotFoundError) as failure:
        client.vread("ab")
    assert failure.value.index == 1
    other.rename("a", "c")
    other.symlink("c", "a")
    assert client.vread("a") == client.vread("a") == [b"was b"]
    with pytest.raises(OSError) as failure:
        client.vread([Read("a", follow=False)])
    assert failure.value.errno == errno.ELOOP
    other.unlink("a")
    other.mkdir("a")
    with pytest.raises(IsADirectoryError):
        client.vread("a")


def test_what_must_not_be_read_any_more_is_not_read(nfs_world):
    user = nfs_world.another(uid=1000, gid=1000)
    nfs_world.client.write_files({"a": b"secret"})
    assert user.vread(["a"]) == [b"secret"]
    nfs_world.client.chmod("a", 0o600)
    for _ in range(2):
        with pytest.raises(PermissionError):
            user.vread(["a"])


def test_a_vector_that_changes_a_file_reads_it_as_it_is_at_that_place(client):
    client.write_files({"a": b"one"})
    assert client.vread(["a"]) == [b"one"]
    assert client.execute([Read("a"), Write("a", b"two"), Read("a")]) == [b"one", 3, b"two"]


def test_what_is_open_for_writing_alone_is_not_read_from_memory_either(nfs_world):
    client, forgetful = nfs_world.client, nfs_world.another(cache_bytes=0)
    client.write_files({"a": b"one"})

    def read(one):
        (only,) = one.vopen([Open("a", read=False, write=True)])
        return outcome(lambda: one.pread(only, 0, 10))

    both = client.open("a", write=True)
    assert client.pread(both, 0, 10) == b"one"
    assert read(client) == read(forgetful)
    client.close_file(both)
    with pytest.raises(Error) as failure:
        client.pread(both, 0, 10)
    assert failure.value.errno == errno.EBADF


def test_a_file_longer_than_the_memory_is_read_as_it_is(nfs_world):
    client = nfs_world.another(cache_bytes=3 << 20)
    for change in (1, 2):
        data = content(8 << 20, change)
        nfs_world.client.write_files({"a": data})
        for _ in range(3):
            assert client.vread(["a"]) == [data]


def test_own_changes_are_seen_however_the_file_is_named(world, client):
    client.write_files({"a": b"0123456789"})
    client.link("a", "b")
    file = client.open("a", write=True)
    changes = [
        (lambda: None, b"0123456789"),
        (lambda: client.vwrite([Write("b", b"x", 1)]), b"0x23456789"),
        (lambda: client.pwrite(file, 2, b"y"), b"0xy3456789"),
        (lambda: client.truncate("b", 4), b"0xy3"),
        (lambda: client.vsetattrs([SetAttributes(file, size=6)]), b"0xy3\0\0"),
        (lambda: client.vsscopy([("a", "c")]), b"0xy3\0\0"),
        (lambda: client.vwrite([Write("c", b"C")]), b"0xy3\0\0"),
        (lambda: client.vsscopy([Copy("c", "b", create=None, truncate=False)]), b"Cxy3\0\0"),
    ]
    for change, expected in changes:
        change()
        assert [client.pread(file, 0, 100), *client.vread("ab")] == [expected] * 3
    if world.is_nfs:
        with client.transaction() as t:
            t.write("b", b"T")
        assert [client.pread(file, 0, 100), *client.vread("ab")] == [b"Txy3\0\0"] * 3


@pytest.mark.parametrize("seed", range(4))
def test_clients_that_keep_what_they_read_read_what_is_there(nfs_world, seed):
    numbers = random.Random(seed)
    # The last one keeps nothing.
    timeout = 600 * (seed % 2)
    clients = [nfs_world.another(cache_bytes=memory, entry_timeout=timeout) for memory in (64 << 20, 4 << 10, 0)]
    last, opened = clients[-1], []
    by_path = by_descriptor = 0
    for _ in range(1000):
        who = numbers.randrange(3)
        client, act = clients[who], numbers.randrange(16)
        name, other, number = numbers.choice("abc"), numbers.choice("abc"), numbers.randrange(4)
        offset, text = numbers.randrange(40), numbers.randbytes(numbers.randrange(1, 30))
        if act == 0:
            client.vwrite([Write(name, text, offset, create=0o600, truncate=numbers.random() < 0.3)])
        elif act == 1:
            outcome(lambda: client.truncate(name, offset))
        elif act == 2:
            outcome(lambda: client.rename(name, other))
        elif act == 3:
            outcome(lambda: client.unlink(name))
        elif act == 4:
            outcome(lambda: client.link(name, other))
        elif act == 5 and client.exists(name):
            # Reads only, mostly: for more, nothing is delegated.
            opened.append((client, client.open(name, write=who == 0), last.open(name)))
        elif act < 10:
            reads = [Read(name, offset, 50, with_end=True)]
            told = [outcome(lambda: one.vread(reads)) for one in clients]
            assert told == told[-1:] * 3
            by_path += isinstance(told[0], list)
        elif number < len(opened):
            client, file, same = opened[number]
            if act == 10:
                outcome(lambda: client.pwrite(file, offset, text))
            elif act == 11:
                del opened[number]
                client.close_file(file)
                last.close_file(same)
            else:
                assert client.pread(file, offset, 50) == last.pread(same, offset, 50)
                by_descriptor += 1
    assert by_path > 50 and by_descriptor > 50
