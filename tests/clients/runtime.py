# SPDX-License-Identifier: Apache-2.0
"""The runtime of a container, as far as its seccomp filter goes:
runtime.py PROFILE SOCKET COMMAND...

Puts the filter of a profile (OCI runtime specification, `linux.seccomp`) on a process, sends its
listener with the container's state to a socket, as runc and crun do, and lets the process become the
command then. Ends with its status."""

import ctypes
import json
import os
import platform
import socket
import struct
import sys

X86_64 = platform.machine() == "x86_64"
ARCH = 0xC000003E if X86_64 else 0xC00000B7
# Numbers on x86_64 and on aarch64.
NUMBERS = {
    "read": (0, 63), "readv": (19, 65), "writev": (20, 66), "sendto": (44, 206),
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "recvfrom": (45, 207), "recvmsg": (47, 212),
    "recvmmsg": (299, 243), "bind": (49, 200), "connect": (42, 203), "getsockname": (51, 204),
    "getpeername": (52, 205), "setsockopt": (54, 208), "getsockopt": (55, 209),
    "shutdown": (48, 210), "dup": (32, 23), "fcntl": (72, 25), "socket": (41, 198),
    "io_uring_setup": (425, 425), "seccomp": (317, 277),
}
NOTIFY, ERRNO, ALLOW, KILL = 0x7FC00000, 0x00050000, 0x7FFF0000, 0x80000000
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06


def number(name):
    return NUMBERS[name][0 if X86_64 else 1]


def instruction(code, value, yes=0, no=0):
    return struct.pack("=HBBI", code, yes, no, value)


def rule(name, action, conditions):
    """Returns the action if the call is that one and all conditions hold."""
    tests = [(0, 0xFFFFFFFF, number(name))]
    for condition in conditions:
        low = 16 + 8 * condition["index"]
        match condition["op"]:
            case "SCMP_CMP_EQ":
                tests.append((low, 0xFFFFFFFF, condition["value"]))
            case "SCMP_CMP_MASKED_EQ":
                assert condition["value"] < 1 << 32, "the upper half is another word"
                tests.append((low, condition["value"], condition["valueTwo"]))
    body = []
    for nth, (at, mask, value) in enumerate(tests):
        left = 3 * (len(tests) - nth - 1) + 1
        body += [instruction(LOAD, at), instruction(AND, mask), instruction(EQUAL, value, 0, left)]
    return [*body, instruction(RETURN, action)]


def program(profile):
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    code = [instruction(LOAD, 4), instruction(EQUAL, ARCH, 1, 0), instruction(RETURN, KILL)]
    for group in profile["syscalls"]:
        kind = group["action"]
        action = NOTIFY if kind == "SCMP_ACT_NOTIFY" else ERRNO | group["errnoRet"]
        for name in group["names"]:
            assert (kind, name) != ("SCMP_ACT_NOTIFY", "write"), "runc refuses it"
            code += rule(name, action, group.get("args", []))
    return b"".join([*code, instruction(RETURN, ALLOW)])


def install(code):
    """Puts a filter on this process. Returns its listener."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    place = ctypes.create_string_buffer(filter, len(filter))
    # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
    fd = libc.syscall(number("seccomp"), 1, 8, place)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return fd


profile, path, *command = sys.argv[1:]
with open(profile, encoding="utf-8") as file:
    code = program(json.load(file))
runtime, container = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
process = os.fork()
if process == 0:
    runtime.close()
    socket.send_fds(container, [b"."], [install(code)])
    container.recv(1)
    container.close()
    os.execvp(command[0], command)
container.close()
_, [listener], _, _ = socket.recv_fds(runtime, 1, 1)
state = {
    "ociVersion": "1.0.2",
    "fds": ["seccompFd"],
    "pid": process,
    "metadata": "",
    "state": {"ociVersion": "1.0.2", "id": "test", "status": "creating", "pid": process, "bundle": "/"},
}
# crun connects long before, and runc stays connected.
agent = socket.socket(socket.AF_UNIX)
agent.connect(path)
text = json.dumps(state).encode()
socket.send_fds(agent, [text[:100]], [listener])
agent.sendall(text[100:])
os.close(listener)
runtime.send(b".")
_, status = os.waitpid(process, 0)
sys.exit(os.waitstatus_to_exitcode(status))
