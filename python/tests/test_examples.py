"""The programs in examples/."""

import pathlib
import subprocess
import sys


import kurma

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def run(name, *arguments, **how):
    command = [sys.executable, "-P", EXAMPLES / name, *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, **how)


def test_text_is_found_in_a_tree(place):
    client = kurma.Client.connect(place) if place.startswith("nfs://") else kurma.Client.local(place)
    with client:
        client.ensure_directory("a/b")
        client.write_files({f"a/b/{n}": b"nothing\n" * n + b"a needle here\n" for n in range(20)})
    found = run("search.py", "needle", place)
    assert (found.returncode, len(found.stdout.splitlines())) == (0, 20)
    assert b"a/b/7:8:a needle here" in found.stdout
    trips = int(found.stderr.split()[2])
    assert trips <= (10 if place.startswith("nfs://") else 0)
    assert run("search.py").returncode == 1


def test_mail_is_delivered_whole(nfs_place):
    for _ in range(2):
        sent = run("deliver.py", nfs_place, "ann", "bob", input=b"hello")
        assert (sent.returncode, sent.stderr) == (0, b"")
    with kurma.Client.connect(nfs_place) as client:
        lines = client.read_files(["bob/index"])[0].decode().splitlines()
        assert len(lines) == 2
        assert client.read_files(f"bob/{line.split()[0]}" for line in lines) == [b"hello"] * 2
