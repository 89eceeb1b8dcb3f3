// SPDX-License-Identifier: Apache-2.0

//! Rulesets and commands by chance, in the whole language: what is right, and what is nearly right.

use fastrand::Rng;
use penstock_testkit::Chance;

/// What a field is compared with.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bits(u32),
    Port,
    V4,
    V6,
    Mac,
    Device,
    Words(&'static [&'static str]),
    Time,
}

use Kind::{Bits, Device, Mac, Port, Time, V4, V6, Words};

/// A field, the families that have it (empty: all), and its values.
type Field = (&'static str, &'static str, Kind);

const STATES: Kind = Words(&["new", "established", "related", "invalid", "untracked"]);
const DSCP: Kind = Words(&["cs0", "cs1", "af11", "af42", "ef", "be", "0x3f", "7"]);
const PROTOCOLS: Kind =
    Words(&["tcp", "udp", "icmp", "ipv6-icmp", "esp", "ah", "sctp", "dccp", "gre", "99"]);
const ETHER_TYPES: Kind = Words(&["ip", "ip6", "arp", "vlan", "0x88cc", "8021ad"]);
const PACKET_TYPES: Kind = Words(&["host", "unicast", "broadcast", "multicast", "other"]);
const FLAGS: Kind = Words(&["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"]);
const ICMP: Kind = Words(&[
    "echo-request",
    "echo-reply",
    "destination-unreachable",
    "time-exceeded",
    "13",
    "redirect",
]);
const ICMP6: Kind = Words(&[
    "echo-request",
    "nd-neighbor-solicit",
    "packet-too-big",
    "mld-listener-query",
    "nd-router-advert",
]);
const CT_STATUS: Kind =
    Words(&["expected", "seen-reply", "assured", "confirmed", "snat", "dnat", "dying"]);
const ADDRESS_TYPES: Kind =
    Words(&["local", "unicast", "broadcast", "multicast", "blackhole", "prohibit"]);
const PRESENCE: Kind = Words(&["exists", "missing", "0", "1"]);
const OPERATIONS: Kind = Words(&["request", "reply", "rrequest", "nak", "3"]);
const DAYS: Kind = Words(&["\"Monday\"", "\"Friday\"", "Sunday", "3"]);
const DIRECTIONS: Kind = Words(&["original", "reply", "0"]);

