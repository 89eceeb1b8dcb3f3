// SPDX-License-Identifier: Apache-2.0

//! UDP, ICMP and other flows: what packets are to their connections.

use penstock_conntrack::{Conntrack, Direction, Hook, Settings, Template, Verdict, status};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_testkit::build::*;

const A: &str = "198.18.0.1";
const B: &str = "198.18.0.2";
const R: &str = "198.18.0.254";
const SECOND: u64 = 1_000_000_000;

/// A table with a clock.
struct Net {
    ct: Conntrack,
    now: u64,
}

impl Net {
    fn new() -> Self {
        Net {
            ct: Conntrack::new(Settings { max: 1000, ..Settings::default() }),
            now: 1_700_000_000 * SECOND,
        }
    }

    fn with(settings: Settings) -> Self {
        Net { ct: Conntrack::new(settings), ..Net::new() }
    }

    fn load(&self, frame: impl Into<Frame>) -> Packet {
        let mut p = Packet::new();
        p.load(&frame.into().build(), 0);
        p.meta.time = self.now;
        p
    }

    /// Through prerouting only.
    fn track(&mut self, frame: impl Into<Frame>) -> Packet {
        let mut p = self.load(frame);
        assert_eq!(self.ct.track(&mut p, Hook::Prerouting), Verdict::Accept);
        p
    }

    /// In and out; returns what rules see.
    fn pass(&mut self, frame: impl Into<Frame>) -> (u32, Option<CtInfo>) {
        let mut p = self.track(frame);
        let seen = (p.meta.ct.state(), p.meta.ct.has_entry().then_some(p.meta.ct.info));
        assert_eq!(self.ct.confirm(&mut p), Verdict::Accept);
        seen
    }

    fn state(&mut self, frame: impl Into<Frame>) -> &'static str {
        match self.pass(frame).0 {
            1 => "invalid",
            2 => "established",
            4 => "related",
            8 => "new",
            64 => "untracked",
            _ => "?",
        }
    }

    fn wait(&mut self, seconds: f64) {
        self.now += (seconds * 1e9) as u64;
        self.ct.expire(self.now);
    }

    fn only(&self) -> (u32, u64) {
        let all: Vec<_> = self.ct.iter().collect();
        assert_eq!(all.len(), 1);
        (all[0].status(), all[0].remaining() / SECOND)
    }
}

fn udp(from: &str, to: &str, sport: u16, dport: u16) -> Frame {
    Ipv4::new(from, to) / Udp::new(sport, dport) / payload(b"data")
}

#[test]
fn a_bidirectional_udp_flow_becomes_a_stream_after_two_seconds() {
    let mut net = Net::new();
    let there = || udp(A, B, 1000, 53);
    let back = || udp(B, A, 53, 1000);
    assert_eq!(net.state(there()), "new");
    assert_eq!(net.state(there()), "new");
    assert_eq!(net.only(), (status::CONFIRMED, 30));
    assert_eq!(net.state(back()), "established");
    // The reply counts from the next packet on.
    assert_eq!(net.only(), (status::CONFIRMED | status::SEEN_REPLY, 30));
    net.wait(2.0);
    assert_eq!(net.state(there()), "established");
    assert_eq!(net.only().1, 30);
    net.wait(0.1);
    assert_eq!(net.state(there()), "established");
    assert_eq!(net.only(), (status::CONFIRMED | status::SEEN_REPLY | status::ASSURED, 120));
    net.wait(119.9);
    assert_eq!(net.ct.iter().count(), 1);
    net.wait(0.2);
    assert_eq!(net.ct.count(), 0);
    assert_eq!(net.state(back()), "new");
}

