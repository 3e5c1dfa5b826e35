"""What a foreign client has to do (../README.md), by the Python package nfs4fs, over NFSv4.1 and 4.2.

    client.py PORT VERSION put LOCAL REMOTE       a tree in
    client.py PORT VERSION get REMOTE LOCAL       a tree out
    client.py PORT VERSION change SCRIPT REMOTE   what the script says
    client.py PORT VERSION clear REMOTE           everything in the folder, and the folder
    client.py PORT VERSION more REMOTE            what trees do not need, in a new folder

REMOTE is a folder of the volume `home`, "/NAME". Files are given to the package by the hundred, for that is what it is
for: it puts many of them into one compound.
"""

import errno
import os
import stat
import sys

from nfs4fs import Nfs4FileSystem

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tree  # noqa: E402


def expect(holds, what):
    if not holds:
        raise SystemExit(f"not as it should be: {what}")


class Client:
    def __init__(self, port, version):
        self.fs = Nfs4FileSystem(
            host=f"127.0.0.1:{port}",
            root="home",
            auth="auth_sys",
            minor_version={"4.1": 1, "4.2": 2}[version],
            request_timeout=60.0,
            connection_pool_size=3,
            read_all_max_total_bytes=64 << 20,
        )

    def chmod(self, path, mode):
        """fsspec has no such thing; what is below it has."""
        self.fs._client.chmod(self.fs._native_path(path), mode)

    def put(self, local, remote):
        self.fs.mkdir(remote, create_parents=False)
        names = list(tree.entries(local))
        status = {name: os.lstat(os.path.join(local, name)) for name in names}
        folders = [name for name in names if stat.S_ISDIR(status[name].st_mode)]
        files = [name for name in names if stat.S_ISREG(status[name].st_mode)]
        for name in folders:
            self.fs.mkdir(f"{remote}/{name}", create_parents=False)
        self.fs.put([os.path.join(local, name) for name in files], [f"{remote}/{name}" for name in files])
        for name in names:
            if name in folders or name in files:
                self.chmod(f"{remote}/{name}", stat.S_IMODE(status[name].st_mode))
            else:
                self.fs.symlink(os.readlink(os.path.join(local, name)), f"{remote}/{name}")

    def get(self, remote, local):
        found = self.fs.find(remote, withdirs=True, detail=True)
        del found[remote]
        here = {path: os.path.join(local, path[len(remote) + 1 :]) for path in found}
        os.mkdir(local)
        for path in sorted(found):
            if found[path]["type"] == "directory":
                os.mkdir(here[path])
        files = [path for path, info in found.items() if info["type"] == "file" and not info.get("islink")]
        self.fs.get(files, [here[path] for path in files])
        for path in sorted(found, reverse=True):
            info = found[path]
            if info["type"] == "directory" or path in files:
                os.chmod(here[path], stat.S_IMODE(info["mode"]))
                if path in files and os.path.getsize(here[path]) != info["size"]:
                    raise SystemExit(f"{path}: listed with {info['size']} bytes, read {os.path.getsize(here[path])}")
            else:
                os.symlink(self.fs.readlink(path), here[path])

    def change(self, remote, words):
        try:
            self.operation(remote, words)
        except OSError as error:
            # One status that the package does not translate.
            if error.errno == 66:  # NFS4ERR_NOTEMPTY
                error.errno = errno.ENOTEMPTY
            raise

    def operation(self, remote, words):
        path = [f"{remote}/{word}" for word in words]
        match words[0]:
            case "mkdir":
                self.fs.mkdir(path[2], create_parents=False, mode=int(words[1], 8))
            case "rename":
                self.fs.mv(path[1], path[2])
            case "remove":
                self.fs.rm_file(path[1])
            case "rmdir":
                self.fs.rmdir(path[1])
            case "truncate":
                with self.fs.open(path[2], "r+b") as file:
                    file.truncate(int(words[1]))
            case "write":
                with self.fs.open(path[3], "r+b") as file:
                    file.seek(int(words[1]))
                    file.write(words[2].encode())
            case "chmod":
                self.chmod(path[2], int(words[1], 8))
            case "symlink":
                self.fs.symlink(words[1], path[2])
            case "link":
                self.fs.hardlink(path[1], path[2])
            case _:
                raise ValueError(f"no such operation: {words}")

    def more(self, remote):
        """Many files in few compounds, copies by the server (4.2), pieces of files, transactions, several sessions at once."""
        fs = self.fs
        fs.mkdir(remote, create_parents=False)
        many = {f"{remote}/file {number}": b"%d" % number * (number % 700) for number in range(2000)}
        fs.pipe(many)
        expect(fs.cat(list(many)) == many, "many files are not what was written")
        sizes = {entry["name"].rsplit("/", 1)[1]: entry["size"] for entry in fs.ls(remote)}
        expect(sizes == {path.rsplit("/", 1)[1]: len(data) for path, data in many.items()}, "the list of many files")

        large = os.urandom(18_000_001)
        fs.pipe_file(f"{remote}/large", large)
        fs.copy(f"{remote}/large", f"{remote}/copy")
        expect(fs.cat_file(f"{remote}/copy") == large, "a copy is not the same")
        starts = [0, 1, 4095, 1 << 20, 17_999_999]
        ends = [1, 4097, 4096, (3 << 20) + 1, 18_000_001]
        pieces = fs.cat_ranges([f"{remote}/large"] * len(starts), starts, ends)
        expect(pieces == [large[start:end] for start, end in zip(starts, ends)], "pieces of a file")
        streamed = bytearray()
        fs.read_stream_pipelined(f"{remote}/copy", lambda offset, data: streamed.extend(data), workers=3)
        expect(streamed == large, "three sessions read something else")

        with fs.open(f"{remote}/log", "wb") as file:
            file.write(b"first")
        with fs.open(f"{remote}/log", "ab") as file:
            file.write(b", second")
        expect(fs.cat_file(f"{remote}/log") == b"first, second", "what was appended")
        try:
            fs.pipe_file(f"{remote}/log", b"other", mode="create")
        except FileExistsError:
            pass
        else:
            raise SystemExit("an exclusive create of a file that exists")
        with fs.transaction:
            for name in ("one", "two"):
                with fs.open(f"{remote}/{name}", "wb") as file:
                    file.write(name.encode())
            expect(not fs.exists(f"{remote}/one"), "a transaction is seen before its end")
        expect(fs.cat([f"{remote}/one", f"{remote}/two"]) == {f"{remote}/one": b"one", f"{remote}/two": b"two"}, "transaction")
        fs.rm(list(many))
        left = sorted(entry["name"].rsplit("/", 1)[1] for entry in fs.ls(remote))
        expect(left == ["copy", "large", "log", "one", "two"], f"what is left: {left}")

    def run(self, command):
        match command:
            case ["put", local, remote]:
                self.put(local, remote)
            case ["get", remote, local]:
                self.get(remote, local)
            case ["change", script, remote]:
                tree.change(script, lambda words: self.change(remote, words))
            case ["clear", remote]:
                self.fs.rm(remote, recursive=True)
            case ["more", remote]:
                self.more(remote)
            case _:
                raise SystemExit(__doc__)
        self.fs.close()


if __name__ == "__main__":
    Client(sys.argv[1], sys.argv[2]).run(sys.argv[3:])