const FIELDS: &[Field] = &[
    ("meta length", "", Bits(32)),
    ("meta mark", "", Bits(32)),
    ("mark", "", Bits(32)),
    ("meta priority", "", Bits(32)),
    ("meta protocol", "", ETHER_TYPES),
    ("meta l4proto", "", PROTOCOLS),
    ("meta nfproto", "", Words(&["ipv4", "ipv6", "2"])),
    ("iif", "", Device),
    ("iifname", "", Device),
    ("oifname", "", Device),
    ("meta pkttype", "", PACKET_TYPES),
    ("meta cpu", "", Bits(32)),
    ("meta iifgroup", "", Bits(32)),
    ("oifgroup", "", Words(&["default", "5"])),
    ("meta skuid", "", Bits(32)),
    ("meta skgid", "", Bits(32)),
    ("meta rtclassid", "", Bits(32)),
    ("meta cgroup", "", Bits(32)),
    ("meta iiftype", "", Words(&["ether", "loopback", "ppp", "5"])),
    ("meta random", "", Bits(32)),
    ("meta day", "", DAYS),
    ("meta ipsec", "", PRESENCE),
    ("ct state", "", STATES),
    ("ct status", "", CT_STATUS),
    ("ct mark", "", Bits(32)),
    ("ct direction", "", DIRECTIONS),
    ("ct expiration", "", Time),
    ("ct zone", "", Bits(16)),
    ("ct original bytes", "", Bits(32)),
    ("ct reply packets", "", Bits(32)),
    ("ct avgpkt", "", Bits(32)),
    ("ct original ip saddr", "", V4),
    ("ct id", "", Bits(32)),
    ("ct reply ip6 daddr", "", V6),
    ("ct original proto-dst", "", Port),
    ("ct l3proto", "", Words(&["ipv4", "ipv6"])),
    ("ct protocol", "", PROTOCOLS),
    ("ct helper", "", Words(&["\"ftp\"", "\"sip\""])),
    ("ether saddr", "bridge netdev inet ip ip6", Mac),
    ("ether daddr", "bridge netdev inet", Mac),
    ("ether type", "bridge netdev inet", ETHER_TYPES),
    ("vlan id", "bridge netdev", Bits(12)),
    ("vlan pcp", "bridge netdev", Bits(3)),
    ("vlan dei", "bridge netdev", Bits(1)),
    ("vlan type", "bridge netdev", ETHER_TYPES),
    ("arp operation", "arp bridge netdev", OPERATIONS),
    ("arp htype", "arp bridge netdev", Bits(16)),
    ("arp saddr ip", "arp netdev", V4),
    ("arp daddr ether", "arp netdev", Mac),
    ("arp plen", "arp bridge", Bits(8)),
    ("ip saddr", "", V4),
    ("ip daddr", "", V4),
    ("ip protocol", "", PROTOCOLS),
    ("ip dscp", "", DSCP),
    ("ip ecn", "", Words(&["ce", "ect0", "ect1", "not-ect"])),
    ("ip length", "", Bits(16)),
    ("ip id", "", Bits(16)),
    ("ip frag-off", "", Bits(16)),
    ("ip ttl", "", Bits(8)),
    ("ip hdrlength", "", Bits(4)),
    ("ip version", "", Bits(4)),
    ("ip checksum", "", Bits(16)),
    ("ip6 saddr", "", V6),
    ("ip6 daddr", "", V6),
    ("ip6 nexthdr", "", PROTOCOLS),
    ("ip6 hoplimit", "", Bits(8)),
    ("ip6 dscp", "", DSCP),
    ("ip6 flowlabel", "", Bits(20)),
    ("ip6 length", "", Bits(16)),
    ("ip6 version", "", Bits(4)),
    ("tcp dport", "", Port),
    ("tcp sport", "", Port),
    ("tcp flags", "", FLAGS),
    ("tcp window", "", Bits(16)),
    ("tcp sequence", "", Bits(32)),
    ("tcp doff", "", Bits(4)),
    ("tcp urgptr", "", Bits(16)),
    ("udp dport", "", Port),
    ("udp length", "", Bits(16)),
    ("udplite sport", "", Port),
    ("sctp dport", "", Port),
    ("sctp vtag", "", Bits(32)),
    ("dccp sport", "", Port),
    ("dccp type", "", Words(&["request", "data", "ack", "reset"])),
    ("ah spi", "", Bits(32)),
    ("ah hdrlength", "", Bits(8)),
    ("esp spi", "", Bits(32)),
    ("esp sequence", "", Bits(32)),
    ("comp cpi", "", Bits(16)),
    ("icmp type", "", ICMP),
    ("icmp code", "", Words(&["net-unreachable", "host-unreachable", "3"])),
    ("icmp id", "", Bits(16)),
    ("icmp mtu", "", Bits(16)),
    ("icmp gateway", "", Bits(32)),
    ("icmpv6 type", "", ICMP6),
    ("icmpv6 code", "", Words(&["no-route", "port-unreachable", "2"])),
    ("icmpv6 mtu", "", Bits(32)),
    ("igmp type", "", Words(&["membership-query", "leave-group"])),
    ("igmp group", "", V4),
    ("th dport", "", Port),
    ("hbh nexthdr", "", PROTOCOLS),
    ("frag more-fragments", "", Bits(1)),
    ("frag frag-off", "", Bits(13)),
    ("rt type", "", Bits(8)),
    ("dst hdrlength", "", Bits(8)),
    ("mh type", "", Bits(8)),
    ("exthdr frag", "", PRESENCE),
    ("exthdr hbh", "", PRESENCE),
    ("tcp option maxseg size", "", Bits(16)),
    ("tcp option sack-perm", "", PRESENCE),
    ("tcp option timestamp tsval", "", Bits(32)),
    ("tcp option window count", "", Bits(8)),
    ("ip option lsrr ptr", "ip inet", Bits(8)),
    ("ip option ra value", "ip inet", Bits(16)),
    ("sctp chunk data", "", PRESENCE),
    ("sctp chunk init num-inbound-streams", "", Bits(16)),
    ("fib daddr type", "ip ip6 inet netdev", ADDRESS_TYPES),
    ("fib saddr . iif oif", "ip ip6 inet", PRESENCE),
    ("fib saddr oifname", "ip ip6 inet", Device),
    ("rt classid", "", Bits(32)),
    ("rt ip nexthop", "", V4),
    ("rt mtu", "", Bits(16)),
    ("rt ipsec", "", PRESENCE),
    ("socket transparent", "ip ip6 inet", PRESENCE),
    ("socket mark", "ip ip6 inet", Bits(32)),
    ("socket wildcard", "ip ip6 inet", PRESENCE),
    ("ipsec in reqid", "ip ip6 inet", Bits(32)),
    ("ipsec out spnum 1 spi", "ip ip6 inet", Bits(32)),
    ("ipsec in ip saddr", "ip inet", V4),
    ("osf name", "ip ip6 inet", Words(&["\"Linux\"", "\"Windows\""])),
    ("numgen inc mod 7", "", Bits(3)),
    ("numgen random mod 10 offset 3", "", Bits(4)),
    ("jhash ip saddr . tcp dport mod 5 seed 0xbeef", "", Bits(3)),
    ("symhash mod 4 offset 2", "", Bits(3)),
    ("@nh,32,16", "", Bits(16)),
    ("@th,5,3", "", Bits(3)),
    ("@ll,0,48", "", Bits(32)),
    ("@ih,8,8", "", Bits(8)),
    ("meta hour", "", Words(&["\"10:30\"", "\"23:59:59\"", "\"00:00\""])),
    ("meta secpath", "", PRESENCE),
    ("meta nftrace", "bridge", PRESENCE),
    ("meta ibrname", "bridge", Device),
    ("meta ibrvproto", "bridge", Words(&["8021q", "8021ad"])),
    ("meta sdif", "", Device),
];

