# SPDX-License-Identifier: Apache-2.0
"""Traffic of many flows at once.

peers.py serve                          UDP: echoes packets, prefixed with the sender's address and port
peers.py ask ADDRESS COUNT LEN          COUNT flows of UDP from as many ports, three datagrams of LEN bytes each, all of which must
                                        be answered; prints the number of different ports that the server saw
peers.py ftp-serve                      an FTP server as far as PASV and one RETR go
peers.py ftp ADDRESS COUNT              COUNT sessions, each with a file
"""
import socket
import struct
import sys
import threading

PORT = 7100


def serve():
    sockets = []
    for family, address in (socket.AF_INET, ""), (socket.AF_INET6, "::"):
        s = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        s.bind((address, PORT))
        sockets.append(s)

    def answer(s):
        while True:
            data, peer = s.recvfrom(65536)
            s.sendto(f"{peer[0]} {peer[1]} ".encode() + data, peer)

    threads = [threading.Thread(target=answer, args=(s,)) for s in sockets]
    [t.start() for t in threads]
    [t.join() for t in threads]


def ask(address, count, length):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(count)]
    seen = set()
    for turn in range(3):
        for n, s in enumerate(sockets):
            s.connect((address, PORT))
            s.settimeout(5)
            s.send(struct.pack("II", n, turn) * (length // 8))
            # No more on their way than queues have room for.
            if n % 16 == 15 or n + 1 == count:
                for m in range(n - n % 16, n + 1):
                    data = sockets[m].recv(65536)
                    who, port, rest = data.split(b" ", 2)
                    assert rest == struct.pack("II", m, turn) * (length // 8), (m, turn, data[:40])
                    seen.add((m, who, port))
    # A flow is the same at all times, and no two are.
    assert len(seen) == count, (len(seen), count)
    print(len({port for _, _, port in seen}))


def ftp_serve():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", 21))
    listener.listen(64)

    def session(control):
        control.sendall(b"220 ready\r\n")
        data = socket.socket()
        data.bind((control.getsockname()[0], 0))
        data.listen()
        for line in control.makefile("rb"):
            if line.startswith(b"PASV"):
                address, port = data.getsockname()
                numbers = ",".join(address.split(".") + [str(port >> 8), str(port & 255)])
                control.sendall(f"227 Entering Passive Mode ({numbers})\r\n".encode())
            elif line.startswith(b"RETR"):
                connection, peer = data.accept()
                connection.sendall(b"contents" * 1000)
                connection.close()
                control.sendall(b"226 done\r\n")
            else:
                control.sendall(b"200 well\r\n")

    while True:
        control, _ = listener.accept()
        threading.Thread(target=session, args=(control,), daemon=True).start()


def ftp(address, count):
    for n in range(count):
        control = socket.create_connection((address, 21), timeout=5)
        lines = control.makefile("rb")
        lines.readline()
        control.sendall(b"PASV\r\n")
        numbers = lines.readline().split(b"(")[1].split(b")")[0].split(b",")
        data = socket.create_connection((b".".join(numbers[:4]).decode(), int(numbers[4]) * 256 + int(numbers[5])), timeout=5)
        control.sendall(b"RETR x\r\n")
        got = b""
        while block := data.recv(65536):
            got += block
        assert got == b"contents" * 1000, len(got)
        assert lines.readline().startswith(b"226")
        control.close()


what, *rest = sys.argv[1:]
{"serve": serve, "ftp-serve": ftp_serve}.get(what, lambda: None)()
if what == "ask":
    ask(rest[0], int(rest[1]), int(rest[2]))
elif what == "ftp":
    ftp(rest[0], int(rest[1]))
