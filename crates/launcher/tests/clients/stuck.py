# SPDX-License-Identifier: Apache-2.0
"""A program with memory that never arrives (userfaultfd) does not block others."""
from lib import *
import mmap

watchdog(30)
NUMBER = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
LIBC.syscall.restype = ctypes.c_long
fd = LIBC.syscall(NUMBER, os.O_CLOEXEC)
if fd < 0:
    print("skipped: no userfaultfd that faults of others wait for")
    sys.exit(0)
import fcntl
# UFFDIO_API and UFFDIO_REGISTER.
fcntl.ioctl(fd, 0xC018AA3F, struct.pack("=QQQ", 0xAA, 0, 0))
area = mmap.mmap(-1, 1 << 16)
at = ctypes.addressof(ctypes.c_char.from_buffer(area))
fcntl.ioctl(fd, 0xC020AA00, struct.pack("=QQQQ", at, 1 << 16, 1, 0))
children = []
for n in range(4):
    child = os.fork()
    if child == 0:
        break
    children.append(child)
if len(children) < 4:
    # The registration is the parent's: a child makes its own.
    fd = LIBC.syscall(NUMBER, os.O_CLOEXEC)
    fcntl.ioctl(fd, 0xC018AA3F, struct.pack("=QQQ", 0xAA, 0, 0))
    area = mmap.mmap(-1, 1 << 16)
    at = ctypes.addressof(ctypes.c_char.from_buffer(area))
    fcntl.ioctl(fd, 0xC020AA00, struct.pack("=QQQQ", at, 1 << 16, 1, 0))
    s = netlink()
    raw("send", s.fileno(), ctypes.c_void_p(at), ctypes.c_size_t(100), 0)
    os._exit(0)
time.sleep(0.2)
for n in range(5):
    begin = time.monotonic()
    s = netlink()
    s.send(getgen(n))
    assert sequence(s.recv(65536)) == n
    assert time.monotonic() - begin < 3
for child in children:
    # Linux does not let the supervisor wait for such a page through /proc/PID/mem; if it did, the
    # child would be stuck.
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        continue
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
s.send(getgen(99))
assert sequence(s.recv(65536)) == 99
