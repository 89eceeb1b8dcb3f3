# SPDX-License-Identifier: Apache-2.0

"""Messages of ctnetlink and ctnetlink_exp, one after the other, with what answers them.

Numbers that differ from run to run are left out: sequence, port, identifiers. Timeouts are rounded
up to the next ten. Answers of a dump are sorted.
"""

import socket
import struct

from attributes import attribute, be16, be32, be8

CT, EXP = 1, 2
NEW, GET, DELETE, ZERO, CPU, STATS, DYING, UNCONFIRMED = range(8)
ACK, ECHO, DUMP, EXCL, CREATE = 4, 8, 0x300, 0x200, 0x400
TCP, UDP, ICMP, SCTP, ICMP6 = 6, 17, 1, 132, 58


def address(text):
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def tuple_of(kind, src, dst, proto, ids, zone=None):
    first = 3 if ":" in src else 1
    ip = [attribute(first, address(src)), attribute(first + 1, address(dst))]
    if proto in (ICMP, ICMP6):
        base = 4 if proto == ICMP else 7
        own = [be16(base, ids[0]), be8(base + 1, ids[1]), be8(base + 2, ids[2])]
    else:
        own = [be16(2, ids[0]), be16(3, ids[1])]
    parts = [attribute(1, ip), attribute(2, [be8(1, proto)] + own)]
    if zone is not None:
        parts.append(be16(3, zone))
    return attribute(kind, parts)


def pair(src, dst, proto, ids, zone=(None, None)):
    back = ids[::-1]
    if proto in (ICMP, ICMP6):
        answer = {8: 0, 13: 14, 128: 129}.get(ids[1], ids[1])
        back = (ids[0], answer, ids[2])
    return tuple_of(1, src, dst, proto, ids, zone[0]) + tuple_of(2, dst, src, proto, back, zone[1])


