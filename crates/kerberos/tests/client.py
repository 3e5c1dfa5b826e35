"""A client of RPCSEC_GSS (RFC 2203) on MIT Kerberos: usage: client.py PORT SERVICE MODE.

MODE `calls` makes calls with every protection; any other is the major status that a context must be refused with.
"""

import socket
import struct
import sys

import gssapi

PROGRAM, GSS, WINDOW = 100003, 6, 1024
DATA, INIT, DESTROY = 0, 1, 3


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


class Reader:
    def __init__(self, data):
        self.data = data

    def word(self):
        word, self.data = struct.unpack(">I", self.data[:4])[0], self.data[4:]
        return word

    def opaque(self):
        length = self.word()
        value, self.data = self.data[:length], self.data[length + -length % 4:]
        return value


class Client:
    def __init__(self, port, service):
        self.socket = socket.create_connection(("127.0.0.1", port))
        name = gssapi.Name(service, gssapi.NameType.kerberos_principal)
        flags = gssapi.RequirementFlag.mutual_authentication
        self.context = gssapi.SecurityContext(name=name, usage="initiate", flags=flags, mech=gssapi.MechType.kerberos)
        self.token = self.context.step()
        self.handle = b""
        self.number = 0

    def header(self, procedure, kind, service):
        credential = struct.pack(">IIII", 1, kind, self.number, service) + opaque(self.handle)
        return struct.pack(">IIIIIII", self.number, 0, 2, PROGRAM, 4, procedure, GSS) + opaque(credential)

    def exchange(self, message):
        self.socket.sendall(struct.pack(">I", len(message) | 1 << 31) + message)
        length = struct.unpack(">I", self.receive(4))[0] & ~(1 << 31)
        return Reader(self.receive(length))

    def receive(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return data

    def establish(self):
        """The major status."""
        message = self.header(0, INIT, 1) + struct.pack(">II", 0, 0) + opaque(self.token)
        reply = self.exchange(message)
        assert [reply.word() for _ in range(3)] == [self.number, 1, 0]
        flavor, verifier, status = reply.word(), reply.opaque(), reply.word()
        assert status == 0
        handle, major, _minor, window, token = reply.opaque(), reply.word(), reply.word(), reply.word(), reply.opaque()
        assert reply.data == b""
        if major == 0:
            self.handle = handle
            self.context.step(token)
            assert self.context.complete
            assert (flavor, window) == (GSS, WINDOW)
            self.context.verify_signature(struct.pack(">I", window), verifier)
        return major

    def call(self, procedure, service, arguments, kind=DATA):
        """The results."""
        self.number += 1
        header = self.header(procedure, kind, service)
        numbered = struct.pack(">I", self.number) + arguments
        if service == 2:
            body = opaque(numbered) + opaque(self.context.get_signature(numbered))
        elif service == 3:
            body = opaque(self.context.wrap(numbered, True).message)
        else:
            body = arguments
        verifier = struct.pack(">I", GSS) + opaque(self.context.get_signature(header))
        reply = self.exchange(header + verifier + body)
        assert [reply.word() for _ in range(4)] == [self.number, 1, 0, GSS]
        self.context.verify_signature(struct.pack(">I", self.number), reply.opaque())
        assert reply.word() == 0
        if kind == DESTROY or service == 1:
            return reply.data
        if service == 2:
            numbered = reply.opaque()
            self.context.verify_signature(numbered, reply.opaque())
        else:
            opened = self.context.unwrap(reply.opaque())
            assert opened.encrypted
            numbered = opened.message
        assert reply.data == b""
        number = struct.unpack(">I", numbered[:4])[0]
        assert number == self.number
        return numbered[4:]


def main():
    port, service, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    client = Client(port, service)
    major = client.establish()
    if mode != "calls":
        assert major == int(mode), major
        return
    assert major == 0, major
    for length in [0, 4, 12, 16, 4096, 100000, 1 << 20]:
        data = bytes(index * 7 & 255 for index in range(length))
        for protection in [1, 2, 3]:
            assert client.call(1, protection, data) == data, (length, protection)
    for protection in [1, 2, 3]:
        assert client.call(2, protection, b"") == opaque(b"anna@TEST.KURMA %d" % protection)
    # The same token again, as an eavesdropper would send it.
    replay = Client(port, service)
    replay.token = client.token
    assert replay.establish() == 2, "a replayed token is refused"
    client.call(0, 1, b"", DESTROY)


main()
