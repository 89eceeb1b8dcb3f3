# SPDX-License-Identifier: Apache-2.0

"""Tables with an owner: what the owner and others may change, and what is left after it."""

import socket
import struct
import time

from attributes import be32, text

NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, DELCHAIN, NEWSET, DESTROYTABLE = 0, 1, 2, 3, 5, 9, 26
DORMANT, OWNER, PERSIST = 1, 2, 4
ACK, DUMP, EXCL, CREATE = 4, 0x300, 0x200, 0x400
IP = 2


def attributes(data):
    found, at = {}, 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


class Netlink:
    def __init__(self, name, listens=False):
        self.name = name
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        self.socket.bind((0, 1 << 6 if listens else 0))
        self.socket.setsockopt(270, 11, 1)
        self.socket.settimeout(0.3)
        self.port = self.socket.getsockname()[0]

    def message(self, kind, flags, family, body):
        head = struct.pack("=IHHII", 20 + len(body), kind, 1 | flags, 1, 0)
        return head + struct.pack("=BBH", family, 0, 0x0A00 if kind < 0x20 else 0) + body

    def messages(self):
        while True:
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return
            while len(data) >= 16:
                length = struct.unpack_from("=I", data)[0]
                yield data[:length]
                data = data[(length + 3) & ~3 :]

    def change(self, what, kind, *parts, flags=0, family=IP):
        one = self.message(10 << 8 | kind, ACK | flags, family, b"".join(parts))
        self.socket.send(self.message(0x10, 0, 0, b"") + one + self.message(0x11, 0, 0, b""))
        answers = []
        for m in self.messages():
            if struct.unpack_from("=H", m, 4)[0] == 2:
                errno = struct.unpack_from("=i", m, 16)[0]
                cut = struct.unpack_from("=H", m, 6)[0] & 0x100
                at = 36 if cut else 20 + (struct.unpack_from("=I", m, 20)[0] + 3 & ~3)
                more = attributes(m[at:])
                place = struct.unpack("=I", more[2])[0] if 2 in more else None
                answers.append("%d%s" % (errno, "" if place is None else " at %d" % place))
                break
        print("%s: %s: %s" % (self.name, what, ", ".join(answers)))

    def tables(self, ports):
        self.socket.send(self.message(10 << 8 | GETTABLE, DUMP, 0, b""))
        for m in self.messages():
            if struct.unpack_from("=H", m, 4)[0] == 3:
                break
            found = attributes(m[20:])
            name, flags = found[1].rstrip(b"\0").decode(), struct.unpack("!I", found[2])[0]
            owner = struct.unpack("!I", found[7])[0] if 7 in found else None
            print("  table %s flags %d owner %s" % (name, flags, ports.get(owner, owner)))


def table(name, flags=None):
    return text(1, name) + (b"" if flags is None else be32(2, flags))


def all_tables():
    # A socket that is closed is noticed a little later.
    time.sleep(0.2)
    reader.tables({s.port: s.name for s in (a, b, c)})


a, b, c, reader = Netlink("a"), Netlink("b"), Netlink("c"), Netlink("reader")
chain = text(1, "t") + text(3, "c")
a.change("make it", NEWTABLE, table("t", OWNER))
a.change("add a chain", NEWCHAIN, chain)
all_tables()
b.change("add it", NEWTABLE, table("t"))
b.change("take it", NEWTABLE, table("t", OWNER))
b.change("create it", NEWTABLE, table("t"), flags=EXCL)
b.change("add a chain", NEWCHAIN, text(1, "t") + text(3, "d"))
b.change("add it again", NEWCHAIN, chain)
b.change("add a set", NEWSET, text(1, "t") + text(2, "s") + be32(10, 1) + be32(5, 4))
b.change("delete the chain", DELCHAIN, chain)
b.change("delete it", DELTABLE, table("t"))
b.change("destroy it", DESTROYTABLE, table("t"))
b.change("delete all", DELTABLE, family=0)
b.change("delete all of ip", DELTABLE)
b.change("make another", NEWTABLE, table("v"))
b.change("take it", NEWTABLE, table("v", OWNER))
all_tables()
a.change("add it", NEWTABLE, table("t"))
a.change("the same flags", NEWTABLE, table("t", OWNER))
a.change("put it to sleep", NEWTABLE, table("t", OWNER | DORMANT))
a.change("leave it", NEWTABLE, table("t", 0))
a.change("have it stay", NEWTABLE, table("t", OWNER | PERSIST))
a.change("make one that stays", NEWTABLE, table("u", OWNER | PERSIST))
a.change("delete all", DELTABLE, family=0)
all_tables()
a.change("make it", NEWTABLE, table("t", OWNER))
a.change("make one that stays", NEWTABLE, table("u", OWNER | PERSIST))
b.change("make one", NEWTABLE, table("w", PERSIST))
all_tables()
a.socket.close()
all_tables()
b.change("add a chain", NEWCHAIN, text(1, "u") + text(3, "d"))
b.change("take it for a while", NEWTABLE, table("u", OWNER))
b.change("put it to sleep", NEWTABLE, table("u", PERSIST | DORMANT))
b.change("take it", NEWTABLE, table("u", OWNER | PERSIST))
b.change("take the other", NEWTABLE, table("w", OWNER | PERSIST))
all_tables()
c.change("take it, too", NEWTABLE, table("u", OWNER | PERSIST))
c.change("delete it", DELTABLE, table("u"))
c.change("make it", NEWTABLE, table("t"))
b.change("delete it", DELTABLE, table("u"))
all_tables()
b.socket.close()
all_tables()
c.change("delete it", DELTABLE, table("w"))
all_tables()