def shown(data, masked, path=()):
    out, at = [], 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        value, plain = data[at + 4 : at + length], kind & 0x3FFF
        here = path + (plain,)
        if kind & 0x8000:
            out.append("%d[%s]" % (plain, shown(value, masked, here)))
        elif here in masked and len(value) == 4:
            number = struct.unpack("!I", value)[0]
            ten = -(-number // 10) * 10
            out.append("%d=%s" % (plain, "id" if masked[here] else "%d s" % ten))
        else:
            out.append("%d=%s" % (plain, value.hex()))
        at += (length + 3) & ~3
    return " ".join(out)


class Netlink:
    def __init__(self, groups=0):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        self.socket.bind((0, groups))
        self.socket.settimeout(3)
        self.sequence = 0

    def messages(self):
        data = self.socket.recv(65536)
        while len(data) >= 16:
            length = struct.unpack_from("=I", data)[0]
            yield data[:length]
            data = data[(length + 3) & ~3 :]

    def show(self, message):
        _, kind, flags, _, _ = struct.unpack_from("=IHHII", message)
        if kind == 2:
            errno = struct.unpack_from("=i", message, 16)[0]
            at = 36 if flags & 0x100 else 20 + struct.unpack_from("=I", message, 20)[0]
            more = shown(message[(at + 3) & ~3 :], {}) if flags & 0x200 else ""
            return "error %d flags %#x %s" % (errno, flags, more)
        if kind == 3:
            return "done"
        head = "%#x flags %#x %s" % (kind, flags, message[16:20].hex())
        masked = {(12,): 1, (7,): 0} if kind >> 8 == CT else {(5,): 1, (4,): 0}
        return head + " " + shown(message[20:], masked)

    def ask(self, what, subsystem, number, flags, *parts, family=2, version=0):
        self.sequence += 1
        body = struct.pack("=BBH", family, version, 0) + b"".join(parts)
        kind = subsystem << 8 | number
        head = struct.pack("=IHHII", 16 + len(body), kind, 1 | flags, self.sequence, 0)
        self.socket.send(head + body)
        print("#", what)
        answers = []
        while True:
            for message in self.messages():
                answers.append(self.show(message))
            if answers[-1] == "done" or answers[-1].startswith("error"):
                break
        for line in sorted(answers):
            print(line)

    def events(self, count):
        while count > 0:
            for message in self.messages():
                print("event", self.show(message))
                count -= 1


A, B, A6, B6 = "198.18.0.1", "198.18.0.2", "2001:db8::1", "2001:db8::2"
listener = Netlink(groups=0x3F)
n = Netlink()
web = pair(A, B, TCP, (1000, 80))
dns = pair(A, B, UDP, (1000, 53))
ping = pair(A, B, ICMP, (7, 8, 0))
time = be32(7, 1000)
state = attribute(4, [attribute(1, [be8(1, 3), attribute(4, b"\x03\x0b"), attribute(5, b"\x03\x03"),
                                    be8(2, 7), be8(3, 9)])])

print("== new")
n.ask("without a timeout", CT, NEW, ACK | CREATE | EXCL, dns)
n.ask("without create", CT, NEW, ACK, dns, time)
n.ask("udp", CT, NEW, ACK | CREATE | EXCL, dns, time, be32(8, 5))
n.ask("again", CT, NEW, ACK | CREATE | EXCL, dns, time)
n.ask("tcp with a state", CT, NEW, ACK | CREATE | EXCL, web, time, be32(3, 0xE), state)
n.ask("icmp", CT, NEW, ACK | CREATE | EXCL, ping, time)
n.ask("icmp of no request", CT, NEW, ACK | CREATE, pair(A, B, ICMP, (7, 3, 0)), time)
n.ask("icmp for ipv6", CT, NEW, ACK | CREATE, pair(A6, B6, ICMP6, (7, 128, 0)), time, family=10)
sctp = attribute(4, [attribute(3, [be8(1, 4), be32(2, 0x11), be32(3, 0x22)])])
n.ask("sctp", CT, NEW, ACK | CREATE, pair(A6, B6, SCTP, (5, 6)), time, sctp, family=10)
n.ask("half of sctp", CT, NEW, ACK | CREATE, pair(A, B, SCTP, (5, 7)), time,
      attribute(4, [attribute(3, [be8(1, 4)])]))
n.ask("no such state", CT, NEW, ACK | CREATE, pair(A, B, TCP, (1, 2)), time,
      attribute(4, [attribute(1, [be8(1, 10)])]))
n.ask("another protocol", CT, NEW, ACK | CREATE, pair(A, B, 99, (0, 0)), time)
n.ask("one tuple", CT, NEW, ACK | CREATE, tuple_of(1, A, B, UDP, (5, 5)), time)
n.ask("two protocols", CT, NEW, ACK | CREATE, tuple_of(1, A, B, UDP, (5, 5)),
      tuple_of(2, B, A, TCP, (5, 5)), time)
n.ask("the wrong family", CT, NEW, ACK | CREATE, dns, time, family=10)
n.ask("no family", CT, NEW, ACK | CREATE, dns, time, family=0)
n.ask("a zone", CT, NEW, ACK | CREATE | EXCL, dns, time, be16(18, 5))
n.ask("a zone of the original direction", CT, NEW, ACK | CREATE | EXCL,
      pair(A, B, UDP, (1001, 53), (6, None)), time)
n.ask("zones of both", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1002, 53), (6, None)), time,
      be16(18, 7))
n.ask("a helper", CT, NEW, ACK | CREATE, pair(A, B, TCP, (1000, 21)), time,
      attribute(5, [attribute(1, b"ftp\0")]), be32(3, 0xE), state)
n.ask("no such helper", CT, NEW, ACK | CREATE, pair(A, B, TCP, (1001, 21)), time,
      attribute(5, [attribute(1, b"nothing\0")]))
