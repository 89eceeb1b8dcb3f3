# SPDX-License-Identifier: Apache-2.0
# Clients of the control socket that do what none should. Run in the dataplane's namespace; says what it saw, a line each.
import os, socket, struct, sys, time


def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(10)
    # SO_NETNS_COOKIE
    cookie, = struct.unpack("=Q", s.getsockopt(socket.SOL_SOCKET, 71, 8))
    try:
        s.connect(f"/run/penstock/{cookie}.sock")
    except PermissionError:
        s.connect(f"/run/penstock-read/{cookie}.sock")
    return s


def message(kind, contents=b""):
    return struct.pack("<I", len(contents) + 1) + kind + contents


def read(s):
    def exactly(n):
        got = b""
        while len(got) < n:
            piece = s.recv(n - len(got))
            if not piece:
                raise EOFError
            got += piece
        return got

    n, = struct.unpack("<I", exactly(4))
    body = exactly(n)
    return body[:1], body[1:]


def answers(s):
    """All answers to their end: texts for standard error, and the exit status."""
    said, status = b"", None
    try:
        while status is None:
            kind, contents = read(s)
            if kind == b"e":
                said += contents
            if kind == b"z":
                status = contents[0]
    except (EOFError, OSError):
        pass
    return said.decode(), status


what = sys.argv[1]
if what == "garbage":
    import random

    random.seed(int(os.environ.get("PENSTOCK_SEED", "1")))
    for _ in range(200):
        s = connect()
        try:
            s.sendall(random.randbytes(random.randrange(1, 400)))
            s.shutdown(socket.SHUT_WR)
            answers(s)
        except OSError:
            pass
        s.close()
    # Every kind of message, with contents that make no sense, cut at every length.
    for kind in range(256):
        for contents in (b"", b"\0", b"\xff" * 9, b"a\0b\0"):
            s = connect()
            # Not the message that ends the dataplane, nor the one that confirms.
            if kind in b"qc":
                continue
            try:
                s.sendall(message(bytes([kind]), contents))
                s.shutdown(socket.SHUT_WR)
            except OSError:
                # Of so many at once some find no room.
                pass
            s.close()
    for length in (0, 0xFFFFFFFF, 256 << 20, (256 << 20) + 1):
        s = connect()
        try:
            s.sendall(struct.pack("<I", length) + b"n")
        except OSError:
            pass
        s.close()
    print("done")
elif what == "halves":
    # Messages that never end: others are served meanwhile.
    held = []
    for _ in range(int(sys.argv[2])):
        s = connect()
        s.sendall(struct.pack("<I", 1000) + b"n-f")
        held.append(s)
    print("begun", flush=True)
    time.sleep(float(sys.argv[3]))
elif what == "flood":
    # A user who is nobody connects as fast as it can, says half of a message, and holds what it gets.
    os.setgid(65534)
    os.setuid(int(sys.argv[2]))
    print("begun", flush=True)
    end, held = time.monotonic() + float(sys.argv[3]), []
    while time.monotonic() < end:
        try:
            s = connect()
            s.sendall(struct.pack("<I", 1000) + b"n")
        except OSError:
            continue
        held.append(s)
        del held[:-100]
elif what == "deaf":
    # Nobody asks for long answers, many at a time, and reads none of them.
    os.setgid(65534)
    os.setuid(65534)
    held = []
    for _ in range(8):
        for said in ((b"s", b"\1"), (b"s", b"\2"), (b"s", b"\0\1")):
            s = connect()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                s.sendall(message(*said))
            except OSError:
                continue
            held.append(s)
    time.sleep(1)
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
elif what == "loop":
    # Nobody lists connections, over and over; how often is said at the end.
    os.setgid(65534)
    os.setuid(65534)
    print("begun", flush=True)
    end, done = time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < end:
        s = connect()
        s.sendall(message(b"s", b"\0\1"))
        done += answers(s)[1] == 0
    print(done)
elif what == "idle":
    # Connections for metrics that say nothing, so many at all times; some ask and do not read.
    import select, threading

    def idle():
        held = []
        while True:
            while len(held) < 125:
                s = socket.create_connection(("127.0.0.1", 9900))
                if len(held) % 5 == 0:
                    s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                held.append(s)
            gone = select.select(held, [], [], 0.05)[0]
            for s in gone:
                s.close()
            held = [s for s in held if s not in gone]

    for _ in range(4):
        threading.Thread(target=idle, daemon=True).start()
    time.sleep(0.5)
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
elif what == "looker":
    os.setgid(65534)
    os.setuid(65534)

    def ask(name, *said):
        s = connect()
        try:
            s.sendall(message(*said))
        except OSError:
            # Who may not even ask is refused before that.
            pass
        print(f"{name}:", *answers(s))

    ask("list", b"n", b"list ruleset\0")
    ask("flush", b"n", b"flush ruleset\0")
    ask("reset", b"n", b"reset rules\0")
    ask("check", b"n", b"-c\0flush ruleset\0")
    for kind, name in ((b"q", "down"), (b"c", "confirm"), (b"p", "capture")):
        ask(name, kind, b"\0" * 7)
    ask("long", b"n", b"x" * (65 << 10))
    # More of them than there is room for.
    held, refused = [], 0
    for _ in range(60):
        s = connect()
        try:
            s.sendall(struct.pack("<I", 1000) + b"n")
        except OSError:
            pass
        held.append(s)
    time.sleep(0.5)
    for s in held:
        s.settimeout(0.05)
        said, status = answers(s)
        refused += "too many clients" in said
    print("refused:", refused)
    print("begun", flush=True)
    time.sleep(3)
elif what == "slow":
    # Watchers that never read what they are told.
    held = []
    for command in (b"monitor", b"monitor trace"):
        for _ in range(8):
            s = connect()
            s.sendall(message(b"n", command + b"\0"))
            held.append(s)
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
