# SPDX-License-Identifier: Apache-2.0
"""Datagrams whose number does not depend on time.

attached.py serve                       echoes UDP at PORTS, IPv4 and IPv6
attached.py ask ADDRESS...              sends ROUNDS datagrams of each of SIZES to each of PORTS, and prints for each address and
                                        port how many were answered
"""
import selectors
import socket
import sys

PORTS = [53, 5000, 9000, 9001, 9002]
# The last one travels in fragments.
SIZES = [1, 200, 1400, 3000]
ROUNDS = 3
# How long an answer may take, in seconds.
PATIENCE = 0.05


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve():
    selector = selectors.DefaultSelector()
    for address in "0.0.0.0", "::":
        for port in PORTS:
            s = socket.socket(family(address), socket.SOCK_DGRAM)
            if family(address) == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, port))
            selector.register(s, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            data, peer = key.fileobj.recvfrom(65536)
            key.fileobj.sendto(data, peer)


def ask(addresses):
    for address in addresses:
        for port in PORTS:
            s = socket.socket(family(address), socket.SOCK_DGRAM)
            s.bind(("", 20000 + port))
            s.connect((address, port))
            s.settimeout(PATIENCE)
            answered = 0
            for size in SIZES * ROUNDS:
                # One after the other: what state a connection has depends on that.
                try:
                    s.send(bytes(size))
                    s.recv(65536)
                    answered += 1
                except OSError:
                    # It was dropped on the way.
                    pass
            s.close()
            print(address, port, answered)


serve() if sys.argv[1] == "serve" else ask(sys.argv[2:])
