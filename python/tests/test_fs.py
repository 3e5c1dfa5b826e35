"""The file system for fsspec: what it is told, and in how many round trips many files go."""

import asyncio
import os
import pickle

import fsspec
import pytest

import kurma
from kurma.fs import KurmaFileSystem


class Place:
    """A file system, and a directory of it."""

    def __init__(self, back_end, place, server):
        if back_end == "nfs":
            host, _, port = server.rpartition(":")
            self.fs = KurmaFileSystem(host=host, port=int(port), uid=0, gid=0, groups=[], skip_instance_cache=True)
            self.path = place.split(server)[1]
        else:
            self.fs = KurmaFileSystem(root=place, skip_instance_cache=True)
            self.path = "/home"
            self.fs.mkdir(self.path)
        self.is_nfs = back_end == "nfs"

    def __truediv__(self, name):
        return f"{self.path}/{name}"

    def round_trips(self):
        return self.fs.client.statistics().round_trips


@pytest.fixture
def here(back_end, place, server):
    return Place(back_end, place, server)


def test_it_is_what_fsspec_opens_for_its_urls(nfs_place, server):
    url = nfs_place.replace("nfs://", "kurma://")
    with fsspec.open(f"{url}/a", "wb", uid=0, gid=0) as file:
        file.write(b"content")
    fs, path = fsspec.url_to_fs(f"{url}/a", uid=0, gid=0)
    assert isinstance(fs, KurmaFileSystem) and fs.cat(path) == b"content"
    assert fs.unstrip_protocol(path) == f"{url}/a"
    assert fs.cat(f"{url}/a") == b"content"
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat(path) == b"content" and again == fs
    with pytest.raises(ValueError):
        KurmaFileSystem()


@pytest.mark.parametrize(("cache_bytes", "is_kept"), [(16 << 20, True), (0, False)])
def test_what_was_read_is_kept_in_as_much_memory_as_is_said(nfs_place, server, cache_bytes, is_kept):
    content = os.urandom(100_000)
    url = nfs_place.replace("nfs://", "kurma://") + "/a"
    fs, path = fsspec.url_to_fs(url, uid=0, gid=0, cache_bytes=cache_bytes)
    fs.pipe(path, content)
    assert fs.cat(path) == content
    before = fs.client.statistics().bytes_in
    assert fs.cat(path) == content
    assert (fs.client.statistics().bytes_in - before < 10_000) == is_kept


