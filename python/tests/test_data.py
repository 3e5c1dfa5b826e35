"""Reading and writing."""

import errno
import functools
import os

import pytest
from conftest import at_once, connected

from kurma import APPEND, Copy, Error, GetAttributes, Read, Remove, Rename, Write


def whole(n):
    return Write(f"file-{n}", f"content {n}".encode(), create=0o644, truncate=True)


def test_many_files_are_made_written_and_read_in_one_round_trip_each(world, client):
    with world.costing(1):
        assert client.vwrite(whole(n) for n in range(50))[0] == 9
    with world.costing(1):
        data = client.vread(Read(f"file-{n}", 0, 100, with_end=True) for n in range(50))
    assert data == [(f"content {n}".encode(), True) for n in range(50)]


def test_whole_files_of_unknown_size_take_two_round_trips(world, client):
    client.write_files({f"file-{n}": b"x" * n for n in range(100)})
    with world.costing(2):
        assert client.read_files(f"file-{n}" for n in range(100)) == [b"x" * n for n in range(100)]


def test_two_reads_of_one_path_share_an_open(nfs_world):
    client = nfs_world.client
    client.vwrite([whole(0)])
    before = client.statistics().operations
    assert client.vread([("file-0", 0, 3), ("file-0", 4, 3)]) == [b"con", b"ent"]
    # PUTROOTFH, three LOOKUPs less the last one, OPEN, GETATTR, READ, GETATTR, READ, CLOSE: what is kept needs a label.
    assert client.statistics().operations - before == 9


def test_what_was_read_is_kept_in_as_much_memory_as_is_said(nfs_world):
    content = os.urandom(100_000)
    nfs_world.client.write_files({"a": content})
    for cache_bytes, is_kept in [(None, True), (16 << 20, True), (1 << 62, True), (50_000, False), (0, False)]:
        client = nfs_world.another(**({} if cache_bytes is None else {"cache_bytes": cache_bytes}))
        assert client.vread([("a", 0, 100_000)]) == [content]
        before = client.statistics()
        assert client.vread([("a", 0, 100_000)]) == [content]
        after = client.statistics()
        assert after.round_trips - before.round_trips == 1
        assert (after.bytes_in - before.bytes_in < 1000) == is_kept, cache_bytes


def test_a_file_may_be_written_and_read_in_one_vector(world, client):
    with world.costing(1):
        done = client.execute([whole(1), Read("file-1", 0, 9), Write("file-1", b"XX", 2), Read("file-1", 0, 100)])
    assert done == [9, b"content 1", 2, b"coXXent 1"]


def test_every_buffer_can_be_written_and_read_into(client):
    import array

    numbers = array.array("I", [1, 2, 3])
    buffers = [bytearray(b"one"), memoryview(b"-two-")[1:4], numbers, b"four", memoryview(b"abcdef")[::2]]
    client.vwrite(Write(f"{n}", buffer, create=0o600) for n, buffer in enumerate(buffers))
    assert client.read_files("014") == [b"one", b"two", b"ace"]
    again, part = array.array("I", [0] * 4), bytearray(b"......")
    reads = [Read("2", into=again), Read("3", 1, 2, into=memoryview(part)[2:])]
    assert client.vread(reads) == [12, 2]
    assert (again.tolist(), part) == ([1, 2, 3, 0], b"..ou..")
    with pytest.raises(TypeError):
        Read("3", into=b"cannot be written")
    with pytest.raises(TypeError):
        Write("3", "no bytes")


def test_a_buffer_that_changes_after_the_step_was_made_does_no_harm(client):
    buffer = bytearray(b"before")
    write = Write("a", buffer, create=0o600)
    buffer[:] = b"after!"
    client.vwrite([write])
    assert client.read_files(["a"]) == [b"before"]


def test_the_third_of_five_fails_and_the_rest_is_untouched(client):
    writes = [whole(n) for n in range(5)]
    writes[2] = Write("file-2", b"x")
    with pytest.raises(FileNotFoundError) as failure:
        client.vwrite(writes)
    error = failure.value
    assert (error.index, error.done, error.results, error.unknown) == (2, 2, [9, 9], 0)
    assert error.errno == errno.ENOENT and error.filename.endswith("file-2")
    assert [client.exists(f"file-{n}") for n in range(5)] == [True, True, False, False, False]


def test_an_exclusive_creation_of_an_existing_file_fails(client):
    write = Write("file-0", b"x", create=0o600, exclusive=True)
    client.vwrite([write])
    with pytest.raises(FileExistsError) as failure:
        client.vwrite([whole(1), write])
    assert failure.value.index == 1
    with pytest.raises(ValueError):
        Write("file-0", b"x", exclusive=True)


