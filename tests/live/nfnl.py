# SPDX-License-Identifier: Apache-2.0
"""Asks for packets of queues and logs by netfilter sockets, and prints what comes: without times,
port ids, and numbers of packets and devices, so that it can be compared. The beginning of
packets.py and bridged.py."""
import os, socket, struct, sys, time

QUEUE, LOG = 3, 4
ACK = 5
MESSAGE = {2: "error", 3: "done", 0x300: "queued", 0x400: "logged"}


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(kind, resource, *attributes, flags=ACK, family=0):
    body = b"".join(attributes)
    head = struct.pack("=IHHIIBBH", 20 + len(body), kind, flags, 7, 0, family, 0, socket.htons(resource))
    return head + body


def be32(kind, value):
    return attribute(kind, struct.pack("!I", value))


def command(number, family=0):
    return attribute(1, struct.pack("!BBH", number, 0, family))


def copy(mode, length):
    return attribute(2, struct.pack("!IB", length, mode))


def log_copy(mode, length):
    return attribute(2, struct.pack("!IBB", length, mode, 0))


def verdict(number, packet):
    return attribute(2, struct.pack("!II", number, packet))


def opened():
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    sock.bind((0, 0))
    sock.settimeout(5)
    return sock


def messages(datagram):
    while len(datagram) >= 16:
        (length, kind) = struct.unpack_from("=IH", datagram)
        yield kind, datagram[16:length]
        datagram = datagram[(length + 3) & ~3 :]


def attributes(body):
    found = []
    while len(body) >= 4:
        (length, kind) = struct.unpack_from("=HH", body)
        found.append((kind, body[4:length]))
        body = body[(length + 3) & ~3 :]
    return found


def ask(sock, label, request):
    sock.send(request)
    while True:
        for kind, body in messages(sock.recv(1 << 17)):
            # Packets may come before the answer.
            if kind == 2:
                (error,) = struct.unpack_from("=i", body)
                print(label, os.strerror(-error) if error > -200 else error)
                return


def device(index):
    return socket.if_indextoname(index)


def shown(kind, data, subsystem):
    number = struct.unpack("!I", data)[0] if len(data) == 4 else None
    first, payload = (5, 10) if subsystem == QUEUE else (4, 9)
    if first <= kind < first + 4:
        return f"{kind}={device(number)}"
    if kind == payload:
        return f"payload={len(data)},{data[28:].hex()}"
    if kind == 1 and subsystem == QUEUE:
        return f"1={data[4:].hex()}"
    return f"{kind}={data.hex()}"


def packet(sock, subsystem, length=None):
    """The next packet: its number, and all of its attributes. With a length, the next of which so much
    is copied: those on their way when the length was set are passed over."""
    while True:
        for kind, body in messages(sock.recv(1 << 17)):
            if kind >> 8 != subsystem:
                continue
            found = attributes(body[4:])
            if length is not None and len(dict(found).get(9, b"")) != length:
                continue
            # Whether a checksum is there depends on the device that the packet came by, and whether
            # a time is, on other programs: packets have one as long as anybody asks for it.
            left_out = [(QUEUE, 4), (QUEUE, 14), (LOG, 3)]
            words = [shown(k, data, subsystem) for k, data in found if (subsystem, k) not in left_out]
            print(MESSAGE[kind], body[:4].hex(), *words)
            return struct.unpack_from("!I", dict(found)[1])[0], dict(found)


def drain(sock):
    sock.setblocking(False)
    try:
        while True:
            sock.recv(1 << 17)
    except OSError:
        pass
    sock.settimeout(5)


CONFIG, LOG_CONFIG = QUEUE << 8 | 2, LOG << 8 | 1
VERDICT, BATCH = QUEUE << 8 | 1, QUEUE << 8 | 3
