# SPDX-License-Identifier: Apache-2.0
"""Both sides of a host with a stateful firewall. What is printed does not depend on time.

visits.py serve                 echoes on UDP, and on TCP until the end of the line
visits.py visit ADDRESS... [from ADDRESS]
                                asks each address as a stranger
visits.py call ADDRESS...       asks each address as the host behind the firewall
visits.py stray ADDRESS         sends segments and a datagram of no connection, over IPv4
"""
import selectors
import socket
import struct
import sys

TCP = [22, 80, 8080]
UDP = [53, 99, 9000]
# Nobody listens.
CLOSED = 9
# How long an answer may take, in seconds: less than the time until a SYN is sent again.
PATIENCE = 0.4


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bound(kind, port, address):
    s = socket.socket(family(address), kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family(address) == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, port))
    return s


def serve():
    selector = selectors.DefaultSelector()
    for address in "0.0.0.0", "::":
        for port in TCP:
            s = bound(socket.SOCK_STREAM, port, address)
            s.listen()
            selector.register(s, selectors.EVENT_READ, "tcp")
        for port in UDP:
            selector.register(bound(socket.SOCK_DGRAM, port, address), selectors.EVENT_READ, "udp")
    while True:
        for key, _ in selector.select():
            if key.data == "udp":
                data, peer = key.fileobj.recvfrom(65536)
                key.fileobj.sendto(data, peer)
                continue
            connection, _ = key.fileobj.accept()
            connection.settimeout(PATIENCE)
            try:
                connection.sendall(connection.recv(100))
                connection.recv(100)
            except OSError:
                pass
            connection.close()


def outcome(ask):
    try:
        return ask()
    except socket.timeout:
        return "nothing"
    except OSError as e:
        return e.strerror


def ask_tcp(address, port, source):
    with socket.socket(family(address), socket.SOCK_STREAM) as s:
        s.settimeout(PATIENCE)
        if source:
            s.bind((source, 0))
        s.connect((address, port))
        s.sendall(b"hello\n")
        return "an answer" if s.recv(100) == b"hello\n" else "another answer"


def ask_udp(address, port, source):
    with socket.socket(family(address), socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE)
        s.bind((source or "", 20000 + port))
        s.connect((address, port))
        answers = 0
        for _ in range(3):
            s.send(b"hello")
            answers += len(s.recv(100)) == 5
        return f"{answers} answers"


def ask(addresses, tcp, udp, source):
    for address in addresses:
        for port in tcp:
            print("tcp", address, port, outcome(lambda: ask_tcp(address, port, source)))
        for port in udp:
            print("udp", address, port, outcome(lambda: ask_udp(address, port, source)))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def stray(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    s.connect((address, 0))
    source = socket.inet_aton(s.getsockname()[0])
    # In the middle, the answer to a SYN, an end, a reset, flags that exclude each other.
    for n, flags in enumerate([0x10, 0x12, 0x11, 0x04, 0x03]):
        pseudo = source + socket.inet_aton(address) + struct.pack("!BBH", 0, 6, 20)
        fields = [3333 + n, 22, 1, 1, 5 << 4, flags, 1000, 0, 0]
        fields[7] = checksum(pseudo + struct.pack("!HHIIBBHHH", *fields))
        s.send(struct.pack("!HHIIBBHHH", *fields))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("", 20053))
        s.sendto(b"an answer that nobody asked for", (address, 5555))


def main(what, *addresses):
    if what == "serve":
        serve()
    elif what == "visit":
        source = None
        if "from" in addresses:
            addresses, source = addresses[:-2], addresses[-1]
        ask(addresses, [22, 80], [53, 99], source)
    elif what == "call":
        ask(addresses, [8080], [9000, CLOSED], None)
    else:
        stray(*addresses)


main(*sys.argv[1:])
