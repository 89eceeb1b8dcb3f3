// SPDX-License-Identifier: Apache-2.0

//! `bpf_fib_lookup()` and `bpf_check_mtu()` of a program in C (`objects/fib.c`), for XDP and for tc:
//! by the dataplane with both engines, and by the kernel in a namespace with the same network, the
//! same answers to random questions. Needs root, clang, libbpf and ip(8), and is skipped with a
//! message otherwise.

mod bpf;
#[path = "../../ebpfvm/tests/kernel/compile.rs"]
mod compile;
#[path = "../../ebpfvm/tests/kernel/loader.rs"]
mod loader;
mod router;

use std::process::Command;
use std::sync::Arc;

use bpf::*;
use fastrand::Rng;
use loader::{Loader, hexadecimal};
use penstock_dataplane::{BpfHook, Dataplane, Settings};
use penstock_net::{DevconfSysctls, Network};

/// Wires, of which the last one forwards nothing. Their indexes are those of [`DEVICES`].
const LINKS: &str = "
link set lo up
link add name wan index 11 address 02:00:00:00:00:01 type veth peer name wan1
link add name lan index 12 address 02:00:00:00:00:02 mtu 1400 type veth peer name lan1
link add name dmz index 13 address 02:00:00:00:00:03 type veth peer name dmz1
link set wan addrgenmode none
link set lan addrgenmode none
link set dmz addrgenmode none
";

/// For the namespace alone: far ends, and what the dataplane does by default.
const FAR: &str = "
link set wan1 up
link set lan1 up
link set dmz1 up
";

const ROUTES: &str = "
link set wan up
link set lan up
link set dmz up
addr add 198.18.0.1/24 dev wan
addr add 198.18.1.1/24 dev lan
addr add 198.18.2.1/24 dev dmz
addr add 2001:db8::1/64 dev wan nodad
addr add 2001:db8:1::1/64 dev lan nodad
addr add 2001:db8:2::1/64 dev dmz nodad
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev wan nud permanent
neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan nud permanent
neigh add 2001:db8::7 lladdr 02:00:00:00:00:a7 dev wan nud permanent
neigh add 2001:db8:1::7 lladdr 02:00:00:00:00:b7 dev lan nud permanent
route add 198.19.0.0/24 via 198.18.1.7
route add 198.19.9.0/24 via 198.18.0.7 metric 7
route add 198.19.9.0/24 via 198.18.1.7 metric 9
route add 198.19.8.0/24 via 198.18.0.8 src 198.18.1.1
route add 198.19.7.0/24 via 198.18.0.7 mtu 1300
route add 198.19.6.0/24 via 198.18.0.7 mtu lock 1200
route add 198.19.5.0/24 via inet6 2001:db8::7 dev wan
route add 198.19.4.0/24 tos 0x10 via 198.18.1.7
route add 198.19.64.0/24 nexthop via 198.18.0.7 dev wan nexthop via 198.18.1.7 dev lan
route add unreachable 198.19.1.0/24
route add prohibit 198.19.2.0/24
route add blackhole 198.19.3.0/24
route add throw 198.19.10.0/24
route add 2001:db8:9::/48 via 2001:db8::7 dev wan metric 7
route add 2001:db8:9::/48 via 2001:db8:1::7 dev lan metric 9
route add 2001:db8:8::/48 via 2001:db8::8 dev wan src 2001:db8:1::1
route add 2001:db8:7::/48 via 2001:db8::7 dev wan mtu 1300
route add 2001:db8:6::/48 via 2001:db8::7 dev wan mtu lock 1280
route add 2001:db8:64::/48 nexthop via 2001:db8::7 dev wan nexthop via 2001:db8:1::7 dev lan
route add unreachable 2001:db8:a::/48
route add prohibit 2001:db8:b::/48
route add blackhole 2001:db8:c::/48
route add throw 2001:db8:d::/48
";

