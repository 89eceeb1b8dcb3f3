# SPDX-License-Identifier: Apache-2.0
"""Tests of a ruleset, and of the module."""

import struct

import penstock
import pytest

NET = """
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.18.0.1/24 dev wan
addr add 198.18.1.1/24 dev lan
neigh add 198.18.0.9 lladdr 02:00:00:00:00:09 dev wan
neigh add 198.18.1.7 lladdr 02:00:00:00:01:07 dev lan
"""

RULES = """
table inet filter {
    counter dns { }
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established,related accept
        iifname lan udp dport 53 counter name dns accept
        tcp dport 23 log prefix "telnet " drop
    }
}
table ip nat {
    chain post {
        type nat hook postrouting priority srcnat
        oifname wan masquerade
    }
}
"""

NOW = 1_700_000_000_000_000_000


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(to, source, target, protocol, payload):
    """A frame for the router; `to` is the last byte of its link address."""
    address = lambda text: bytes(int(part) for part in text.split("."))
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0)
    head += address(source) + address(target)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return bytes([2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, 8, 0]) + head + payload


def udp(to, source, target):
    ports = struct.pack("!HHHH", source[1], target[1], 8, 0)
    return frame(to, source[0], target[0], 17, ports)


def router(**options):
    network = penstock.Network(NET)
    rules = penstock.Ruleset(network, RULES)
    return rules, penstock.Dataplane(network, rules, seed=1, **options)


def refused(work):
    with pytest.raises(penstock.Error) as error:
        work()
    return error.value


def test_queries_leave_masqueraded_and_answers_come_back():
    for engine in [None, "interpreter"]:
        rules, dataplane = router(engine=engine)
        outcome = dataplane.process("lan", udp(2, ("198.18.1.7", 4000), ("198.18.0.9", 53)), time=NOW)
        assert (outcome.fate, outcome.device) == ("sent", "wan"), outcome
        [(device, sent)] = outcome.sent
        assert device == "wan" and sent[26:30] == bytes([198, 18, 0, 1])
        port = struct.unpack("!H", sent[34:36])[0]
        outcome = dataplane.process("wan", udp(1, ("198.18.0.9", 53), ("198.18.0.1", port)), time=NOW)
        assert (outcome.fate, outcome.device) == ("sent", "lan"), outcome
        assert len(dataplane.connections()) == 1
        [dns] = [c for c in rules.counters() if c.name == "dns"]
        assert (dns.packets, dns.bytes, dns.chain) == (1, 28, None)


def test_what_nobody_asked_for_is_dropped_by_the_policy():
    _, dataplane = router()
    dataplane.trace_all(True)
    outcome = dataplane.process("wan", udp(1, ("198.18.0.9", 53), ("198.18.1.7", 4000)), time=NOW)
    assert (outcome.fate, outcome.reason, outcome.rule) == ("dropped", "policy", "inet filter forward")
    assert outcome.trace[-1].rstrip().endswith("inet filter forward policy drop"), outcome.trace
    assert dataplane.counters()["drops"] == {"policy": 1}


def test_rules_change_while_packets_pass():
    rules, dataplane = router()
    session = penstock.Session(rules)
    session.run("flush chain inet filter forward\nadd rule inet filter forward counter accept", time=NOW)
    dataplane.set_rules(session)
    telnet = frame(1, "198.18.0.9", "198.18.1.7", 17, bytes([0, 9, 0, 23, 0, 8, 0, 0]))
    assert dataplane.process("wan", telnet, time=NOW).fate == "sent"
    assert "packets 1" in session.run("list chain inet filter forward", time=NOW)
    error = refused(lambda: session.run("add rule inet filter none accept"))
    assert error.messages[0].file == "commands"


def test_mistakes_are_told_with_their_places():
    network = penstock.Network(NET)
    wrong = "table inet t {\n\tchain c {\n\t\ttcp dport 99999 accept\n\t}\n}\n"
    error = refused(lambda: penstock.Ruleset(network, wrong, name="rules.nft"))
    [message] = error.messages
    assert (message.severity, message.text) == ("error", "Service out of range")
    assert (message.file, message.line, message.first, message.last) == ("rules.nft", 3, 13, 17)
    assert str(error).startswith("rules.nft:3:13-17: Error: Service out of range\n")
    [message] = refused(lambda: penstock.Network("link frob")).messages
    assert (message.file, message.line, message.first) == ("network", 1, None)
    _, dataplane = router()
    assert refused(lambda: dataplane.process("dmz", b"")).messages == []
    for wrong in [5, "text", None]:
        with pytest.raises(TypeError):
            dataplane.process("wan", wrong)


def test_rules_go_to_text_json_and_state_and_back():
    network = penstock.Network(NET)
    rules = penstock.Ruleset(network, RULES)
    again = penstock.Ruleset(network, rules.text(time=NOW))
    assert again.text(time=NOW) == rules.text(time=NOW)
    assert penstock.Ruleset.from_json(network, rules.json()).text(time=NOW) == rules.text(time=NOW)
    kept = penstock.Ruleset.from_state(network, rules.state(time=NOW), time=NOW)
    assert kept.text(time=NOW) == rules.text(time=NOW)
    refused(lambda: penstock.Ruleset.from_state(network, b"nonsense"))


def test_packets_of_scapy_are_taken():
    inet = pytest.importorskip("scapy.layers.inet")
    Ether, IP, UDP = inet.Ether, inet.IP, inet.UDP
    _, dataplane = router()
    packet = Ether(dst="02:00:00:00:00:02") / IP(src="198.18.1.7", dst="198.18.0.9") / UDP(dport=53)
    outcome = dataplane.process("lan", packet, time=NOW)
    assert Ether(outcome.sent[0][1])[IP].src == "198.18.0.1"
