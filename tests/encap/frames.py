#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames of tunnels, VLANs and PPPoE as scapy makes them: what goes in, and what has to come out.

frames.py make DIR     for each case a directory with net.ip and the captures lan.pcap and wan.pcap
frames.py check DIR    compares the captures in DIR/CASE/*/ with what has to be there
frames.py protocols    for each case the layers that tshark has to see in what leaves by wan
"""

import logging
import sys
from pathlib import Path

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import (  # noqa: E402
    IP, UDP, Dot1AD, Dot1Q, Ether, HBHOptUnknown, IPv6, IPv6ExtHdrDestOpt, PPPoE, Raw, raw, rdpcap, wrpcap,
)

NET = """\
link set lo up
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.18.0.1/24 dev wan
addr add 198.18.1.1/24 dev lan
addr add 2001:db8::1/64 dev wan nodad
addr add 2001:db8:1::1/64 dev lan nodad
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 2001:db8::7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan
neigh add 2001:db8:1::7 lladdr 02:00:00:00:00:b7 dev lan
route add 198.18.99.0/24 via 198.18.0.7
route add 2001:db8:99::/48 via 2001:db8::7
"""

WAN, LAN = "02:00:00:00:00:01", "02:00:00:00:00:02"
FAR, NEAR = "02:00:00:00:00:a7", "02:00:00:00:00:b7"
ECN = (0, 2, 3, 1)


def far(lines):
    """Neighbours behind a device of Ethernet."""
    return lines + """\
link set far up
addr add 198.18.30.1/24 dev far
addr add 2001:db8:30::1/64 dev far nodad
neigh add 198.18.30.7 lladdr 02:00:00:00:00:a7 dev far
neigh add 2001:db8:30::7 lladdr 02:00:00:00:00:a7 dev far
"""


def routed(lines, six=True):
    """Routes into a device without neighbours."""
    lines += "link set far up\nroute add 198.18.30.0/24 dev far\n"
    return lines + ("route add 2001:db8:30::/64 dev far\n" if six else "")


def ppp(link, session):
    def around(inner):
        # Both bytes of the protocol (RFC 2516, 4): scapy's own layer leaves the first out.
        protocol = Raw(bytes((0, 0x57 if inner.haslayer(IPv6) else 0x21)))
        return link / PPPoE(sessionid=session) / protocol
    return around


def tunnel4(ttl=None, tos=0, df=True, both=False):
    """An outer header of IPv4: there, and on the way back."""
    def out(inner):
        head = inner[0]
        six = head.version == 6
        inner_tos, inner_ttl = (head.tc, head.hlim) if six else (head.tos, head.ttl)
        ecn = 2 if inner_tos & 3 == 3 else inner_tos & 3
        own = inner_tos if tos is None else tos
        flags = 2 if df or (not six and head.flags & 2) else 0
        return IP(src="198.18.0.1", dst="198.18.99.1", proto=41 if six else 4, flags=flags,
                  ttl=ttl or inner_ttl, tos=own & 0xFC | ecn)

    def back(inner):
        return IP(src="198.18.99.1", dst="198.18.0.1", proto=41 if inner.version == 6 else 4, ttl=50)
    return out, back


def tunnel6(limit=4, hlim=64, tc=0):
    option = IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=4, optdata=bytes([limit or 0]))])

    def out(inner):
        head = inner[0]
        six = head.version == 6
        inner_tc, inner_hlim = (head.tc, head.hlim) if six else (head.tos, head.ttl)
        ecn = 2 if inner_tc & 3 == 3 else inner_tc & 3
        own = inner_tc if tc is None else tc
        outer = IPv6(src="2001:db8::1", dst="2001:db8:99::1", hlim=hlim or inner_hlim, tc=own & 0xFC | ecn, fl=0)
        return outer if limit is None else outer / option

    def back(inner):
        outer = IPv6(src="2001:db8:99::1", dst="2001:db8::1", hlim=50)
        return outer if limit is None else outer / option
    return out, back


def plain(link):
    return lambda inner: link


def over(link, out):
    return lambda inner: link / out(inner)


def pair(make, extra=lambda link: link):
    """Headers there and back for what is on both sides the same but for link addresses."""
    there, back = extra(Ether(src=WAN, dst=FAR)), extra(Ether(src=FAR, dst=WAN))
    return make(there), make(back)


def tunnel(ends, extra=lambda link: link):
    out, back = ends
    return over(extra(Ether(src=WAN, dst=FAR)), out), over(extra(Ether(src=FAR, dst=WAN)), back)


# Name: lines, headers there and back, IP versions inside, and what tshark calls the headers.
CASES = {
    "vlan": (far("link add link wan name far type vlan id 5\n"),
             pair(plain, lambda e: e / Dot1Q(vlan=5)), (4, 6), "vlan"),
    "qinq": (far("link add link wan name mid type vlan protocol 802.1ad id 5\nlink set mid up\n"
                 "link add link mid name far type vlan id 6\n"),
             pair(plain, lambda e: e / Dot1AD(vlan=5) / Dot1Q(vlan=6)), (4, 6), "ieee8021ad:vlan"),
    "pppoe": (routed("link add far type pppoe dev wan session 9 peer 02:00:00:00:00:a7\n"),
              pair(lambda e: ppp(e, 9)), (4, 6), "pppoes:ppp"),
    "pppoe-vlan": (routed("link add link wan name mid type vlan id 5\nlink set mid up\n"
                          "link add far type pppoe dev mid session 9 peer 02:00:00:00:00:a7\n"),
                   pair(lambda e: ppp(e, 9), lambda e: e / Dot1Q(vlan=5)), (4, 6), "vlan:pppoes:ppp"),
    "ipip": (routed("link add far type ipip local 198.18.0.1 remote 198.18.99.1\n", False),
             tunnel(tunnel4()), (4,), "ip"),
    "ipip-set": (routed("tunnel add far mode ipip local 198.18.0.1 remote 198.18.99.1 ttl 9 tos 0x48\n", False),
                 tunnel(tunnel4(ttl=9, tos=0x48)), (4,), "ip"),
    "ipip-inherit": (routed("link add far type ipip local 198.18.0.1 remote 198.18.99.1 tos inherit nopmtudisc\n", False),
                     tunnel(tunnel4(tos=None, df=False)), (4,), "ip"),
    "sit": (routed("link add far type sit local 198.18.0.1 remote 198.18.99.1\n"),
            tunnel(tunnel4()), (4, 6), "ip"),
    "ip6tnl": (routed("link add far type ip6tnl local 2001:db8::1 remote 2001:db8:99::1\n"),
               tunnel(tunnel6()), (4, 6), "ipv6:ipv6.dstopts"),
    "ip6tnl-bare": (routed("-6 tunnel add far mode any local 2001:db8::1 remote 2001:db8:99::1 encaplimit none "
                           "hoplimit inherit tclass inherit\n"),
                    tunnel(tunnel6(limit=None, hlim=None, tc=None)), (4, 6), "ipv6"),
    "ipip-vlan": (routed("link add link wan name mid type vlan id 5\nlink set mid up\naddr add 198.18.2.1/24 dev mid\n"
                         "neigh add 198.18.2.7 lladdr 02:00:00:00:00:a7 dev mid\n"
                         "route replace 198.18.99.0/24 via 198.18.2.7\n"
                         "link add far type ipip local 198.18.0.1 remote 198.18.99.1\n", False),
                  tunnel(tunnel4(), lambda e: e / Dot1Q(vlan=5)), (4,), "vlan:ip"),
}


def packets(version, n):
    """The packet of an exchange as it is sent, there and back, and as it is when it was forwarded."""
    data = bytes([n]) * (30 + 7 * n)
    for src, dst, ports in (("7", "30.7", (40001, 40002)), ("30.7", "7", (40002, 40001))):
        for left in (64, 63):
            if version == 4:
                near = {"7": "198.18.1.7", "30.7": "198.18.30.7"}
                head = IP(src=near[src], dst=near[dst], ttl=left, tos=0x20 | ECN[n % 4], id=n, flags=2 * (n % 2))
            else:
                near = {"7": "2001:db8:1::7", "30.7": "2001:db8:30::7"}
                head = IPv6(src=near[src], dst=near[dst], hlim=left, tc=0x20 | ECN[n % 4])
            yield type(head)(raw(head / UDP(sport=ports[0], dport=ports[1]) / data))


def exchange(case):
    """Captures of both devices, and what leaves by each."""
    _, (there, back), versions, _ = CASES[case]
    received, sent = {"lan": [], "wan": []}, {"lan": [], "wan": []}
    at = 1_700_000_000.0
    for version in versions:
        for n in range(6):
            sends, goes, answers, comes = packets(version, n)
            frames = (("lan", Ether(src=NEAR, dst=LAN) / sends), ("wan", back(answers) / answers))
            for device, frame in frames:
                frame = Ether(raw(frame))
                frame.time = at
                at += 0.001
                received[device].append(frame)
            sent["wan"].append(there(goes) / goes)
            sent["lan"].append(Ether(src=LAN, dst=NEAR) / comes)
    return received, sent


def make(directory):
    for case, (lines, *_) in CASES.items():
        place = directory / case
        place.mkdir(parents=True, exist_ok=True)
        (place / "net.ip").write_text(NET + lines)
        for device, frames in exchange(case)[0].items():
            wrpcap(str(place / f"{device}.pcap"), frames)


def with_id_of(frame, found):
    """The identification of an outer header is the router's own to choose."""
    frame = Ether(raw(frame))
    if frame.haslayer(IP) and frame[IP].proto in (4, 41) and found.haslayer(IP):
        frame[IP].id = found[IP].id
        del frame[IP].chksum
        frame = Ether(raw(frame))
    return raw(frame)


def check(directory):
    bad = 0
    for case in CASES:
        sent = exchange(case)[1]
        for out in sorted(p for p in (directory / case).iterdir() if p.is_dir()):
            for device in ("lan", "wan"):
                found = rdpcap(str(out / f"{device}.pcap"))
                want = sent[device]
                if len(found) != len(want):
                    print(f"{out.parent.name}/{out.name}/{device}: {len(found)} frames, not {len(want)}")
                    bad += 1
                for n, (frame, expected) in enumerate(zip(found, want)):
                    expected = with_id_of(expected, frame)
                    if raw(frame) != expected:
                        print(f"{out.parent.name}/{out.name}/{device} frame {n}:\n is {raw(frame).hex()}\n not {expected.hex()}")
                        bad += 1
    return bad


def main():
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    elif sys.argv[1] == "check":
        sys.exit(1 if check(Path(sys.argv[2])) else 0)
    elif sys.argv[1] == "protocols":
        for case, (_, _, versions, layers) in CASES.items():
            print(case, layers, *versions)


main()