const RULES: &str = "
rule add pref 100 fwmark 7 lookup 100
rule add pref 101 from 198.18.9.0/24 lookup 101
rule add pref 102 iif wan ipproto udp dport 53 lookup 101
rule add pref 103 oif lan lookup 101
rule add pref 104 tos 0x10 lookup 101
rule add pref 105 to 198.19.20.0/24 unreachable
rule add pref 106 to 198.19.21.0/24 prohibit
rule add pref 107 to 198.19.22.0/24 blackhole
rule add pref 108 iif lo lookup 102
route add default via 198.18.0.9 table 100
route add 198.19.0.0/17 via 198.18.1.7 table 101
route add blackhole 198.19.0.0/18 table 102
route add throw 198.19.9.0/24 table 100
";

const RULES6: &str = "
rule add pref 100 fwmark 7 lookup 100
rule add pref 101 from 2001:db8:99::/48 lookup 101
rule add pref 102 iif wan ipproto udp dport 53 lookup 101
rule add pref 103 oif lan lookup 101
rule add pref 104 tos 0x10 lookup 101
rule add pref 105 to 2001:db8:20::/48 unreachable
rule add pref 106 to 2001:db8:21::/48 prohibit
rule add pref 107 to 2001:db8:22::/48 blackhole
rule add pref 108 iif lo lookup 102
route add 2000::/3 via 2001:db8::9 dev wan table 100
route add 2001:db8::/36 via 2001:db8:1::7 dev lan table 101
route add blackhole 2001:db8:8::/45 table 102
route add throw 2001:db8:9::/48 table 100
";

const WAN: u32 = 11;
/// The loopback, the wires, and such as are not there.
const DEVICES: [u32; 6] = [1, WAN, 12, 13, 99, 0];

/// A namespace with the network.
fn namespace(name: &str, with_rules: bool) -> Option<Namespace> {
    let namespace = Namespace::new(name)?;
    namespace.batch(&["-4"], LINKS);
    namespace.sysctl(&["net.ipv4.conf.all.forwarding=1", "net.ipv6.conf.all.forwarding=1"]);
    namespace.sysctl(&["net.ipv4.conf.dmz.forwarding=0", "net.ipv6.conf.dmz.forwarding=0"]);
    namespace.batch(&["-4"], FAR);
    let (up, rest) = ROUTES.split_at(ROUTES.find("addr").unwrap());
    namespace.batch(&["-4"], up);
    // Routes of IPv6 over a device wait for its carrier.
    for _ in 0..100 {
        let links = Command::new("ip").args(["-n", &namespace.0, "-br", "link"]).output();
        let links = String::from_utf8(links.unwrap().stdout).unwrap();
        if !links.contains("DOWN") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    namespace.batch(&[], rest);
    if with_rules {
        namespace.batch(&[], RULES);
        namespace.batch(&["-6"], RULES6);
    }
    Some(namespace)
}

/// A dataplane with the network, and a program at the first wire.
fn dataplane(object: &[u8], hook: BpfHook, with_rules: bool, compiled: bool) -> Dataplane {
    let mut lines = format!("{LINKS}{ROUTES}");
    if with_rules {
        lines += RULES;
        for line in RULES6.lines().filter(|line| !line.is_empty()) {
            lines += &format!("-6 {line}\n");
        }
    }
    let net = Network::from_batch("net.ip", &lines).unwrap_or_else(|error| panic!("{error}"));
    let mut sysctls = DevconfSysctls::default();
    for name in ["net.ipv4.conf.dmz.forwarding", "net.ipv6.conf.dmz.forwarding"] {
        assert!(sysctls.set(name, 0).unwrap());
    }
    let net = Arc::new(net.with_sysctls(&sysctls));
    let mut path = Dataplane::new(net, Settings::unlimited());
    attach(&mut path, object, hook, compiled);
    path
}

fn address4(rng: &mut Rng) -> [u8; 4] {
    let host = any(rng, &[0, 1, 7, 8, 9, 255]);
    match rng.u8(..8) {
        0 => [rng.u8(..), rng.u8(..), rng.u8(..), rng.u8(..)],
        1 => any(rng, &[[0; 4], [255; 4], [127, 0, 0, 1], [224, 0, 0, 1], [169, 254, 0, 1]]),
        2 | 3 => [198, 18, any(rng, &[0, 1, 2, 9]), host],
        _ => [198, 19, any(rng, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 21, 22, 70, 200]), host],
    }
}

