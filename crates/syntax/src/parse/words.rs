// SPDX-License-Identifier: Apache-2.0

//! Words that cannot be names, or not everywhere.

use crate::ast::{key, stmt};

/// Whether nft 1.0.6 reserves a word everywhere. Words such as `saddr` or `packets` are keywords
/// only after the word that they belong to, and so can name chains and sets.
pub(crate) fn is_reserved(word: &str) -> bool {
    key::keyword(word).is_some_and(|keyword| keyword.reserved)
        || stmt::keyword(word).is_some_and(|keyword| keyword.reserved)
        || matches!(
            word,
            "accept"
                | "add"
                | "ah"
                | "all"
                | "arp"
                | "auto-merge"
                | "bridge"
                | "cgroup"
                | "chain"
                | "comment"
                | "comp"
                | "constant"
                | "continue"
                | "cpu"
                | "create"
                | "day"
                | "dccp"
                | "define"
                | "delete"
                | "describe"
                | "device"
                | "devices"
                | "drop"
                | "dst"
                | "dynamic"
                | "ecn"
                | "element"
                | "elements"
                | "esp"
                | "ether"
                | "exists"
                | "expires"
                | "export"
                | "exthdr"
                | "flags"
                | "flowtable"
                | "flush"
                | "frag"
                | "gc-interval"
                | "get"
                | "goto"
                | "handle"
                | "hbh"
                | "hook"
                | "hour"
                | "ibriport"
                | "ibrname"
                | "icmp"
                | "icmpv6"
                | "igmp"
                | "iif"
                | "iifgroup"
                | "iifname"
                | "iiftype"
                | "import"
                | "include"
                | "index"
                | "inet"
                | "insert"
                | "interval"
                | "ip"
                | "ip6"
                | "jump"
                | "list"
                | "map"
                | "mark"
                | "mh"
                | "missing"
                | "monitor"
                | "netdev"
                | "nftrace"
                | "obriport"
                | "obrname"
                | "offload"
                | "oif"
                | "oifgroup"
                | "oifname"
                | "oiftype"
                | "pkttype"
                | "policy"
                | "position"
                | "priority"
                | "random"
                | "redefine"
                | "rename"
                | "replace"
                | "reset"
                | "return"
                | "rt0"
                | "rt2"
                | "rtclassid"
                | "rule"
                | "ruleset"
                | "sctp"
                | "secmark"
                | "set"
                | "size"
                | "skgid"
                | "skuid"
                | "srh"
                | "table"
                | "tcp"
                | "th"
                | "time"
                | "timeout"
                | "type"
                | "typeof"
                | "udp"
                | "udplite"
                | "undefine"
                | "update"
                | "vlan"
                | "vmap"
        )
}

/// Words that are keywords after `first` until what it begins is complete, beyond the reserved
/// ones (the start conditions of nft's scanner).
pub(crate) fn keywords_after(first: &str) -> &'static [&'static str] {
    if let Some(keyword) = key::keyword(first) {
        return keyword.after;
    }
    if let Some(keyword) = stmt::keyword(first) {
        return keyword.after;
    }
    match first {
        "arp" => &["saddr", "daddr", "htype", "ptype", "hlen", "plen", "operation"],
        "icmp" | "icmpv6" => &[
            "checksum",
            "code",
            "gateway",
            "id",
            "max-delay",
            "mtu",
            "param-problem",
            "sequence",
            "taddr",
        ],
        "ip" => &[
            "saddr",
            "daddr",
            "version",
            "hdrlength",
            "dscp",
            "length",
            "id",
            "frag-off",
            "ttl",
            "protocol",
            "checksum",
            "lsrr",
            "rr",
            "ssrr",
            "ra",
            "ptr",
            "value",
            "option",
            "options",
            "addr",
            "prefix",
            "to",
        ],
        "igmp" => &["mrt", "group"],
        "ip6" => &[
            "saddr",
            "daddr",
            "version",
            "dscp",
            "length",
            "flowlabel",
            "nexthdr",
            "hoplimit",
            "addr",
            "prefix",
            "to",
        ],
        "list" => &[
            "tables",
            "chains",
            "sets",
            "maps",
            "meters",
            "flowtables",
            "counters",
            "quotas",
            "limits",
            "secmarks",
            "synproxys",
            "hooks",
        ],
        "reset" => &["counters", "quotas"],
        "ether" => &["saddr", "daddr"],
        "vlan" => &["id", "cfi", "dei", "pcp"],
        "ah" => &["reserved", "hdrlength", "spi", "sequence"],
        "esp" => &["spi", "sequence"],
        "comp" => &["nexthdr", "cpi"],
        "hbh" | "dst" => &["nexthdr", "hdrlength"],
        "frag" => &["nexthdr", "reserved", "reserved2", "frag-off", "more-fragments", "id"],
        "mh" => &["nexthdr", "hdrlength", "reserved", "checksum"],
        "udp" => &["sport", "dport", "length", "checksum"],
        "udplite" => &["sport", "dport", "csumcov", "checksum"],
        "dccp" | "th" => &["sport", "dport"],
        "sctp" => &["sport", "dport", "vtag", "checksum", "chunk", "length"],
        "chunk" => &[
            "a-rwnd",
            "abort",
            "asconf",
            "asconf-ack",
            "cookie-ack",
            "cookie-echo",
            "cum-tsn-ack",
            "cwr",
            "data",
            "ecne",
            "error",
            "forward-tsn",
            "heartbeat",
            "heartbeat-ack",
            "init",
            "init-ack",
            "init-tag",
            "initial-tsn",
            "length",
            "lowest-tsn",
            "new-cum-tsn",
            "num-dup-tsns",
            "num-gap-ack-blocks",
            "num-inbound-streams",
            "num-outbound-streams",
            "ppid",
            "sack",
            "seqno",
            "shutdown",
            "shutdown-ack",
            "shutdown-complete",
            "ssn",
            "stream",
            "tsn",
        ],
        "tcp" => &[
            "ackseq",
            "checksum",
            "count",
            "left",
            "right",
            "doff",
            "dport",
            "echo",
            "fastopen",
            "length",
            "maxseg",
            "md5sig",
            "mptcp",
            "mss",
            "nop",
            "option",
            "options",
            "reserved",
            "sack",
            "sack-perm",
            "sack-permitted",
            "sack0",
            "sack1",
            "sack2",
            "sack3",
            "sequence",
            "sport",
            "subtype",
            "timestamp",
            "tsecr",
            "tsval",
            "urgptr",
            "window",
        ],
        _ => &[],
    }
}

