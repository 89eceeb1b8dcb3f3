# SPDX-License-Identifier: Apache-2.0
"""Sockets of children, threads, copies, and programs that are run."""
from lib import *
import fcntl

watchdog()
s = netlink()
fd = s.fileno()
s.send(getgen(1))
assert sequence(s.recv(65536)) == 1

# A child has its parent's socket, and sockets of its own.
child = os.fork()
if child == 0:
    s.send(getgen(2))
    own = netlink()
    own.bind((0, 0))
    assert own.getsockname()[0] == os.getpid()
    own.send(getgen(3))
    assert sequence(own.recv(65536)) == 3
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert sequence(s.recv(65536, socket.MSG_DONTWAIT)) == 2

# So has a program that is run, if the descriptor is inherited.
os.set_inheritable(fd, True)
code = f"""
import os
os.write({fd}, {getgen(4)!r})
"""
subprocess.run([sys.executable, "-c", code], close_fds=False, check=True)
assert sequence(s.recv(65536, socket.MSG_DONTWAIT)) == 4
os.set_inheritable(fd, False)
gone = subprocess.run([sys.executable, "-c", code], close_fds=False, stderr=subprocess.DEVNULL)
assert gone.returncode != 0

# Copies keep to the numbers that are known.
copy = os.dup(fd)
assert copy >= 900
os.write(copy, getgen(5))
assert sequence(os.read(copy, 65536)) == 5
copy2 = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
assert copy2 >= 900 and fcntl.fcntl(copy2, fcntl.F_GETFD) == 1
os.dup2(fd, 950)
socket.socket(fileno=950).send(getgen(6))
assert sequence(s.recv(65536, socket.MSG_DONTWAIT)) == 6
# A copy elsewhere works, too; answers may come a little later.
os.dup2(fd, 50)
os.write(50, getgen(7))
assert select.select([50], [], [], 5)[0] == [50]
assert sequence(os.read(50, 65536)) == 7

# Passed to another process.
a, b = socket.socketpair()
child = os.fork()
if child == 0:
    got = socket.recv_fds(b, 1, 1)[1][0]
    os.write(got, getgen(8))
    os._exit(0)
socket.send_fds(a, [b"x"], [fd])
assert os.waitpid(child, 0)[1] == 0
assert sequence(s.recv(65536)) == 8

# Threads, each with a socket of its own.
def work(base, failures):
    try:
        own = netlink()
        for n in range(200):
            own.send(getgen(base + n))
            assert sequence(own.recv(65536)) == base + n
    except BaseException as e:
        failures.append(e)


failures = []
threads = [threading.Thread(target=work, args=(1000 * n, failures)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures
