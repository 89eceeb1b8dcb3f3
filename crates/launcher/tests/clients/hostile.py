# SPDX-License-Identifier: Apache-2.0
"""Pointers and lengths that lead nowhere give the kernel's errors."""
from lib import *
import mmap
import random

watchdog(60)
s = netlink()
s.bind((0, 0))
fd = s.fileno()
VOID = ctypes.c_void_p
SIZE = ctypes.c_size_t
for bad in (1, 0xDEAD0000, 1 << 46, (1 << 63) + 4096, (1 << 64) - 1):
    assert raw("send", fd, VOID(bad), SIZE(20), 0) == -errno.EFAULT, bad
    assert raw("sendmsg", fd, VOID(bad), 0) == -errno.EFAULT
    assert raw("bind", fd, VOID(bad), 12) == -errno.EFAULT
    assert raw("connect", fd, VOID(bad), 12) == -errno.EFAULT
    assert raw("getsockname", fd, VOID(bad), VOID(bad)) == -errno.EFAULT
    assert raw("setsockopt", fd, 270, 1, VOID(bad), 4) == -errno.EFAULT
    assert raw("getsockopt", fd, 270, 3, VOID(bad), VOID(bad)) == -errno.EFAULT
    assert raw("recvmsg", fd, VOID(bad), 0) == -errno.EFAULT
    s.send(getgen())
    assert raw("recv", fd, VOID(bad), SIZE(100), 0) == -errno.EFAULT
assert raw("send", fd, VOID(4096), SIZE(1 << 62), 0) in (-errno.EMSGSIZE, -errno.EFAULT)
address = ctypes.create_string_buffer(struct.pack("=HHII", 16, 0, 0, 0))
assert raw("bind", fd, address, 11) == -errno.EINVAL
assert raw("bind", fd, address, -1) == -errno.EINVAL
assert raw("bind", fd, address, 4096) == -errno.EINVAL
address[0] = b"\x02"
assert raw("bind", fd, address, 12) == -errno.EINVAL
length = ctypes.c_int(-1)
assert raw("getsockname", fd, address, ctypes.byref(length)) == -errno.EINVAL
length = ctypes.c_int(5)
assert raw("getsockname", fd, address, ctypes.byref(length)) == 0 and length.value == 12
# Too many parts, and parts that are too long.
parts = ctypes.create_string_buffer(16 * 1025)
header = ctypes.create_string_buffer(struct.pack("=QIIQQQQII", 0, 0, 0, ctypes.addressof(parts), 1025, 0, 0, 0, 0))
assert raw("sendmsg", fd, header, 0) == -errno.EMSGSIZE
struct.pack_into("=QQQQ", parts, 0, 4096, 1 << 62, 4096, 1 << 62)
struct.pack_into("=Q", header, 24, 2)
assert raw("sendmsg", fd, header, 0) in (-errno.EINVAL, -errno.EMSGSIZE)

# Calls with random arguments, while other threads take the descriptor away and bring it back.
random.seed(1)
LIBC.syscall.restype = ctypes.c_long
NUMBERS = {"x86_64": [0, 1, 19, 20, 44, 46, 307, 45, 47, 299, 49, 42, 51, 52, 54, 55, 48, 32],
           "aarch64": [63, 64, 65, 66, 206, 211, 269, 207, 212, 243, 200, 203, 204, 205, 208, 209, 210, 23]}
numbers = NUMBERS[os.uname().machine]
# Answers may be longer than the place that is named: pages that nobody may touch come after it, so
# that nothing of the interpreter is overwritten.
room = mmap.mmap(-1, 1 << 20)
page = ctypes.addressof(ctypes.c_char.from_buffer(room))
assert LIBC.mprotect(VOID(page + 8192), SIZE((1 << 20) - 8192), 0) == 0
ctypes.memmove(page + 4096, header, 56)
values = [0, 1, 4, 12, 16, 100, page, page + 4096, page + 8190, 1 << 40, (1 << 64) - 1, 1 << 31, (1 << 32) - 1, 270]
stop = time.monotonic() + 5


def random_calls(seed):
    """Calls that mean nothing."""
    own = random.Random(seed)
    while time.monotonic() < stop:
        target = netlink()
        os.set_blocking(target.fileno(), False)
        for _ in range(50):
            arguments = [own.choice(values) for _ in range(5)]
            LIBC.syscall(ctypes.c_long(own.choice(numbers)), ctypes.c_long(target.fileno()),
                         *[ctypes.c_ulong(a) for a in arguments])
        target.close()


for n in range(4):
    # In processes of their own: no descriptor of this one is lost.
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            random_calls(n)
        finally:
            os._exit(0)
while True:
    try:
        assert os.waitpid(-1, 0)[1] == 0
    except ChildProcessError:
        break
# The supervisor still answers.
last = netlink()
last.send(getgen(77))
assert sequence(last.recv(65536)) == 77