/// Whether nft's scanner is among the keywords of a word after it, be there any that matter here.
pub(super) fn opens_scope(word: &str) -> bool {
    let without_keywords = [
        "ah", "at", "comp", "dccp", "dst", "esp", "ether", "exthdr", "flags", "frag", "hbh", "mh",
        "policy",
    ];
    let more = ["secmark", "th", "type", "udp", "udplite", "vlan"];
    !keywords_after(word).is_empty() || without_keywords.contains(&word) || more.contains(&word)
}

/// Reserved words that are values nevertheless.
pub(super) fn is_symbol(word: &str) -> bool {
    matches!(
        word,
        "ether"
            | "ip"
            | "ip6"
            | "vlan"
            | "arp"
            | "dnat"
            | "snat"
            | "ecn"
            | "reset"
            | "original"
            | "reply"
            | "label"
            | "last"
    )
}

/// Whether a word begins a statement that has its own keywords and is no expression.
pub(super) fn begins_effect(word: &str) -> bool {
    word == "reset" || stmt::keyword(word).is_some_and(|keyword| !keyword.after.is_empty())
}

/// What `rt` asks of the route rather than of a routing header.
pub(crate) fn is_route_key(word: &str) -> bool {
    matches!(word, "classid" | "nexthop" | "mtu" | "ipsec" | "ip" | "ip6")
}

/// Keywords of `ct` that are symbols nevertheless.
pub(crate) fn is_symbol_after_ct(word: &str) -> bool {
    matches!(word, "label" | "original" | "reply")
}

/// Whether a reserved word can begin a statement.
pub(super) fn begins_stmt(word: &str) -> bool {
    key::keyword(word).is_some_and(|keyword| keyword.reserved)
        || stmt::keyword(word).is_some_and(|keyword| keyword.reserved)
        || matches!(
            word,
            "accept"
                | "add"
                | "ah"
                | "arp"
                | "cgroup"
                | "comment"
                | "comp"
                | "continue"
                | "cpu"
                | "day"
                | "dccp"
                | "delete"
                | "drop"
                | "dst"
                | "esp"
                | "ether"
                | "exthdr"
                | "frag"
                | "goto"
                | "hbh"
                | "hour"
                | "ibriport"
                | "ibrname"
                | "icmp"
                | "icmpv6"
                | "igmp"
                | "iif"
                | "iifgroup"
                | "iifname"
                | "iiftype"
                | "ip"
                | "ip6"
                | "jump"
                | "mark"
                | "mh"
                | "nftrace"
                | "obriport"
                | "obrname"
                | "oif"
                | "oifgroup"
                | "oifname"
                | "oiftype"
                | "pkttype"
                | "reset"
                | "return"
                | "rt0"
                | "rt2"
                | "rtclassid"
                | "sctp"
                | "set"
                | "skgid"
                | "skuid"
                | "srh"
                | "tcp"
                | "th"
                | "time"
                | "udp"
                | "udplite"
                | "update"
                | "vlan"
        )
}

/// What may follow the name of a header, where it is little enough for nft to say so, in its order.
pub(super) fn fields_of(header: &str) -> &'static [&'static str] {
    match header {
        "ether" => &["saddr", "daddr", "type"],
        "igmp" => &["type", "checksum", "mrt", "group"],
        "udp" => &["length", "checksum", "sport", "dport"],
        "udplite" => &["checksum", "sport", "dport", "csumcov"],
        "dccp" => &["type", "sport", "dport"],
        "esp" => &["seq", "spi"],
        "comp" => &["nexthdr", "flags", "cpi"],
        "th" => &["sport", "dport"],
        "hbh" | "dst" => &["hdrlength", "nexthdr"],
        "rt0" | "rt2" => &["addr"],
        "srh" => &["flags", "last-entry", "tag", "sid"],
        _ => &[],
    }
}
