# SPDX-License-Identifier: Apache-2.0
"""Without any rights."""
import os, socket, struct

status = open("/proc/self/status").read()
print("no_new_privs", status.split("NoNewPrivs:")[1].split()[0])
s = socket.socket(16, 3, 12)
s.send(struct.pack("=IHHII4x", 20, 0x0A10, 1, 1, 0))
print("generation", struct.unpack(">I", s.recv(4096)[24:28])[0])
