# SPDX-License-Identifier: Apache-2.0
# Listens to a queue (docs/queue.md): queue.py SOCKET MODE. `accept` and `drop` answer every packet so, `silent` answers none,
# `deaf` does not even read; `nonsense`, `newer` and `cut` break the protocol.
import socket
import struct
import sys
import time

MODE = sys.argv[2]
ANSWERS = {"drop": 0, "accept": 1}


def message(kind, *fields):
    body = struct.pack("<B" + fields[0], kind, *fields[1:])
    return struct.pack("<I", len(body)) + body


def serve(stream):
    # Open: version 1, no flags, 1500 bytes of each packet, 300 of them, window 1.
    stream.sendall(message(1, "HHIII", 2 if MODE == "newer" else 1, 0, 1500, 300, 1))
    if MODE == "nonsense":
        stream.sendall(message(1, "HHIII", 1, 0, 64, 100, 1))
    if MODE == "cut":
        stream.sendall(message(2, "QBBHI", 1, 1, 0, 0, 0)[:9])
        return
    if MODE == "deaf":
        time.sleep(15)
        return
    data = stream.makefile("rb")
    while head := data.read(4):
        body = data.read(struct.unpack("<I", head)[0])
        if body[0] == 16 and MODE in ANSWERS:
            number = struct.unpack("<Q", body[1:9])[0]
            stream.sendall(message(2, "QBBHI", number, ANSWERS[MODE], 0, 0, 0))


listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
listener.listen()
while True:
    stream, _ = listener.accept()
    try:
        serve(stream)
    except ConnectionError:
        pass
    stream.close()
