# SPDX-License-Identifier: Apache-2.0
"""Adds `meta mark 7 meta broute set 1` to the chain `routing` of the table `bridge broute`."""
import socket
import struct

NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END = 16, 17
NFT_MSG_NEWRULE = 10 << 8 | 6
NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_APPEND = 1, 4, 0x400, 0x800
NFPROTO_BRIDGE = 7
NESTED = 1 << 15
META_MARK, META_BROUTE = 3, 35


def attribute(kind, value):
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def number(kind, value):
    return attribute(kind, struct.pack(">I", value))


def nested(kind, *attributes):
    return attribute(kind | NESTED, b"".join(attributes))


def expression(name, *attributes):
    return nested(1, attribute(1, name + b"\0"), nested(2, *attributes))


def message(kind, flags, sequence, family, subsystem, attributes=b""):
    body = struct.pack(">BBH", family, 0, subsystem) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, flags | NLM_F_REQUEST, sequence, 0) + body


def data(value):
    return attribute(1, value)


rule = b"".join([
    attribute(1, b"broute\0"),
    attribute(2, b"routing\0"),
    nested(
        4,
        expression(b"meta", number(2, META_MARK), number(1, 1)),
        expression(b"cmp", number(1, 1), number(2, 0), nested(3, data(struct.pack("=I", 7)))),
        expression(b"immediate", number(1, 1), nested(2, data(b"\1"))),
        expression(b"meta", number(2, META_BROUTE), number(3, 1)),
    ),
])
batch = b"".join([
    message(NFNL_MSG_BATCH_BEGIN, 0, 1, 0, 10),
    message(NFT_MSG_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND, 2, NFPROTO_BRIDGE, 0, rule),
    message(NFNL_MSG_BATCH_END, 0, 3, 0, 10),
])
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:
    netlink.bind((0, 0))
    netlink.send(batch)
    answer = netlink.recv(4096)
error = struct.unpack_from("=i", answer, 16)[0]
if error:
    raise OSError(-error, "the rule is refused")
