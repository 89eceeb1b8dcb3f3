// SPDX-License-Identifier: Apache-2.0

//! What happens at the limits of the table, and to what is attached to connections.

use penstock_conntrack::{
    Conntrack, Direction, ExpectError, Expectation, Hook, Settings, Verdict, status, tuple,
};
use penstock_packet::Packet;
use penstock_testkit::build::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const A: &str = "198.18.0.1";
const B: &str = "198.18.0.2";

fn pass(table: &mut Conntrack, frame: impl Into<Frame>, now: u64) -> Result<u32, Verdict> {
    let mut p = Packet::new();
    p.load(&frame.into().build(), 0);
    p.meta.time = now;
    match table.track(&mut p, Hook::Output) {
        Verdict::Drop => return Err(Verdict::Drop),
        Verdict::Accept => assert!(p.meta.ct.has_entry()),
    }
    match table.confirm(&mut p) {
        Verdict::Accept => Ok(p.meta.ct.entry),
        Verdict::Drop => Err(Verdict::Drop),
    }
}

fn handshake(table: &mut Conntrack, port: u16, now: u64) -> u32 {
    pass(table, Ipv4::new(A, B) / Tcp::new(port, 80).seq(1).syn(), now).unwrap();
    pass(table, Ipv4::new(B, A) / Tcp::new(80, port).seq(1).syn().ack(2), now).unwrap();
    pass(table, Ipv4::new(A, B) / Tcp::new(port, 80).seq(2).ack(2), now).unwrap()
}

fn close(table: &mut Conntrack, port: u16, now: u64) {
    pass(table, Ipv4::new(A, B) / Tcp::new(port, 80).seq(2).ack(2).fin(), now).unwrap();
    pass(table, Ipv4::new(B, A) / Tcp::new(80, port).seq(2).ack(3).fin(), now).unwrap();
    pass(table, Ipv4::new(A, B) / Tcp::new(port, 80).seq(3).ack(3), now).unwrap();
}

#[test]
fn closing_connections_make_room_in_the_background() {
    let mut table = Conntrack::new(Settings { max: 40, ..Settings::default() });
    for port in 0..40 {
        handshake(&mut table, port, START);
    }
    for port in 0..10 {
        close(&mut table, port, START);
    }
    assert!(table.iter().all(|c| c.status() & status::ASSURED != 0));
    let new = || Ipv4::new(A, B) / Udp::new(1, 2);
    assert_eq!(pass(&mut table, new(), START), Err(Verdict::Drop));
    table.expire(START);
    // Down to 95 of 100 places, and only those that close.
    assert_eq!(table.count(), 38);
    assert_eq!(table.iter().filter(|c| c.state() == Some("ESTABLISHED")).count(), 30);
    assert!(pass(&mut table, new(), START).is_ok());
}

#[test]
fn an_entry_without_a_slot_near_its_hash_is_refused() {
    let mut table = Conntrack::new(Settings { buckets: Some(12), ..Settings::default() });
    let (mut inside, mut refused) = (0, 0);
    for port in 0..200 {
        match pass(&mut table, Ipv4::new(A, B) / Udp::new(port, 9), START) {
            Ok(_) => inside += 1,
            Err(_) => refused += 1,
        }
    }
    // Sixteen buckets, and eleven for what goes past the last, have 189 places for two tuples each.
    assert!(inside <= 94 && inside > 60, "{inside}");
    assert_eq!((table.count(), table.statistics().chaintoolong), (inside, refused));
    // All of them can be found, also in a larger table.
    table.set_settings(Settings { buckets: None, ..table.settings().clone() });
    for port in 0..200 {
        assert!(pass(&mut table, Ipv4::new(B, A) / Udp::new(9, port), START).is_ok());
    }
    assert_eq!(
        table.iter().filter(|c| c.status() & status::SEEN_REPLY != 0).count() as u32,
        inside
    );
}

#[test]
fn shrinking_the_table_ends_surplus_connections() {
    let mut table = Conntrack::new(Settings { max: 1000, ..Settings::default() });
    for port in 0..500 {
        pass(&mut table, Ipv4::new(A, B) / Udp::new(port, 9), START).unwrap();
    }
    table.set_settings(Settings { buckets: Some(20), ..table.settings().clone() });
    let left = table.count();
    assert!(left > 100 && left <= 150, "{left}");
    assert_eq!(table.iter().count() as u32, left);
}

