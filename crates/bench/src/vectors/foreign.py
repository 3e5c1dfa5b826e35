"""Workloads by the Python package nfs4fs, for the bench: one request in JSON on each line in, one answer out.

    python foreign.py HOST:PORT ROOT

Each answer has the seconds that the work took, or says what went wrong.
"""

import json
import os
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import groupby

from nfs4fs import Nfs4FileSystem

AT_ONCE = 16 << 20
FILES = 512


def expect(holds, what):
    if not holds:
        raise RuntimeError(f"not as it should be: {what}")


def depth(path):
    return path.count("/")


def chunks(items, count):
    return (items[start : start + count] for start in range(0, len(items), count))


class Client:
    def __init__(self, server, root):
        self.fs = Nfs4FileSystem(
            host=server,
            root=root,
            auth="auth_sys",
            minor_version=2,
            request_timeout=120.0,
            read_all_max_total_bytes=64 << 20,
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        self.fs.exists("/")

    def nothing(self):
        pass

    def sizes(self, paths):
        """Attributes of many files: fsspec has no such call; what is below it has."""
        found, errors = self.fs._client.stat_many([self.fs._native_path(path) for path in paths])
        expect(not errors, f"attributes: {errors}")
        return [attributes["size"] for attributes in found]

    def write(self, files, size, fill):
        data = fill.encode() * size
        for some in chunks(files, max(1, AT_ONCE // size)):
            self.fs.pipe({path: data for path in some})

    def read(self, files, size):
        for some in chunks(files, max(1, AT_ONCE // size)):
            data = self.fs.cat(some) if len(some) > 1 else {some[0]: self.fs.cat_file(some[0])}
            expect(len(data) == len(some) and all(len(it) == size for it in data.values()), "sizes")

    def again(self, path, size, times):
        for _ in range(times):
            expect(len(self.fs.cat_file(path)) == size, "the size")

    def stat(self, files, size):
        expect(self.sizes(files) == [size] * len(files), "sizes")

    def list(self, path, names):
        found = self.fs.find(path, withdirs=True, detail=True)
        found.pop(path, None)
        expect(len(found) == names, f"{len(found)} names")

    def copy(self, source, to):
        """Of fsspec's way there are as many round trips as the square of the files."""
        self.fs._client.cp_recursive(self.fs._native_path(source), self.fs._native_path(to))

    def remove(self, path):
        self.fs.rm(path, recursive=True)

    def pack(self, path, archive):
        found = self.fs.find(path, withdirs=True, detail=True)
        found.pop(path, None)
        with tarfile.open(archive, "w") as tar:

            def add(name, content=None):
                member = tarfile.TarInfo("tree/" + name[len(path) + 1 :])
                if content is None:
                    member.type = tarfile.DIRTYPE
                else:
                    member.size = len(content)
                tar.addfile(member, content and BytesIO(content))

            for name, info in found.items():
                if info["type"] == "directory":
                    add(name)
            files = [name for name, info in found.items() if info["type"] == "file"]
            for some in chunks(files, FILES):
                for name, content in self.fs.cat(some).items():
                    add(name, content)

    def unpack(self, archive, to):
        directories, files = [], {}
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isdir():
                    directories.append(f"{to}/{member.name}")
                else:
                    files[f"{to}/{member.name}"] = tar.extractfile(member).read()
        # In one call it makes none within another.
        for _, level in groupby(sorted(directories, key=depth), key=depth):
            self.fs._client.mkdir_many([self.fs._native_path(path) for path in level], 0o755)
        for some in chunks(list(files), FILES):
            self.fs.pipe({path: files[path] for path in some})

    def page(self, path, size):
        index = self.fs.cat_file(f"{path}/index.html")
        names = [f"{path}/{line}" for line in index.decode().split("\n") if "/" in line]
        sizes = self.sizes(names)
        data = self.fs.cat(names)
        got = sum(map(len, data.values()))
        expect(len(index) + got == size and got == sum(sizes), f"{got} bytes")

    def load(self, threads, largest):
        data = b"n" * largest

        def work(rounds):
            for acts in rounds:
                of = {}
                for kind, *act in acts:
                    of.setdefault(kind, []).append(act)
                self.fs.pipe({path: data[:size] for path, size in of["create"]})
                files = self.fs._client.open_many([self.fs._native_path(path) for path, _ in of["append"]], ["ab"] * len(of["append"]))
                try:
                    self.fs._client.append_many(files, [data[:size] for _, size in of["append"]])
                finally:
                    self.fs._client.close_many(files)
                self.fs._client.remove_many([self.fs._native_path(path) for (path,) in of["delete"]])
                paths = sorted({path for (path,) in of["read"]})
                expect(all(self.fs.cat(paths).values()), "an empty file")
                if "stat" in of:
                    expect(all(self.sizes([path for (path,) in of["stat"]])), "an empty file")

        with ThreadPoolExecutor(len(threads)) as pool:
            list(pool.map(work, threads))


def main():
    client = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "connect":
                if client:
                    client.fs.close()
                client = Client(sys.argv[1], sys.argv[2])
                request = {"do": "nothing"}
            work = getattr(client, request.pop("do"))
            start = time.perf_counter()
            work(**request)
            answer = {"seconds": time.perf_counter() - start}
        except Exception as error:  # The bench says what went wrong and goes on.
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), flush=True)
    # The bench has what it wants; what the package does at its end is of no concern.
    os._exit(0)


if __name__ == "__main__":
    main()