fn address6(rng: &mut Rng) -> [u8; 16] {
    let mut address =
        [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, any(rng, &[0, 1, 7, 8])];
    match rng.u8(..8) {
        0 => address = rng.u128(..).to_be_bytes(),
        1 => {
            address[..2].copy_from_slice(&any(rng, &[[0, 0], [0xfe, 0x80], [0xff, 2], [0xfc, 0]]));
            address[2..8].fill(0);
        }
        2 | 3 => address[5] = rng.u8(..3),
        _ => {
            let nets = [0, 1, 6, 7, 8, 9, 0xa, 0xb, 0xc, 0xd, 0x20, 0x21, 0x22, 0x70, 0x99];
            address[5] = any(rng, &nets);
        }
    }
    address
}

/// A frame with a question, as `struct question` has it.
fn question(rng: &mut Rng) -> Vec<u8> {
    const OUTPUT: u32 = 2;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xa7, 0x88, 0xb5];
    let what: u16 = any(rng, &[0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2]);
    let mut flags = match rng.u8(..16) {
        0 => rng.u32(..),
        1..8 => rng.u32(..64),
        8..12 => 0,
        _ => 1 << rng.u32(..6),
    };
    if what == 2 && rng.u8(..8) != 0 {
        flags = rng.u32(..2);
    }
    let most = if rng.u8(..4) == 0 { 6 } else { 3 };
    let mut device = any(rng, &DEVICES[..most]);
    let v6 = rng.bool();
    let (mut source, mut destination) = ([rng.u8(..); 16], [rng.u8(..); 16]);
    // One among several ways is drawn by another hash in the kernel, unless a device is asked for.
    let group = rng.u8(..16) == 0;
    if v6 {
        (source, destination) = (address6(rng), address6(rng));
        if group {
            destination = *b"\x20\x01\x0d\xb8\x00\x64\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01";
        }
    } else {
        source[..4].copy_from_slice(&address4(rng));
        destination[..4].copy_from_slice(&address4(rng));
        if group {
            destination[..4].copy_from_slice(&[198, 19, 64, 1]);
        }
    }
    if group && what == 0 {
        device = any(rng, &[WAN, 12]);
        flags |= OUTPUT;
    }
    let lengths = [0, 0, 0, 100, 1199, 1200, 1201, 1280, 1281, 1300, 1301, 1400, 1401];
    let length: u16 = match rng.u8(..8) {
        0 => any(rng, &[1500, 1501, 2000, 65535, 1]),
        _ => any(rng, &lengths),
    };
    let family = if rng.u8(..32) == 0 { rng.u8(..) } else { 2 + 8 * u8::from(v6) };
    let tos: [u8; 4] = match rng.u8(..4) {
        0 => rng.u32(..).to_be_bytes(),
        1 if v6 => [1, rng.u8(..16), 0, 0],
        1 => [0x10 | rng.u8(..4), 0, 0, 0],
        _ => [0; 4],
    };
    let table: u32 = any(rng, &[254, 254, 255, 253, 100, 101, 102, 0, 77]);
    let mark: u32 = any(rng, &[0, 7, 7, 8]);
    let (mtu, difference): (u32, i32) = match rng.u8(..8) {
        0 => (rng.u32(..), rng.i32(..)),
        1 => (0, rng.i32(-2000..2000)),
        2 => (any(rng, &[1386, 1400, 1401, 1500, 1501]), rng.i32(-2..2)),
        _ => (0, 0),
    };
    frame.extend(what.to_le_bytes());
    frame.extend(flags.to_le_bytes());
    frame.extend(any(rng, &DEVICES).to_le_bytes());
    frame.extend(mtu.to_le_bytes());
    frame.extend(difference.to_le_bytes());
    frame.extend([0; 8]);
    frame.extend([family, any(rng, &[0, 6, 17])]);
    frame.extend(any(rng, &[0_u16, 53, 80]).to_be_bytes());
    frame.extend(any(rng, &[0_u16, 53, 80]).to_be_bytes());
    frame.extend(length.to_le_bytes());
    frame.extend(device.to_le_bytes());
    frame.extend(tos);
    frame.extend(source);
    frame.extend(destination);
    frame.extend(table.to_le_bytes());
    frame.extend(mark.to_le_bytes());
    frame.extend([rng.u8(..); 8]);
    // Packets of the sizes of MTUs, too.
    let sizes = [0, 60, 1413, 1414, 1415, 1418, 1419, 1514, 1515, 1518, 1519, 2000];
    frame.resize(frame.len().max(any(rng, &sizes)), 0);
    frame
}

