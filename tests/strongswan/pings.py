# SPDX-License-Identifier: Apache-2.0
"""Whether a capture has so many whole echo requests from one network to the other; answers may be there, too."""

import sys

from scapy.all import ICMP, IP, rdpcap

packets = rdpcap(sys.argv[1])
wanted = int(sys.argv[2])
packets = [packet for packet in packets if packet[IP].src == "198.18.11.1"]
for packet in packets:
    ip = IP(bytes(packet[IP]))
    assert (ip.src, ip.dst, ip[ICMP].type) == ("198.18.11.1", "198.18.12.1", 8), ip.summary()
    check = ip[ICMP].chksum
    del ip[ICMP].chksum
    assert IP(bytes(ip))[ICMP].chksum == check, "checksum"
assert len(packets) == wanted, f"{len(packets)} packets"
print(f"{wanted} packets came out of the tunnel")
