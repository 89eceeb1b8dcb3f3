// SPDX-License-Identifier: Apache-2.0

//! What programs send about packets of queues and logs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_conntrack::{Conntrack, FlowChange, Settings, Tuple, helper_number, tuple};
use penstock_nfnetlink::{
    Backend, Bind, Client, Local, LogConfig, PacketListeners, Process, QueueConfig, QueueVerdict,
    Refused, Show, VerdictChange, of_connection,
};
use penstock_ruleset::reset::Reset;
use penstock_ruleset::{Errno, Error, Generation, Transaction};
use penstock_testkit::netfilter::{self, attribute, be32, nested};

use super::Target;
use crate::datagrams::{self, check, with_lengths};
use crate::mutate;

pub const TARGET: Target = Target {
    name: "packets",
    bytes: "datagrams of nfnetlink_queue and nfnetlink_log, each with its length in two bytes \
            before it",
    holds: "answers are whole messages, two for each message at most; verdicts are those of the \
            kernel, from who has the queue",
    longest: 1024,
    seeds,
    make: mutate::bytes,
    run,
};

/// A request about queue or group 0 that is acknowledged.
fn message(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    const ACK: u16 = 4;
    netfilter::message(kind, ACK, 2, attributes)
}

fn seeds() -> Vec<Vec<u8>> {
    let bind = message(0x302, &[attribute(1, &[1, 0, 0, 2]), attribute(2, &[0, 0, 255, 255, 2])]);
    let options = message(0x302, &[be32(3, 9), be32(4, 1), be32(5, 1)]);
    let verdict = attribute(2, &[0, 0, 0, 1, 0, 0, 0, 7]);
    let accept = message(0x301, &[verdict.clone(), be32(3, 5), attribute(10, &[69; 40])]);
    let help = nested(5, &[attribute(1, b"ftp\0"), attribute(2, &[1; 4])]);
    let ct = nested(11, &[help, be32(7, 9), be32(3, 0xe), be32(8, 5), attribute(22, &[1; 16])]);
    let addresses = nested(1, &[attribute(1, &[198, 18, 0, 2]), attribute(2, &[198, 18, 0, 1])]);
    let ports = nested(2, &[attribute(1, &[6]), attribute(2, &[0, 0]), attribute(3, &[0, 20])]);
    let tuple = |kind| nested(kind, &[addresses.clone(), ports.clone()]);
    let nat = nested(10, &[be32(1, 0), tuple(2)]);
    let named = attribute(6, b"ftp\0");
    let expected = nested(15, &[tuple(2), tuple(3), named, be32(9, 0), be32(8, 1), nat]);
    let link = nested(19, &[attribute(1, &[0x81, 0]), attribute(2, &[0, 7])]);
    let helped = message(0x301, &[verdict.clone(), ct, expected, link, attribute(20, &[2; 14])]);
    let all = message(0x303, &[verdict, be32(21, 3)]);
    let log = message(0x401, &[attribute(1, &[1]), attribute(2, &[0, 0, 0, 9, 2, 0])]);
    let more = message(0x401, &[be32(3, 9000), be32(4, 1), be32(5, 7), attribute(6, &[0, 3])]);
    vec![
        with_lengths(&[bind.clone(), accept, all.clone()]),
        with_lengths(&[bind.clone(), helped]),
        with_lengths(&[bind, options, message(0x302, &[attribute(1, &[2, 0, 0, 0])]), all]),
        with_lengths(&[log, more, message(0x401, &[attribute(1, &[2])])]),
    ]
}

/// Has a connection do what a verdict asks of it.
fn carry_out(asked: &VerdictChange) {
    let mut table = Conntrack::with_seed(Settings { max: 8, ..Settings::default() }, 1);
    table.advance(1);
    table.want_labels(true);
    let side = |src, dst, src_id, dst_id| Tuple {
        src: tuple::address(IpAddr::from([198, 18, 0, src])),
        dst: tuple::address(IpAddr::from([198, 18, 0, dst])),
        src_id,
        dst_id,
        l3: tuple::IPV4,
        protocol: 6,
        ..Tuple::ZERO
    };
    let tuples = [&side(1, 2, 9, 21), &side(2, 1, 21, 9)];
    let ftp = helper_number("ftp", 6);
    let begins = FlowChange { timeout: Some(1 << 40), helper: ftp, ..FlowChange::default() };
    let entered = table.insert_flow(tuples, None, &begins, |_, _| true);
    let number = entered.expect("there is room").entry;
    let flow = of_connection(&table.connection_at(number).expect("it is there"));
    let (change, whole) = asked.of(table.helpers(), &flow);
    table.change_flow(number, &change);
    if whole && let Some(new) = asked.expected(table.helpers(), &flow) {
        let before = table.expectations().count();
        let done = penstock_nfnetlink::expect(&mut table, number, &new);
        assert!(table.expectations().count() <= before + usize::from(done.is_ok()));
    }
}

/// Who has which queue.
#[derive(Default)]
struct Listening {
    local: Local,
    queues: HashMap<u16, u32>,
}

impl PacketListeners for Listening {
    fn configure_queue(&mut self, port: u32, queue: u16, asked: &QueueConfig) -> Result<(), Errno> {
        match asked.bind {
            Some(Bind::Begin) => drop(self.queues.insert(queue, port)),
            Some(Bind::End) => drop(self.queues.remove(&queue).ok_or(Errno::Enodev)?),
            None => {}
        }
        self.may_decide(port, queue)
    }

    fn may_decide(&mut self, port: u32, queue: u16) -> Result<(), Errno> {
        match self.queues.get(&queue) {
            None => Err(Errno::Enodev),
            Some(owner) if *owner == port => Ok(()),
            Some(_) => Err(Errno::Eperm),
        }
    }

    fn decide(&mut self, port: u32, queue: u16, verdict: QueueVerdict) -> Result<(), Errno> {
        self.may_decide(port, queue)?;
        assert!(matches!(verdict.verdict & 0xff, 0 | 1 | 3 | 4 | 5), "{verdict:?}");
        if let Some(change) = verdict.connection {
            carry_out(&change);
        }
        Ok(())
    }

    fn configure_log(&mut self, _: u32, _: u16, _: &LogConfig) -> Result<(), Errno> {
        Ok(())
    }
}

impl Backend for Listening {
    fn now(&self) -> u64 {
        self.local.now()
    }

    fn generation(&self) -> Arc<Generation> {
        self.local.generation()
    }

    fn begin(&mut self) -> Transaction {
        self.local.begin()
    }

    fn commit(&mut self, batch: Transaction, by: &Process) -> Result<(), Refused> {
        self.local.commit(batch, by)
    }

    fn observe(&mut self, named: &[Reset], show: &mut Show<'_>) -> Result<(), Error> {
        self.local.observe(named, show)
    }

    fn packets(&mut self) -> Option<&mut dyn PacketListeners> {
        Some(self)
    }
}

fn run(data: &[u8]) {
    let mut backend = Listening::default();
    let mut client = Client::new(1);
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    for datagram in datagrams::of(data) {
        let answers = client.receive(datagram, &process, &mut backend);
        answers.datagrams.iter().for_each(|d| check(d));
        // What was asked for, and an acknowledgement.
        assert!(answers.datagrams.len() <= 2 * (datagram.len() / 16), "answers to each message");
    }
}
