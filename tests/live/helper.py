# SPDX-License-Identifier: Apache-2.0
# A program that is the helper of connections: makes helpers, reads the packets of their connections,
# and expects another connection by a verdict; follows nfnl.py. Datagrams go from 198.18.0.2 to port
# 5000 of 198.18.1.2, and from there to port 6000 of 198.18.0.2.
import contextlib, subprocess

NEW, GET, DELETE = 0x900, 0x901, 0x902
CREATE, REPLACE, EXCL, DUMP = 0x400, 0x100, 0x200, 0x300
NESTED = 0x8000
UDP, TCP, IP, IP6 = 17, 6, 2, 10
TOLD = {0x900: "helper", 0x100: "connection", 0x200: "expectation"}


def nest(kind, *inside):
    return attribute(kind | NESTED, b"".join(inside))


def be16(kind, value):
    return attribute(kind, struct.pack("!H", value))


def name(text):
    return attribute(1, text.encode() + b"\0")


def of(l3, l4):
    return nest(2, be16(1, l3), attribute(2, bytes([l4])))


def one(place, text, most, timeout):
    return nest(1 + place, name(text), be32(2, most), be32(3, timeout))


def classes(*all, number=None):
    return nest(4, be32(1, len(all) if number is None else number), *all)


queue_number = lambda number: be32(3, number)
data_length = lambda length: be32(5, length)
enabled = lambda yes: be32(6, yes)
main = one(1, "main", 2, 100)


def asked(label, kind, *parts, flags=ACK | CREATE):
    ask(helpers, label, message(kind, 0, *parts, flags=flags))


def told(label, sock, kind, *parts, sees=lambda body: True, flags=DUMP, family=0):
    """What a request lists: helpers whole, of the others what the story is about."""
    sock.send(message(kind, 0, *parts, flags=1 | flags, family=family))
    lines = []
    while True:
        for kind, body in messages(sock.recv(1 << 17)):
            if kind == 3:
                print("".join(sorted(lines)), end="")
                return
            if kind == 2:
                (error,) = struct.unpack_from("=i", body)
                print(label, os.strerror(-error))
                return
            if not sees(body):
                continue
            if kind == NEW:
                print(label, "helper", body[4:].hex())
                if not flags:
                    return
            else:
                # Connections have no order.
                words = [label, TOLD[kind], *about(kind, dict(attributes(body[4:])))]
                lines.append(" ".join(words) + "\n")


def port_of(tuple, kind=2):
    ports = dict(attributes(dict(attributes(tuple))[2 | NESTED]))
    return struct.unpack("!H", ports[kind + 1])[0]


def about(kind, found):
    if kind == 0x100:
        yield f"to port {port_of(found[1 | NESTED])}"
        yield f"status {found[3].hex()}"
        if 5 | NESTED in found:
            yield f"helper {found[5 | NESTED].hex()}"
        if 14 | NESTED in found:
            yield f"of the one to port {port_of(found[14 | NESTED])}"
    else:
        yield f"to port {port_of(found[2 | NESTED])}"
        yield f"of the one to port {port_of(found[1 | NESTED])}"
        yield f"flags {found[8].hex()} class {found[9].hex()} helper {found.get(6, b'').hex()}"


def to_port(*ports):
    return lambda body: port_of(dict(attributes(body[4:]))[1 | NESTED]) in ports


def connections(label):
    told(label, helpers, 0x101, sees=to_port(5000, 6000), family=IP)


def expectations(label):
    told(label, helpers, 0x201, family=IP)


def nft(rules, errors=None):
    subprocess.run(["nft", "-f", "-"], input=rules.encode(), check=True, stderr=errors)


def listed(*of):
    return subprocess.run(["conntrack", "-L", "-p", "udp", *of], capture_output=True).stdout


def read():
    """A packet of the queue: its number; tells where it is, and what its connection has."""
    with contextlib.redirect_stdout(None):
        number, found = packet(queue, QUEUE)
    there = dict(attributes(found[11 | NESTED]))
    print("packet at hook", found[1][6], "status", there[3].hex(), "helper", there[5 | NESTED].hex())
    return number


def until(holds):
    for _ in range(100):
        if holds():
            return
        time.sleep(0.05)
    print("never")