/// Statements; `$n` stands for chance.
const STATEMENTS: &[&str] = &[
    "counter",
    "counter packets $8 bytes $16",
    "accept",
    "drop",
    "continue",
    "return",
    "jump sub",
    "goto sub",
    "jump nowhere",
    "log",
    "log prefix \"a b: \"",
    "log prefix \"x\" level debug",
    "log level warn flags all",
    "log flags tcp sequence,options",
    "log flags ip options",
    "log group $8 snaplen $8 queue-threshold $8",
    "log group 1 prefix \"$8\"",
    "log level audit",
    "limit rate $8/second",
    "limit rate over $8/minute burst 7 packets",
    "limit rate $8 kbytes/second",
    "limit rate over 2 mbytes/day burst 10 kbytes",
    "quota $16 bytes",
    "quota over 3 mbytes",
    "quota until $8 kbytes used 5 bytes",
    "reject",
    "reject with tcp reset",
    "reject with icmp port-unreachable",
    "reject with icmpv6 no-route",
    "reject with icmpx admin-prohibited",
    "queue",
    "queue num $8",
    "queue num 1-5 fanout,bypass",
    "queue flags bypass to $16",
    "queue flags bypass to numgen inc mod 4",
    "notrack",
    "masquerade",
    "masquerade random,persistent",
    "ip protocol tcp masquerade to :1024-2048",
    "redirect",
    "tcp dport 80 redirect to :$16",
    "snat to 198.18.0.7",
    "snat to 198.18.0.7-198.18.0.9 random",
    "tcp dport 22 dnat to 198.18.1.2:$16",
    "dnat to 2001:db8::1",
    "dnat ip to 198.18.1.2",
    "dnat ip6 to 2001:db8::1-2001:db8::9",
    "dnat ip to ip saddr map { 198.18.0.1 : 198.19.0.1, 198.18.0.2 : 198.19.0.9 }",
    "snat ip to 198.18.4.0/24 persistent",
    "tcp dport 1 tproxy to :$16",
    "meta l4proto tcp tproxy ip to 198.18.0.1:$16",
    "meta l4proto udp tproxy ip6 to [2001:db8::1]:80",
    "meta mark set $32",
    "meta mark set mark or 0x$8",
    "meta mark set meta mark and 0xff00 xor 0x1",
    "ct mark set meta mark",
    "ct mark set mark",
    "ct zone set $8",
    "ct original zone set 3",
    "meta priority set 1:$8",
    "meta priority set root",
    "meta pkttype set host",
    "meta nftrace set 1",
    "meta mark set ip saddr map { 198.18.0.1 : 3, 198.18.1.0/24 : $8 }",
    "ip dscp set ef",
    "ip ttl set $8",
    "ip saddr set 198.18.0.$8",
    "ip6 hoplimit set 3",
    "tcp dport set $16",
    "tcp option maxseg size set $16",
    "tcp option maxseg size set rt mtu",
    "ip ecn set ce",
    "vlan id set $8",
    "ether saddr set 02:00:00:00:00:01",
    "ct event set new,destroy",
    "ct label set 5",
    "dup to 198.18.0.3",
    "dup to 198.18.0.3 device \"lo\"",
    "dup to lo",
    "fwd to lo",
    "fwd ip to 198.18.0.3 device lo",
    "counter name c1",
    "counter name none",
    "quota name q1",
    "limit name l1",
    "ct helper set \"h1\"",
    "ct timeout set \"t1\"",
    "synproxy mss 1460 wscale 7 timestamp sack-perm",
    "synproxy name y1",
    "counter name tcp dport map { 80 : \"c1\", 443 : \"c1\" }",
    "add @dyn { ip saddr }",
    "update @dyn { ip saddr timeout 10s limit rate 3/second }",
    "delete @dyn { ip saddr }",
    "add @none { ip saddr }",
    "add @dynm { ip saddr : meta mark }",
    "set add ip saddr @dyn",
    "ip saddr @dyn",
    "ip saddr @addr",
    "ip daddr != @addr",
    "tcp dport @ports",
    "ip saddr . tcp dport @pairs",
    "ip6 saddr @ports",
    "iifname @names",
    "meta mark set ip saddr map @marks",
    "ip saddr vmap @verdicts",
    "tcp dport vmap { 22 : drop, 80-90 : accept, * : jump sub }",
    "ct state vmap { new : accept, established : drop }",
    "ip saddr . tcp dport vmap { 198.18.0.1 . $8 : accept }",
    "tcp flags & (syn|ack) == syn",
    "tcp flags syn,ack / syn,ack,rst",
    "tcp flags != ( fin | syn )",
    "ct state and new == 0",
    "meta mark and 0xff == $8",
    "meta mark & 0xf0 != $8",
    "ip saddr & 255.255.0.0 == 198.18.0.0",
    "comment \"a comment\"",
    "secmark set 3",
    "meta secmark set ct secmark",
    "reset tcp option sack-perm",
    "flow add @ft",
    "quota name tcp dport map { 80 : \"q1\", 443 : \"q1\" }",
    "limit name ip saddr map @limits",
    "counter name ip saddr map @counters",
    "ct helper set tcp dport map { 21 : \"h1\", $8 : \"h1\" }",
    "ct expectation set \"e1\"",
    "ct timeout set tcp dport map { $8 : \"t1\" }",
    "ct count $8",
    "ct count over $8 counter",
    "add @stated { ip saddr . tcp dport }",
    "add @stated { ip saddr . tcp dport counter }",
    "update @dyn { ip saddr counter quota 3 mbytes }",
    "update @dyn { ip saddr ct count 5 }",
    "add @held { ip saddr ct count over $8 }",
    "update @pairmarks { ip saddr . tcp dport timeout 5m : 0x$8 }",
    "delete @pairmarks { ip saddr . tcp dport : meta mark }",
    "meter m$8 { ip saddr limit rate 3/second }",
    "meter m1 size $16 { ip saddr . tcp dport timeout 5s counter }",
    "meter m2 { ip6 saddr & ffff:ffff:: ct count over 10 }",
    "meter dyn { ip saddr counter }",
    "ip saddr . tcp dport vmap @pairverdicts",
    "ip saddr . tcp dport vmap { 198.18.0.0/24 . 1-9 : accept, 198.18.$8.1 . 80 : goto sub }",
    "meta mark set ip saddr . tcp dport map @pairmarks",
    "meta mark set ip saddr . tcp dport map { 198.18.0.1 . 22 : 5, 198.18.0.5 . 1-$8 : 7 }",
    "tcp dport vmap { 1-5 : accept, 6-9 : drop, 10-$16 : jump sub }",
    "ip daddr vmap { 198.18.0.0/24 : accept, 198.18.1.0/24 : drop, 198.18.$8.0/24 : return }",
    "iifname vmap { \"ab*\" : accept, \"ac*\" : drop, \"lo\" : jump sub }",
    "tcp dport { 1-5, 6-9, $8, $8-$16 }",
    "ip daddr { 198.18.0.0/24, 198.18.1.0/24, 198.18.$8.0-198.18.$8.7 }",
    "dnat ip to tcp dport map { 80 : 198.19.0.1, 443 : 198.19.0.$8 }",
    "dnat ip addr . port to tcp dport map { 80 : 198.19.0.1 . 8080 }",
    "dnat ip addr . port to tcp dport map @targets",
    "dnat ip prefix to ip daddr map { 198.18.0.0/24 : 198.19.0.0/24 }",
    "dnat ip to numgen inc mod 2 map { 0 : 198.19.0.1, 1 : 198.19.0.2 }",
    "dnat ip to numgen random mod 10 map { 0-4 : 198.19.0.1, 5-9 : 198.19.0.2 }",
    "tcp dport 80 dnat ip to 198.19.0.1-198.19.0.9:80-$16 random,persistent",
    "meta l4proto { tcp, udp } dnat ip to 198.19.0.1:$16",
    "tcp dport 80 dnat ip6 to [2001:db8::1]-[2001:db8::9]:80",
    "tcp dport 53 redirect to :tcp dport map { 5 : 6, $8 : 7 }",
    "snat ip to ip saddr . tcp dport map { 198.18.0.1 . 22 : 198.19.0.1 }",
    "masquerade to :$16 fully-random",
    "queue to symhash mod 5 offset $8",
    "meta mark set jhash ip saddr . ip daddr mod $8 seed 0x5 offset 3",
    "ct mark set symhash mod $8",
    "ct mark set numgen random mod 5 map { 0 : 7, 1 : 8, 2-4 : $8 }",
    "ct mark set ct mark and 0xffff or 0x$8",
    "meta mark set meta mark << 8",
    "meta mark set mark & 0xff | 0x100",
    "meta mark set ct mark >> $8",
    "meta priority set ip dscp map { ef : 1:2, cs3 : root }",
    "ip dscp set ip dscp",
    "ip dscp set meta mark map { 1 : ef, 2 : 7 }",
    "ip saddr set ip daddr map { 198.18.0.1 : 198.19.0.1 }",
    "udp dport set 0",
    "tcp flags set syn",
    "ip6 flowlabel set $8",
    "ct label $8",
    "jump { accept; }",
    "goto { tcp dport 22 counter; drop; }",
    "iif lo jump sub",
    "oif \"lo\" vmap { 1 : accept }",
    "meta time \"2030-01-01 10:00:00\"-\"2031-01-01\"",
    "meta hour \"23:00\"-\"05:00\" counter",
    "rt ip6 nexthop 2001:db8::1",
    "tcp option sack 1 left $8",
    "tcp option fastopen exists",
    "tcp option 254 length $8",
    "tcp option @$8,8,8 3",
    "tcp option mptcp exists",
    "ip option rr addr 1",
    "sctp chunk sack cum-tsn-ack $8",
    "ipcomp",
    "xyz",
    "tcp dport { }",
    "ip saddr { 198.18.0.1-198.18.0.9, 198.18.0.5 }",
    "tcp dport $32",
    "accept accept",
    "drop counter",
    "@nh,8,8 set $8",
    "@th,16,16 set $16",
    "@ll,48,48 0x$8",
    "ip saddr . meta mark @typed",
    "meta mark set ip saddr . meta l4proto map @typedmap",
    "ip protocol . th dport { tcp . 22, udp . 53-$16 }",
    "meta l4proto . th dport vmap { tcp . 22 : accept, udp . $8 : drop }",
    "iifname . oifname { \"lo\" . \"eth7\", \"eth7\" . \"lo\" }",
    "ip saddr . ip daddr . tcp dport { 198.18.0.0/24 . 198.18.1.1-198.18.1.9 . 1-$8 }",
    "update @rates { ip saddr }",
    "add @rates { ip saddr limit rate 5/second }",
    "update @dyn { ip saddr timeout 5m comment \"x\" }",
    "ip saddr { 198.18.0.1 comment \"one\", 198.18.0.2 }",
    "tcp dport { 22 counter, 80 counter packets 5 bytes $8 }",
    "dup to ip saddr map { 198.18.0.1 : 198.18.0.2 } device lo",
    "fwd to meta mark map { 1 : \"lo\", $8 : \"lo\" }",
    "tproxy to 198.18.0.1",
    "meta l4proto 6 tproxy to 198.18.0.1:$16",
    "queue to 1-$8",
    "queue flags fanout to 1-3",
    "log prefix \"x\" group 0 snaplen $16",
    "log level emerg flags skuid,ether",
    "reject with icmp type host-unreachable",
    "reject with icmpv6 type addr-unreachable",
    "reject with icmpx type $8",
    "ct mark set ct mark ^ 0x$8",
    "meta mark set meta mark & 0x$8 ^ 0x3",
    "meta mark set (meta mark & 0xff) << 4",
    "ct mark set meta mark & ~0xff",
    "ct state vmap { established : goto sub, invalid : drop, new : continue }",
    "ct zone set meta mark map { 1 : $8, 2 : 5 }",
    "ct reply zone set iif map { lo : $8 }",
    "ct status & (snat | dnat) != 0",
    "ct label { 5, $8 }",
    "ct expiration 5m-1h",
    "ip6 saddr & ffff:ffff:: == 2001:db8::",
    "ether saddr & ff:ff:ff:00:00:00 == 02:00:00:00:00:00",
    "tcp flags { syn, syn | ack }",
    "tcp flags & syn != 0",
    "tcp flags syn / fin,syn,rst,ack limit rate over 1/week",
    "tcp option sack0 left $8",
    "tcp option md5sig exists",
    "tcp option nop missing",
    "ip option ssrr addr 198.18.0.$8",
    "rt0 addr[1] 2001:db8::$8",
    "srh tag { 1, $8 }",
    "hbh hdrlength != $8 counter",
    "icmp type . icmp code { echo-request . 0, destination-unreachable . 1-$8 }",
    "icmp id { 5, $16 } icmp sequence 7",
    "meta hour . meta day { \"10:00\" . \"Monday\" }",
    "meta time < \"2035-05-05 05:05:05\"",
    "numgen inc mod 4 vmap { 0 : accept, 1-2 : drop }",
    "jhash ip saddr mod 8 offset 4 vmap { 4-7 : jump sub }",
    "fib daddr . iif type vmap { local : accept, broadcast : drop }",
    "fib saddr . mark oif != 0",
    "socket cgroupv2 level 2 $8",
    "limit rate over $8 bytes/second burst $16 bytes",
    "limit rate 1 kbytes/hour",
    "quota over $16 kbytes used $8 bytes",
    "snat ip prefix to ip saddr map { 198.18.0.0/24 : 198.19.0.0/24 }",
    "snat ip to 198.18.0.1-198.18.0.9 fully-random",
    "redirect to :1-$8 persistent",
    "counter name tcp dport . ip saddr map { 80 . 198.18.0.1 : \"c1\" }",
    "meter m3 size 5 { iifname . ip saddr timeout 1h limit rate over 10/minute burst 3 packets } drop",
    "jump { ip saddr @addr counter accept; log prefix \"z\"; }",
    "meta mark $8 comment \"end\"",
    "continue comment \"a b\"",
];

