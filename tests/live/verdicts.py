# SPDX-License-Identifier: Apache-2.0
# A verdict that changes the packet's connection, and a logged packet with its connection; follows
# nfnl.py.

CT, CT_MARK, CT_TIMEOUT, LOGGED_CT = 11, 8, 7, 18
NESTED = 0x8000

queue, log = opened(), opened()
ask(queue, "bind", message(CONFIG, 3, command(1), copy(2, 40), be32(5, 2), be32(4, 2)))
ask(log, "log: bind", message(LOG_CONFIG, 5, attribute(1, b"\1"), log_copy(1, 0), attribute(6, b"\0\4")))
number, found = packet(queue, QUEUE)
print("queued with a connection", CT | NESTED in found)
change = attribute(CT | NESTED, be32(CT_MARK, 0x17) + be32(CT_TIMEOUT, 1000))
ask(queue, "verdict", message(VERDICT, 3, verdict(1, number), change))
_, found = packet(log, LOG)
connection = dict(attributes(found[LOGGED_CT | NESTED]))
print("logged with mark", struct.unpack("!I", connection[CT_MARK])[0])
sys.stdout.flush()
