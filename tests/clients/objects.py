# SPDX-License-Identifier: Apache-2.0

"""Messages of nfacct and cttimeout, one after the other, with what answers them.

Sequence and port are left out: they differ from run to run.
"""

import socket
import struct

from attributes import attribute, be16, be32, be64, be8, text

ACCT, TIMEOUT = 7, 8
NEW, GET, ZERO, DELETE, DEFAULT_SET, DEFAULT_GET = 0, 1, 2, 3, 3, 4
ACK, DUMP, REPLACE, EXCL, CREATE = 4, 0x300, 0x100, 0x200, 0x400
PROTOCOLS = [1, 6, 17, 33, 47, 58, 132, 136, 253, 255]


def blamed(body, flags):
    """Offset of the attribute to blame; the kernel's words are left out."""
    at = 20 if flags & 0x100 else 4 + ((struct.unpack_from("=I", body, 4)[0] + 3) & ~3)
    while flags & 0x200 and at + 8 <= len(body):
        length, kind, value = struct.unpack_from("=HHI", body, at)
        if kind == 2:
            return value
        at += (length + 3) & ~3
    return None


class Netlink:
    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        self.socket.bind((0, 0))
        self.socket.setsockopt(270, 11, 1)
        self.socket.settimeout(3)
        self.sequence = 0

    def answers(self):
        """Up to an error, or to the end of a dump."""
        while True:
            data = self.socket.recv(65536)
            while len(data) >= 16:
                length, kind, flags = struct.unpack_from("=IHH", data)
                body = data[16:length]
                if kind == 2:
                    errno = struct.unpack_from("=i", body)[0]
                    yield "error %d blames %s" % (errno, blamed(body, flags))
                    return
                yield "%#x flags %#x %s" % (kind, flags, body.hex())
                if kind == 3:
                    return
                data = data[(length + 3) & ~3 :]

    def ask(self, what, subsystem, number, flags, *parts):
        self.sequence += 1
        body = struct.pack("=BBH", 0, 0, 0) + b"".join(parts)
        kind = subsystem << 8 | number
        self.socket.send(
            struct.pack("=IHHII", 16 + len(body), kind, flags | 1 | ACK, self.sequence, 0) + body
        )
        print(what)
        for answer in self.answers():
            print("  " + answer)


def accounts(link):
    def ask(what, number, flags, *parts):
        link.ask("account: " + what, ACCT, number, flags, *parts)

    def shown():
        ask("all", GET, DUMP)

    ask("without a name", NEW, CREATE)
    ask("an empty name", NEW, CREATE, text(1, ""))
    ask("a name without its end", NEW, CREATE, attribute(1, b"abc"))
    ask("a name of 31 bytes", NEW, CREATE, text(1, "n" * 31))
    ask("a name of 32 bytes", NEW, CREATE, text(1, "n" * 32))
    ask("values", NEW, CREATE, text(1, "v"), be64(2, 5), be64(3, 500))
    ask("again", NEW, CREATE, text(1, "v"))
    ask("again, exclusively", NEW, CREATE | EXCL, text(1, "v"))
    ask("short values", NEW, CREATE, text(1, "w"), be32(2, 5))
    for flags in [0, 1, 2, 3, 4, 5, 8]:
        ask("flags %d" % flags, NEW, CREATE, text(1, "f%d" % flags), be32(5, flags))
        ask("quota, flags %d" % flags, NEW, CREATE, text(1, "q%d" % flags), be32(5, flags), be64(6, 9))
    ask("a quota without flags", NEW, CREATE, text(1, "q"), be64(6, 9))
    shown()
    ask("one", GET, 0, text(1, "v"))
    ask("one that is not there", GET, 0, text(1, "nowhere"))
    ask("one without a name", GET, 0)
    ask("one, to zero", ZERO, 0, text(1, "v"))
    ask("one", GET, 0, text(1, "v"))
    for mask, value in [(3, 1), (3, 2), (3, 0), (0, 1), (4, 4)]:
        ask("filter %d %d" % (mask, value), GET, DUMP, attribute(7, [be32(1, mask), be32(2, value)]))
    ask("half a filter", GET, DUMP, attribute(7, [be32(1, 1)]))
    ask("replaced", NEW, REPLACE, text(1, "n" * 31))
    ask("values", NEW, CREATE, text(1, "z"), be64(2, 5), be64(3, 500))
    ask("replaced", NEW, REPLACE, text(1, "z"), be64(2, 7))
    ask("all, to zero", ZERO, DUMP)
    ask("deleted", DELETE, 0, text(1, "z"))
    ask("deleted again", DELETE, 0, text(1, "z"))
    shown()
    ask("all deleted", DELETE, 0)
    shown()
    ask("no message", 5, 0)


def timeouts(link):
    def ask(what, number, flags, *parts):
        link.ask("timeout: " + what, TIMEOUT, number, flags, *parts)

    def of(name, l3, l4, *values):
        data = attribute(4, [be32(kind, seconds) for kind, seconds in values])
        return [text(1, name), be16(2, l3), be8(3, l4), data]

    ask("without anything", NEW, CREATE)
    whole = of("w", 2, 6)
    for i in range(4):
        ask("without part %d" % i, NEW, CREATE, *(whole[:i] + whole[i + 1 :]))
    ask("a name of 31 bytes", NEW, CREATE, *of("n" * 31, 2, 6))
    ask("a name of 32 bytes", NEW, CREATE, *of("n" * 32, 2, 6))
    for l4 in PROTOCOLS:
        ask("protocol %d" % l4, NEW, CREATE, *of("p%d" % l4, 2, l4, (1, 7), (2, 8)))
        ask("protocol %d, more" % l4, NEW, CREATE, *of("m%d" % l4, 10, l4, *[(i, i) for i in range(1, 16)]))
    ask("a family that is none", NEW, CREATE, *of("l3", 77, 6, (3, 9)))
    ask("short seconds", NEW, CREATE, *of("s", 2, 6)[:3], attribute(4, [be16(3, 9)]))
    ask("again", NEW, CREATE, *of("p6", 2, 6))
    ask("again, exclusively", NEW, CREATE | EXCL, *of("p6", 2, 6))
    ask("replaced", NEW, REPLACE, *of("p6", 2, 6, (3, 44)))
    ask("replaced by another protocol", NEW, REPLACE, *of("p6", 2, 17))
    ask("replaced by another family", NEW, REPLACE, *of("p6", 10, 6))
    ask("all", GET, DUMP)
    ask("one", GET, 0, text(1, "p6"))
    ask("one that is not there", GET, 0, text(1, "nowhere"))
    ask("one without a name", GET, 0)
    ask("deleted", 2, 0, text(1, "p6"))
    ask("deleted again", 2, 0, text(1, "p6"))
    ask("all deleted", 2, 0)
    ask("all", GET, DUMP)
    ask("no message", 7, 0)


if __name__ == "__main__":
    link = Netlink()
    accounts(link)
    timeouts(link)