helpers = opened()
probe = (name("probe"), of(IP, UDP))
asked("no name", NEW, of(IP, UDP), classes(main), data_length(4))
asked("no tuple", NEW, name("probe"), classes(main), data_length(4))
asked("half a tuple", NEW, name("probe"), nest(2, be16(1, IP)), classes(main), data_length(4))
asked("no classes", NEW, *probe, data_length(4))
asked("no length", NEW, *probe, classes(main))
asked("a name too long", NEW, name("n" * 16), of(IP, UDP), classes(main), data_length(4))
asked("without a number", NEW, *probe, nest(4, main), data_length(4))
asked("no class at all", NEW, *probe, classes(number=0), data_length(4))
asked("five classes", NEW, *probe, classes(main, number=5), data_length(4))
asked("one class missing", NEW, *probe, classes(main, number=2), data_length(4))
asked("too many to expect", NEW, *probe, classes(one(1, "main", 256, 1)), data_length(4))
asked("too much to keep", NEW, *probe, classes(main), data_length(33))
asked("a built-in one", NEW, name("ftp"), of(IP, TCP), classes(main), data_length(4))
asked("new", NEW, *probe, classes(main), data_length(4), queue_number(3))
asked("again", NEW, *probe, queue_number(3), flags=ACK | EXCL)
asked("the same length", NEW, *probe, data_length(4))
asked("another length", NEW, *probe, data_length(5))
asked("another class", NEW, *probe, classes(one(1, "other", 2, 100)))
asked("another number", NEW, *probe, classes(main, one(2, "other", 2, 100)))
asked("another limit", NEW, *probe, classes(one(1, "main", 3, 50)), queue_number(4))
asked("for others", NEW, name("probe"), of(IP6, TCP), classes(main), data_length(0))
told("all", helpers, GET)
told("by name", helpers, GET, name("probe"), flags=0)
told("by tuple", helpers, GET, of(IP6, TCP), flags=0)
told("of no name", helpers, GET, name("none"), flags=0)
asked("delete none", DELETE, name("none"))
asked("delete one", DELETE, of(IP6, TCP))

nft(
    """table ip t {
        ct helper h { type "probe" protocol udp; l3proto ip; }
        ct helper none { type "probe" protocol udp; l3proto ip; }
        chain pre { type filter hook prerouting priority 0; udp dport 5000 ct helper set "h"; }
        chain forward {
            type filter hook forward priority 0
            udp dport 6000 ct state new drop
        }
    }
    table ip closed {
        chain pre { type filter hook prerouting priority -400; udp dport 6000 drop; }
    }"""
)
asked("delete a used one", DELETE, name("probe"))
try:
    nft('table ip t { ct helper wrong { type "none" protocol udp; l3proto ip; }; }', subprocess.DEVNULL)
except subprocess.CalledProcessError:
    print("a helper that is not there is none")

# Packets pass unread until it is ready. A connection may have begun before the rules.
subprocess.run(["conntrack", "-F"], capture_output=True)
time.sleep(0.3)
connections("not ready")
queue = opened()
ask(queue, "bind", message(CONFIG, 3, command(1), copy(2, 60), be32(5, 2), be32(4, 2)))
asked("ready", NEW, *probe, queue_number(3), enabled(1))
number = read()


def address(text):
    return socket.inet_aton(text)


def way(source, destination, sport, dport, kind):
    ips = nest(1, attribute(1, source), attribute(2, destination))
    protocol = nest(2, attribute(1, bytes([UDP])), be16(2, sport), be16(3, dport))
    return nest(kind, ips, protocol)


back = way(address("198.18.1.2"), address("198.18.0.2"), 0, 6000, 2)
mask = way(b"\xff" * 4, b"\xff" * 4, 0, 0xFFFF, 3)
keep = nest(11, nest(5, name("probe"), attribute(2, b"kept, not told"[:6])))
expect = lambda *more: attribute(15 | NESTED, back + mask + b"".join(more))
ask(queue, "verdict", message(VERDICT, 3, verdict(1, number), keep, expect()))
connections("read")
expectations("read")
nft("delete table ip closed")
until(lambda: b"6000" in listed("--dport", "6000"))
connections("expected")
# Packets that waited while hooks changed are gone.
drain(queue)
for label, more in [("of no helper", [attribute(6, b"none\0")]), ("of no class", [attribute(6, b"probe\0"), be32(9, 1)]),
                    ("without a connection", None)]:
    changes = [] if more is None else [keep]
    ask(queue, label, message(VERDICT, 3, verdict(1, read()), *changes, expect(*more or [])))
    expectations(label)
asked("not ready any more", NEW, *probe, enabled(0))
drain(queue)

# Without a listener packets pass, and connections are not kept.
asked("no listener", NEW, *probe, queue_number(9), enabled(1))
subprocess.run(["conntrack", "-F"], capture_output=True)
time.sleep(0.5)
connections("no listener")
asked("no listener any more", NEW, *probe, enabled(0))
until(lambda: b"5000" in listed())
connections("entered")
nft("delete table ip t")
asked("delete all", DELETE)
connections("without a helper")
asked("delete nothing", DELETE)
