# SPDX-License-Identifier: Apache-2.0

"""Messages of the subsystem osf, and what answers them. Fingerprints belong to the whole kernel: none
is left behind."""

import struct

from attributes import attribute
from objects import Netlink

OSF = 5
ADD, REMOVE = 0, 1
EXCL, CREATE = 0x200, 0x400


def finger(genre=b"Penstock", version=b"1", options=((2, 4),), count=None, window=(0, 0)):
    listed = b"".join(struct.pack("=HHII", kind, length, 0, 0) for kind, length in options)
    head = struct.pack(
        "=IIBBHHH", *window, 64, 1, 44, 0, len(options) if count is None else count
    )
    names = b"".join(name.ljust(32, b"\0") for name in (genre, version, b""))
    return attribute(1, (head + names + listed).ljust(592, b"\0"))


def main():
    link = Netlink()
    ask = lambda what, number, flags, *parts: link.ask(what, OSF, number, flags, *parts)
    ask("nothing", ADD, CREATE)
    ask("a short one", ADD, CREATE, attribute(1, bytes(591)))
    ask("without create", ADD, 0, finger())
    ask("a genre without end", ADD, CREATE, finger(genre=b"x" * 32))
    ask("41 options", ADD, CREATE, finger(count=41))
    ask("remove what is not there", REMOVE, 0, finger())
    ask("add", ADD, CREATE, finger())
    ask("again", ADD, CREATE, finger())
    ask("again, exclusively", ADD, CREATE | EXCL, finger())
    ask("another", ADD, CREATE | EXCL, finger(version=b"2", options=()))
    ask("a strange window", ADD, CREATE, finger(window=(9, 0)))
    ask("remove that", REMOVE, 0, finger(window=(9, 0)))
    ask("multiples of nothing", ADD, CREATE, finger(window=(3, 0)))
    ask("remove that", REMOVE, 0, finger(window=(3, 0)))
    ask("9 options of 65535 bytes", ADD, CREATE, finger(options=[(300, 65535)] * 9))
    ask("remove that", REMOVE, 0, finger(options=[(300, 65535)] * 9))
    ask("a size of nothing", ADD, CREATE, finger(options=[(0, 0)] * 9))
    ask("remove that", REMOVE, 0, finger(options=[(0, 0)] * 9))
    ask("an option MSS of 2 bytes", ADD, CREATE, finger(options=[(2, 2)]))
    ask("remove that", REMOVE, 0, finger(options=[(2, 2)]))
    ask("remove nothing", REMOVE, 0)
    ask("remove", REMOVE, 0, finger())
    ask("remove again", REMOVE, 0, finger())
    ask("remove the other", REMOVE, 0, finger(version=b"2", options=()))
    ask("message 2", 2, 0, finger())


main()
