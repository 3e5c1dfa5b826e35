#!/usr/bin/env python3
"""The tree that foreign clients copy, and what a local file system makes of it: the reference for theirs.

    tree.py make DIR             a tree with all that is hard about trees, always the same
    tree.py change SCRIPT DIR    does to it what the script says
    tree.py list DIR             one line for each entry: kind, mode, size, hash or target, name; sorted by bytes

What a client must be able to do is in README.md; the clients take the same `change` and the same script.
"""

import errno
import hashlib
import os
import random
import stat
import sys

MIB = 1 << 20


def make(root):
    """Some 400 files of 24 MiB. Everything belongs to its owner, so that an ordinary user can copy it too."""
    content = random.Random(11)

    def folder(name, mode=0o755):
        path = os.path.join(root, name)
        os.makedirs(path)
        os.chmod(path, mode)

    def file(name, size, mode=0o644):
        path = os.path.join(root, name)
        with open(path, "xb") as out:
            out.write(content.randbytes(size))
        os.chmod(path, mode)

    os.makedirs(root, exist_ok=True)
    folder("sizes")
    for size in (0, 1, 4095, 4096, 4097, MIB - 1, MIB + 1, 20 * MIB):
        file(f"sizes/{size}", size)
    folder("many")
    for number in range(320):
        file(f"many/f{number:03}", content.choice((0, 1, 100, 4096, 9000)))
    folder("deep")
    deep = "deep"
    for level in range(24):
        deep = f"{deep}/level {level}"
        folder(deep)
        file(f"{deep}/file", level)
    folder("names")
    for name in (
        "Grüße aus Köln",
        "日本語のファイル名.txt",
        "компас",
        "caf\u00e9",  # one code point
        "cafe\u0301",  # the same to the eye, another name
        "🦀",
        "two  blanks",
        " first",
        "last ",
        "#1 % & + = ; , @ !",
        "100%25",
        'quote\'s "here"',
        "back\\slash",
        ".hidden",
        "-dash",
        "...",
        "x" * 255,
        "ü" * 127,
    ):
        file(f"names/{name}", len(name.encode()))
    folder("modes")
    for mode in (0o600, 0o640, 0o644, 0o755, 0o444, 0o400, 0o777, 0o604):
        file(f"modes/file {mode:03o}", 10, mode)
    for mode in (0o700, 0o755, 0o711, 0o770):
        folder(f"modes/folder {mode:03o}", mode)
    folder("empty")
    folder("links")
    for name, target in (
        ("to a file", "../sizes/4096"),
        ("to a folder", "../many"),
        ("to nothing", "nowhere/at all"),
        ("to itself", "to itself"),
        ("länger", "ä/" * 200 + "end"),
    ):
        os.symlink(target, os.path.join(root, "links", name))


def entries(root):
    """Each entry below the root, by its relative path, folders before what is in them."""
    for path, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            yield os.path.relpath(os.path.join(path, name), root)


def describe(root, name):
    path = os.path.join(root, name)
    status = os.lstat(path)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if stat.S_ISLNK(status.st_mode):
        return f"link - - {os.readlink(path)} {name}"
    if stat.S_ISDIR(status.st_mode):
        return f"folder {mode} - - {name}"
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    return f"file {mode} {status.st_size} {digest} {name}"


def operation(root, words):
    """One line of a script, by the local file system."""
    path = [os.path.join(root, word) for word in words]
    match words[0]:
        case "mkdir":
            os.mkdir(path[2])
            os.chmod(path[2], int(words[1], 8))
        case "rename":
            os.rename(path[1], path[2])
        case "remove":
            os.unlink(path[1])
        case "rmdir":
            os.rmdir(path[1])
        case "truncate":
            os.truncate(path[2], int(words[1]))
        case "write":
            with open(path[3], "r+b") as file:
                file.seek(int(words[1]))
                file.write(words[2].encode())
        case "chmod":
            os.chmod(path[2], int(words[1], 8))
        case "symlink":
            os.symlink(words[1], path[2])
        case "link":
            os.link(path[1], path[2])
        case _:
            raise ValueError(f"no such operation: {words}")


def change(script, apply):
    """Runs a script: each line through `apply`, those that begin with `fails` must fail with the error they name."""
    with open(script, encoding="utf-8") as lines:
        for line in lines:
            words = line.rstrip("\n").split("\t")
            if words == [""] or words[0].startswith("#"):
                continue
            if words[0] != "fails":
                apply(words)
                continue
            try:
                apply(words[2:])
            except OSError as error:
                if error.errno != getattr(errno, words[1]):
                    raise SystemExit(f"{words}: {error}") from error
            else:
                raise SystemExit(f"{words}: did not fail")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", root]:
            make(root)
        case ["change", script, root]:
            change(script, lambda words: operation(root, words))
        case ["list", root]:
            for name in sorted(entries(root), key=os.fsencode):
                print(describe(root, name))
        case _:
            raise SystemExit(__doc__)