#[test]
fn udp_with_a_wrong_length_or_checksum_is_invalid() {
    let mut net = Net::new();
    for frame in [
        Ipv4::new(A, B) / Udp::new(1, 2).checksum(0xbad),
        Ipv4::new(A, B) / Udp::new(1, 2).length(7),
        Ipv4::new(A, B) / Udp::new(1, 2).length(9),
        (Ipv4::new(A, B) / Udp::new(1, 2)).truncate(26),
        Ipv4::new(A, B).fragment(1, false) / Udp::new(1, 2),
    ] {
        assert_eq!(net.state(frame), "invalid");
    }
    assert_eq!(net.state(Ipv4::new(A, B) / Udp::new(1, 2).checksum(0)), "new");
    let mut out = net.load(Ipv4::new(A, B) / Udp::new(5, 2).checksum(0xbad));
    net.ct.track(&mut out, Hook::Output);
    assert_eq!(out.meta.ct.info, CtInfo::New, "checksums of packets that go out are not looked at");
    net.ct.release(&mut out.meta.ct);
    let mut lax = Net::with(Settings { checksum: false, ..Settings::default() });
    assert_eq!(lax.state(Ipv4::new(A, B) / Udp::new(1, 2).checksum(0xbad)), "new");
}

#[test]
fn icmp_requests_are_tracked_and_matched_by_their_replies() {
    let mut net = Net::new();
    let request = |id| Ipv4::new(A, B) / Icmp::echo_request(id, 1) / payload(b"x");
    let reply = |id| Ipv4::new(B, A) / Icmp::echo_reply(id, 1) / payload(b"x");
    assert_eq!(net.state(reply(7)), "invalid");
    assert_eq!(net.state(request(7)), "new");
    assert_eq!(net.state(request(7)), "new");
    assert_eq!(net.state(reply(7)), "established");
    assert_eq!(net.state(request(7)), "established");
    assert_eq!(net.state(request(8)), "new");
    assert_eq!(net.state(Ipv4::new(A, B) / Icmp::new(13, 0)), "new");
    assert_eq!(net.state(Ipv4::new(B, A) / Icmp::new(14, 0)), "established");
    assert_eq!(net.state(Ipv4::new(A, B) / Icmp::new(10, 0)), "invalid");
    assert_eq!(net.state(Ipv4::new(A, B) / Icmp::new(42, 0)), "invalid");
    assert_eq!(net.state(Ipv4::new(A, B) / Icmp::echo_request(1, 1).checksum(1)), "invalid");
    let v6 = || Ipv6::new("2001:db8::1", "2001:db8::2");
    assert_eq!(net.state(v6() / Icmpv6::echo_request(1, 1)), "new");
    assert_eq!(
        net.state(Ipv6::new("2001:db8::2", "2001:db8::1") / Icmpv6::echo_reply(1, 1)),
        "established"
    );
    assert_eq!(net.state(v6() / Icmpv6::new(139, 0)), "new");
    assert_eq!(net.state(v6() / Icmpv6::new(200, 0)), "invalid");
    assert_eq!(
        net.state(v6().hop_limit(255) / Icmpv6::neighbour_solicitation("2001:db8::2")),
        "untracked"
    );
    assert_eq!(net.state(v6() / Icmpv6::new(143, 0)), "untracked");
}

#[test]
fn icmp_errors_are_related_to_the_flow_they_quote() {
    let mut net = Net::new();
    let flow = || udp(A, B, 1000, 53);
    let error = |from: &str, to: &str, inner: Frame| {
        Ipv4::new(from, to) / Icmp::new(3, 3) / payload(inner.build())
    };
    assert_eq!(net.state(error(R, A, flow())), "invalid");
    assert_eq!(net.state(flow()), "new");
    let (_, info) = net.pass(error(R, A, flow()));
    assert_eq!(info, Some(CtInfo::RelatedReply));
    let (_, info) = net.pass(error(A, B, udp(B, A, 53, 1000)));
    assert_eq!(info, Some(CtInfo::Related));
    assert_eq!(
        net.state(error(R, "198.18.0.9", flow())),
        "invalid",
        "not to whom the flow goes back"
    );
    assert_eq!(net.state(error(R, A, flow().truncate(22))), "invalid");
    assert_eq!(net.state(error(R, A, udp(A, B, 1001, 53))), "invalid");
    // Errors about echo requests.
    let ping = || Ipv4::new(A, B) / Icmp::echo_request(7, 1);
    assert_eq!(net.state(ping()), "new");
    assert_eq!(net.state(error(R, A, ping())), "related");
}

