//! What must hold for any bytes: nothing panics, nothing loops, and what is accepted is listed so that it is accepted
//! again. Each target takes bytes as cargo-fuzz gives them; `fuzz/` and the tests beside this file call them.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use penstock_io::Capture;
use penstock_net::{Flow4, Flow6, Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_path::{Dataplane, Frame, Settings, Sink};
use penstock_ruleset::change::{Change, NewRule, Position};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::Family;
use penstock_ruleset::{Generation, Ruleset};

use crate::generate::{Bytes, program as make_program};
use crate::{language, seeds};

/// Longest input that a target looks at.
pub const MOST: usize = 16 << 10;

/// When everything happens, nanoseconds since the epoch.
const NOW: u64 = 1_700_000_000_000_000_000;

/// A router with everything on it that rules ask about.
pub const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link add name dmz address 02:00:00:00:05:01 mtu 1300 type veth
link add link lan name lan.5 type vlan id 5
link set lan up
link set wan up
link set dmz up
link set lan.5 up
link add br0 type bridge vlan_filtering 1
link add one master br0 up type veth
link add two master br0 up type veth
link add link two name two.5 type vlan id 5
link set two type bridge_slave hairpin on
link set two.5 up
link set br0 up
addr add 198.18.6.1/24 dev br0
addr add 198.18.0.1/24 dev lan
addr add 198.18.55.1/24 dev lan.5
addr add 198.19.0.1/24 dev wan
addr add 198.18.5.1/24 dev dmz
addr add 2001:db8:1::1/64 dev lan nodad
addr add 2001:db8:2::1/64 dev wan nodad
addr add 2001:db8:5::1/64 dev dmz nodad
route add default via 198.19.0.2 dev wan
route add 198.18.128.0/17 via 198.19.0.3 dev wan
route add unreachable 198.18.64.0/24
route add blackhole 198.18.66.0/24
route add default via 2001:db8:2::2 dev wan
route add unreachable 2001:db8:64::/48
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.18.5.20 lladdr 02:00:00:00:05:20 dev dmz nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 2001:db8:2::2 lladdr 02:00:00:00:02:02 dev wan nud permanent
";

/// [`NET`], read.
pub fn net() -> Arc<Network> {
    static NETWORK: OnceLock<Arc<Network>> = OnceLock::new();
    let network = || Arc::new(Network::from_batch("net.ip", NET).expect("the network of the targets"));
    NETWORK.get_or_init(network).clone()
}

fn bounded(data: &[u8]) -> &[u8] {
    &data[..data.len().min(MOST)]
}

/// Rules with these words nft 1.0.6 lists so that it does not read them, or reads them as something else. (For some raw
/// loads it ends by an assertion.)
const NFT_MISREADS: [&str; 6] = ["@ll,", "@nh,", "@th,", "@ih,", "nexthdr set ", "protocol set "];

/// Text as for `nft -f`. What is accepted is listed, the listing is accepted, and from there on text and programs stay
/// what they are. The first listing may be listed in another way, as in nft: `{ 1-2, 3 }` is `{ 1-3 }`, and that is `1-3`.
pub fn ruleset(data: &[u8]) {
    let text = String::from_utf8_lossy(bounded(data));
    let net = net();
    language::run_loudly(&text, &net, NOW);
    let Ok(ruleset) = language::load(&text, &net, NOW) else { return };
    let again = |ruleset: &Ruleset| {
        let listing = language::list(ruleset, &net, NOW);
        if NFT_MISREADS.iter().any(|words| listing.contains(words)) {
            return None;
        }
        match language::load(&listing, &net, NOW) {
            Ok(again) => Some((listing, again)),
            Err(e) => panic!("a listing is refused:\n{e}\nof:\n{text}"),
        }
    };
    let Some((_, first)) = again(&ruleset) else { return };
    let Some((listing, second)) = again(&first) else { return };
    let Some((relisted, _)) = again(&second) else { return };
    for (what, a, b) in [
        ("text", &listing, &relisted),
        ("program", &language::programs(&first), &language::programs(&second)),
    ] {
        if let Some((a, b)) = a.lines().zip(b.lines()).find(|(a, b)| a != b) {
            panic!("the {what} of a listing becomes another:\n{a}\n{b}\nof:\n{text}");
        }
        assert_eq!(a.len(), b.len(), "the {what} of a listing becomes longer or shorter; of:\n{text}");
    }
    // What cannot run is refused, not met by packets.
    let _ = Linked::new(&first.generation());
}

/// JSON as for `nft -j -f`. What is accepted is listed as text and as JSON; if that JSON is accepted, it is listed as it is.
pub fn json(data: &[u8]) {
    let text = String::from_utf8_lossy(bounded(data));
    let net = net();
    let Ok(mut ruleset) = language::load_json(&text, &net, NOW) else { return };
    std::hint::black_box(language::list(&ruleset, &net, NOW));
    let listing = language::list_json(&mut ruleset, &net, NOW);
    let Ok(mut first) = language::load_json(&listing, &net, NOW) else { return };
    let listing = language::list_json(&mut first, &net, NOW);
    let Ok(mut second) = language::load_json(&listing, &net, NOW) else { return };
    let relisted = language::list_json(&mut second, &net, NOW);
    assert_eq!(listing, relisted, "JSON becomes other JSON; of:\n{text}");
}

/// A capture file. What it holds is read to its end or to where it is broken.
pub fn capture(data: &[u8]) {
    let data = bounded(data).to_vec();
    let most = data.len();
    let Ok(mut capture) = Capture::new("fuzz", std::io::Cursor::new(data)) else { return };
    let mut frames = 0;
    while let Ok(true) = capture.advance() {
        frames += 1;
        assert!(capture.frame().bytes.len() <= most, "a frame is longer than its file");
        assert!(frames <= most, "more frames than bytes");
    }
    assert!(!matches!(capture.advance(), Ok(true)), "frames behind the end");
}

/// Lines for `ip -batch`. What is accepted answers all questions.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(bounded(data));
    let Ok(net) = Network::from_batch("fuzz", &text) else { return };
    for link in net.links() {
        assert_eq!(net.link(link.index).map(|l| &l.name), Some(&link.name), "{text}");
        let _ = net.link_by_name(&link.name);
        for (daddr, saddr) in [(0xc612_000a, 0), (0xc613_0002, 0xc612_000a), (0xffff_ffff, 1), (0, 0)] {
            let flow = Flow4 { daddr, saddr, iif: link.index, mark: daddr & 7, ..Flow4::default() };
            let _ = net.route4(&flow);
            let _ = net.route4(&Flow4 { oif: link.index, ..flow });
            let _ = (net.kind4(daddr, Some(link.index)), net.neighbour4(link.index, daddr));
        }
        for daddr in [0x2001_0db8_0001_u128 << 80 | 0x10, 0xff02 << 112 | 1, 1, 0] {
            let flow = Flow6 { daddr, iif: link.index, ..Flow6::default() };
            let _ = net.route6(&flow);
            let _ = net.neighbour6(link.index, daddr);
        }
    }
}

