# SPDX-License-Identifier: Apache-2.0
"""Asks for the generation."""
from lib import *

s = netlink()
s.bind((0, 0))
s.send(getgen(7))
answer, sender = s.recvfrom(65536)
assert sender == (0, 0), sender
assert header(answer)[1:] == (0x0A0F, 0, 7, os.getpid()), header(answer)
generation = struct.unpack(">I", answer[24:28])[0]
name = answer[40:].split(b"\0")[0].decode()
print("generation", generation, "by", name[:7])
