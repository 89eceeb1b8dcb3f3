# SPDX-License-Identifier: Apache-2.0
"""Members of a group are told, with the group where they ask for it."""
from lib import *

watchdog(60)
member, sender, other = netlink(), netlink(), netlink()
member.bind((0, 1))
other.bind((0, 0))
sender.send(message(0x0AFF, 9))
data, _, _, address = member.recvmsg(65536)
assert sequence(data) == 9 and address == (0, 1), address
fails(errno.EAGAIN, other.recv, 10, socket.MSG_DONTWAIT)
fails(errno.EAGAIN, sender.recv, 10, socket.MSG_DONTWAIT)
other.setsockopt(SOL_NETLINK, 1, 1)
other.setsockopt(SOL_NETLINK, 3, 1)
sender.send(message(0x0AFF, 10))
other.send(getgen(11))
data, ancillary, _, _ = other.recvmsg(65536, 100)
assert sequence(data) == 10 and ancillary == [(SOL_NETLINK, 3, struct.pack("=I", 1))]
data, ancillary, _, _ = other.recvmsg(65536, 100)
assert sequence(data) == 11 and ancillary == [(SOL_NETLINK, 3, struct.pack("=I", 0))]
member.setsockopt(SOL_NETLINK, 2, 1)
assert sequence(member.recv(65536)) == 10
# A program that does not read loses notifications and is told so.
batch = b"".join(message(0x0AFF, n) for n in range(5_000))
for _ in range(2):
    sender.send(batch)
fails(errno.ENOBUFS, other.recv, 65536, socket.MSG_DONTWAIT)
for _ in range(100):
    other.recv(65536, socket.MSG_DONTWAIT)
# The end of a socket is noticed: the service tells group 2.
member.setsockopt(SOL_NETLINK, 1, 2)
child = os.fork()
if child == 0:
    netlink()
    os._exit(0)
os.waitpid(child, 0)
assert member.recvfrom(65536)[1] == (0, 2)