def test_large_files_are_whole(client):
    data = bytes(range(251)) * 80_000
    assert client.vwrite([Write("large", data, create=0o600)]) == [len(data)]
    buffer = bytearray(len(data))
    read = client.vread(
        [
            Read("large", 0, 5_000_000, with_end=True),
            Read("large", 5_000_000, 30_000_000, with_end=True),
            Read("large", 30_000_000, 5, with_end=True),
            Read("large", into=buffer),
        ]
    )
    assert read == [(data[:5_000_000], False), (data[5_000_000:], True), (b"", True), len(data)]
    assert buffer == data
    assert client.read_files(["large"]) == [data]


def test_no_message_is_longer_than_was_asked_for(nfs_world):
    client, data = nfs_world.another(message_bytes=1 << 20), bytes(range(250)) * 80_000
    with nfs_world.spending(client) as spent:
        assert client.vwrite([Write("large", data, create=0o600)]) == [len(data)]
    assert 20 <= spent.round_trips <= 22
    assert client.read_files(["large"]) == [data]


def test_appended_records_of_many_clients_are_all_there(back_end, place):
    clients = [connected(back_end, place) for _ in range(8)]
    clients[0].write_files({"log": b""})

    def record(writer):
        for number in range(20):
            line = f"{writer} {number:03}\n".encode()
            clients[writer].vwrite([Write("log", line, APPEND, stable=number % 5 == 0)])

    at_once(*(functools.partial(record, writer) for writer in range(8)))
    lines = clients[0].read_files(["log"])[0].decode().splitlines()
    assert sorted(lines) == [f"{writer} {number:03}" for writer in range(8) for number in range(20)]
    for client in clients:
        client.close()


def test_appending_goes_on_where_the_last_append_ended(world, client):
    client.vwrite(Write("log", text, APPEND, create=0o600) for text in (b"one ", b"two ", b"three"))
    assert world.read("log") == b"one two three"
    much = [Write("log", bytes(5 << 20), APPEND)]
    if world.is_nfs:
        with pytest.raises(Error) as failure:
            client.vwrite(much)
        assert failure.value.errno == errno.EINVAL
    else:
        assert client.vwrite(much) == [5 << 20]


def test_a_read_may_ask_for_more_than_any_file_has(world, client):
    data = bytes(range(250)) * 12_000
    client.vwrite([Write("a", data, create=0o600), whole(1)])
    with world.spending() as spent:
        read = client.vread(Read(name, 1, 2**64 - 1, with_end=True) for name in ("a", "file-1"))
    assert read == [(data[1:], True), (b"ontent 1", True)]
    assert spent.round_trips <= 40


def test_a_long_write_through_a_descriptor_cuts_off_what_was_there_if_asked_to(client):
    client.write_files({"a": b"before"})
    file = client.open("a", write=True)
    length = (2 << 20) + 1
    client.vwrite([Write(file, b"\1" * length, 3, truncate=True)])
    assert client.pread(file, 0, 4) == b"\0\0\0\1"
    assert client.fstat(file).size == 3 + length


def test_many_whole_files_are_copied_in_one_round_trip(world, client):
    client.vwrite(whole(n) for n in range(40))
    with world.costing(1):
        assert client.vsscopy((f"file-{n}", f"copy-{n}") for n in range(40))[39] == 10
    assert world.read("copy-39") == b"content 39"


def test_what_follows_a_copy_that_takes_several_requests_waits_for_all_of_it_and_is_never_done_twice(world, client):
    data = bytes(range(251)) * 36_000
    client.vwrite([Write("a", data, create=0o600), whole(1)])
    done = client.execute(
        [
            # The offsets keep the server from sharing blocks, so that it copies a part at a time.
            Copy("a", "b", source_offset=1),
            Copy("file-1", "c", exclusive=True, truncate=False),
            Copy("b", "d", source_offset=1),
            Remove("a"),
            Remove("b"),
            Rename("c", "a"),
        ]
    )
    assert done[:3] == [len(data) - 1, 9, len(data) - 2]
    assert client.read_files(["d", "a"]) == [data[2:], b"content 1"]


def test_a_copy_of_what_is_being_copied_waits_for_it_however_it_is_named(client):
    data = bytes(range(251)) * 36_000
    client.mkdir("x")
    client.write_files({"a": data})
    both, read = client.create("b"), client.open("b")
    for name in ("b", ".//b", "x/../b", read):
        for to in ("b", both):
            copied = client.vsscopy([Copy("a", to, source_offset=1), Copy(name, "c")])
            assert copied == [len(data) - 1] * 2
    assert client.read_files(["c"]) == [data[1:]]


