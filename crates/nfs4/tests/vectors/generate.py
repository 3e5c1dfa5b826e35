#!/usr/bin/env python3
"""Makes wire.txt and constants.txt from the XDR description of the protocol.

    generate.py nfs4.x

nfs4.x is the XDR text of RFC 7863 (its last drafts differ in nothing that matters here) with the additions of
RFC 8276; the NFS test suite pynfs has it as nfs4.1/xdrdef/nfs4.x. This is an XDR interpreter of its own, so that the
Rust types are checked against the RFC's text and not against themselves. It writes, for every operation, callback and
attribute, random values in which every arm of every union occurs.
"""

import os
import random
import re
import struct
import sys

TOKEN = re.compile(r"0x[0-9A-Fa-f]+|-?\d+|[A-Za-z_]\w*|[{}()\[\]<>=,;:*]")


def tokens(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("%"))
    return TOKEN.findall(text)


class Parser:
    def __init__(self, text):
        self.t, self.i = tokens(text), 0
        self.consts, self.types = {"TRUE": 1, "FALSE": 0}, {}

    def next(self, expected=None):
        token = self.t[self.i]
        assert expected in (None, token), (expected, self.t[self.i - 5 : self.i + 5])
        self.i += 1
        return token

    def value(self):
        token = self.next()
        return int(token, 0) if re.match(r"0x|-?\d", token) else self.consts[token]

    def base(self):
        token = self.next()
        if token == "unsigned":
            return "u" + (self.next() if self.t[self.i] in ("int", "hyper") else "int")
        return token

    def declaration(self):
        base = self.base()
        if base == "void":
            return ("void", None, None)
        optional = self.t[self.i] == "*"
        self.i += optional
        name = self.next()
        kind, limit = ("optional", None) if optional else ("one", None)
        if self.t[self.i] in "<[":
            kind = {"<": "array", "[": "fixed"}[self.next()]
            if self.t[self.i] not in ">]":
                limit = self.value()
            self.next()
        return (kind, base, limit, name)

    def body(self):
        self.next("{")
        fields = []
        while self.t[self.i] != "}":
            fields.append(self.declaration())
            self.next(";")
        self.next("}")
        return fields

    def enum(self):
        self.next("{")
        values = {}
        while self.t[self.i] != "}":
            name = self.next()
            self.next("=")
            values[name] = self.consts[name] = self.value()
            if self.t[self.i] == ",":
                self.next()
        self.next("}")
        return values

    def union(self):
        self.next("switch")
        self.next("(")
        discriminant = self.base()
        self.next()
        self.next(")")
        self.next("{")
        arms, default, pending = {}, None, []
        while self.t[self.i] != "}":
            if self.next() == "case":
                pending.append(self.value())
                self.next(":")
                if self.t[self.i] in ("case", "default"):
                    continue
                arm = self.declaration()
                arms.update({value: arm for value in pending})
                pending = []
            else:
                self.next(":")
                default = self.declaration()
            self.next(";")
        self.next("}")
        return (discriminant, arms, default)

    def skip_program(self):
        depth = 0
        while True:
            token = self.next()
            depth += (token == "{") - (token == "}")
            if token == ";" and depth == 0:
                return

    def parse(self):
        while self.i < len(self.t):
            keyword = self.next()
            if keyword == "const":
                name = self.next()
                self.next("=")
                self.consts[name] = self.value()
            elif keyword == "typedef":
                declaration = self.declaration()
                self.types[declaration[3]] = ("typedef", declaration)
            elif keyword == "enum":
                name = self.next()
                self.types[name] = ("enum", self.enum())
            elif keyword == "struct":
                name = self.next()
                self.types[name] = ("struct", self.body())
            elif keyword == "union":
                name = self.next()
                self.types[name] = ("union", self.union())
            elif keyword == "program":
                self.skip_program()
                continue
            self.next(";")
        return self


