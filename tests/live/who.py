# SPDX-License-Identifier: Apache-2.0
"""Says who answers, and whom it sees.

who.py serve NAME PORT      answers on TCP and UDP of both families: NAME, and the client's address and port,
                            filled up with blanks, so that all answers have one length
who.py ask PROTOCOL ADDRESS PORT [FROM-PORT]   prints the answer
"""
import select
import socket
import sys


def opened(kind, family, port):
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind(("", port))
    return s


def answer(name, peer):
    return f"{name} {peer[0]} {peer[1]}".ljust(64).encode()


def serve(name, port):
    families = [socket.AF_INET, socket.AF_INET6]
    streams = [opened(socket.SOCK_STREAM, family, port) for family in families]
    datagrams = [opened(socket.SOCK_DGRAM, family, port) for family in families]
    for s in streams:
        s.listen()
    while True:
        for s in select.select(streams + datagrams, [], [])[0]:
            if s in streams:
                connection, peer = s.accept()
                connection.sendall(answer(name, peer))
                connection.close()
            else:
                _, peer = s.recvfrom(9000)
                s.sendto(answer(name, peer), peer)


def ask(protocol, address, port, from_port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    s = opened(kind, family, from_port)
    s.settimeout(2)
    try:
        s.connect((address, port))
        if protocol == "udp":
            s.send(b"who?")
        print(s.recv(9000).decode())
    except (TimeoutError, OSError) as e:
        print(f"nobody: {e}")


if sys.argv[1] == "serve":
    serve(sys.argv[2], int(sys.argv[3]))
else:
    ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 0)
