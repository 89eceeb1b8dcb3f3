# SPDX-License-Identifier: Apache-2.0
"""What the scripts have in common."""
import ctypes
import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

NETFILTER = 12
SOL_NETLINK = 270
LIBC = ctypes.CDLL(None, use_errno=True)


def netlink(flags=0, kind=socket.SOCK_RAW):
    """A socket of NETLINK_NETFILTER."""
    return socket.socket(socket.AF_NETLINK, kind | flags, NETFILTER)


def message(kind, sequence, payload=b"\0\0\0\0", flags=1):
    """A netlink message."""
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 0) + payload


def getgen(sequence=1):
    """NFT_MSG_GETGEN."""
    return message(0x0A10, sequence)


def header(datagram):
    """Length, type, flags, sequence, port."""
    return struct.unpack("=IHHII", datagram[:16])


def sequence(datagram):
    """The sequence number."""
    return header(datagram)[3]


def fails(number, call, *arguments):
    """Whether a call fails with an error."""
    try:
        result = call(*arguments)
    except OSError as e:
        assert e.errno == number, (e, number)
    else:
        raise AssertionError(f"{call} gave {result}")


def raw(name, *arguments):
    """A function of the C library: its result, or -errno."""
    result = getattr(LIBC, name)(*arguments)
    return -ctypes.get_errno() if result == -1 else result


def ends_with_parent():
    """The kernel ends this process when its parent ends, so that no pipe stays open."""
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def watchdog(seconds=30):
    """Ends the script, and the processes that it forks, with an error if it hangs."""
    os.register_at_fork(after_in_child=ends_with_parent)
    threading.Thread(target=lambda: (time.sleep(seconds), os._exit(99)), daemon=True).start()
