# SPDX-License-Identifier: Apache-2.0
"""Prints which quotas are used up, as the groups of tables and of accounts are told, without the
number of the generation."""
import socket, struct, sys

sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
sock.bind((0, 1 << 6 | 1 << 7))
print("listens", flush=True)
while True:
    data = sock.recv(65536)
    while len(data) >= 16:
        length, kind, flags, sequence = struct.unpack_from("=IHHI", data)
        print(f"{kind:#x} {flags:#x} {sequence} {data[16:18].hex()} {data[20:length].hex()}", flush=True)
        data = data[(length + 3) & ~3 :]