/// What chance made.
pub struct Random {
    /// Of the table.
    pub family: &'static str,
    /// Tables, sets, objects and chains, that both sides take.
    pub frame: String,
    /// Rules, and whatever else may be wrong: a command each.
    pub rules: Vec<String>,
    /// Commands on what is loaded.
    pub commands: Vec<String>,
}

struct Generator(Rng);

/// The ruleset of a seed.
pub fn ruleset(seed: u64) -> Random {
    let mut g = Generator(Rng::with_seed(seed));
    let family = g.pick(&["ip", "ip6", "inet", "inet", "arp", "bridge", "netdev"]);
    let frame = g.frame(family);
    let rules = (0..24)
        .map(|_| {
            format!("add rule {family} t {} {}", g.pick(&["base", "base", "sub"]), g.rule(family))
        })
        .collect();
    let commands = (0..10).map(|_| g.command(family)).collect();
    Random { family, frame, rules, commands }
}

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.0
    }
}

impl Generator {
    fn frame(&mut self, family: &str) -> String {
        let hook = match family {
            "arp" => self.pick(&[
                "type filter hook input priority 0;",
                "type filter hook output priority filter + 5; policy drop;",
            ]),
            "netdev" => self.pick(&[
                "type filter hook ingress device lo priority 0;",
                "type filter hook egress devices = { lo } priority -5;",
            ]),
            "bridge" => self.pick(&[
                "type filter hook prerouting priority dstnat;",
                "type filter hook forward priority 0; policy drop;",
            ]),
            _ => self.pick(&[
                "type filter hook prerouting priority raw;",
                "type filter hook input priority filter; policy drop;",
                "type filter hook output priority 7;",
                "type nat hook prerouting priority dstnat;",
                "type nat hook postrouting priority srcnat + 1;",
                "type route hook output priority mangle;",
                "type filter hook forward priority security - 10; policy accept;",
            ]),
        };
        let address = if self.one_in(2) {
            "flags interval; elements = { 198.18.0.0/24, 198.18.3.1-198.18.3.9 }"
        } else {
            "elements = { 198.18.0.1, 198.18.0.9 }"
        };
        let ports = self.pick(&[
            "flags interval; auto-merge; elements = { 1-5, 3-9, 80 }",
            "elements = { 22, 443 }",
            "flags constant; elements = { 7 }",
            "timeout 1d; size 77;",
        ]);
        let pairs = self.pick(&[
            "flags interval; elements = { 198.18.0.0/24 . 1-9, 198.18.1.1 . 80 }",
            "elements = { 198.18.1.1 . 80 }",
        ]);
        let objects = self.objects(family);
        format!(
            "table {family} t {{\n set addr {{ type ipv4_addr; {address}; comment \"some\"; }}\n set ports {{ typeof tcp dport; {ports} }}\n \
             set pairs {{ type ipv4_addr . inet_service; {pairs} }}\n set names {{ type ifname; elements = {{ \"lo\", \"eth7\" }} }}\n \
             set dyn {{ type ipv4_addr; flags dynamic,timeout; size 99; timeout 1h; }}\n map dynm {{ type ipv4_addr : mark; flags dynamic; size 5; }}\n \
             map marks {{ type ipv4_addr : mark; elements = {{ 198.18.0.1 : {}, * : 0x9 }} }}\n counter c1 {{ packets {} bytes 7 }}\n quota q1 {{ over {} bytes }}\n \
             limit l1 {{ rate {}/second }}\n chain sub {{ }}\n map verdicts {{ type ipv4_addr : verdict; elements = {{ 198.18.0.1 : accept, 198.18.0.2 : jump sub }} }}\n \
             {objects} chain base {{ {hook} }}\n}}\n",
            self.0.u32(..),
            self.0.u16(..),
            self.0.u32(..),
            self.0.u16(1..)
        )
    }

