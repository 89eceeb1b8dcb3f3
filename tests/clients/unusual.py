# SPDX-License-Identifier: Apache-2.0

"""Messages of nf_tables that nft does not send, and what dumps give back.

Sequence and port are left out: they differ from run to run.
"""

import socket
import struct

from attributes import attribute, be32, be64, text

TABLES = 10
NEWTABLE, NEWCHAIN, NEWRULE, GETRULE = 0, 3, 6, 7
NEWSET, NEWSETELEM, GETSETELEM, DELSETELEM = 9, 12, 13, 14
NEWOBJ, GETOBJ, DELOBJ = 18, 19, 20
ACK, DUMP, EXCL, CREATE, APPEND, REPLACE = 4, 0x300, 0x200, 0x400, 0x800, 0x100
IPV4 = 2
CONNLIMIT = 5
END = 1


def message(kind, flags, sequence, family, body, resource=0):
    head = struct.pack("=BBH", family, 0, socket.htons(resource))
    return struct.pack("=IHHII", 20 + len(body), kind, flags | 1, sequence, 0) + head + body


def without_handles(number, body):
    """Batches that are refused use up handles in the kernel."""
    left_out = {NEWRULE: (3, 6), NEWOBJ: (6,)}.get(number, ())
    kept = b""
    while len(body) >= 4:
        length, kind = struct.unpack_from("=HH", body)
        whole = (length + 3) & ~3
        if kind not in left_out:
            kept += body[:whole]
        body = body[whole:]
    return kept


class Netlink:
    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        self.socket.bind((0, 0))
        self.socket.setsockopt(270, 11, 1)
        self.socket.settimeout(0.5)

    def messages(self):
        while True:
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return
            while len(data) >= 16:
                length, kind, flags = struct.unpack_from("=IHH", data)
                yield kind, flags, data[16:length]
                data = data[(length + 3) & ~3 :]

    def batch(self, what, *changes):
        """Changes are (number, flags, attributes)."""
        data = message(0x10, 0, 1, 0, b"", TABLES)
        for sequence, (number, flags, *parts) in enumerate(changes, 2):
            body = b"".join(parts)
            data += message(TABLES << 8 | number, flags | ACK, sequence, IPV4, body)
        data += message(0x11, 0, 99, 0, b"", TABLES)
        self.socket.send(data)
        print(what)
        for kind, _, body in self.messages():
            assert kind == 2
            errno, _, _, _, sequence = struct.unpack_from("=iIHHI", body)
            print("  message %d: error %d" % (sequence - 2, errno))

    def dump(self, number, *parts, flags=DUMP):
        body = b"".join(parts)
        self.socket.send(message(TABLES << 8 | number, flags, 1, IPV4, body))
        for kind, flags, body in self.messages():
            if kind == 2:
                print("  error %d" % struct.unpack_from("=i", body))
                return
            if kind == 3:
                return
            print("  %#x %s" % (kind, without_handles(kind & 0xFF, body[4:]).hex()))


def expressions(*all):
    """Each is (name, attributes)."""
    one = lambda name, *parts: attribute(1, [text(1, name), attribute(2, list(parts))])
    return attribute(4, [one(*expression) for expression in all])


def load_source(register):
    """ip saddr into a register."""
    return ("payload", be32(1, register), be32(2, 1), be32(3, 12), be32(4, 4))


def dynset(name, operation, *parts):
    return ("dynset", text(1, name), be32(3, operation), be32(4, 1), *parts)


def rule(chain, *all):
    return NEWRULE, CREATE | APPEND, text(1, "t"), text(2, chain), expressions(*all)


def new_set(name, number, flags, *parts):
    what = (text(1, "t"), text(2, name), be32(3, flags), be32(4, 7), be32(5, 4), be32(10, number))
    return NEWSET, CREATE, *what, *parts


def elements(name, *all, number=NEWSETELEM, flags=CREATE):
    """Each is a key and flags."""
    def one(key, flags):
        key = attribute(1, [attribute(1, socket.inet_aton(key))])
        return attribute(1, [key] + ([be32(3, flags)] if flags is not None else []))

    listed = attribute(3, [one(*element) for element in all])
    return number, flags, text(1, "t"), text(2, name), listed


def main():
    link = Netlink()
    link.batch(
        "table, chain and sets",
        (NEWTABLE, CREATE, text(1, "t"), be32(2, 0)),
        (NEWCHAIN, CREATE, text(1, "t"), text(3, "c")),
        new_set("packets", 1, 0x30, be64(11, 60000)),
        new_set("plain", 2, 0x20),
        new_set("intervals", 3, 4),
    )
    print("inverted updates")
    for operation in (0, 1, 2, 3):
        for flags in (0, 1, 2, 3, 4):
            update = dynset("packets", operation, be32(9, flags))
            link.batch("%d, flags %d" % (operation, flags), rule("c", load_source(1), update))
    counter = attribute(1, [text(1, "counter"), attribute(2, [])])
    update = dynset("packets", 0, be32(9, 3), attribute(10, [counter, counter]))
    link.batch("with expressions", rule("c", load_source(1), update))
    link.batch("no timeouts", rule("c", load_source(1), dynset("plain", 1, be32(9, 1))))
    link.dump(GETRULE)

    print("objects that limit connections")
    named = lambda name: (text(1, "t"), text(2, name), be32(3, CONNLIMIT))
    data = lambda *parts: attribute(4, list(parts))
    both = (be32(1, 7), be32(2, 1))
    link.batch("none", (NEWOBJ, CREATE, *named("none"), data()))
    link.batch("some", (NEWOBJ, CREATE, *named("some"), data(be32(1, 20))))
    link.batch("over", (NEWOBJ, CREATE, *named("over"), data(*both)))
    link.batch("flags", (NEWOBJ, CREATE, *named("flags"), data(be32(1, 7), be32(2, 2))))
    link.batch("again", (NEWOBJ, CREATE, *named("over"), data(be32(1, 9))))
    link.batch("exclusively", (NEWOBJ, CREATE | EXCL, *named("over"), data(be32(1, 9))))
    link.batch("replaced", (NEWOBJ, REPLACE, *named("over"), data(be32(1, 9))))
    reference = ("objref", be32(1, CONNLIMIT), text(2, "over"))
    link.batch("used", rule("c", reference), rule("c", reference))
    link.dump(GETOBJ)
    link.dump(GETOBJ, *named("over"), flags=0)
    link.dump(GETRULE)
    link.batch("deleted while used", (DELOBJ, 0, *named("over")))
    link.batch("deleted", (DELOBJ, 0, *named("some")))
    link.dump(GETOBJ)

    print("ends of intervals")

    def shown(*changes):
        link.batch("elements", *changes)
        link.dump(GETSETELEM, text(1, "t"), text(2, "intervals"))

    shown(elements("intervals", ("198.18.0.0", None), ("198.18.1.0", END)))
    shown(elements("intervals", ("0.0.0.0", END)))
    shown(elements("intervals", ("198.18.4.0", None), ("198.18.5.0", END)))
    shown(elements("intervals", ("198.18.1.0", None), ("198.18.2.0", END)))
    shown(elements("intervals", ("198.19.255.0", None)))
    remove = dict(number=DELSETELEM, flags=0)
    shown(elements("intervals", ("198.18.0.0", None), ("198.18.1.0", END), **remove))
    shown(elements("intervals", ("0.0.0.0", END), **remove))
    shown(elements("intervals", ("0.0.0.0", END), **remove))
    shown(elements("intervals", ("198.19.255.0", None), **remove))
    shown(elements("intervals", ("0.0.0.0", None), ("198.18.0.0", END)))


main()