n.ask("another source", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1003, 53)), time,
      attribute(6, [attribute(1, address("198.18.9.9"))]))
n.ask("another destination and port", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1004, 53)), time,
      attribute(13, [attribute(1, address("198.18.9.9")), attribute(3, [be16(1, 5353)])]))
n.ask("shifts", CT, NEW, ACK | CREATE, pair(A, B, TCP, (1005, 80)), time,
      attribute(15, [be32(1, 100), be32(2, 0), be32(3, 5)]))
n.ask("half of a shift", CT, NEW, ACK | CREATE, pair(A, B, TCP, (1006, 80)), time,
      attribute(15, [be32(1, 100)]))
n.ask("a master", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1007, 9)), time,
      tuple_of(14, A, B, TCP, (1000, 21)))
n.ask("no such master", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1008, 9)), time,
      tuple_of(14, A, B, TCP, (1, 1)))
n.ask("labels without room", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1009, 9)), time,
      attribute(22, b"\1" * 16))
n.ask("status that cannot be", CT, NEW, ACK | CREATE, pair(A, B, UDP, (1010, 9)), time,
      be32(3, 0x200))
n.ask("numbers of a SYN proxy", CT, NEW, ACK | CREATE, pair(A, B, TCP, (1011, 9)), time,
      attribute(24, [be32(1, 0), be32(2, 0), be32(3, 0)]))
n.ask("a short address", CT, NEW, ACK | CREATE,
      attribute(1, [attribute(1, [attribute(1, b"\1\2")])]), time)
n.ask("a short timeout", CT, NEW, ACK | CREATE, dns, attribute(7, b"\1"))
n.ask("what is rejected", CT, NEW, ACK | CREATE, dns, time, be32(27, 1))
listener.events(13)

print("== get")
n.ask("by the original tuple", CT, GET, ACK, tuple_of(1, A, B, UDP, (1000, 53)))
n.ask("by the reply tuple", CT, GET, ACK, tuple_of(2, B, A, UDP, (53, 1000)))
n.ask("in a zone", CT, GET, ACK, tuple_of(1, A, B, UDP, (1000, 53)), be16(18, 5))
n.ask("in a zone of one direction", CT, GET, ACK, tuple_of(1, A, B, UDP, (1001, 53), 6))
n.ask("its answers", CT, GET, ACK, tuple_of(2, B, A, UDP, (53, 1001)))
n.ask("not without its zone", CT, GET, ACK, tuple_of(1, A, B, UDP, (1001, 53)))
n.ask("nothing named", CT, GET, ACK)
n.ask("none there", CT, GET, ACK, tuple_of(1, A, B, UDP, (1, 1)))
n.ask("half of a tuple", CT, GET, ACK, attribute(1, [attribute(1, [attribute(1, address(A))])]))
n.ask("with its master", CT, GET, ACK, tuple_of(1, A, B, UDP, (1007, 9)))
n.ask("its master", CT, GET, ACK, tuple_of(1, A, B, TCP, (1000, 21)))

print("== dump")
n.ask("all", CT, GET, DUMP, family=0)
n.ask("of IPv6", CT, GET, DUMP, family=10)
n.ask("of a mark", CT, GET, DUMP, be32(8, 5), family=0)
n.ask("of a mark under a mask", CT, GET, DUMP, be32(8, 4), be32(21, 4), family=0)
n.ask("of a mask", CT, GET, DUMP, be32(21, 4), family=0)
n.ask("of a status", CT, GET, DUMP, be32(3, 4), family=0)
n.ask("of a status of nothing", CT, GET, DUMP, be32(3, 0), family=0)
n.ask("of a status mask", CT, GET, DUMP, be32(26, 4), family=0)
n.ask("of a zone", CT, GET, DUMP, be16(18, 5), family=0)
n.ask("of a zone of one direction", CT, GET, DUMP, be16(18, 6), family=0)
n.ask("of zone 0", CT, GET, DUMP, be16(18, 0), family=0)
flag = lambda *bits: attribute(1, struct.pack("=I", sum(1 << b for b in bits)))
n.ask("of a protocol and a port", CT, GET, DUMP, attribute(25, [flag(3, 5)]),
      tuple_of(1, A, B, UDP, (1000, 53)))
