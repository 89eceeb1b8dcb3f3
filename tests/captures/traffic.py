# SPDX-License-Identifier: Apache-2.0
"""The traffic of router.sh: a server and a client that serve, and all three that speak."""

import socket
import subprocess
import sys
import time

SERVER = ["198.18.2.2", "2001:db8:2::2"]
CLIENT = ["198.18.1.2", "2001:db8:1::2"]


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(addresses):
    """Echoes on TCP port 80 and UDP port 53 of these addresses."""
    import selectors

    selector = selectors.DefaultSelector()
    for address in addresses:
        udp = socket.socket(family(address), socket.SOCK_DGRAM)
        udp.bind((address, 53))
        selector.register(udp, selectors.EVENT_READ, "udp")
        tcp = socket.create_server((address, 80), family=family(address))
        selector.register(tcp, selectors.EVENT_READ, "listen")
    while True:
        for key, _ in selector.select():
            if key.data == "listen":
                connection, _ = key.fileobj.accept()
                selector.register(connection, selectors.EVENT_READ, "tcp")
            elif key.data == "udp":
                data, peer = key.fileobj.recvfrom(9000)
                # An answer that is not the question.
                key.fileobj.sendto(b"answer to " + data, peer)
            else:
                data = key.fileobj.recv(9000)
                if data:
                    key.fileobj.sendall(data[::-1])
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


def ask_tcp(address, port, size):
    try:
        with socket.create_connection((address, port), timeout=0.7) as tcp:
            tcp.sendall(bytes(i % 251 for i in range(size)))
            got = 0
            while got < size:
                got += len(tcp.recv(9000)) or size
    except OSError as e:
        print(address, port, e)


def ask_udp(address, port, data):
    with socket.socket(family(address), socket.SOCK_DGRAM) as udp:
        udp.settimeout(0.5)
        udp.connect((address, port))
        try:
            udp.send(data)
            udp.recv(9000)
        except OSError as e:
            print(address, port, e)


def talk():
    """What the rules take, drop and reject, to the server and to the router."""
    for address in SERVER:
        for i in range(3):
            ask_tcp(address, 80, 300 + i)
        ask_tcp(address, 80, 200_000)  # super-packets
        ask_tcp(address, 81, 1)  # nobody listens
        ask_tcp(address, 23, 1)  # dropped
        ask_tcp(address, 25, 1)  # rejected
        for i in range(3):
            ask_udp(address, 53, b"question %d" % i)
        ask_udp(address, 54, b"nobody")
        ask_udp(address, 123, b"dropped")
        subprocess.run(["ping", "-q", "-c", "2", "-i", "0.2", address], stdout=subprocess.DEVNULL)
    for router in ["198.18.1.1", "2001:db8:1::1"]:
        ask_tcp(router, 22, 1)  # nobody listens
        ask_udp(router, 53, b"dropped")
        subprocess.run(["ping", "-q", "-c", "2", "-i", "0.2", router], stdout=subprocess.DEVNULL)
    time.sleep(0.5)


def talk_to_services():
    """Addresses that only rules know, with and without a port of theirs."""
    for service in ["198.18.7.1", "198.18.7.2"]:
        ask_tcp(service, 80, 400)
        ask_tcp(service, 81, 1)


def talk_as_server():
    """To the router from outside, and to what it may pass on."""
    for router in ["198.18.2.1", "2001:db8:2::1"]:
        for port in [22, 80, 8080, 8081]:
            ask_tcp(router, port, 700)
        ask_udp(router, 53, b"from outside")
        subprocess.run(["ping", "-q", "-c", "2", "-i", "0.2", router], stdout=subprocess.DEVNULL)
    for address in CLIENT:
        ask_tcp(address, 80, 500)
        ask_udp(address, 53, b"from outside")
        subprocess.run(["ping", "-q", "-c", "1", "-W", "1", address], stdout=subprocess.DEVNULL)


def talk_as_router():
    for address in SERVER:
        ask_tcp(address, 80, 100)
        ask_tcp(address, 80, 50_000)
        ask_udp(address, 53, b"from the router")


WORDS = {
    "serve": lambda: serve(SERVER),
    "serve-as-client": lambda: serve(CLIENT),
    "talk": talk,
    "talk-to-services": talk_to_services,
    "talk-as-server": talk_as_server,
    "talk-as-router": talk_as_router,
}
WORDS[sys.argv[1]]()