#[test]
fn icmpv6_errors_are_related_to_the_flow_they_quote() {
    let mut net = Net::new();
    let (a, b, r) = ("2001:db8::1", "2001:db8::2", "2001:db8::fe");
    let flow = || Ipv6::new(a, b) / Udp::new(1000, 53) / payload(b"x");
    assert_eq!(net.state(flow()), "new");
    assert_eq!(net.state(Ipv6::new(r, a) / Icmpv6::new(1, 4) / payload(flow().build())), "related");
    assert_eq!(net.state(Ipv6::new(r, b) / Icmpv6::new(1, 4) / payload(flow().build())), "invalid");
    let options = Ipv6::new(a, b) / HopByHop::new() / Udp::new(1000, 53) / payload(b"x");
    assert_eq!(
        net.state(Ipv6::new(r, a) / Icmpv6::new(2, 0) / payload(options.build())),
        "related"
    );
}

#[test]
fn a_flow_dropped_before_confirmation_leaves_no_entry() {
    let mut net = Net::new();
    let mut p = net.track(udp(A, B, 1, 2));
    assert_eq!(net.ct.count(), 1);
    net.ct.release(&mut p.meta.ct);
    assert_eq!((net.ct.count(), p.meta.ct), (0, Ct::default()));
    // Also without an explicit call.
    net.track(udp(A, B, 1, 2));
    net.wait(61.0);
    assert_eq!(net.ct.count(), 0);
}

#[test]
fn zones_keep_flows_apart() {
    let mut net = Net::new();
    let template = |net: &mut Net, o, r| {
        net.ct.template(Template { original_zone: o, reply_zone: r, ..Template::default() })
    };
    let pass = |net: &mut Net, frame: Frame, template| {
        let mut p = net.load(frame);
        p.meta.ct.template = template;
        net.ct.track(&mut p, Hook::Prerouting);
        let info = p.meta.ct.info;
        assert_eq!(net.ct.confirm(&mut p), Verdict::Accept);
        info
    };
    let [one, two] = [template(&mut net, 1, 1), template(&mut net, 2, 2)];
    let only_original = template(&mut net, 3, 0);
    assert_eq!(template(&mut net, 2, 2), two);
    let there = || udp(A, B, 1, 2);
    let back = || udp(B, A, 2, 1);
    assert_eq!(pass(&mut net, there(), one), CtInfo::New);
    assert_eq!(pass(&mut net, there(), two), CtInfo::New);
    assert_eq!(pass(&mut net, back(), one), CtInfo::EstablishedReply);
    assert_eq!(net.ct.count(), 2);
    assert_eq!([0, 1, 2].map(|z| net.ct.count_in_zone(z)), [0, 1, 1]);
    // In the original direction in zone 3, replies are in zone 0.
    assert_eq!(pass(&mut net, there(), only_original), CtInfo::New);
    assert_eq!(pass(&mut net, back(), 0), CtInfo::EstablishedReply);
    assert_eq!(pass(&mut net, there(), only_original), CtInfo::Established);
    assert_eq!([0, 1, 2, 3].map(|z| net.ct.count_in_zone(z)), [0, 1, 1, 1]);
    assert_eq!(net.ct.kill_if(|c| c.zone(Direction::Original) == 1), 1);
    assert_eq!([0, 1, 2, 3].map(|z| net.ct.count_in_zone(z)), [0, 0, 1, 1]);
}

#[test]
fn two_simultaneous_first_packets_become_one_flow() {
    let mut net = Net::new();
    let mut first = net.track(udp(A, B, 1, 2));
    let mut second = net.track(udp(A, B, 1, 2));
    assert_eq!(net.ct.count(), 2);
    assert_eq!(net.ct.confirm(&mut second), Verdict::Accept);
    assert_eq!(net.ct.confirm(&mut first), Verdict::Accept);
    assert_eq!(first.meta.ct.entry, second.meta.ct.entry);
    assert_eq!((net.ct.count(), net.ct.statistics().clash_resolve), (1, 1));
}

#[test]
fn a_full_table_evicts_unassured_connections_first() {
    let mut net = Net::with(Settings { max: 50, ..Settings::default() });
    for port in 0..50 {
        assert_eq!(net.state(udp(A, B, port, 53)), "new");
    }
    // Near by there may be nothing to drop: then the packet is dropped and the rest is left to the
    // background.
    let mut taken = 0;
    for port in 100..120 {
        let mut p = net.load(udp(A, B, port, 53));
        match net.ct.track(&mut p, Hook::Prerouting) {
            Verdict::Accept => {
                taken += 1;
                net.ct.confirm(&mut p);
            }
            Verdict::Drop => assert!(!p.meta.ct.has_entry()),
        }
        assert!(net.ct.count() <= 50);
    }
    assert!(taken > 0);
    assert_eq!(u64::from(50 + taken - net.ct.count()), net.ct.statistics().early_drop);
}

