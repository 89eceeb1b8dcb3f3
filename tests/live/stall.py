# SPDX-License-Identifier: Apache-2.0
"""Holds a thread of a process still for a while: stall.py PROCESS THREAD SECONDS. Says when it is, and when it goes on."""
import ctypes
import os
import sys
import time

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def named(process, name):
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/comm") as comm:
            # Of several workers the first, where no number is given.
            if f"{comm.read().strip()} ".startswith(f"{name} "):
                return int(thread)
    raise SystemExit(f"no thread {name}")


process, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
thread = named(process, name)
ptrace(SEIZE, thread)
ptrace(INTERRUPT, thread)
os.waitpid(thread, WALL)
print("stalled", flush=True)
time.sleep(seconds)
ptrace(DETACH, thread)
print("goes on", flush=True)