def test_many_files_go_in_few_round_trips(here, tmp_path):
    fs, count = here.fs, 500
    files = {here / f"{n:03}": f"content {n}".encode() for n in range(count)}
    before = here.round_trips()
    fs.pipe(files)
    sent = [here.round_trips() - before]
    for call, expected in [
        (lambda: fs.cat(list(files)), files),
        (lambda: fs.cat_ranges(list(files), 0, 3), [b"con"] * count),
        (lambda: fs.find(here.path), sorted(files)),
        (lambda: len(fs.glob(here / "*7")), count // 10),
        (lambda: fs.du(here.path), sum(map(len, files.values()))),
        (lambda: [fs.get(list(files), [str(tmp_path / f"{n}") for n in range(count)])] and None, None),
        (lambda: fs.put([str(tmp_path / f"{n}") for n in range(count)], [here / f"p{n}" for n in range(count)]) and None, None),
        (lambda: fs.copy(list(files), [here / f"c{n}" for n in range(count)]), None),
        (lambda: fs.rm([here / f"c{n}" for n in range(count)]), None),
        (lambda: fs.rm(here / "0*", recursive=True), None),
    ]:
        before = here.round_trips()
        assert call() == expected
        sent.append(here.round_trips() - before)
    assert max(sent) <= (14 if here.is_nfs else 0), sent
    assert (tmp_path / "7").read_bytes() == b"content 7"
    assert fs.cat(here / "p7") == b"content 7"
    assert len(fs.ls(here.path)) == count - 100 + count


def test_a_file_that_fails_does_no_harm_to_the_others(here):
    here.fs.pipe({here / "a": b"1", here / "c": b"3"})
    paths = [here / name for name in "abc"]
    got = here.fs.cat(paths, on_error="return")
    assert (got[paths[0]], got[paths[2]]) == (b"1", b"3")
    assert isinstance(got[paths[1]], FileNotFoundError)
    assert list(here.fs.cat(paths, on_error="omit")) == [paths[0], paths[2]]
    with pytest.raises(FileNotFoundError):
        here.fs.cat(paths)
    ranges = here.fs.cat_ranges(paths, 0, 1)
    assert isinstance(ranges[1], FileNotFoundError)


def test_ranges_are_counted_from_both_ends(here):
    here.fs.pipe(here / "a", b"0123456789")
    for start, end in [(None, None), (2, None), (2, 5), (-3, None), (None, -3), (-5, -2), (0, 0), (8, 99), (20, 30), (-99, 3)]:
        assert here.fs.cat_file(here / "a", start, end) == b"0123456789"[start:end], (start, end)


def test_large_files_go_through_whole(here, tmp_path):
    data = os.urandom(1 << 20) * 20
    (tmp_path / "a").write_bytes(data)
    here.fs.put(str(tmp_path / "a"), here / "a")
    assert here.fs.cat(here / "a") == data
    here.fs.get(here / "a", str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == data
    here.fs.cp(here / "a", here / "c")
    with here.fs.open(here / "c", block_size=1 << 20) as file:
        assert file.read(10) == data[:10]
        assert file.seek(-5, 2) == len(data) - 5 and file.read() == data[-5:]
        file.seek(3_000_000)
        assert file.read(5_000_000) == data[3_000_000:8_000_000]


def test_files_are_written_in_blocks_appended_and_made_anew(here):
    with here.fs.open(here / "a", "wb", block_size=1000) as file:
        for n in range(100):
            assert file.write(b"%03d-" % n * 20) == 80
        assert file.tell() == 8000
    with here.fs.open(here / "a", "ab") as file:
        assert file.tell() == 8000
        file.write(b"end")
    data = here.fs.cat(here / "a")
    assert (len(data), data[-7:], data[:8]) == (8003, b"099-end", b"000-000-")
    with pytest.raises(FileExistsError):
        here.fs.open(here / "a", "xb")
    with pytest.raises(FileNotFoundError):
        here.fs.open(here / "none/a", "wb")
    with pytest.raises(FileNotFoundError):
        here.fs.open(here / "none")
    with here.fs.open(here / "text", "w") as file:
        file.write("Grüße\n")
    with here.fs.open(here / "text") as file:
        assert list(file) == ["Grüße\n".encode()]


def test_blocks_are_sent_while_the_program_goes_on_and_errors_said_by_the_end(here):
    before = here.round_trips()
    with here.fs.open(here / "small", "wb") as file:
        file.write(b"small")
    # It is made; it is written and closed.
    assert here.round_trips() - before == (2 if here.is_nfs else 0)
    before = here.round_trips()
    data = os.urandom(1 << 20) * 20
    with here.fs.open(here / "large", "wb", block_size=3 << 20) as file:
        for start in range(0, len(data), 1 << 18):
            file.write(data[start : start + (1 << 18)])
    # Made, pieces, safe, closed.
    assert here.round_trips() - before == (1 + 20 + 2 if here.is_nfs else 0)
    assert here.fs.cat(here / "large") == data

    file = here.fs.open(here / "a", "wb", block_size=1 << 20)
    file.write(b"never seen")
    late = here.fs.open(here / "b", "wb", block_size=1 << 20)
    here.fs.client.close()
    with pytest.raises(kurma.Error):
        file.close()
    assert file.closed
    with pytest.raises(kurma.Error) as first:
        while True:
            late.write(data[: 1 << 20])
    with pytest.raises(kurma.Error) as last:
        late.close()
    assert last.value is first.value and late.closed
    late.close()


def test_several_files_appear_together(here):
    here.fs.pipe(here / "b", b"old")
    before = here.round_trips()
    with here.fs.transaction:
        for name in "abc":
            with here.fs.open(here / name, "wb") as file:
                file.write(b"new")
        assert here.fs.cat(here / "b") == b"old" and not here.fs.exists(here / "a")
    assert here.fs.cat([here / name for name in "abc"]) == {here / name: b"new" for name in "abc"}
    with pytest.raises(ZeroDivisionError), here.fs.transaction:
        with here.fs.open(here / "d", "wb") as file:
            file.write(b"new")
        1 / 0
    assert here.fs.ls(here.path, detail=False) == [here / name for name in "abc"]
    assert here.round_trips() >= before


def test_information_is_that_of_what_links_lead_to(here):
    fs, client = here.fs, here.fs.client
    fs.mkdir(here / "d")
    fs.pipe(here / "d/file", b"12345")
    client.vsymlink([(here / "link", "d/file"), (here / "folder", "d"), (here / "nowhere", "none")])
    kinds = {info["name"].rpartition("/")[2]: (info["type"], info["islink"]) for info in fs.ls(here.path)}
    assert kinds == {
        "d": ("directory", False),
        "link": ("file", True),
        "folder": ("directory", True),
        "nowhere": ("link", True),
    }
    assert fs.info(here / "link")["size"] == 5
    assert fs.find(here.path) == [here / name for name in ("d/file", "link", "nowhere")]
    assert fs.find(here.path, maxdepth=1, withdirs=True)[:3] == [here.path, here / "d", here / "folder"]
    assert fs.find(here / "d/file") == [here / "d/file"] and fs.find(here / "none") == []
    assert fs.ls(here / "d/file", detail=False) == [here / "d/file"]
    assert fs.isdir(here / "folder") and fs.isfile(here / "link") and not fs.exists(here / "none")
    assert fs.modified(here / "link").timestamp() == pytest.approx(fs.info(here / "d/file")["mtime"])
    before = fs.ukey(here / "d/file")
    fs.cat(here / "d/file")
    assert fs.ukey(here / "d/file") == before
    assert [entry for entry, *_ in fs.walk(here.path)][:2] == [here.path, here / "d"]
    with pytest.raises(FileNotFoundError):
        fs.ls(here / "none")


def test_names_are_made_moved_and_removed(here):
    fs = here.fs
    fs.makedirs(here / "a/b/c")
    with pytest.raises(FileExistsError):
        fs.makedirs(here / "a/b/c")
    fs.makedirs(here / "a/b/c", exist_ok=True)
    with pytest.raises(FileNotFoundError):
        fs.mkdir(here / "x/y", create_parents=False)
    fs.touch(here / "a/file")
    fs.mv(here / "a/file", here / "a/b")
    assert fs.exists(here / "a/b/file")
    fs.mv(here / "a", here / "z", recursive=True)
    assert fs.find(here.path) == [here / "z/b/file"]
    fs.pipe(here / "z/b/file", b"x")
    fs.touch(here / "z/b/file", truncate=False)
    assert fs.cat(here / "z/b/file") == b"x"
    with pytest.raises(OSError):
        fs.rm(here / "z")
    with pytest.raises(OSError):
        fs.rmdir(here / "z")
    fs.rm(here / "z", recursive=True)
    assert fs.ls(here.path) == []
    with pytest.raises(ValueError):
        fs.rm("/", recursive=True)


def test_it_is_asynchronous_too(here, back_end, place, server):
    async def main():
        fs = KurmaFileSystem(**{**here.fs.storage_options, "skip_instance_cache": True}, asynchronous=True)
        await fs._pipe({here / f"{n}": b"x" for n in range(100)})
        assert len(await fs._find(here.path)) == 100
        assert await asyncio.gather(*(fs._cat_file(here / f"{n}") for n in range(100))) == [b"x"] * 100

    asyncio.run(main())


def test_what_a_server_cannot_copy_goes_through_memory(nfs_place, server):
    # NFSv4.1 has no COPY.
    place = Place("nfs", nfs_place, server)
    old = KurmaFileSystem(**{**place.fs.storage_options, "minor_versions": [1], "skip_instance_cache": True})
    old.pipe(place / "a", b"content")
    old.cp(place / "a", place / "b")
    assert old.cat(place / "b") == b"content"


def test_a_server_that_is_not_there_is_an_error_and_not_the_end(here):
    fs = KurmaFileSystem(host="127.0.0.1", port=1, patience=0.2, connect_timeout=0.1, skip_instance_cache=True)
    for _ in range(2):
        with pytest.raises(kurma.Error):
            fs.ls("/")


def test_files_that_are_put_and_got_at_once_take_little_memory(here, tmp_path, monkeypatch):
    from kurma import fs

    # Two pieces fit, and one that is larger than all is alone.
    monkeypatch.setattr(fs, "HELD", 25_000)
    sizes = [10_000] * 10 + [40_000, 0]
    for n, size in enumerate(sizes):
        (tmp_path / f"{n}").write_bytes(bytes([n]) * size)
    held, most = 0, []
    pipe = here.fs._pipe_file

    async def watched(path, value, **kwargs):
        nonlocal held
        held += len(value)
        most.append(held)
        try:
            await pipe(path, value, **kwargs)
        finally:
            held -= len(value)

    monkeypatch.setattr(here.fs, "_pipe_file", watched)
    names = range(len(sizes))
    here.fs.put([str(tmp_path / f"{n}") for n in names], [here / f"{n}" for n in names])
    assert (max(most), sorted(most)[-2]) == (40_000, 20_000)
    here.fs.get([here / f"{n}" for n in names], [str(tmp_path / f"back-{n}") for n in names])
    assert [(tmp_path / f"back-{n}").read_bytes() for n in names] == [bytes([n]) * sizes[n] for n in names]
