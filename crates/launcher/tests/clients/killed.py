# SPDX-License-Identifier: Apache-2.0
"""Kills processes in the midst of what they do."""
from lib import *

first = netlink()
print("ready", flush=True)
for _ in sys.stdin:
    children = []
    for n in range(40):
        child = os.fork()
        if child == 0:
            s = netlink()
            s.bind((0, 1))
            if n % 4 == 0:
                while True:
                    s.recv(65536)
            if n % 4 == 1:
                threading.Thread(target=lambda: s.recv(65536)).start()
            while True:
                s.send(message(0x0AFE, 1, struct.pack("=I", 5)) if n % 4 == 2 else getgen(1))
                if n % 4 == 3:
                    s.recv(65536)
        children.append(child)
    time.sleep(0.3)
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    print("killed", flush=True)
