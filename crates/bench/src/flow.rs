// SPDX-License-Identifier: Apache-2.0

//! Flows that are established: through connection tracking and a rule, and by flowtables at early
//! ingress.

use std::rc::Rc;

use penstock_dataplane::Settings;
use penstock_flowtable::{Arrival, Flowtable, Key, Limits, NewFlow, NewHalf, Xmit};

use crate::frames::{Frames, Later, flow, flow_to};
use crate::router::{BURST, Fate, Router, ruleset};
use crate::routes::Routes;
use crate::{Scale, Variant};

/// As in other benchmarks, with the clients behind a router.
pub(crate) const NET: &str = "\
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.19.0.1/16 dev wan
addr add 198.18.0.1/24 dev lan
neigh add 198.19.0.7 lladdr 02:00:00:00:00:b7 dev wan
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev lan
route add 198.18.0.0/16 via 198.18.0.7
";

const CLASSIC: &str = "table ip t {
    chain f {
        type filter hook forward priority 0; policy drop
        ct state new,established accept
    }
}";

const FAST: &str = "table ip t {
    flowtable f {
        hook early_ingress priority 0
        devices = { lan, wan }
    }
    chain f {
        type filter hook forward priority 0; policy drop
        flow add @f
        ct state new,established accept
    }
}";

const SOURCE_NAT: &str = "table ip t {
    chain n {
        type nat hook postrouting priority srcnat
        oifname wan snat to 198.19.0.1-198.19.0.99
    }
}";

/// Packets of one flow in a row.
const CHAIN: usize = 16;

fn router(rules: &str, flows: u32, chains: bool) -> Router {
    let mut settings = Settings::default();
    settings.conntrack.max = flows.max(65_536);
    settings.flow.chains = chains;
    Router::between(NET, settings, &ruleset(rules))
}

/// A router with all flows of the frames in its flowtable.
fn offloaded(
    rules: &str,
    flows: u32,
    chains: bool,
    burst: usize,
    frames: &Rc<Frames>,
) -> impl FnMut() + use<> {
    let mut router = router(rules, flows, chains).in_bursts(burst);
    // The second packet of a flow is the first that can be offloaded.
    (0..2).for_each(|_| router.check(frames, Fate::Sent));
    router.sending_fast(frames)
}

/// A router with all flows of the frames in its flowtable, by routes of its own.
fn to_many(frames: &Rc<Frames>, flows: u32, routes: &str) -> impl FnMut() + use<> {
    let mut settings = Settings::default();
    settings.conntrack.max = flows.max(65_536);
    let mut router = Router::between(&format!("{NET}{routes}"), settings, &ruleset(FAST));
    (0..2).for_each(|_| router.check(frames, Fate::Sent));
    router.sending_fast(frames)
}

/// A packet of each flow, in an order that has nothing to do with that in which they began.
fn shuffled(flows: u32) -> Later {
    const STRIDE: u64 = 7_919_777;
    let number = move |n: u32| (u64::from(n) * STRIDE % u64::from(flows)) as u32;
    Later::hot(flows, move |n| flow(number(n), 9))
}

/// Flows to as many destinations, by a hundred next hops with a route each.
fn many_destinations(flows: u32) -> Variant {
    Variant::made("fast-10k-dst", flows.into(), move || {
        let routes = Routes::new(100, 100, false);
        let destinations = routes.destinations(flows);
        let frame = |(to, n): (&u128, u32)| flow_to(n, (*to as u32).to_be_bytes(), 9);
        let frames = Rc::new(Frames::hot(destinations.iter().zip(0..).map(frame)));
        to_many(&frames, flows, &routes.lines)
    })
}

/// One flow without a flowtable, by machine code and by the interpreter.
fn classic(one: &Later) -> [Variant; 2] {
    let [interpreted, compiled] = [one, one].map(Later::clone);
    let by_interpreter = Variant::made("interpreter-1", one.len(), move || {
        router(CLASSIC, 1, true).interpreted().sending(&interpreted, Fate::Sent)
    });
    let by_code = Variant::made("classic-1", one.len(), move || {
        router(CLASSIC, 1, true).sending(&compiled, Fate::Sent)
    });
    [by_interpreter.against("classic-1"), by_code]
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let one = Later::hot(64, |_| flow(0, 9));
    let (flows, million) = (scale.count(10_000), scale.count(1_000_000));
    let (many, most) = (shuffled(flows), shuffled(million));
    let rows = Later::hot(flows, |n| flow(n / CHAIN as u32, 9));
    let fast = |name: &str, rules: &str, flows: u32, chains: bool, burst: usize, frames: &Later| {
        let (rules, operations, frames) = (rules.to_owned(), frames.len(), frames.clone());
        Variant::made(name, operations, move || offloaded(&rules, flows, chains, burst, &frames))
    };
    let translated = format!("{FAST}\n{SOURCE_NAT}");
    let mut all = Vec::from(classic(&one));
    all.extend([
        fast("fast-1", FAST, 1, true, BURST, &one).against("classic-1"),
        fast("fast-10k", FAST, flows, true, BURST, &many),
        fast("fast-1m", FAST, million, true, BURST, &most),
        fast("fast-snat-10k", &translated, flows, true, BURST, &many).against("fast-10k"),
        fast("fast-burst-1", FAST, flows, true, 1, &many).against("fast-10k"),
        fast("fast-burst-8", FAST, flows, true, 8, &many).against("fast-10k"),
        many_destinations(flows).against("fast-10k"),
        fast("unchained-16", FAST, flows, false, CHAIN, &rows),
        fast("chained-16", FAST, flows, true, CHAIN, &rows).against("unchained-16"),
        // Fewer may fit into memory that the process has already.
        Variant::memory("memory-2m", move || memory(scale.count(2_000_000).max(100_000))),
    ]);
    all
}

/// Bytes of memory that a flow takes, both directions and its place in the table, among so many
/// over IPv4.
fn memory(flows: u32) -> f64 {
    // Memory that earlier benchmarks freed would be reused and not be counted.
    // SAFETY: only returns free memory of the allocator to the system.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    let before = resident();
    let mut table = Flowtable::new(Limits { flows }, 1);
    let xmit = |device| Xmit::neighbour(device, [2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1], 1500);
    for n in 0..flows {
        let [a, b, c, d] = n.to_be_bytes();
        let client = [10 + a, b, c, d];
        let there = Key::v4(client, [203, 0, 113, 9], [1000, 53], 17);
        let back = Key::v4([203, 0, 113, 9], client, [53, 1000], 17);
        let halves = [
            NewHalf { key: there, arrival: Arrival::on(2), xmit: xmit(3) },
            NewHalf { key: back, arrival: Arrival::on(3), xmit: xmit(2) },
        ];
        let connection = u64::from(n);
        let new = NewFlow { halves, connection, lookup: 0, network: 0, translated: false, now: 0 };
        table.add(&new).expect("room for it");
    }
    let grown = resident() - before;
    assert_eq!(table.len(), flows);
    grown / f64::from(flows)
}

/// Bytes of this process that are in memory.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 =
        text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(f64::NAN);
    // SAFETY: it reads a number that does not change while the process runs.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}
