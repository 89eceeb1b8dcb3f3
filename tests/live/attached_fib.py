# SPDX-License-Identifier: Apache-2.0
"""Packets from and to addresses that routes say different things of.

attached_fib.py send DEVICE MAC SEED COUNT    sends frames at random, to the link address MAC, for groups, or for all
attached_fib.py own                           sends datagrams to the host's own addresses
attached_fib.py serve                         answers lines of TCP at port 9
attached_fib.py talk ADDRESS...               sends lines, each after the answer to the one before
"""
import errno
import random
import socket
import struct
import sys
import time

V4 = """198.18.0.1 198.18.0.2 198.18.0.3 198.18.0.0 198.18.0.255 198.18.1.1 198.18.1.2 198.18.1.255 198.18.7.7 198.18.40.1
198.18.41.1 198.18.42.1 198.18.43.1 198.18.44.1 198.18.45.1 198.18.46.9 198.19.0.1 198.19.255.255 0.0.0.0 0.1.2.3
255.255.255.255 224.0.0.1 224.0.0.251 224.0.1.1 239.1.1.1 127.0.0.1 240.0.0.1""".split()
V6 = """2001:db8::1 2001:db8::2 2001:db8::3 2001:db8:: 2001:db8:1::1 2001:db8:1::2 2001:db8:1:: 2001:db8:40::1 2001:db8:41::1
2001:db8:42::1 2001:db8:43::1 2001:db8:44::1 2001:db8:ff::1 2001:db9::1 fe80::1 fe80::2 fe80::55 fe81::1 fec0::1 ff02::1
ff01::1 ff02::1:ff00:1 ff05::1 ff0e::1 ff12::1 :: ::1 ::2""".split()
OWN = "198.18.0.1 198.18.1.1 127.0.0.1 2001:db8::1 2001:db8:1::1 ::1".split()
LINES = 20


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet4(rng):
    source, destination = (socket.inet_aton(rng.choice(V4)) for _ in range(2))
    payload = struct.pack("!HHHH", 5000, 9, 8, 0)
    header = struct.pack("!BBHHHBBH", 0x45, rng.choice([0, 0, 0x10, 0xFF]), 28, 0, 0, 64, 17, 0) + source + destination
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload, destination[0]


def packet6(rng):
    source, destination = (socket.inet_pton(socket.AF_INET6, rng.choice(V6)) for _ in range(2))
    protocol, payload = rng.choice([(17, struct.pack("!HHHH", 5000, 9, 8, 1)), (58, struct.pack("!BBHI", 135, 0, 0, 0) + destination)])
    header = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 255) + source + destination
    return header + payload, destination[0]


def send(device, mac, seed, count):
    rng = random.Random(int(seed))
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((device, 0))
    for _ in range(int(count)):
        make, ethertype = rng.choice([(packet4, 0x0800), (packet6, 0x86DD)])
        packet, first = make(rng)
        to = bytes.fromhex(mac.replace(":", ""))
        if first >= 224 and rng.random() < 0.5:
            to = b"\xff" * 6
        frame = to + b"\x02\0\0\0\x0a\0" + struct.pack("!H", ethertype) + packet
        while True:
            try:
                s.send(frame)
                break
            except OSError as e:
                # The other end has not taken the ones before yet.
                if e.errno != errno.ENOBUFS:
                    raise
                time.sleep(0.001)


def own():
    for address in OWN:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"x", (address, 9))


def serve():
    server = socket.create_server(("::", 9), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        connection, _ = server.accept()
        with connection:
            while line := connection.recv(100):
                connection.sendall(line)


def talk(addresses):
    for address in addresses:
        with socket.create_connection((address, 9), timeout=5) as connection:
            for _ in range(LINES):
                connection.sendall(b"line\n")
                connection.recv(100)


if __name__ == "__main__":
    globals()[sys.argv[1]](*([sys.argv[2:]] if sys.argv[1] == "talk" else sys.argv[2:]))