    /// Objects, and sets with what their elements may carry. The kernel has helpers and their like
    /// for IP only.
    fn objects(&mut self, family: &str) -> String {
        let mut text = format!(
            "set stated {{ type ipv4_addr . inet_service; flags dynamic; counter; size {}; }}\n \
             set held {{ type ipv4_addr; flags dynamic; }}\n \
             map counters {{ type ipv4_addr : counter; elements = {{ 198.18.0.1 : \"c1\" }} }}\n \
             map limits {{ type ipv4_addr : limit; flags interval; elements = {{ 198.18.0.0/24 : \"l1\" }} }}\n \
             map pairverdicts {{ type ipv4_addr . inet_service : verdict; flags interval; \
             elements = {{ 198.18.0.1 . 1-3 : jump sub, 198.18.1.0/24 . 80 : accept }} }}\n \
             set typed {{ typeof ip saddr . meta mark; flags interval; elements = {{ 198.18.0.0/24 . 1-5 comment \"some\" }} }}\n \
             map typedmap {{ typeof ip saddr . meta l4proto : meta mark; comment \"marks\"; elements = {{ 198.18.0.1 . tcp : 0x7 }} }}\n \
             set rates {{ type ipv4_addr; flags dynamic; limit rate over 3/second burst 2 packets; }}\n \
             map ranges {{ type inet_service : mark; flags interval; elements = {{ 1-5 : 3, 80 : 4 }} }}\n \
             set vlans {{ typeof vlan id; flags timeout; timeout 5h; elements = {{ 5 timeout 3h }} }}\n \
             map pairmarks {{ typeof ip saddr . tcp dport : meta mark; flags dynamic,timeout; timeout 1h; size 99; }}\n \
             map targets {{ type inet_service : ipv4_addr . inet_service; elements = {{ 80 : 198.19.0.1 . 8080 }} }}\n ",
            self.0.u16(1..)
        );
        if matches!(family, "ip" | "inet") {
            text += "ct helper h1 { type \"ftp\" protocol tcp; l3proto ip; }\n \
                     ct timeout t1 { protocol tcp; l3proto ip; policy = { established : 100, close : 3 }; }\n \
                     ct expectation e1 { protocol tcp; dport 5432; timeout 1h; size 12; l3proto ip; }\n \
                     synproxy y1 { mss 1460; wscale 7; timestamp sack-perm; }\n ";
        }
        text
    }

