# SPDX-License-Identifier: Apache-2.0
"""Every call that sends or receives, blocking or not, and every way to wait."""
from lib import *

watchdog()
s = netlink()
fd = s.fileno()


def answered(number):
    """Receives one answer."""
    answer = s.recv(65536, socket.MSG_DONTWAIT)
    assert sequence(answer) == number, (sequence(answer), number)


# The answer is there when the send returns.
s.send(getgen(1)); answered(1)
s.sendto(getgen(2), (0, 0)); answered(2)
s.sendmsg([getgen(3)[:7], getgen(3)[7:]]); answered(3)
s.sendmsg([getgen(4)], [], 0, (0, 0)); answered(4)
os.write(fd, getgen(5)); answered(5)
os.writev(fd, [getgen(6)[:3], getgen(6)[3:]]); answered(6)
# Two messages in one datagram, two answers.
s.send(getgen(7) + getgen(8)); answered(7); answered(8)
fails(errno.EAGAIN, s.recv, 10, socket.MSG_DONTWAIT)

# Receives.
for number in range(10, 20):
    s.send(getgen(number))
assert sequence(os.read(fd, 65536)) == 10
parts = [bytearray(5), bytearray(100)]
assert sequence(bytes(parts[0] + parts[1])) == 0
n = os.readv(fd, parts)
assert sequence(bytes(parts[0] + parts[1])) == 11 and n > 20
data, ancillary, flags, sender = s.recvmsg(65536)
assert (sequence(data), ancillary, flags, sender) == (12, [], 0, (0, 0))
n, ancillary, flags, sender = s.recvmsg_into(parts)
assert n > 20 and sequence(bytes(parts[0] + parts[1])) == 13 and sender == (0, 0)
data, sender = s.recvfrom(65536)
assert sequence(data) == 14 and sender == (0, 0)
# Peeking leaves it there, and truncation tells the length.
assert sequence(s.recv(65536, socket.MSG_PEEK)) == 15
buffer = bytearray(4)
full = s.recv_into(buffer, 4, socket.MSG_PEEK | socket.MSG_TRUNC)
assert full > 20
data, _, flags, _ = s.recvmsg(20)
assert sequence(data) == 15 and len(data) == 20 and flags == socket.MSG_TRUNC
assert s.recv_into(buffer, 4, socket.MSG_TRUNC) == full

# sendmmsg and recvmmsg.
class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Mmsghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Iovec)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("padding", ctypes.c_int), ("len", ctypes.c_uint)]


while True:
    try:
        s.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        break
buffers = [ctypes.create_string_buffer(getgen(n), 20) for n in (30, 31, 32)]
parts = [Iovec(ctypes.addressof(b), 20) for b in buffers]
headers = (Mmsghdr * 3)(*[Mmsghdr(None, 0, ctypes.pointer(p), 1, None, 0, 0, 0, 0) for p in parts])
result = raw("sendmmsg", fd, headers, 3, 0)
assert result == 3, result
assert [h.len for h in headers] == [20, 20, 20]
names = [ctypes.create_string_buffer(12) for _ in range(5)]
buffers = [ctypes.create_string_buffer(4096) for _ in range(5)]
parts = [Iovec(ctypes.addressof(b), 4096) for b in buffers]
headers = (Mmsghdr * 5)(*[Mmsghdr(ctypes.addressof(n), 12, ctypes.pointer(p), 1, None, 0, 0, 0, 0)
                          for n, p in zip(names, parts)])
assert raw("recvmmsg", fd, headers, 5, 0x10000, None) == 3
assert [sequence(b.raw) for b in buffers[:3]] == [30, 31, 32]
assert all(h.len > 20 and h.namelen == 12 for h in headers[:3])
assert struct.unpack("=HHII", names[0].raw) == (16, 0, 0, 0)
assert raw("recvmmsg", fd, headers, 5, socket.MSG_DONTWAIT, None) == -errno.EAGAIN

# Waiting: poll, select, epoll (level and edge), before and after.
poll = select.poll()
poll.register(fd, select.POLLIN)
level, edge = select.epoll(), select.epoll()
level.register(fd, select.EPOLLIN)
edge.register(fd, select.EPOLLIN | select.EPOLLET)
assert poll.poll(0) == [] and select.select([fd], [], [], 0)[0] == [] and level.poll(0) == []
s.send(getgen(40))
assert poll.poll(0) == [(fd, select.POLLIN)]
assert select.select([fd], [fd], [], 0)[:2] == ([fd], [fd])
assert len(level.poll(0)) == 1 and len(edge.poll(0)) == 1 and edge.poll(0) == []
answered(40)
assert poll.poll(0) == [] and level.poll(0) == []

# A call that blocks waits for another thread's request.
got = []
for receive in (lambda: s.recv(65536), lambda: os.read(fd, 65536), lambda: s.recvmsg(65536)[0]):
    thread = threading.Thread(target=lambda: got.append(sequence(receive())))
    thread.start()
    time.sleep(0.05)
    s.send(getgen(50))
    thread.join()
assert got == [50, 50, 50], got
# SO_RCVTIMEO.
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
begin = time.monotonic()
fails(errno.EAGAIN, os.read, fd, 100)
assert 0.09 < time.monotonic() - begin < 2
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
os.set_blocking(fd, False)
fails(errno.EAGAIN, os.read, fd, 100)
fails(errno.EAGAIN, s.recvmsg, 100)
os.set_blocking(fd, True)

# Control messages.
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.send(getgen(60))
_, ancillary, flags, _ = s.recvmsg(65536, 100)
assert ancillary == [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, bytes(12))] and flags == 0
s.send(getgen(61))
_, ancillary, flags, _ = s.recvmsg(65536, 10)
assert ancillary == [] and flags == socket.MSG_CTRUNC
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
# A datagram of many megabytes.
s.send(b"".join(getgen(n) for n in range(30_000)))
for n in range(1000):
    answered(n)
