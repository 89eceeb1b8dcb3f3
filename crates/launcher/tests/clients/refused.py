# SPDX-License-Identifier: Apache-2.0
"""io_uring does not exist."""
from lib import *

LIBC.syscall.restype = ctypes.c_long
page = ctypes.create_string_buffer(4096)
assert raw("syscall", ctypes.c_long(425), 8, page) == -errno.ENOSYS
if os.uname().machine == "x86_64":
    # The x32 convention.
    assert raw("syscall", ctypes.c_long(0x40000000 | 41), 16, 3, 12) == -errno.ENOSYS
