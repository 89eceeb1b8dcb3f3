//! Words that cannot be names.

/// Whether nft 1.0.6 reserves a word everywhere. Words such as `saddr` or `packets` are keywords only behind the word
/// that they belong to, and so can name chains and sets.
pub(super) fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "accept" | "add" | "ah" | "all" | "arp" | "auto-merge" | "bridge" | "cgroup" | "chain" | "comment" | "comp"
            | "constant" | "continue" | "counter" | "cpu" | "create" | "ct" | "day" | "dccp" | "define" | "delete"
            | "describe" | "device" | "devices" | "dnat" | "drop" | "dst" | "dup" | "dynamic" | "ecn" | "element"
            | "elements" | "esp" | "ether" | "exists" | "expires" | "export" | "exthdr" | "fib" | "flags" | "flow"
            | "flowtable" | "flush" | "frag" | "fwd" | "gc-interval" | "get" | "goto" | "handle" | "hbh" | "hook"
            | "hour" | "ibriport" | "ibrname" | "icmp" | "icmpv6" | "igmp" | "iif" | "iifgroup" | "iifname" | "iiftype"
            | "import" | "include" | "index" | "inet" | "insert" | "interval" | "ip" | "ip6" | "ipsec" | "jhash"
            | "jump" | "limit" | "list" | "log" | "map" | "mark" | "masquerade" | "meta" | "meter" | "mh" | "missing"
            | "monitor" | "netdev" | "nftrace" | "notrack" | "numgen" | "obriport" | "obrname" | "offload" | "oif"
            | "oifgroup" | "oifname" | "oiftype" | "osf" | "pkttype" | "policy" | "position" | "priority" | "queue"
            | "quota" | "random" | "redefine" | "redirect" | "reject" | "rename" | "replace" | "reset" | "return"
            | "rt" | "rt0" | "rt2" | "rtclassid" | "rule" | "ruleset" | "sctp" | "secmark" | "set" | "size" | "skgid"
            | "skuid" | "snat" | "socket" | "srh" | "symhash" | "synproxy" | "table" | "tcp" | "th" | "time"
            | "timeout" | "tproxy" | "type" | "typeof" | "udp" | "udplite" | "undefine" | "update" | "vlan" | "vmap"
            | "xt"
    )
}
