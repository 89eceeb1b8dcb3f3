# SPDX-License-Identifier: Apache-2.0
# Frames for a bridge: DEVICE, the address of the bridge, a number for chance, how many.

import random
import socket
import struct
import sys

device, bridge, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
chance = random.Random(seed)
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind((device, 0))


def mac(text):
    return bytes(int(part, 16) for part in text.split(":"))


def station(number):
    return bytes([2, 0, 0, 0, 12, number])


def ip(payload):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0,
                       socket.inet_aton("198.18.0.2"), socket.inet_aton("198.18.0.3"))
    return head + payload


for _ in range(count):
    to = chance.choice([mac(bridge), station(1), station(2), b"\xff" * 6, bytes([1, 0, 94, 1, 2, 3]),
                        bytes([1, 128, 194, 0, 0, chance.randrange(17)])])
    source = chance.choice([station(chance.randrange(3))] * 6 + [bytes(6), bytes([3, 0, 0, 0, 0, 1])])
    tags = b"".join(struct.pack("!HH", chance.choice([0x8100, 0x8100, 0x88a8]),
                                chance.choice([7, 0x6000, 0x2007, 4094]))
                    for _ in range(chance.choice([0, 0, 0, 1, 1, 2])))
    port = chance.choice([53, 80, 9000])
    udp = struct.pack("!HHHH", 1000, port, 8 + 20, 0) + bytes(20)
    kind, body = chance.choice([(0x800, ip(udp)), (0x800, ip(udp)), (0x806, bytes(28)),
                                (0x1234, b"unknown"), (30, bytes([66, 66, 3]) + bytes(27)),
                                (0x800, b"\x45")])
    sock.send(to + source + tags + struct.pack("!H", kind) + body + bytes(chance.randrange(200)))
