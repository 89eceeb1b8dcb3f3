# SPDX-License-Identifier: Apache-2.0
# What netfilter sockets are answered, and get; follows nfnl.py.

own, other = opened(), opened()
for label, request in [
    ("no queue", message(CONFIG, 7, copy(2, 99))),
    ("nothing", message(CONFIG, 7)),
    ("unbind", message(CONFIG, 7, command(2))),
    ("verdict", message(VERDICT, 7, verdict(1, 1))),
    ("batch", message(BATCH, 7, verdict(1, 1))),
    ("families", message(CONFIG, 7, command(3, 2))),
    ("families end", message(CONFIG, 7, command(4, 2))),
    ("command 9", message(CONFIG, 7, command(9))),
    ("short command", message(CONFIG, 7, attribute(1, b"\1"))),
    ("bind", message(CONFIG, 7, command(1))),
    ("bind again", message(CONFIG, 7, command(1))),
    ("mode 3", message(CONFIG, 7, copy(3, 9))),
    ("mode 1", message(CONFIG, 7, copy(1, 9))),
    ("short mode", message(CONFIG, 7, attribute(2, b"\0\0"))),
    ("flags without mask", message(CONFIG, 7, be32(5, 1))),
    ("unknown flag", message(CONFIG, 7, be32(5, 32), be32(4, 32))),
    ("fail open", message(CONFIG, 7, be32(5, 1), be32(4, 1))),
    ("users", message(CONFIG, 7, be32(5, 8), be32(4, 8))),
    ("security contexts", message(CONFIG, 7, be32(5, 16), be32(4, 16))),
    ("length", message(CONFIG, 7, be32(3, 10))),
    ("no packet", message(VERDICT, 7, verdict(1, 1))),
    ("no header", message(VERDICT, 7)),
    ("verdict 2", message(VERDICT, 7, verdict(2, 1))),
    ("verdict 6", message(VERDICT, 7, verdict(6, 1))),
    ("empty batch", message(BATCH, 7, verdict(1, 100))),
    ("message 4", message(QUEUE << 8 | 4, 7)),
    ("packet", message(QUEUE << 8, 7)),
]:
    ask(own, label, request)
for label, request in [
    ("other bind", message(CONFIG, 7, command(1))),
    ("other unbind", message(CONFIG, 7, command(2))),
    ("other verdict", message(VERDICT, 7, verdict(1, 1))),
    ("other batch", message(BATCH, 7, verdict(1, 1))),
]:
    ask(other, label, request)
ask(own, "end", message(CONFIG, 7, command(2)))
ask(other, "then bind", message(CONFIG, 7, command(1)))
other.close()
time.sleep(0.3)
ask(own, "after its end", message(CONFIG, 7, command(1), copy(2, 0)))
ask(own, "end", message(CONFIG, 7, command(2)))
for label, request in [
    ("log: no group", message(LOG_CONFIG, 5, log_copy(2, 9))),
    ("log: nothing", message(LOG_CONFIG, 5)),
    ("log: unbind", message(LOG_CONFIG, 5, attribute(1, b"\2"))),
    ("log: family", message(LOG_CONFIG, 0, attribute(1, b"\3"), family=2)),
    ("log: family end", message(LOG_CONFIG, 0, attribute(1, b"\4"), family=2)),
    ("log: command 9", message(LOG_CONFIG, 5, attribute(1, b"\x09"))),
    ("log: bind", message(LOG_CONFIG, 5, attribute(1, b"\1"))),
    ("log: bind again", message(LOG_CONFIG, 5, attribute(1, b"\1"))),
    ("log: mode 3", message(LOG_CONFIG, 5, log_copy(3, 9))),
    ("log: short mode", message(LOG_CONFIG, 5, attribute(2, b"\1"))),
    ("log: buffer 1", message(LOG_CONFIG, 5, be32(3, 1))),
    ("log: buffer", message(LOG_CONFIG, 5, be32(3, 65536))),
    ("log: time", message(LOG_CONFIG, 5, be32(4, 1))),
    ("log: one", message(LOG_CONFIG, 5, be32(5, 1))),
    ("log: message 2", message(LOG << 8 | 2, 5)),
    ("log: packet", message(LOG << 8, 5)),
]:
    ask(own, label, request)
other = opened()
ask(other, "log: other bind", message(LOG_CONFIG, 5, attribute(1, b"\1")))
ask(other, "log: other", message(LOG_CONFIG, 5, be32(5, 1)))
ask(own, "log: copy", message(LOG_CONFIG, 5, log_copy(2, 32)))
drain(own)
packet(own, LOG, 32)
ask(own, "log: numbers", message(LOG_CONFIG, 5, log_copy(1, 0), attribute(6, b"\0\3")))
drain(own)
_, found = packet(own, LOG)
ask(own, "log: end", message(LOG_CONFIG, 5, attribute(1, b"\2")))
drain(own)
# Packets of the queue wait for what happens to them.
ask(other, "bind", message(CONFIG, 3, command(1), copy(2, 40), be32(3, 100)))
first, _ = packet(other, QUEUE)
ask(other, "accept", message(VERDICT, 3, verdict(1, first)))
ask(other, "again", message(VERDICT, 3, verdict(1, first)))
second, _ = packet(other, QUEUE)
ask(own, "of another", message(VERDICT, 3, verdict(1, second)))
ask(other, "drop", message(VERDICT, 3, verdict(0, second)))
ask(other, "whole", message(CONFIG, 3, copy(2, 0)))
drain(other)
third, found = packet(other, QUEUE)
changed = bytearray(found[10])
changed[26:28] = b"\0\0"
changed[28:] = b"changed" + bytes(len(changed) - 35)
other.send(message(VERDICT, 3, verdict(1, third), attribute(10, bytes(changed)), be32(3, 5), flags=1))
last = third
for _ in range(3):
    last, _ = packet(other, QUEUE)
ask(other, "batch", message(BATCH, 3, verdict(1, last)))
ask(other, "meta", message(CONFIG, 3, copy(1, 0)))
drain(other)
packet(other, QUEUE)
other.close()
sys.stdout.flush()