    fn value(&mut self, kind: Kind) -> String {
        match kind {
            Bits(n) => {
                let full = if n == 32 { u32::MAX } else { (1 << n) - 1 };
                let v = if self.one_in(60) {
                    u64::from(full) + 1
                } else {
                    u64::from(self.0.u32(..=full) >> self.0.u32(..n))
                };
                if self.one_in(4) { format!("{v:#x}") } else { v.to_string() }
            }
            Port => {
                self.pick(&["22", "80", "53", "http", "ssh", "1024", "65535", "0", "65536"]).into()
            }
            V4 => format!("198.{}.{}.{}", self.pick(&[18, 19]), self.0.u8(..4), self.0.u8(..)),
            V6 => format!("2001:db8:{:x}::{:x}", self.0.u8(..4), self.0.u16(..)),
            Mac => format!("02:00:00:00:00:{:02x}", self.0.u8(..)),
            Device => self.pick(&["\"lo\"", "lo", "\"eth7\"", "\"ab*\""]).into(),
            Words(w) => self.pick(w).into(),
            Time => self.pick(&["1s", "5m", "1d2h3m", "30"]).into(),
        }
    }

    fn field(&mut self, family: &str) -> Field {
        loop {
            let f = self.pick(FIELDS);
            if f.1.is_empty() || f.1.split(' ').any(|x| x == family) {
                return f;
            }
        }
    }