/// Counts what leaves, and looks at all of it.
#[derive(Default)]
struct Count {
    out: usize,
    bytes: u64,
}

impl Sink for Count {
    fn transmit(&mut self, _device: &Link, frame: &[u8], _meta: &Meta) {
        self.out += 1;
        self.bytes += frame.iter().map(|b| u64::from(*b)).sum::<u64>();
    }

    fn deliver(&mut self, _device: &Link, packet: &Packet) {
        self.out += 1;
        self.bytes += packet.network().len() as u64;
    }
}

/// Sends frames: for each a byte for where from, one for the time since the last, two for the length, the bytes. A frame
/// without a length that fits takes all that is left.
fn send(dataplane: &mut Dataplane, mut data: &[u8]) {
    let devices: Vec<u32> = dataplane.network().links().iter().map(|l| l.index).collect();
    let mut now = NOW;
    let mut seen = Count::default();
    let mut sent = 0;
    while let [from, time, high, low, rest @ ..] = data {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let (bytes, behind) = rest.split_at(len.min(rest.len()));
        data = behind;
        now += 1u64 << (time % 42);
        let device = devices[usize::from(*from >> 2) % devices.len()];
        match from & 3 {
            0 => dataplane.send_host(bytes, now, &mut seen),
            1 => dataplane.send_raw(device, bytes, now, &mut seen),
            _ => dataplane.receive([Frame { device, bytes, time: now }], &mut seen),
        }
        sent += 1;
        // Fragments, copies and answers are more than was sent, but there is an end to them.
        assert!(seen.out <= 10_000 * sent, "a flood: {} frames of {sent}", seen.out);
    }
    dataplane.advance(now + (1 << 40), &mut seen);
    std::hint::black_box(seen.bytes);
}

