# SPDX-License-Identifier: Apache-2.0
"""Answers beyond the buffer wait, whatever way they are read."""
from lib import *

watchdog(60)
MANY = 3000
for way in ("recv", "untrapped"):
    s = netlink()
    s.send(message(0x0AFE, 1, struct.pack("=I", MANY)))
    fd = s.fileno()
    if way == "untrapped":
        os.dup2(fd, 60)
        fd = 60
    for n in range(MANY):
        if way == "untrapped":
            assert select.select([fd], [], [], 10)[0] == [fd]
        else:
            # It never looks empty in between.
            assert select.select([fd], [], [], 0)[0] == [fd], n
        data = os.read(fd, 65536)
        assert len(data) == 16 + 8192 and struct.unpack("=I", data[16:20])[0] == n, n
    fails(errno.EAGAIN, s.recv, 10, socket.MSG_DONTWAIT)
    if way == "untrapped":
        os.close(60)
    s.close()
