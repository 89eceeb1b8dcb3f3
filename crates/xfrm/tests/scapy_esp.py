"""ESP by scapy, for tests: a JSON object per line in, its answer in hexadecimal per line out.

Each object has `do` (encrypt or decrypt), the algorithms by scapy's names with their keys, `mode`, `source`, `destination`,
`spi`, `seq`, `esn` (the high half, or null), `udp` (two ports, or null) and `packet`.
"""

import json
import sys

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation


def association(job):
    six = ":" in job["source"]
    header = (IPv6 if six else IP)(src=job["source"], dst=job["destination"])
    more = {}
    if job["crypt"]:
        more.update(crypt_algo=job["crypt"], crypt_key=bytes.fromhex(job["crypt_key"]))
        if job["icv"]:
            more.update(crypt_icv_size=job["icv"])
    if job["auth"]:
        more.update(auth_algo=job["auth"], auth_key=bytes.fromhex(job["auth_key"]))
    if job["mode"] == "tunnel":
        more.update(tunnel_header=header)
    if job["udp"]:
        more.update(nat_t_header=UDP(sport=job["udp"][0], dport=job["udp"][1]))
    return SecurityAssociation(ESP, spi=job["spi"], **more)


def answer(job):
    sa = association(job)
    raw = bytes.fromhex(job["packet"])
    packet = (IPv6 if raw[0] >> 4 == 6 else IP)(raw)
    esn = dict(esn_en=job["esn"] is not None, esn=job["esn"] or 0)
    if job["do"] == "encrypt":
        return sa.encrypt(packet, seq_num=job["seq"], **esn)
    return sa.decrypt(packet, **esn)


for line in sys.stdin:
    try:
        print(bytes(answer(json.loads(line))).hex())
    except Exception as error:  # The test shows it.
        print(f"{type(error).__name__}: {error}")
