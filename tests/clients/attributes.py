# SPDX-License-Identifier: Apache-2.0

"""Attributes of netlink messages: bytes, texts, numbers in network order, and nested ones."""

import struct


def attribute(kind, value):
    data = b"".join(value) if isinstance(value, list) else value
    kind |= 0x8000 if isinstance(value, list) else 0
    return struct.pack("=HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def text(kind, value):
    return attribute(kind, value.encode() + b"\0")


def be8(kind, n):
    return attribute(kind, bytes([n]))


def be16(kind, n):
    return attribute(kind, struct.pack("!H", n))


def be32(kind, n):
    return attribute(kind, struct.pack("!I", n))


def be64(kind, n):
    return attribute(kind, struct.pack("!Q", n))