    fn matching(&mut self, family: &str) -> String {
        let (name, _, kind) = self.field(family);
        let a = self.value(kind);
        match self.0.u8(..12) {
            0..4 => format!("{name} {a}"),
            4 => format!("{name} {} {a}", self.pick(&["!=", "==", "<", ">", "<=", ">="])),
            5 => format!("{name} {}{a}-{}", self.pick(&["", "!= "]), self.value(kind)),
            6 | 7 => format!(
                "{name} {}{{ {a}, {}, {} }}",
                self.pick(&["", "!= "]),
                self.value(kind),
                self.value(kind)
            ),
            8 if kind == V4 => format!("{name} {a}/{}", self.0.u8(8..=32)),
            8 => format!("{name} {{ {a}-{}, {} }}", self.value(kind), self.value(kind)),
            // Later releases have `fib` there.
            9 if !name.starts_with("fib") => {
                format!(
                    "meta mark set {name} map {{ {a} : {}, {} : 7 }}",
                    self.0.u16(..),
                    self.value(kind)
                )
            }
            10 => format!("{name} vmap {{ {a} : accept, {} : drop }}", self.value(kind)),
            _ => {
                let (other, _, k) = self.field(family);
                format!(
                    "{name} . {other} {{ {a} . {}, {} . {} }}",
                    self.value(k),
                    self.value(kind),
                    self.value(k)
                )
            }
        }
    }

    fn rule(&mut self, family: &str) -> String {
        let mut parts: Vec<String> = (0..self.0.u8(..3)).map(|_| self.matching(family)).collect();
        if parts.is_empty() || !self.one_in(3) {
            let s = self.pick(STATEMENTS).replace("$32", &self.0.u32(..).to_string());
            parts.push(
                s.replace("$16", &self.0.u16(1..).to_string())
                    .replace("$8", &self.0.u8(1..).to_string()),
            );
        }
        let mut rule = parts.join(" ");
        if self.one_in(15) {
            // A word is lost, or stands twice.
            let mut words: Vec<&str> = rule.split(' ').collect();
            let at = self.0.usize(..words.len());
            if self.one_in(2) {
                words.remove(at);
            } else {
                words.insert(at, words[at])
            }
            rule = words.join(" ");
        }
        rule
    }

