# SPDX-License-Identifier: Apache-2.0
"""Signals end calls, or calls go on, and nothing is lost or done twice."""
from lib import *

watchdog(60)
s = netlink()
s.bind((0, 0))
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))

# Without SA_RESTART a receive that waits fails with EINTR.
signal.siginterrupt(signal.SIGALRM, True)
buffer = ctypes.create_string_buffer(4096)
signal.setitimer(signal.ITIMER_REAL, 0.05)
assert raw("recv", s.fileno(), buffer, 4096, 0) == -errno.EINTR
# With it, the receive goes on.
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.05)
threading.Timer(0.2, lambda: s.send(getgen(5))).start()
assert raw("recv", s.fileno(), buffer, 4096, 0) > 20
assert sequence(buffer.raw) == 5

# Under a rain of signals every request is answered once, in order.
for restart in (True, False):
    signal.siginterrupt(signal.SIGALRM, not restart)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0037)
    expected, n, before = 0, 0, len(seen)
    # However fast a request is, some are interrupted.
    while n < 600 or len(seen) - before < 12:
        n += 1
        while raw("send", s.fileno(), getgen(n), 20, 0) == -errno.EINTR:
            pass
        while (got := raw("recv", s.fileno(), buffer, 4096, 0)) == -errno.EINTR:
            pass
        assert got > 20, got
        assert sequence(buffer.raw) == n, (sequence(buffer.raw), n)
        generation = struct.unpack(">I", buffer.raw[24:28])[0]
        assert expected in (0, generation), "a request was carried out twice"
        expected = generation + 1
    signal.setitimer(signal.ITIMER_REAL, 0)
fails(errno.EAGAIN, s.recv, 10, socket.MSG_DONTWAIT)

# SIGSTOP and SIGCONT in a receive that waits.
child = os.fork()
if child == 0:
    own = netlink()
    own.bind((0, 1))
    own.recv(65536)
    os._exit(3)
time.sleep(0.2)
for _ in range(3):
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.02)
    os.kill(child, signal.SIGCONT)
    time.sleep(0.02)
s.send(message(0x0AFF, 1))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
# SIGINT ends a program that waits at once.
child = os.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    netlink().recv(65536)
time.sleep(0.1)
begin = time.monotonic()
os.kill(child, signal.SIGINT)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGINT
assert time.monotonic() - begin < 2
