# SPDX-License-Identifier: Apache-2.0
"""In another network namespace the kernel answers; sockets go along."""
from lib import *

watchdog()
own = netlink()
child = os.fork()
if child == 0:
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    assert raw("unshare", 0x40000000) == 0
    there = netlink()
    assert there.fileno() < 900, "not the kernel's"
    there.send(getgen(3))
    answer = there.recv(65536)
    # The test's service would name the thread.
    assert header(answer)[1] in (0x0A0F, 2)
    # A socket belongs to the namespace in which it was opened.
    own.send(getgen(4))
    assert sequence(own.recv(65536)) == 4
    assert raw("setns", before, 0x40000000) == 0
    assert netlink().fileno() >= 900
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
