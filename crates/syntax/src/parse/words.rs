// SPDX-License-Identifier: Apache-2.0

//! Words that cannot be names, or not everywhere.

use crate::ast::{key, stmt};

/// A word that nft 1.0.6 reserves everywhere.
struct Reserved {
    word: &'static str,
    /// It can begin a statement.
    begins_stmt: bool,
    /// Words that are keywords after it until what it begins is complete, beyond the reserved ones
    /// (the start conditions of nft's scanner).
    after: &'static [&'static str],
}

const fn reserved(word: &'static str, after: &'static [&'static str]) -> Reserved {
    Reserved { word, begins_stmt: false, after }
}

const fn statement(word: &'static str, after: &'static [&'static str]) -> Reserved {
    Reserved { word, begins_stmt: true, after }
}

const AFTER_ARP: &[&str] = &["saddr", "daddr", "htype", "ptype", "hlen", "plen", "operation"];
const AFTER_ICMP: &[&str] = &[
    "checksum",
    "code",
    "gateway",
    "id",
    "max-delay",
    "mtu",
    "param-problem",
    "sequence",
    "taddr",
];
const AFTER_IP: &[&str] = &[
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
];
const AFTER_IP6: &[&str] = &[
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
];
const AFTER_LIST: &[&str] = &[
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
];
const AFTER_OPTIONS_HEADER: &[&str] = &["nexthdr", "hdrlength"];
const AFTER_FRAG: &[&str] =
    &["nexthdr", "reserved", "reserved2", "frag-off", "more-fragments", "id"];
const AFTER_PORTS: &[&str] = &["sport", "dport"];
const AFTER_CHUNK: &[&str] = &[
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
];
const AFTER_TCP: &[&str] = &[
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
];

/// Reserved words in alphabetical order, without those of [`key::KEYWORDS`] and
/// [`stmt::KEYWORDS`].
static RESERVED: [Reserved; 113] = [
    statement("accept", &[]),
    statement("add", &[]),
    statement("ah", &["reserved", "hdrlength", "spi", "sequence"]),
    reserved("all", &[]),
    statement("arp", AFTER_ARP),
    reserved("auto-merge", &[]),
    reserved("bridge", &[]),
    statement("cgroup", &[]),
    reserved("chain", &[]),
    statement("comment", &[]),
    statement("comp", &["nexthdr", "cpi"]),
    reserved("constant", &[]),
    statement("continue", &[]),
    statement("cpu", &[]),
    reserved("create", &[]),
    statement("day", &[]),
    statement("dccp", AFTER_PORTS),
    reserved("define", &[]),
    statement("delete", &[]),
    reserved("describe", &[]),
    reserved("device", &[]),
    reserved("devices", &[]),
    statement("drop", &[]),
    statement("dst", AFTER_OPTIONS_HEADER),
    reserved("dynamic", &[]),
    reserved("ecn", &[]),
    reserved("element", &[]),
    reserved("elements", &[]),
    statement("esp", &["spi", "sequence"]),
    statement("ether", &["saddr", "daddr"]),
    reserved("exists", &[]),
    reserved("expires", &[]),
    reserved("export", &[]),
    statement("exthdr", &[]),
    reserved("flags", &[]),
    reserved("flowtable", &[]),
    reserved("flush", &[]),
    statement("frag", AFTER_FRAG),
    reserved("gc-interval", &[]),
    reserved("get", &[]),
    statement("goto", &[]),
    reserved("handle", &[]),
    statement("hbh", AFTER_OPTIONS_HEADER),
    reserved("hook", &[]),
    statement("hour", &[]),
    statement("ibriport", &[]),
    statement("ibrname", &[]),
    statement("icmp", AFTER_ICMP),
    statement("icmpv6", AFTER_ICMP),
    statement("igmp", &["mrt", "group"]),
    statement("iif", &[]),
    statement("iifgroup", &[]),
    statement("iifname", &[]),
    statement("iiftype", &[]),
    reserved("import", &[]),
    reserved("include", &[]),
    reserved("index", &[]),
    reserved("inet", &[]),
    reserved("insert", &[]),
    reserved("interval", &[]),
    statement("ip", AFTER_IP),
    statement("ip6", AFTER_IP6),
    statement("jump", &[]),
    reserved("list", AFTER_LIST),
    reserved("map", &[]),
    statement("mark", &[]),
    statement("mh", &["nexthdr", "hdrlength", "reserved", "checksum"]),
    reserved("missing", &[]),
    reserved("monitor", &[]),
    reserved("netdev", &[]),
    statement("nftrace", &[]),
    statement("obriport", &[]),
    statement("obrname", &[]),
    reserved("offload", &[]),
    statement("oif", &[]),
    statement("oifgroup", &[]),
    statement("oifname", &[]),
    statement("oiftype", &[]),
    statement("pkttype", &[]),
    reserved("policy", &[]),
    reserved("position", &[]),
    reserved("priority", &[]),
    reserved("random", &[]),
    reserved("redefine", &[]),
    reserved("rename", &[]),
    reserved("replace", &[]),
    statement("reset", &["counters", "quotas"]),
    statement("return", &[]),
    statement("rt0", &[]),
    statement("rt2", &[]),
    statement("rtclassid", &[]),
    reserved("rule", &[]),
    reserved("ruleset", &[]),
    statement("sctp", &["sport", "dport", "vtag", "checksum", "chunk", "length"]),
    reserved("secmark", &[]),
    statement("set", &[]),
    reserved("size", &[]),
    statement("skgid", &[]),
    statement("skuid", &[]),
    statement("srh", &[]),
    reserved("table", &[]),
    statement("tcp", AFTER_TCP),
    statement("th", AFTER_PORTS),
    statement("time", &[]),
    reserved("timeout", &[]),
    reserved("type", &[]),
    reserved("typeof", &[]),
    statement("udp", &["sport", "dport", "length", "checksum"]),
    statement("udplite", &["sport", "dport", "csumcov", "checksum"]),
    reserved("undefine", &[]),
    statement("update", &[]),
    statement("vlan", &["id", "cfi", "dei", "pcp"]),
    reserved("vmap", &[]),
];

fn find(word: &str) -> Option<&'static Reserved> {
    let index = RESERVED.binary_search_by(|reserved| reserved.word.cmp(word)).ok()?;
    RESERVED.get(index)
}

/// Whether nft 1.0.6 reserves a word everywhere. Words such as `saddr` or `packets` are keywords
/// only after the word that they belong to, and so can name chains and sets.
pub(crate) fn is_reserved(word: &str) -> bool {
    key::keyword(word).is_some_and(|keyword| keyword.reserved)
        || stmt::keyword(word).is_some_and(|keyword| keyword.reserved)
        || find(word).is_some()
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
    match find(first) {
        Some(reserved) => reserved.after,
        // Not reserved itself: a keyword after `sctp`.
        None if first == "chunk" => AFTER_CHUNK,
        None => &[],
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
        || find(word).is_some_and(|reserved| reserved.begins_stmt)
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

#[cfg(test)]
mod tests {
    use super::RESERVED;

    #[test]
    fn reserved_words_are_sorted() {
        assert!(RESERVED.is_sorted_by(|a, b| a.word < b.word));
    }
}