def test_what_is_done_to_one_file_in_a_row_is_one_open(world, client):
    def new(name, data, mode=0o600):
        return Write(name, data, create=mode, truncate=True)

    client.vwrite([Write("a", b"content of a", create=0o600)])
    steps = [Read("a", 0, 7), Write("a", b"C"), Read("a", 8, 100)]
    steps += [new("b", b"b and", 0o640), Write("b", b" more", APPEND), Read("b", 0, 100)]
    steps += [new("c", b""), Read("c", 0, 100), new("empty", b""), Read("a", 0, 0), Rename("b", "d")]
    with world.costing(1), world.spending() as spent:
        done = client.execute(steps)
    assert done == [b"content", 1, b"of a", 5, 5, b"b and more", 0, b"", 0, b"", None]
    # COMPOUND_MODE, the way there, five OPENs and CLOSEs with the ways between, ten READs and WRITEs, and RENAME with what it
    # needs.
    assert spent.operations == (35 if world.is_nfs else 0)
    assert client.read_files(["a", "d", "empty"]) == [b"Content of a", b"b and more", b""]


def test_a_copy_within_the_server_sends_no_data(client):
    data = bytes(range(256)) * 36_000
    client.vwrite([Write("a", data, create=0o600), whole(1)])
    part = Copy("file-1", "part", source_offset=3, destination_offset=1, length=4, truncate=False)
    sent = client.statistics().bytes_out
    assert client.vsscopy([("a", "b"), part]) == [len(data), 4]
    assert client.statistics().bytes_out - sent < 100_000
    assert client.read_files(["b", "part"]) == [data, b"\0tent"]


def test_a_copy_through_memory_goes_to_any_client(world, client, tmp_path_factory):
    import kurma

    other = tmp_path_factory.mktemp("other")
    there = kurma.Client.local(other) if world.face == "blocking" else kurma.aio.Client.local(other)
    client.write_files({f"f{n}": b"x" * n for n in range(20)})
    copied = client.vcopy([(f"f{n}", f"c{n}") for n in range(20)], there)
    assert copied == list(range(20))
    assert [(other / f"c{n}").read_bytes() for n in range(20)] == [b"x" * n for n in range(20)]
    client.vcopy([("f9", "here")])
    assert world.read("here") == b"x" * 9
    with pytest.raises(FileNotFoundError) as failure:
        client.vcopy([("f1", "d1"), ("f2", "none/d2"), ("f3", "d3")], to=there)
    assert (failure.value.index, failure.value.results) == (1, [1])


def test_steps_of_all_kinds_are_done_in_order(world, client):
    client.vwrite([whole(1)])
    done = client.execute(
        [
            Copy("file-1", "c", exclusive=True, truncate=False),
            Remove("file-1"),
            Rename("c", "file-1"),
            GetAttributes("file-1"),
        ]
    )
    assert done[:3] == [9, None, None] and done[3].size == 9
    with pytest.raises(TypeError):
        client.execute(["no step"])


def test_steps_after_a_failure_are_done_if_so_wanted(client):
    results = client.execute_each([whole(1), Read("none"), Read("file-1")])
    assert isinstance(results[1], FileNotFoundError)
    assert (results[0], results[1].index, results[2]) == (9, 1, b"content 1")


def test_nothing_is_done_with_nothing(world, client):
    with world.costing(0):
        assert client.vread([]) == client.vwrite([]) == client.vopen([]) == client.read_files([]) == []
        client.vclose([])
        client.vremove([])
        assert list(client.vlistdir([])) == [] and client.rm_recursive([]) == 0


def test_a_file_that_grows_while_it_is_read_is_read_whole(client, monkeypatch):
    client.write_files({"a": b"short", "b": b"other"})
    from kurma import _core

    # As if the sizes had been asked for before the files were written.
    def early(target, wanted):
        return GetAttributes("empty", wanted)

    client.write_files({"empty": b""})
    monkeypatch.setattr(_core, "GetAttributes", early)
    assert client.read_files(["a", "b"]) == [b"short", b"other"]


def test_holes_stay_holes_in_a_copy(tmp_path):
    import kurma

    client, size = kurma.Client.local(tmp_path), 64 << 20
    client.write_files({"a": b"begin"})
    client.vwrite([Write("a", b"middle", 40 << 20)])
    client.truncate("a", size)
    assert client.vsscopy([("a", "b")]) == [size]
    one, other = client.vgetattrs("ab")
    assert one.size == other.size and other.space_used <= one.space_used + 8192
    assert client.vread([("b", 0, 6), ("b", 40 << 20, 6)]) == [b"begin\0", b"middle"]


def test_a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed(tmp_path):
    import kurma

    client = kurma.Client.local(tmp_path)
    paths = ["/".join(["x" * 200] * depth) for depth in range(1, 41)]
    client.vmkdir(paths)
    client.write_files({f"{paths[-1]}/file": b"deep"})
    assert sum(1 for _ in client.vlistdir(["."], recursive=True)) == 41
    assert client.rm_recursive([paths[0]]) == 41
