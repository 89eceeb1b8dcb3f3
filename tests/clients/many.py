# SPDX-License-Identifier: Apache-2.0

"""Enters connections of UDP, each by a message of its own: how many, and their first port."""

import socket
import struct
import sys

from attributes import attribute


def tuple_of(kind, src, dst, sport, dport):
    ip = [attribute(1, socket.inet_aton(src)), attribute(2, socket.inet_aton(dst))]
    ports = [attribute(2, struct.pack("!H", sport)), attribute(3, struct.pack("!H", dport))]
    return attribute(kind, [attribute(1, ip), attribute(2, [attribute(1, b"\x11")] + ports)])


many, first = int(sys.argv[1]), int(sys.argv[2])
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.bind((0, 0))
for port in range(first, first + many):
    there = tuple_of(1, "198.18.0.1", "198.18.0.2", port, 53)
    back = tuple_of(2, "198.18.0.2", "198.18.0.1", 53, port)
    body = struct.pack("=BBH", 2, 0, 0) + there + back + attribute(7, struct.pack("!I", 3600))
    netlink.send(struct.pack("=IHHII", 16 + len(body), 1 << 8, 0x605, port, 0) + body)
    answer = netlink.recv(65536)
    if struct.unpack_from("=i", answer, 16)[0] != 0:
        sys.exit("connection %d is refused" % port)