/// Frames through all hooks. The first byte says which of the rulesets of the filetests is in force, 0 for one that
/// has all their rules at once, verdicts left out.
pub fn frame(data: &[u8]) {
    static RULES: OnceLock<Vec<Arc<Linked>>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let link = |text: &str| {
            let ruleset = language::load(text, &net(), NOW).ok()?;
            Linked::new(&ruleset.generation()).ok().map(Arc::new)
        };
        let all = link(&seeds::all_rules()).expect("the rules of the filetests without their verdicts");
        std::iter::once(all).chain(seeds::rulesets().iter().filter_map(|text| link(text))).collect()
    });
    let [which, frames @ ..] = bounded(data) else { return };
    let mut dataplane = Dataplane::new(net(), Settings::default());
    // More often than not, all.
    dataplane.set_rules(rules[usize::from(*which) % (rules.len() * 2) % rules.len()].clone());
    dataplane.trace_all(which % 5 == 4);
    send(&mut dataplane, frames);
}

/// Sets and objects that programs name, and a chain at each hook for them.
const SETS: &str = "
table FAMILY t {
	counter k { }
	quota q { over 1000 bytes; }
	limit l { rate 10/second; }
	set addresses { type ipv4_addr; elements = { 198.18.0.10, 198.18.0.11 }; }
	set seen { type ipv4_addr; size 100; flags dynamic,timeout; }
	set ports { type inet_service; flags interval; elements = { 1-100, 1000-2000 }; }
	set pairs { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/24 . 1-100 }; }
	map marks { type inet_service : mark; elements = { 53 : 1, * : 2 }; }
	map verdicts { type inet_proto : verdict; elements = { udp : accept, tcp : jump other }; }
	map counters { type ipv4_addr : counter; elements = { 198.18.0.10 : \"k\" }; }
	chain other { counter; }
	CHAINS
}
";

/// The ruleset that programs are added to, in a family.
fn with_sets(family: Family) -> Ruleset {
    let (word, hooks): (_, &[&str]) = match family {
        Family::Netdev => ("netdev", &["ingress device lan", "egress device wan"]),
        Family::Ip => ("ip", &["prerouting", "input", "forward", "output", "postrouting"]),
        Family::Ip6 => ("ip6", &["prerouting", "input", "forward", "output", "postrouting"]),
        Family::Arp => ("arp", &["input", "output"]),
        _ => ("inet", &["ingress device lan", "prerouting", "input", "forward", "output", "postrouting"]),
    };
    let chain =
        |(i, hook): (usize, &&str)| format!("chain c{i} {{ type filter hook {hook} priority 0; }}\n\t");
    let chains: String = hooks.iter().enumerate().map(chain).collect();
    let text = SETS.replace("FAMILY", word).replace("CHAINS", &chains);
    language::load(&text, &net(), NOW).unwrap_or_else(|e| panic!("{e}"))
}

const FAMILIES: [Family; 5] = [Family::Netdev, Family::Inet, Family::Ip, Family::Ip6, Family::Arp];

/// Programs that no language made: those that the ruleset takes run on packets, and are listed.
pub fn program(data: &[u8]) {
    thread_local! {
        static RULESETS: RefCell<Vec<Ruleset>> = const { RefCell::new(Vec::new()) };
    }
    let mut bytes = Bytes::new(bounded(data));
    let family = FAMILIES[usize::from(bytes.byte()) % FAMILIES.len()];
    let mut ruleset = RULESETS.with_borrow_mut(|made| {
        if made.is_empty() {
            made.extend(FAMILIES.map(with_sets));
        }
        made[FAMILIES.iter().position(|f| *f == family).unwrap_or(0)].clone()
    });
    let mut transaction = ruleset.begin_at(NOW);
    let mut taken = 0;
    for _ in 0..bytes.below(12) + 1 {
        let exprs = make_program(&mut bytes);
        let change = Change::AddRule {
            family,
            table: "t".into(),
            chain: format!("c{}", bytes.below(6)).into(),
            position: Position::After(None),
            rule: NewRule { exprs, userdata: [].into() },
        };
        taken += usize::from(transaction.apply(change).is_ok());
    }
    if taken == 0 || ruleset.commit(transaction).is_err() {
        return;
    }
    let generation: Arc<Generation> = ruleset.generation();
    let listing = language::list(&ruleset, &net(), NOW);
    assert!(listing.contains("table"), "{listing}");
    if let Ok(linked) = Linked::new(&generation) {
        let mut dataplane = Dataplane::new(net(), Settings::default());
        dataplane.set_rules(Arc::new(linked));
        let frames = seeds::frames();
        for _ in 0..12 {
            let at = usize::from(u16::from_ne_bytes([bytes.byte(), bytes.byte()]));
            send(&mut dataplane, &frames[at % frames.len()]);
        }
        send(&mut dataplane, bytes.rest());
        std::hint::black_box(language::list(&ruleset, &net(), NOW));
    }
}
