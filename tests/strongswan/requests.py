# SPDX-License-Identifier: Apache-2.0
"""Writes so many echo requests from one network to the other."""

import sys

from scapy.all import ICMP, IP, Ether, Raw, wrpcap

ether = Ether(dst="02:00:00:00:01:01", src="02:00:00:00:01:09")
ip = IP(src="198.18.11.1", dst="198.18.12.1")
packets = [
    ether / ip / ICMP(id=0x5053, seq=n) / Raw(bytes(range(100 + n))) for n in range(int(sys.argv[2]))
]
wrpcap(sys.argv[1], packets)
