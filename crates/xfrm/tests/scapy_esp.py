# SPDX-License-Identifier: Apache-2.0
"""ESP by scapy, for tests: a JSON object per line in, its answer in hexadecimal per line out.

Each object has `do` (encrypt or decrypt), the algorithms by scapy's names with their keys, `mode`, `source`, `destination`,
`spi`, `seq`, `esn` (the high half, or null), `udp` (two ports, or null) and `packet`.

scapy leaves the high half out of HMACs of ESP. So with extended numbers it encrypts, and the integrity value is made here of
what it has encrypted and the high half after it (RFC 4303, 2.2.1).
"""

import json
import struct
import sys

from scapy.compat import raw
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import AUTH_ALGOS, ESP, SecurityAssociation


def association(job):
    six = ":" in job["source"]
    header = (IPv6 if six else IP)(src=job["source"], dst=job["destination"])
    more = {}
    if job["crypt"]:
        more.update(crypt_algo=job["crypt"], crypt_key=bytes.fromhex(job["crypt_key"]))
        if job["icv"]:
            more.update(crypt_icv_size=job["icv"])
    if job["auth"] and job["esn"] is None:
        more.update(auth_algo=job["auth"], auth_key=bytes.fromhex(job["auth_key"]))
    if job["mode"] == "tunnel":
        more.update(tunnel_header=header)
    if job["udp"]:
        more.update(nat_t_header=UDP(sport=job["udp"][0], dport=job["udp"][1]))
    return SecurityAssociation(ESP, spi=job["spi"], **more)


def integrity(job, esp):
    """Of an ESP packet without its integrity value."""
    algorithm = AUTH_ALGOS[job["auth"]]
    mac = algorithm.new_mac(bytes.fromhex(job["auth_key"]))
    mac.update(esp + struct.pack("!L", job["esn"]))
    return mac.finalize()[:algorithm.icv_size]


def lengthened(packet, data):
    """With other contents of ESP."""
    packet[ESP].data = data
    for layer, fields in ((IP, ("len", "chksum")), (IPv6, ("plen",)), (UDP, ("len", "chksum"))):
        if layer in packet:
            for field in fields:
                packet[layer].delfieldval(field)
    return packet


def answer(job):
    sa = association(job)
    given = bytes.fromhex(job["packet"])
    packet = (IPv6 if given[0] >> 4 == 6 else IP)(given)
    esn = dict(esn_en=job["esn"] is not None, esn=job["esn"] or 0)
    apart = job["auth"] and job["esn"] is not None
    if job["do"] == "encrypt":
        packet = sa.encrypt(packet, seq_num=job["seq"], **esn)
        return lengthened(packet, packet[ESP].data + integrity(job, raw(packet[ESP]))) if apart else packet
    if apart:
        size = AUTH_ALGOS[job["auth"]].icv_size
        esp = raw(packet[ESP])
        if integrity(job, esp[:-size]) != esp[-size:]:
            raise ValueError("another integrity value")
        packet = lengthened(packet, packet[ESP].data[:-size])
    return sa.decrypt(packet, **esn)


for line in sys.stdin:
    try:
        print(bytes(answer(json.loads(line))).hex())
    except Exception as error:  # The test shows it.
        print(f"{type(error).__name__}: {error}")
