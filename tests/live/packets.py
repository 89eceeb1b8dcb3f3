# SPDX-License-Identifier: Apache-2.0
"""Asks for packets of queues and logs by netfilter sockets, and prints what comes: without times,
port ids, and numbers of packets and devices, so that it can be compared."""
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
    inward, outward, payload = (5, 6, 10) if subsystem == QUEUE else (4, 5, 9)
    if kind in (inward, outward):
        return f"{kind}={device(number)}"
    if kind == payload:
        return f"payload={len(data)},{data[28:].hex()}"
    if kind == 1 and subsystem == QUEUE:
        return f"1={data[4:].hex()}"
    return f"{kind}={data.hex()}"


def packet(sock, subsystem):
    """The next packet: its number, and all of its attributes."""
    while True:
        for kind, body in messages(sock.recv(1 << 17)):
            if kind >> 8 != subsystem:
                continue
            found = attributes(body[4:])
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
own, other = opened(), opened()
for label, request in [
    ("no queue", message(CONFIG, 7, copy(2, 99))),
    ("nothing", message(CONFIG, 7)),
    ("unbind", message(CONFIG, 7, command(2))),
    ("verdict", message(VERDICT, 7, verdict(1, 1))),
    ("batch", message(BATCH, 7, verdict(1, 1))),
    ("families", message(CONFIG, 7, command(3, 2))),
    ("families end", message(CONFIG, 7, command(4, 2))),
    ("command 9", message(CONFIG, 7, command(9))),
    ("short command", message(CONFIG, 7, attribute(1, b"\1"))),
    ("bind", message(CONFIG, 7, command(1))),
    ("bind again", message(CONFIG, 7, command(1))),
    ("mode 3", message(CONFIG, 7, copy(3, 9))),
    ("mode 1", message(CONFIG, 7, copy(1, 9))),
    ("short mode", message(CONFIG, 7, attribute(2, b"\0\0"))),
    ("flags without mask", message(CONFIG, 7, be32(5, 1))),
    ("unknown flag", message(CONFIG, 7, be32(5, 32), be32(4, 32))),
    ("fail open", message(CONFIG, 7, be32(5, 1), be32(4, 1))),
    ("users", message(CONFIG, 7, be32(5, 8), be32(4, 8))),
    ("length", message(CONFIG, 7, be32(3, 10))),
    ("no packet", message(VERDICT, 7, verdict(1, 1))),
    ("no header", message(VERDICT, 7)),
    ("verdict 2", message(VERDICT, 7, verdict(2, 1))),
    ("verdict 6", message(VERDICT, 7, verdict(6, 1))),
    ("empty batch", message(BATCH, 7, verdict(1, 100))),
    ("message 4", message(QUEUE << 8 | 4, 7)),
    ("packet", message(QUEUE << 8, 7)),
]:
    ask(own, label, request)
for label, request in [
    ("other bind", message(CONFIG, 7, command(1))),
    ("other unbind", message(CONFIG, 7, command(2))),
    ("other verdict", message(VERDICT, 7, verdict(1, 1))),
    ("other batch", message(BATCH, 7, verdict(1, 1))),
]:
    ask(other, label, request)
ask(own, "end", message(CONFIG, 7, command(2)))
ask(other, "then bind", message(CONFIG, 7, command(1)))
other.close()
time.sleep(0.3)
ask(own, "after its end", message(CONFIG, 7, command(1), copy(2, 0)))
ask(own, "end", message(CONFIG, 7, command(2)))
for label, request in [
    ("log: no group", message(LOG_CONFIG, 5, log_copy(2, 9))),
    ("log: nothing", message(LOG_CONFIG, 5)),
    ("log: unbind", message(LOG_CONFIG, 5, attribute(1, b"\2"))),
    ("log: family", message(LOG_CONFIG, 0, attribute(1, b"\3"), family=2)),
    ("log: family end", message(LOG_CONFIG, 0, attribute(1, b"\4"), family=2)),
    ("log: command 9", message(LOG_CONFIG, 5, attribute(1, b"\x09"))),
    ("log: bind", message(LOG_CONFIG, 5, attribute(1, b"\1"))),
    ("log: bind again", message(LOG_CONFIG, 5, attribute(1, b"\1"))),
    ("log: mode 3", message(LOG_CONFIG, 5, log_copy(3, 9))),
    ("log: short mode", message(LOG_CONFIG, 5, attribute(2, b"\1"))),
    ("log: buffer 1", message(LOG_CONFIG, 5, be32(3, 1))),
    ("log: buffer", message(LOG_CONFIG, 5, be32(3, 65536))),
    ("log: time", message(LOG_CONFIG, 5, be32(4, 1))),
    ("log: one", message(LOG_CONFIG, 5, be32(5, 1))),
    ("log: message 2", message(LOG << 8 | 2, 5)),
    ("log: packet", message(LOG << 8, 5)),
]:
    ask(own, label, request)
other = opened()
ask(other, "log: other bind", message(LOG_CONFIG, 5, attribute(1, b"\1")))
ask(other, "log: other", message(LOG_CONFIG, 5, be32(5, 1)))
ask(own, "log: copy", message(LOG_CONFIG, 5, log_copy(2, 32)))
drain(own)
packet(own, LOG)
ask(own, "log: numbers", message(LOG_CONFIG, 5, log_copy(1, 0), attribute(6, b"\0\3")))
drain(own)
_, found = packet(own, LOG)
ask(own, "log: end", message(LOG_CONFIG, 5, attribute(1, b"\2")))
drain(own)
# Packets of the queue wait for what happens to them.
ask(other, "bind", message(CONFIG, 3, command(1), copy(2, 40), be32(3, 100)))
first, _ = packet(other, QUEUE)
ask(other, "accept", message(VERDICT, 3, verdict(1, first)))
ask(other, "again", message(VERDICT, 3, verdict(1, first)))
second, _ = packet(other, QUEUE)
ask(own, "of another", message(VERDICT, 3, verdict(1, second)))
ask(other, "drop", message(VERDICT, 3, verdict(0, second)))
ask(other, "whole", message(CONFIG, 3, copy(2, 0)))
drain(other)
third, found = packet(other, QUEUE)
changed = bytearray(found[10])
changed[26:28] = b"\0\0"
changed[28:] = b"changed" + bytes(len(changed) - 35)
other.send(message(VERDICT, 3, verdict(1, third), attribute(10, bytes(changed)), be32(3, 5), flags=1))
last = third
for _ in range(3):
    last, _ = packet(other, QUEUE)
ask(other, "batch", message(BATCH, 3, verdict(1, last)))
ask(other, "meta", message(CONFIG, 3, copy(1, 0)))
drain(other)
packet(other, QUEUE)
other.close()
sys.stdout.flush()
