# SPDX-License-Identifier: Apache-2.0
"""Sends UDP datagrams in frames with VLAN tags, which no VLAN device has made: DEVICE MAC COUNT TAG..."""

import socket
import struct
import sys

device, mac, count = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), int(sys.argv[3])
tags = [tuple(int(n, 0) for n in tag.split(":")) for tag in sys.argv[4:]]


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
    out.bind((device, 0))
    payload = b"tagged as it was"
    udp = struct.pack("!HHHH", 4000, 9, 8 + len(payload), 0) + payload
    addresses = socket.inet_aton("198.18.0.2") + socket.inet_aton("198.18.0.3")
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0)
    ip = head[:10] + struct.pack("!H", checksum(head + addresses)) + addresses
    frame = mac + out.getsockname()[4]
    for protocol, tci in tags:
        frame += struct.pack("!HH", protocol, tci)
    frame += b"\x08\x00" + ip + udp
    for _ in range(count):
        out.send(frame)