struct Slot(Arc<AtomicU32>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn connlimit_entries_end_with_their_connection() {
    let count = Arc::new(AtomicU32::new(0));
    let mut table = Conntrack::new(Settings { max: 100, ..Settings::default() });
    let attach = |table: &mut Conntrack, n: u32| {
        count.fetch_add(1, Ordering::Relaxed);
        table.attach(n, 7, Box::new(Slot(count.clone()))).is_ok()
    };
    let udp = pass(&mut table, Ipv4::new(A, B) / Udp::new(1, 2), START).unwrap();
    let killed = pass(&mut table, Ipv4::new(A, B) / Udp::new(2, 2), START).unwrap();
    let tcp = handshake(&mut table, 1, START);
    for n in [udp, killed, tcp] {
        assert!(!table.is_attached(n, 7));
        assert!(attach(&mut table, n));
        assert!(table.is_attached(n, 7) && !table.is_attached(n, 8));
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
    table.kill(killed);
    assert_eq!(count.load(Ordering::Relaxed), 2);
    close(&mut table, 1, START);
    assert_eq!(count.load(Ordering::Relaxed), 1, "closed connections do not count");
    assert!(!attach(&mut table, tcp), "nor do they begin to");
    table.expire(START + 31 * SECOND);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn expectations_are_bounded_and_end() {
    let mut table = Conntrack::new(Settings { max: 100, expect_max: 5, ..Settings::default() });
    let n = pass(&mut table, Ipv4::new(A, B) / Udp::new(1, 2), START).unwrap();
    let other = pass(&mut table, Ipv4::new(A, B) / Udp::new(2, 2), START).unwrap();
    let address = |text: &str| tuple::address(text.parse().unwrap());
    let [master, other] = [n, other].map(|n| table.reference(n));
    let to = |port, master| Expectation::new(master, tuple::IPV4, 17, None, address(A), port);
    assert_eq!(table.expect(to(10, master), 0), Ok(()));
    assert_eq!(table.expect(to(10, master), 0), Ok(()), "again");
    assert_eq!(table.expect(to(10, other), 0), Err(ExpectError::Busy));
    let narrow = Expectation { source_mask: [0xff; 16], ..to(10, master) };
    assert_eq!(table.expect(narrow, 0), Err(ExpectError::Busy), "could not be told from the first");
    assert_eq!(table.expecting(n, 0), 1);
    for port in 11..15 {
        assert_eq!(table.expect(to(port, master), 0), Ok(()));
    }
    assert_eq!(table.expect(to(15, master), 0), Err(ExpectError::TableFull));
    assert_eq!(table.expect(to(15, master), 3), Ok(()), "the oldest makes room");
    let ports: Vec<u16> = table.expectations().map(|(e, _)| e.tuple.dst_id).collect();
    assert!(ports.len() == 5 && !ports.contains(&10));
    assert_eq!(table.unexpect_if(|e| e.tuple.dst_id == 15), 1);
    table.set_timeout(n, 1000 * SECOND);
    table.expire(START + 301 * SECOND);
    assert_eq!((table.expectations().count(), table.expecting(n, 0)), (0, 0));
}

#[test]
fn a_translated_flow_that_clashes_lives_for_a_second() {
    let mut table = Conntrack::new(Settings { max: 100, ..Settings::default() });
    let frame = || (Ipv4::new(A, B) / Udp::new(1, 2)).build();
    let mut packets: Vec<Packet> = (0..2)
        .map(|_| {
            let mut p = Packet::new();
            p.load(&frame(), 0);
            p.meta.time = START;
            table.track(&mut p, Hook::Output);
            p
        })
        .collect();
    // Both were translated, each to another server.
    for (host, p) in packets.iter().enumerate() {
        let n = p.meta.ct.entry;
        let mut reply = *table.connection_at(n).unwrap().tuple(Direction::Reply);
        reply.src[3] = 100 + host as u8;
        table.alter_reply(n, &reply);
        table.set_status(n, status::DST_NAT | status::NAT_DONE_MASK);
    }
    for p in &mut packets {
        assert_eq!(table.confirm(p), Verdict::Accept);
    }
    let clash = table.connection(&packets[1].meta.ct).unwrap();
    assert_ne!(packets[0].meta.ct.entry, packets[1].meta.ct.entry);
    assert!(clash.status() & status::NAT_CLASH != 0 && clash.remaining() == SECOND);
    // One entry has the original tuple, and that is listed.
    let listed: Vec<_> = table.iter().map(|c| c.number()).collect();
    assert_eq!((listed, table.count()), (vec![packets[0].meta.ct.entry], 2));
    // Its answer finds it; the next packet in the original direction belongs to the winner.
    let answer = pass(&mut table, Ipv4::new("198.18.0.101", A) / Udp::new(2, 1), START).unwrap();
    assert_eq!(answer, packets[1].meta.ct.entry);
    let next = pass(&mut table, Ipv4::new(A, B) / Udp::new(1, 2), START).unwrap();
    assert_eq!(next, packets[0].meta.ct.entry);
    table.expire(START + 2 * SECOND);
    assert_eq!(table.count(), 1);
}