n.ask("of a source", CT, GET, DUMP, attribute(25, [flag(0)]), tuple_of(1, A, B, UDP, (1, 1)))
n.ask("of a port without a protocol", CT, GET, DUMP, attribute(25, [flag(4)]),
      tuple_of(1, A, B, UDP, (1, 1)))
n.ask("of a tuple that is missing", CT, GET, DUMP, attribute(25, [flag(0)]))
n.ask("of bits that are not known", CT, GET, DUMP, attribute(25, [flag(12)]),
      tuple_of(1, A, B, UDP, (1, 1)))
n.ask("of a type of ICMP", CT, GET, DUMP, attribute(25, [flag(3, 6)]),
      tuple_of(1, A, B, ICMP, (1, 8, 0)))
n.ask("of what is dying", CT, DYING, DUMP)
n.ask("of what is unconfirmed", CT, UNCONFIRMED, DUMP)
n.ask("one that is dying", CT, DYING, ACK)
n.ask("counts of workers, but no dump", CT, CPU, ACK)
n.ask("no such message", CT, 9, ACK)

print("== update")
first = tuple_of(1, A, B, UDP, (1000, 53))
n.ask("mark and timeout", CT, NEW, ACK, first, be32(8, 9), be32(7, 500))
n.ask("mark under a mask", CT, NEW, ACK, first, be32(8, 0xF0), be32(21, 0xF0))
n.ask("it is seen", CT, GET, ACK, first)
n.ask("status", CT, NEW, ACK, first, be32(3, 0xE))
n.ask("status that is taken away", CT, NEW, ACK, first, be32(3, 8))
n.ask("status that is fixed", CT, NEW, ACK, first, be32(3, 0x20E))
n.ask("fixed timeout", CT, NEW, ACK, first, be32(3, 0x40E))
n.ask("a timeout after that", CT, NEW, ACK, first, be32(7, 5))
n.ask("nat", CT, NEW, ACK, first, attribute(6, [attribute(1, address("198.18.9.9"))]))
n.ask("a helper where there was none", CT, NEW, ACK, first, attribute(5, [attribute(1, b"tftp\0")]))
ftp = tuple_of(1, A, B, TCP, (1000, 21))
n.ask("the same helper", CT, NEW, ACK, ftp, attribute(5, [attribute(1, b"ftp\0")]))
n.ask("another helper", CT, NEW, ACK, ftp, attribute(5, [attribute(1, b"irc\0")]))
n.ask("labels", CT, NEW, ACK, first, attribute(22, b"\1" * 16))
n.ask("labels of no length", CT, NEW, ACK, first, attribute(22, b"\1" * 3))
n.ask("a helper of a child", CT, NEW, ACK, tuple_of(1, A, B, UDP, (1007, 9)),
      attribute(5, [attribute(1, b"tftp\0")]))
n.ask("a state", CT, NEW, ACK, tuple_of(1, A, B, TCP, (1005, 80)),
      attribute(4, [attribute(1, [be8(1, 8)])]))
n.ask("with echo", CT, NEW, ACK | ECHO, tuple_of(2, B, A, TCP, (80, 1000)), be32(8, 77))
n.ask("zero counters", CT, ZERO, ACK, first)
listener.events(7)

