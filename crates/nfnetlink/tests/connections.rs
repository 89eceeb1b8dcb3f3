// SPDX-License-Identifier: Apache-2.0

//! Connections by their bytes: who may change them, who is told, and how dumps are cut. What is
//! answered is compared with the kernel by `cargo test -p penstock-cli --test clients conntrack`.

use penstock_conntrack::{Conntrack, Settings};
use penstock_nfnetlink::{Answers, Client, Local, Notification, Process};
use penstock_testkit::netfilter::{self, attribute, nested};

const ACK: u16 = 4;
const ECHO: u16 = 8;
const DUMP: u16 = 0x300;
const EXCL: u16 = 0x200;
const CREATE: u16 = 0x400;

const NEW: u16 = 0x100;
const GET: u16 = 0x101;
const DELETE: u16 = 0x102;

/// A request of IPv4.
fn message(kind: u16, flags: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    netfilter::message(kind, flags, 2, attributes)
}

fn tuple(kind: u16, source: u8, destination: u8, ports: [u16; 2]) -> Vec<u8> {
    let ip = [attribute(1, &[198, 18, 0, source]), attribute(2, &[198, 18, 0, destination])];
    let ports = ports.map(u16::to_be_bytes);
    let proto = [attribute(1, &[17]), attribute(2, &ports[0]), attribute(3, &ports[1])];
    nested(kind, &[nested(1, &ip), nested(2, &proto)])
}

/// Enters a UDP connection from a port.
fn enter(flags: u16, port: u16) -> Vec<u8> {
    let timeout = attribute(7, &100u32.to_be_bytes());
    let tuples = [tuple(1, 1, 2, [port, 53]), tuple(2, 2, 1, [53, port]), timeout];
    message(NEW, CREATE | ACK | flags, &tuples)
}

fn backend() -> Local {
    let mut table = Conntrack::new(Settings::default());
    table.advance(1);
    Local { connections: Some(table), ..Local::default() }
}

fn process(may_change: bool) -> Process {
    Process { id: 1, name: "test".into(), may_change }
}

fn send(client: &mut Client, backend: &mut Local, datagram: &[u8]) -> Answers {
    client.receive(datagram, &process(true), backend)
}

/// The error of the last answer, 0 for success.
fn errno(answers: &Answers) -> i32 {
    let last = answers.datagrams.last().expect("an answer");
    assert_eq!(last[4..6], 2u16.to_ne_bytes(), "an acknowledgement");
    -i32::from_ne_bytes(last[16..20].try_into().expect("four bytes"))
}

fn kinds(datagrams: &[Vec<u8>]) -> Vec<u16> {
    datagrams.iter().map(|d| u16::from_ne_bytes([d[4], d[5]])).collect()
}

#[test]
fn without_a_table_requests_are_refused_as_by_a_kernel_without_the_module() {
    let (mut client, mut backend) = (Client::new(1), Local::default());
    for request in [message(GET, DUMP, &[]), enter(0, 1), message(0x201, DUMP, &[])] {
        assert_eq!(errno(&send(&mut client, &mut backend, &request)), 22);
    }
}

#[test]
fn processes_without_the_right_may_only_look() {
    let (mut client, mut backend) = (Client::new(1), backend());
    assert_eq!(errno(&send(&mut client, &mut backend, &enter(0, 1))), 0);
    for (request, expected) in [
        (enter(0, 2), 1),
        (message(DELETE, ACK, &[]), 1),
        (message(0x103, ACK, &[tuple(1, 1, 2, [1, 53])]), 1),
        (message(0x202, ACK, &[]), 1),
        (message(GET, ACK, &[tuple(1, 1, 2, [1, 53])]), 0),
    ] {
        let answers = client.receive(&request, &process(false), &mut backend);
        assert_eq!(errno(&answers), expected);
    }
    assert_eq!(backend.connections.map(|table| table.count()), Some(1));
}

#[test]
fn members_of_groups_are_told_of_changes() {
    let (mut client, mut backend) = (Client::new(1), backend());
    let mut changes = |client: &mut Client, request: &[u8]| {
        let answers = send(client, &mut backend, request);
        assert_eq!(errno(&answers), 0);
        let groups = |all: &[Notification]| all.iter().map(|n| n.group).collect::<Vec<_>>();
        (groups(&answers.before), groups(&answers.notifications), kinds(&answers.datagrams))
    };
    assert_eq!(changes(&mut client, &enter(EXCL, 1)), (vec![1], vec![], vec![2]));
    assert_eq!(changes(&mut client, &enter(0, 1)), (vec![2], vec![], vec![2]));
    // An echo is an answer for the sender, which is not told twice.
    assert_eq!(changes(&mut client, &enter(ECHO, 1)), (vec![], vec![2], vec![NEW, 2]));
    let gone = message(DELETE, ACK, &[tuple(2, 2, 1, [53, 1])]);
    assert_eq!(changes(&mut client, &gone), (vec![3], vec![], vec![2]));
    client.set_listened(false);
    assert_eq!(changes(&mut client, &enter(EXCL, 1)), (vec![], vec![], vec![2]));
}

#[test]
fn a_datagram_may_have_several_changes() {
    let (mut client, mut backend) = (Client::new(1), backend());
    let all = [enter(EXCL, 1), enter(EXCL, 2), enter(EXCL, 1)].concat();
    let answers = send(&mut client, &mut backend, &all);
    assert_eq!(kinds(&answers.datagrams), [2, 2, 2]);
    assert_eq!(errno(&answers), 17);
    assert_eq!(backend.connections.map(|table| table.count()), Some(2));
}

#[test]
fn dumps_are_cut_to_the_receivers_buffer() {
    let (mut client, mut backend) = (Client::new(1), backend());
    for port in 1..=200 {
        assert_eq!(errno(&send(&mut client, &mut backend, &enter(EXCL, port))), 0);
    }
    for (buffer, most) in [(0, 3776), (8192, 8192), (1 << 20, 32 << 10)] {
        client.receives_into(buffer);
        let answers = send(&mut client, &mut backend, &message(GET, DUMP, &[]));
        let (end, pages) = answers.datagrams.split_last().expect("an end");
        assert_eq!((end.len(), kinds(std::slice::from_ref(end))), (20, vec![3]));
        assert!(pages.iter().all(|page| page.len() <= most), "{buffer}");
        let length =
            |page: &[u8]| u32::from_ne_bytes([page[0], page[1], page[2], page[3]]) as usize;
        let messages: usize = pages.iter().map(|page| page.len() / length(page)).sum();
        assert_eq!(messages, 200, "{buffer}");
    }
}

#[test]
fn what_is_entered_is_saved_and_loaded() {
    let (mut client, mut backend) = (Client::new(1), backend());
    assert_eq!(errno(&send(&mut client, &mut backend, &enter(EXCL, 1))), 0);
    let get = message(GET, 0, &[tuple(1, 1, 2, [1, 53])]);
    let before = send(&mut client, &mut backend, &get);
    let saved = backend.connections.take().expect("a table").dump();
    let mut table = Conntrack::new(Settings::default());
    assert_eq!(table.load(&saved, 1), Ok(1));
    backend.connections = Some(table);
    assert_eq!(send(&mut client, &mut backend, &get), before);
}
