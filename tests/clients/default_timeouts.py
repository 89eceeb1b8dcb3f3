# SPDX-License-Identifier: Apache-2.0

"""Messages about the timeouts of connections without a policy, with what answers them."""

from attributes import attribute, be16, be32, be8
from objects import DEFAULT_GET, DEFAULT_SET, PROTOCOLS, TIMEOUT, Netlink

link = Netlink()


def ask(what, number, *parts):
    link.ask(what, TIMEOUT, number, 0, *parts)


def of(l3, l4):
    return [be16(2, l3), be8(3, l4)]


def data(*values):
    return attribute(4, [be32(kind, seconds) for kind, seconds in values])


whole = of(2, 6) + [data((3, 9))]
ask("set without anything", DEFAULT_SET)
ask("get without anything", DEFAULT_GET)
for i in range(3):
    ask("set without part %d" % i, DEFAULT_SET, *(whole[:i] + whole[i + 1 :]))
for i in range(2):
    ask("get without part %d" % i, DEFAULT_GET, whole[1 - i])
ask("get with more than needed", DEFAULT_GET, *whole)
ask("get of a family that is none", DEFAULT_GET, *of(77, 17))
for l4 in PROTOCOLS:
    ask("protocol %d" % l4, DEFAULT_GET, *of(2, l4))
for l4 in PROTOCOLS:
    ask("protocol %d, one" % l4, DEFAULT_SET, *of(2, l4), data((1, 7)))
    ask("protocol %d" % l4, DEFAULT_GET, *of(10, l4))
    ask("protocol %d, more" % l4, DEFAULT_SET, *of(10, l4), data(*[(i, 40 + i) for i in range(1, 16)]))
    ask("protocol %d" % l4, DEFAULT_GET, *of(2, l4))
    ask("protocol %d, nothing" % l4, DEFAULT_SET, *of(2, l4), data())
    ask("protocol %d" % l4, DEFAULT_GET, *of(2, l4))
ask("short seconds", DEFAULT_SET, *of(2, 6), attribute(4, [be16(3, 9)]))
ask("no seconds", DEFAULT_SET, *of(2, 6), data((4, 0)))
ask("protocol 6", DEFAULT_GET, *of(2, 6))