class Writer:
    """Writes random values; `hit` collects which arms occurred."""

    def __init__(self, xdr, rng):
        self.xdr, self.rng, self.hit = xdr, rng, set()

    def opaque(self, n):
        return bytes(self.rng.randrange(256) for _ in range(n)) + bytes(-n % 4)

    def declaration(self, d, depth):
        kind, base, limit = d[:3]
        if kind == "void":
            return b""
        if base == "bitmap4" and kind == "one":
            return self.bitmap()
        if base in ("opaque", "string"):
            if kind == "fixed":
                return self.opaque(limit)
            n = self.rng.randrange(min(limit or 9, 9) + 1)
            return struct.pack(">I", n) + self.opaque(n)
        if kind == "one":
            return self.named(base, depth)
        if kind == "optional":
            count = self.rng.randrange(2) if depth < 8 else 0
            self.hit.add((base, "some" if count else "none"))
            return struct.pack(">I", count) + (self.named(base, depth + 1) if count else b"")
        count = limit if kind == "fixed" else self.rng.randrange(min(limit or 3, 3) + 1)
        self.hit.add((d[3], min(count, 1)))
        head = b"" if kind == "fixed" else struct.pack(">I", count)
        return head + b"".join(self.named(base, depth + 1) for _ in range(count))

    def bitmap(self):
        count = self.rng.randrange(4)
        words = [self.rng.getrandbits(32) & self.rng.getrandbits(32) for _ in range(count)]
        if count and words[-1] == 0:
            words[-1] = 2
        return struct.pack(">%dI" % (count + 1), count, *words)

    def named(self, name, depth=0):
        rng = self.rng
        if name in ("int", "uint", "int32_t", "uint32_t"):
            return struct.pack(">I", rng.choice([0, 1, 5, rng.getrandbits(32)]))
        if name in ("hyper", "uhyper", "int64_t", "uint64_t"):
            return struct.pack(">Q", rng.getrandbits(64))
        if name == "bool":
            return struct.pack(">I", rng.randrange(2))
        if name == "bitmap4":
            return self.bitmap()
        if name == "authsys_parms":
            return self.authsys()
        kind, what = self.xdr.types[name]
        if kind == "typedef":
            return self.declaration(what, depth)
        if kind == "struct":
            return b"".join(self.declaration(d, depth) for d in what)
        if kind == "enum":
            return struct.pack(">I", rng.choice(list(what.values())))
        return self.union(name, what, depth)

    def union(self, name, what, depth, wanted=None):
        discriminant, arms, default = what
        choices = list(arms)
        if default is not None:
            others = [v for v in self.domain(discriminant) if v not in arms]
            if others:
                choices.append(self.rng.choice(others))
        value = self.rng.choice(choices) if wanted is None else wanted
        self.hit.add((name, value if value in arms else "default"))
        return struct.pack(">I", value) + self.declaration(arms.get(value, default), depth)

    def domain(self, discriminant):
        if discriminant == "bool":
            return [0, 1]
        kind, what = self.xdr.types.get(discriminant, ("number", None))
        return list(what.values()) if kind == "enum" else list(range(9))

    def authsys(self):
        name = self.rng.randrange(9)
        gids = [self.rng.getrandbits(32) for _ in range(self.rng.randrange(4))]
        head = struct.pack(">II", self.rng.getrandbits(32), name) + self.opaque(name)
        return head + struct.pack(">%dI" % (3 + len(gids)), 1000, 100, len(gids), *gids)


def covering(xdr, seed, write, tries=300):
    """Few values of one kind that together have every arm that `tries` of them have."""
    kept, seen = [], set()
    for n in range(tries):
        writer = Writer(xdr, random.Random("%s/%d" % (seed, n)))
        data = write(writer)
        if not kept or writer.hit - seen:
            kept.append(data)
            seen |= writer.hit
    return kept


def main():
    xdr = Parser(open(sys.argv[1]).read()).parse()
    here = os.path.dirname(os.path.abspath(__file__))
    head = "# Made by generate.py from RFC 7863 and RFC 8276. Do not edit.\n"
    with open(os.path.join(here, "wire.txt"), "w") as out:
        out.write(head + "# union, operation or attribute, XDR form\n")
        for label, union, numbers in [
            ("args", "nfs_argop4", "nfs_opnum4"),
            ("res", "nfs_resop4", "nfs_opnum4"),
            ("cb_args", "nfs_cb_argop4", "nfs_cb_opnum4"),
            ("cb_res", "nfs_cb_resop4", "nfs_cb_opnum4"),
        ]:
            what = xdr.types[union][1]
            names = {number: name for name, number in xdr.types[numbers][1].items()}
            for number in sorted(what[1]):
                name = names[number].removeprefix("OP_")
                write = lambda writer: writer.union(union, what, 0, wanted=number)
                for data in covering(xdr, union + name, write):
                    out.write("%s %s %s\n" % (label, name, data.hex()))
        for name in sorted(xdr.types):
            if name.startswith("fattr4_"):
                number = xdr.consts[name.upper()]
                for data in covering(xdr, name, lambda writer: writer.named(name)):
                    out.write("attribute %d %s\n" % (number, data.hex() or "-"))
    with open(os.path.join(here, "constants.txt"), "w") as out:
        out.write(head + "# name, value\n")
        for name, value in xdr.consts.items():
            if name not in ("TRUE", "FALSE"):
                out.write("%s %d\n" % (name, value % 2**64))


main()
