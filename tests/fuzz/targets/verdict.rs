// SPDX-License-Identifier: Apache-2.0

//! What programs answer about packets that they hold.

use std::sync::{Arc, OnceLock};

use penstock_daemon::queue_answer;
use penstock_io::queue::{self, Message};
use penstock_dataplane::{Frame, Settings};
use penstock_ruleset::link::Linked;

use super::Target;
use crate::network::{NOW, dataplane, net};
use crate::send::Seen;
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "verdict",
    bytes: "answers about packets that a queue holds",
    holds: "each packet is answered once; new bytes are taken or refused; after the queue is closed none is held",
    longest: 2048,
    seeds: answers,
    make: mutate::bytes,
    run,
};

const RULES: &str = "\
table inet t {
	chain forward { type filter hook forward priority 0; queue to 0-1; }
	chain late { type filter hook forward priority 10; ct state new queue flags bypass to 2; }
	chain post { type nat hook postrouting priority 100; oif wan masquerade; }
	chain input { type filter hook input priority 0; queue to 1; }
	chain output { type filter hook output priority 0; queue to 0; }
}
";

fn answers() -> Vec<Vec<u8>> {
    let mut answers = vec![];
    for (i, frame) in seeds::frames().iter().enumerate().step_by(7) {
        let verdict = [queue::Verdict::Accept, queue::Verdict::Repeat, queue::Verdict::Stop][i % 3];
        let network = frame.get(4 + 14..).map(<[u8]>::to_vec);
        let answer =
            queue::Answer { mark: Some(i as u32), payload: network, ..queue::Answer::new(0, verdict) };
        let mut bytes = vec![i as u8];
        queue::write(&mut bytes, &Message::Answer(answer), &mut vec![]).expect("memory");
        answers.push(bytes);
    }
    answers
}

fn held(seen: &Seen) -> &[u64] {
    seen.held.as_deref().unwrap_or_default()
}

/// The first byte chooses the packets that are held. The number that an answer is for chooses among
/// them.
fn run(data: &[u8]) {
    static RULES_LINKED: OnceLock<Arc<Linked>> = OnceLock::new();
    let rules = RULES_LINKED.get_or_init(|| {
        let ruleset = language::load(RULES, &net(), NOW).unwrap_or_else(|e| panic!("{e}"));
        Arc::new(Linked::new(&ruleset.generation()).expect("rules that can run"))
    });
    let Some((which, mut stream)) = data.split_first() else { return };
    let mut dataplane = dataplane(Settings::default());
    dataplane.set_rules(rules.clone());
    let (mut seen, mut buffer, mut now) = (Seen { held: Some(vec![]), ..Seen::default() }, Vec::new(), NOW);
    let lan = dataplane.network().link_by_name("lan").map_or(0, |l| l.index);
    let frames = seeds::frames();
    for step in 0..4 {
        if let Some(frame) = frames.get((usize::from(*which) + step * 37) % frames.len()) {
            dataplane.receive([Frame { device: lan, bytes: &frame[4..], time: now }], &mut seen);
        }
    }
    let mut answered = 0;
    while let Ok(Some(message)) = queue::read(&mut stream, &mut buffer) {
        let Message::Answer(answer) = message else { continue };
        let Some(id) = held(&seen).get(answer.id as usize % held(&seen).len().max(1)).copied() else {
            return;
        };
        now += 1000;
        // One that repeats is asked about again.
        let before = held(&seen).len();
        if dataplane.verdict(id, &queue_answer(&answer), now, &mut seen).is_ok() {
            answered += 1;
            assert!(dataplane.verdict(id, &queue_answer(&answer), now, &mut seen).is_err(), "answered twice");
        }
        assert!(held(&seen).len() <= before + 4, "a packet became {}", held(&seen).len() - before);
    }
    assert!(dataplane.queued() <= held(&seen).len());
    std::hint::black_box((answered, seen.bytes));
    for queue in 0..3 {
        dataplane.close_queue(queue, now, &mut seen);
    }
    dataplane.advance(now + (1 << 40), &mut seen);
}
