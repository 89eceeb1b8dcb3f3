# SPDX-License-Identifier: Apache-2.0
"""An unprivileged user who wants to be where the dataplane is to be: squatter.py SECONDS.

Takes the abstract name that is the program's, and locks what it can open in the run directories. Says what it got, and
"begun"; keeps all of it for so long.
"""
import fcntl
import glob
import os
import socket
import sys
import time

os.setgid(65534)
os.setuid(65534)
held = []
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.bind("\0penstock")
s.listen()
held.append(s)
for directory in ("/run/penstock", "/run/penstock-read"):
    try:
        held.append(open(f"{directory}/taken", "w"))
        print("made a file in", directory)
    except OSError:
        pass
    for path in [directory, *glob.glob(f"{directory}/*")]:
        try:
            fd = os.open(path, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(fd)
            if not path.startswith("/run/penstock-read"):
                print("locked", path)
        except OSError:
            pass
print("begun", flush=True)
time.sleep(float(sys.argv[1]))
