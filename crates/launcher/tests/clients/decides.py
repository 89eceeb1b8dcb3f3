# SPDX-License-Identifier: Apache-2.0
"""A program that has libnetfilter_queue sends without reported calls, and gets several messages with
a receive."""
import mmap
import tempfile

from lib import *

with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/libnetfilter_queue.so.1", "w+b") as file:
        file.write(bytes(4096))
        file.flush()
        library = mmap.mmap(file.fileno(), 4096)
    s = netlink()
other = netlink()
library.close()
before = netlink()
assert before.fileno() < s.fileno() and other.fileno() > s.fileno(), (before, s, other)

s.bind((0, 0))
MANY = 20
for n in range(MANY):
    s.send(getgen(n))
poll = select.poll()
poll.register(s, select.POLLIN)
time.sleep(0.5)


def sequences(datagram):
    found = []
    while datagram:
        found.append(sequence(datagram))
        datagram = datagram[header(datagram)[0]:]
    return found


# Answers come after the sends, in their order, and nothing is cut.
first = s.recv(65536, socket.MSG_PEEK)
assert sequences(first) == [0], first
length = len(first)
seen = sequences(s.recv(length))
assert seen == [0], seen
while len(seen) < MANY:
    assert poll.poll(20000), seen
    some = s.recv(5 * length + 3)
    assert len(some) in (length, 2 * length, 3 * length, 4 * length, 5 * length), len(some)
    seen += sequences(some)
assert seen == list(range(MANY)), seen
assert not poll.poll(0)
fails(errno.EAGAIN, s.recv, 65536, socket.MSG_DONTWAIT)
# A copy is one of its kind.
copy = s.dup()
assert copy.fileno() > s.fileno()
copy.send(getgen(99))
assert sequences(copy.recv(65536)) == [99]
# Who waits is woken.
threading.Timer(0.3, s.send, [getgen(100)]).start()
assert sequences(s.recv(65536)) == [100]