fn compare(name: &str, with_rules: bool) {
    let Some(object) = compile::compile("fib") else { return };
    let Some(loader) = Loader::build(name) else { return };
    let Some(namespace) = namespace(name, with_rules) else { return };
    let rounds = setting("PENSTOCK_ROUNDS").unwrap_or(2000);
    let mut rng = Rng::with_seed(setting("PENSTOCK_SEED").unwrap_or(1));
    let questions: Vec<_> = (0..rounds).map(|_| question(&mut rng)).collect();
    for (program, hook) in
        [("xdp_ask", BpfHook::Xdp { device: WAN }), ("tc_ask", BpfHook::TcIngress { device: WAN })]
    {
        let input = |frame: &Vec<u8>| format!("{program} 0 {WAN} {}\n", hexadecimal(frame));
        let input: String = questions.iter().map(input).collect();
        let theirs = loader.run_in(&namespace.0, &object, &input).expect("the kernel takes it");
        let engines = [false, true];
        let mut paths = engines.map(|code| dataplane(&object, hook, with_rules, code));
        let mut kinds = std::collections::BTreeMap::<(u16, i64), u32>::new();
        let mut wrong = Vec::new();
        for (frame, theirs) in questions.iter().zip(&theirs) {
            let (_, theirs) = theirs.split_once(' ').unwrap_or(("", theirs));
            let what = u16::from_le_bytes([frame[14], frame[15]]);
            let result = (0..8).rev().fold(0_i64, |value, at| {
                let byte = theirs.get(2 * (32 + at)..2 * (33 + at)).unwrap_or("0");
                value << 8 | i64::from_str_radix(byte, 16).unwrap_or(0)
            });
            *kinds.entry((what, result)).or_default() += 1;
            for (path, code) in paths.iter_mut().zip(engines) {
                let ours = answer(path, frame);
                if ours != theirs {
                    let part = |text: &str| text.chars().skip(28).take(192).collect::<String>();
                    wrong.push(format!(
                        "{program} machine code {code}\n  asked {}\n  here  {}\n  there {}",
                        part(&hexadecimal(frame)),
                        part(&ours),
                        part(theirs)
                    ));
                }
            }
        }
        println!("{name}, {program}: {} questions; kind, answer, number: {kinds:?}", theirs.len());
        let few = &wrong[..wrong.len().min(8)];
        assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), few.join("\n"));
    }
}

#[test]
fn programs_find_the_routes_that_they_find_in_the_kernel() {
    compare("routes", false);
}

#[test]
fn programs_find_the_routes_of_rules_that_they_find_in_the_kernel() {
    compare("rules", true);
}