    fn command(&mut self, family: &str) -> String {
        let what = self.pick(&[
            "insert rule F t base R",
            "add rule F t sub index 0 R",
            "add rule F t base handle N R",
            "replace rule F t base handle N R",
            "delete rule F t base handle N",
            "delete rule F t nowhere handle N",
            "add element F t addr { A }",
            "delete element F t addr { A }",
            "delete element F t addr { 198.18.0.1 }",
            "get element F t addr { A }",
            "get element F t ports { 3 }",
            "add element F t ports { 100, 200-300 }",
            "create element F t ports { 22 }",
            "add element F t pairs { A . 9 }",
            "add element F t marks { A : 5 }",
            "add element F t marks { A }",
            "get element F t marks { 198.18.0.1 }",
            "flush set F t addr",
            "flush chain F t base",
            "flush table F t",
            "flush map F t marks",
            "delete set F t addr",
            "delete set F t names",
            "delete map F t marks",
            "delete chain F t sub",
            "delete chain F t base",
            "rename chain F t sub other",
            "rename chain F t sub base",
            "delete table F t",
            "delete table F u",
            "add chain F t more",
            "create chain F t sub",
            "create table F t",
            "add table F u",
            "list table F t",
            "list chain F t base",
            "list chain F t none",
            "list set F t addr",
            "list set F t none",
            "list sets",
            "list maps",
            "list map F t verdicts",
            "list counters",
            "list counter F t c1",
            "list quotas",
            "list limits table F t",
            "list tables",
            "list chains",
            "list chains F",
            "list counter F t none",
            "reset counters",
            "reset counter F t c1",
            "reset quotas",
            "delete counter F t c1",
            "add counter F t c2",
            "add quota F t q2 { 5 mbytes }",
            "list hooks x",
            "list objects",
            "add set F t s { type nonsense; }",
            "add set F t s { type mark; flags interval; }",
            "add map F t m { type mark : verdict; }",
            "add chain F t b2 { type filter hook nowhere priority 0; }",
            "list meters",
            "list meter F t m1",
            "list map F t pairmarks",
            "get element F t pairverdicts { 198.18.0.1 . 2 }",
            "add element F t stated { A . 22 counter packets 3 bytes 5 }",
            "add element F t stated { A . 22 limit rate 3/second }",
            "add element F t pairverdicts { A . 5-9 : drop }",
            "add element F t counters { A : \"c1\" }",
            "add element F t counters { A : \"none\" }",
            "delete element F t pairverdicts { 198.18.0.1 . 1-3 }",
            "delete element F t ports { 1-9 }",
            "add element F t dyn { A timeout 5m, 198.18.0.77 expires 3m }",
            "add element F t names { \"x*\", \"lo\" }",
            "create element F t addr { A, 198.18.0.1 }",
            "delete map F t verdicts",
            "delete limit F t l1",
            "delete quota F t q1",
            "delete counter F t c3",
            "delete ct helper F t h1",
            "list ct helpers F",
            "list ct helper F t h1",
            "list ct timeout F t t1",
            "list synproxys",
            "list limit F t l1",
            "reset quota F t q1",
            "flush set F t dyn",
            "flush map F t verdicts",
            "flush chain F t nowhere",
            "flush set F t nowhere",
            "delete chain F u sub",
            "delete set F u addr",
            "delete rule F u base handle 3",
            "add rule F u base R",
            "add rule F t nowhere R",
            "add rule F t su R",
            "add counter F u c",
            "rename chain F u sub other",
            "rename chain F t nowhere other",
            "replace rule F t nowhere handle 3 R",
            "list flowtable F t f",
            "add chain F t base { policy drop; }",
            "add chain F t sub { type filter hook input priority 0; }",
            "add set F t addr { type mark; }",
            "add set F t addr { type ipv4_addr; }",
            "add map F t pm { type ipv4_addr : inet_service; size 3; elements = { A : 22, 198.18.0.1 : 80 }; }",
            "add set F t st { type ipv4_addr; counter; elements = { A counter packets 5 bytes 6 }; }",
            "add set F t timed { type ipv4_addr; flags timeout,interval; timeout 1d; gc-interval 5m; elements = { A }; }",
            "add limit F t l3 { rate 5 mbytes/second burst 7 kbytes; }",
            "add quota F t q3 { over 5 mbytes used 5 mbytes; }",
            "list flowtables",
            "delete F",
            "add element F t typed { A . 7-9 comment \"new\" }",
            "delete element F t typed { 198.18.0.0/24 . 1-5 }",
            "add element F t ranges { 6-9 : 5, 100-200 : 6 }",
            "add element F t ranges { 3 : 5 }",
            "delete element F t ranges { 1-5 }",
            "add element F t vlans { 7, 8 timeout 1m }",
            "list set F t typed",
            "list map F t ranges",
            "delete element F t rates { A }",
            "add element F t rates { A limit rate over 3/second burst 2 packets }",
            "add map F t v { typeof ip saddr . meta mark : verdict; flags interval; elements = { A . 1-5 : drop }; }",
            "add set F t w { typeof ip saddr . tcp dport; size 5; policy memory; comment \"mine\"; }",
            "add map F t x { type ipv4_addr : interval ipv4_addr; flags interval; elements = { A : 198.19.0.1-198.19.0.9 }; }",
            "add counter F t c4 { packets 5 bytes 6; }",
            "add chain F t noted { comment \"noted\"; }",
            "delete table F t; add table F t { comment \"again\"; chain a { R; }; }",
            "describe ip saddr",
            "describe icmp_type",
            "describe tcp dport",
            "describe ct state",
        ]);
        let address = self.value(V4);
        let rule = self.rule(family);
        what.replace('F', family)
            .replace('N', &self.0.u8(1..40).to_string())
            .replace('A', &address)
            .replace('R', &rule)
    }
}
