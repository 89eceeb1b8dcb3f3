# SPDX-License-Identifier: Apache-2.0
# Packets on a bridge, of the groups and queues that the arguments name; follows nfnl.py.

for argument in sys.argv[1:]:
    kind, number = argument.split(":")
    sock, number = opened(), int(number)
    if kind == "log":
        ask(sock, argument, message(LOG_CONFIG, number, attribute(1, b"\1"), log_copy(2, 0)))
        packet(sock, LOG)
    else:
        ask(sock, argument, message(CONFIG, number, command(1), copy(2, 28)))
        packet(sock, QUEUE)
    sock.close()
sys.stdout.flush()