#[test]
fn a_full_table_keeps_assured_connections() {
    let mut net = Net::with(Settings { max: 20, ..Settings::default() });
    for port in 0..20 {
        net.state(udp(A, B, port, 53));
        net.state(udp(B, A, 53, port));
    }
    net.wait(3.0);
    for port in 0..20 {
        net.state(udp(A, B, port, 53));
    }
    for port in 100..200 {
        let mut p = net.load(udp(A, B, port, 53));
        assert_eq!(net.ct.track(&mut p, Hook::Prerouting), Verdict::Drop);
        net.wait(0.1);
    }
    assert_eq!((net.ct.count(), net.ct.statistics().table_full), (20, 100));
}

#[test]
fn the_packet_clock_never_goes_backwards() {
    let mut net = Net::new();
    net.state(udp(A, B, 1, 2));
    net.now -= 100 * SECOND;
    assert_eq!(net.state(udp(B, A, 2, 1)), "established");
    assert_eq!(net.only().1, 30);
}

#[test]
fn a_timeout_policy_holds_for_new_flows() {
    let mut net = Net::new();
    let seconds = std::time::Duration::from_secs;
    let policy =
        net.ct.add_policy(17, &[("unreplied", seconds(5)), ("replied", seconds(7))]).unwrap();
    assert!(net.ct.add_policy(17, &[("established", seconds(5))]).is_err());
    let mut p = net.track(udp(A, B, 1, 2));
    net.ct.set_policy(p.meta.ct.entry, policy);
    net.ct.confirm(&mut p);
    assert_eq!(net.only().1, 5);
    net.state(udp(B, A, 2, 1));
    net.wait(2.5);
    net.state(udp(A, B, 1, 2));
    assert_eq!(net.only().1, 7);
    net.ct.remove_policy(policy);
    net.state(udp(A, B, 1, 2));
    assert_eq!(net.only().1, 120);
}

#[test]
fn a_killed_entry_stays_readable_for_its_packet() {
    let mut net = Net::new();
    let mut p = net.track(udp(A, B, 1, 2));
    net.ct.confirm(&mut p);
    net.ct.set_mark(p.meta.ct.entry, 9);
    net.ct.kill(p.meta.ct.entry);
    let c = net.ct.connection(&p.meta.ct).unwrap();
    assert_eq!((c.mark(), c.status() & status::DYING), (9, status::DYING));
    assert_eq!(net.ct.count(), 0);
    assert_eq!(net.state(udp(A, B, 1, 2)), "new", "not found any more");
    net.wait(2.0);
    assert!(net.ct.connection(&p.meta.ct).is_none());
}

#[test]
fn nat_changes_the_reply_until_the_flow_is_confirmed() {
    let mut net = Net::new();
    let mut p = net.track(udp(A, B, 1, 2));
    let n = p.meta.ct.entry;
    let mut reply = *net.ct.connection(&p.meta.ct).unwrap().tuple(Direction::Reply);
    reply.dst[..4].copy_from_slice(&[198, 18, 0, 254]);
    reply.dst_id = 4000;
    assert!(!net.ct.is_taken(&reply, n));
    assert!(net.ct.alter_reply(n, &reply));
    net.ct.set_status(n, status::SRC_NAT);
    net.ct.link_source(n);
    net.ct.confirm(&mut p);
    assert!(!net.ct.alter_reply(n, &reply));
    assert_eq!(net.state(udp(B, R, 2, 4000)), "established");
    let other = net.track(udp(A, B, 7, 2));
    assert!(net.ct.is_taken(&reply, other.meta.ct.entry));
    let original = *net.ct.connection_at(n).unwrap().tuple(Direction::Original);
    assert_eq!(net.ct.by_source(&original).collect::<Vec<_>>(), [n]);
    net.ct.kill(n);
    assert_eq!(net.ct.by_source(&original).count(), 0);
}
