# SPDX-License-Identifier: Apache-2.0
"""A tunnel as VPN daemons make it: a TUN device here, another in the network namespace FILE, packets carried over between them."""

import ctypes
import fcntl
import os
import select
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


def tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name, IFF_TUN | IFF_NO_PI))
    return fd


here = tun(b"vpn0")
with open(sys.argv[1]) as namespace:
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
there = tun(b"vpn0")
other = {here: there, there: here}
while True:
    for fd in select.select(list(other), [], [])[0]:
        try:
            os.write(other[fd], os.read(fd, 65536))
        except OSError:
            pass  # It is down.
