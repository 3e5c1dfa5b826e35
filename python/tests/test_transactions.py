"""All or nothing."""

import errno

import pytest

from kurma import AttributeSet, Error, Write


def test_steps_of_all_kinds_are_done_at_once_in_one_round_trip(nfs_world):
    client = nfs_world.client
    client.write_files({"old": b"old"})
    with nfs_world.costing(1), client.transaction() as t:
        t.mkdir("d")
        written = t.write_file("d/a", b"content", 0o600)
        t.append("d/a", b" and more")
        read = t.read("d/a", 3, 100)
        t.rename("d", "e")
        t.copy("e/a", "e/b")
        t.symlink("b", "e/link")
        t.link("e/a", "e/c")
        t.setattrs("e/a", mode=0o640)
        attributes = t.getattrs("e/c", AttributeSet.MODE | AttributeSet.LINKS)
        t.remove("old")
        opened = t.open("e/b", write=True)
        with pytest.raises(RuntimeError):
            read.result
    assert (written.result, read.result) == (7, b"tent and more")
    assert (attributes.result.mode, attributes.result.links) == (0o640, 2)
    client.vwrite([Write(opened.result, b"CON")])
    client.vclose([opened.result])
    assert nfs_world.read("e/link") == b"CONtent and more"
    with pytest.raises(RuntimeError):
        t.mkdir("late")


@pytest.mark.parametrize("bad", range(7))
def test_wherever_a_step_fails_nothing_is_done(nfs_world, bad):
    client = nfs_world.client
    client.write_files({"here": b"as it was"})
    steps = [
        lambda t: t.mkdir("d"),
        lambda t: t.write_file("d/a", bytes(1000)),
        lambda t: t.write_file("here", b"overwritten"),
        lambda t: t.link("here", "d/link"),
        lambda t: t.rename("here", "d/moved"),
        lambda t: t.remove("d/a"),
    ]
    steps.insert(bad, lambda t: t.remove("none"))
    t = client.transaction()
    for step in steps:
        step(t)
    with pytest.raises(FileNotFoundError) as failure:
        t.commit()
    assert (failure.value.index, failure.value.unknown) == (bad, 0)
    assert [entry.name for entry in client.listdir(".")] == ["here"]
    assert nfs_world.read("here") == b"as it was"


def test_what_is_collected_is_forgotten_when_the_program_fails(world, client):
    with pytest.raises(ZeroDivisionError), client.transaction() as t:
        t.mkdir("d")
        1 / 0
    assert not client.exists("d")
    with pytest.raises(RuntimeError):
        t.commit()


def test_a_transaction_may_be_committed_before_the_end_and_only_once(nfs_world):
    client = nfs_world.client
    with client.transaction() as t:
        t.mkdir("d")
        assert t.commit() == [None]
        assert client.exists("d")
    with pytest.raises(RuntimeError):
        t.commit()


def test_what_is_too_much_is_refused_before_anything_is_sent(nfs_world):
    client = nfs_world.client
    limits = client.transaction_limits()
    t = client.transaction()
    for n in range(limits.operations):
        t.mkdir(f"{n}")
    long = client.transaction()
    long.mkdir("d")
    long.write_file("d/a", bytes(limits.bytes + 1))
    for much in (t, long):
        with nfs_world.costing(0), pytest.raises(Error) as failure:
            much.commit()
        assert (failure.value.errno, failure.value.index) == (errno.E2BIG, None)
    assert client.listdir(".") == []


def test_large_writes_and_links_on_the_way_are_part_of_it(nfs_world):
    client, data = nfs_world.client, bytes(range(250)) * 12_000
    client.mkdir("real")
    client.vsymlink([("link", "real"), ("real/last", "data")])
    with client.transaction() as t:
        t.write_file("link/data", data)
        size = t.getattrs("real/data", AttributeSet.SIZE)
    assert size.result.size == len(data)
    assert nfs_world.read("real/last") == data


def test_a_local_directory_has_none(world, client):
    if world.is_nfs:
        assert client.transaction_limits().operations > 100
        return
    assert client.transaction_limits() is None
    t = client.transaction()
    t.mkdir("d")
    with pytest.raises(OSError) as failure:
        t.commit()
    assert failure.value.errno == errno.EOPNOTSUPP


def test_what_is_chained_to_files_is_one_compound(world, client):
    client.write_files({"a": b"content of a"})
    with world.costing(1), client.batch() as batch:
        with batch.chain("a") as a:
            head, written, tail = a.read(0, 7), a.write(b"C"), a.read(8, 100)
        with batch.chain("b", create=0o640) as b:
            b.write(b"b and")
            b.append(b" more")
            again = b.read(0, 100)
        with batch.chain("c", create=0o600) as c:
            nothing = c.read(0, 100)
        with batch.chain("empty", create=0o600):
            pass
        with batch.chain("a"):
            pass
        batch.rename("b", "d")
        with pytest.raises(RuntimeError):
            head.result
    assert (head.result, tail.result, again.result, nothing.result) == (b"content", b"of a", b"b and more", b"")
    assert written.result == 1
    assert client.read_files(["a", "c", "d", "empty"]) == [b"Content of a", b"", b"b and more", b""]


def test_a_batch_ends_at_the_first_step_that_fails_and_has_the_results_before_it(client):
    batch = client.batch()
    with batch.chain("new", create=0o600) as new:
        new.write(b"content")
        read = new.read(0, 100)
    with batch.chain("none") as none:
        missing = none.read(0, 1)
    batch.mkdir("never")
    with pytest.raises(FileNotFoundError) as failure:
        batch.commit()
    assert failure.value.index == 2
    assert read.result == b"content"
    with pytest.raises(RuntimeError):
        missing.result
    assert not client.exists("never")
    with pytest.raises(RuntimeError):
        batch.mkdir("late")


def test_what_is_chained_in_a_transaction_is_done_with_the_rest_or_not_at_all(nfs_world):
    client = nfs_world.client
    with pytest.raises(FileNotFoundError), client.transaction() as t:
        with t.chain("a", create=0o600) as a:
            written = a.write(b"x")
        with t.chain("none") as none:
            none.read(0, 1)
    assert client.listdir(".") == []
    with pytest.raises(RuntimeError):
        written.result
    with nfs_world.costing(1), client.transaction() as t, t.chain("a", create=0o600) as a:
        a.write(b"whole")
        read = a.read(1, 3)
    assert read.result == b"hol"


def test_nothing_comes_between_what_is_chained(client):
    batch = client.batch()
    with batch.chain("a", create=0o600) as a:
        for between in (lambda: batch.mkdir("d"), lambda: batch.chain("b").__enter__(), batch.commit):
            with pytest.raises(RuntimeError):
                between()
        a.write(b"content")
    with pytest.raises(RuntimeError):
        a.write(b"late")
    with pytest.raises(RuntimeError):
        batch.chain("b", create=0o600).write(b"without `with`")
    batch.commit()
    assert [entry.name for entry in client.listdir(".")] == ["a"]
