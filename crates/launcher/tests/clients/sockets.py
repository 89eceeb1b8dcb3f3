# SPDX-License-Identifier: Apache-2.0
"""Numbers, options, names and errors are those of a netlink socket."""
from lib import *
import fcntl

s = netlink()
assert s.fileno() >= 900 and s.fileno() < 1024
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_NETLINK
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == NETFILTER
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_RAW
d = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETFILTER)
assert d.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_DGRAM
# close-on-exec and blocking are as asked for.
for flags, cloexec, nonblock in [(0, 0, 0), (socket.SOCK_CLOEXEC, 1, 0), (socket.SOCK_NONBLOCK, 0, 1)]:
    fd = raw("socket", 16, 3 | flags, NETFILTER)
    assert fd >= 900
    assert fcntl.fcntl(fd, fcntl.F_GETFD) == cloexec
    assert bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK) == bool(nonblock)
    os.close(fd)
assert raw("socket", 16, 1, NETFILTER) == -errno.ESOCKTNOSUPPORT
assert raw("socket", 16, 3 | 0x100000, NETFILTER) == -errno.EINVAL

# Names.
assert s.getsockname() == (0, 0)
assert s.getpeername() == (0, 0)
s.bind((0, 5))
assert s.getsockname() == (os.getpid(), 5)
s.bind((os.getpid(), 1))
assert s.getsockname() == (os.getpid(), 1)
fails(errno.EINVAL, s.bind, (4711, 0))
d.bind((0, 0))
assert d.getsockname()[0] > 1 << 31, d.getsockname()
other = netlink()
fails(errno.EADDRINUSE, other.bind, (os.getpid(), 0))
other.bind((4711, 0))
assert other.getsockname() == (4711, 0)
other.connect((0, 0))
assert other.getpeername() == (0, 0)
# A connection to a group or a port is told back; nobody listens there.
third = netlink()
third.connect((99, 0))
assert third.getpeername() == (99, 0) and third.getsockname()[0] != 0
fails(errno.ECONNREFUSED, third.send, getgen())
fails(errno.ECONNREFUSED, other.sendto, getgen(), (99, 0))
fails(errno.EPERM, other.sendto, getgen(), (0, 1))

# Options of netlink.
for option in (3, 4, 5, 8, 10, 11, 12):
    assert s.getsockopt(SOL_NETLINK, option) == 0
    s.setsockopt(SOL_NETLINK, option, 1)
    assert s.getsockopt(SOL_NETLINK, option) == 1
    s.setsockopt(SOL_NETLINK, option, 0)
s.setsockopt(SOL_NETLINK, 1, 7)
assert s.getsockname() == (os.getpid(), 1 | 1 << 6)
assert struct.unpack("I", s.getsockopt(SOL_NETLINK, 9, 4))[0] == 1 | 1 << 6
s.setsockopt(SOL_NETLINK, 2, 1)
assert s.getsockname() == (os.getpid(), 1 << 6)
fails(errno.EINVAL, s.setsockopt, SOL_NETLINK, 1, 0)
fails(errno.EINVAL, s.setsockopt, SOL_NETLINK, 1, 33)
fails(errno.ENOPROTOOPT, s.setsockopt, SOL_NETLINK, 77, 1)
fails(errno.ENOPROTOOPT, s.getsockopt, SOL_NETLINK, 77)
fails(errno.ENOPROTOOPT, s.setsockopt, socket.IPPROTO_TCP, 1, 1)
# Buffers are the kernel's.
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 131072

# What a netlink socket cannot do.
fails(errno.EOPNOTSUPP, s.shutdown, socket.SHUT_RDWR)
fails(errno.EOPNOTSUPP, s.send, getgen(), socket.MSG_OOB)
fails(errno.EOPNOTSUPP, s.recv, 1, socket.MSG_OOB)
assert raw("send", s.fileno(), b"", 0, 0) == -errno.ENODATA

# Others are not ours: other protocols, other families, other files under our numbers.
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
assert route.fileno() < 900
a, b = socket.socketpair()
os.dup2(a.fileno(), 1000)
os.write(1000, b"x")
assert b.recv(10) == b"x"
r, w = os.pipe()
os.dup2(w, 1001)
os.write(1001, b"y")
assert os.read(r, 1) == b"y"

# A message that the service does not know is refused by an answer.
s.send(message(0x0A77, 3))
answer = s.recv(65536)
assert header(answer)[1] == 2 and struct.unpack("=i", answer[16:20])[0] == -errno.EOPNOTSUPP
# Numbers run out before the limit does, and closed ones come back.
many = []
try:
    while True:
        many.append(netlink())
except OSError as e:
    assert e.errno == errno.EMFILE, e
assert len(many) > 100, len(many)
many.clear()
netlink().close()