print("== expectations")
expected = tuple_of(2, B, A, TCP, (0, 2000))
mask = tuple_of(3, "255.255.255.255", "255.255.255.255", TCP, (0, 65535))
master = tuple_of(1, A, B, TCP, (1000, 21))
n.ask("one", EXP, NEW, ACK | CREATE | EXCL, expected, mask, master, be32(4, 60))
n.ask("again", EXP, NEW, ACK | CREATE | EXCL, expected, mask, master, be32(4, 60))
n.ask("another timeout", EXP, NEW, ACK, expected, mask, master, be32(4, 80))
n.ask("without create", EXP, NEW, ACK, tuple_of(2, B, A, TCP, (0, 2001)), mask, master)
n.ask("without a mask", EXP, NEW, ACK | CREATE, expected, master)
n.ask("without a master", EXP, NEW, ACK | CREATE, tuple_of(2, B, A, TCP, (0, 2001)), mask,
      tuple_of(1, A, B, TCP, (1, 1)))
n.ask("of one without a helper", EXP, NEW, ACK | CREATE, tuple_of(2, B, A, TCP, (0, 2001)), mask,
      tuple_of(1, A, B, TCP, (1000, 80)))
n.ask("one by its tuple", EXP, GET, ACK, expected)
n.ask("none there", EXP, GET, ACK, tuple_of(2, B, A, TCP, (0, 2009)))
n.ask("all", EXP, GET, DUMP)
n.ask("all of IPv6", EXP, GET, DUMP, family=10)
n.ask("of a master", EXP, GET, DUMP, master)
n.ask("of no master", EXP, GET, DUMP, tuple_of(1, A, B, TCP, (1, 1)))
n.ask("delete one", EXP, DELETE, ACK, expected)
n.ask("delete it again", EXP, DELETE, ACK, expected)
translated = attribute(10, [be32(1, 1), tuple_of(2, A, "0.0.0.0", TCP, (2001, 0))])
n.ask("with a class, flags and a translation", EXP, NEW, ACK | CREATE,
      tuple_of(2, B, A, TCP, (0, 2002)), mask, master, be32(8, 1), translated,
      attribute(11, b"nat-follow-master\0"))
n.ask("one more, for which the oldest makes room", EXP, NEW, ACK | CREATE,
      tuple_of(2, B, A, TCP, (0, 2004)), mask, master)
n.ask("a class that is not there", EXP, NEW, ACK | CREATE, tuple_of(2, B, A, TCP, (0, 2003)), mask,
      master, be32(9, 1), attribute(6, b"ftp\0"))
n.ask("a function that is not there", EXP, NEW, ACK | CREATE, tuple_of(2, B, A, TCP, (0, 2003)),
      mask, master, attribute(11, b"nothing\0"))
n.ask("all", EXP, GET, DUMP)
n.ask("delete by helper", EXP, DELETE, ACK, attribute(6, b"ftp\0"))
n.ask("all", EXP, GET, DUMP)
listener.events(6)

print("== delete")
n.ask("by another id", CT, DELETE, ACK, first, be32(12, 1))
n.ask("one", CT, DELETE, ACK, first)
n.ask("it again", CT, DELETE, ACK, first)
n.ask("with echo", CT, DELETE, ACK | ECHO, tuple_of(2, B, A, TCP, (80, 1000)))
n.ask("of a zone", CT, DELETE, ACK, be16(18, 5), family=0)
n.ask("of a filter", CT, DELETE, ACK, attribute(25, [flag(3)]), tuple_of(1, A, B, ICMP, (0, 8, 0)))
n.ask("of IPv6", CT, DELETE, ACK, family=10, version=1)
n.ask("what is left", CT, GET, DUMP, family=0)
listener.events(6)
n.ask("all", CT, DELETE, ACK, family=0)
n.ask("nothing is left", CT, GET, DUMP, family=0)
print("== a member hears of its own changes")
member = Netlink(groups=0x3F)
member.ask("new", CT, NEW, ACK | CREATE, dns, time)
member.ask("with echo", CT, NEW, ACK | ECHO, first, be32(8, 1))
member.ask("all", CT, DELETE, ACK, family=0)
n.ask("how many", CT, STATS, ACK)
