// SPDX-License-Identifier: Apache-2.0

//! Messages between Penstock and a program that has a queue (`docs/queue.md`).

use penstock_io::queue::{self, Answer, Connection, Message, Open, Packet, Verdict};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "queue",
    bytes: "what either side of a queue says",
    holds: "messages that are read are written so that they are read as the same; no buffer is larger than a message may be",
    longest: 1024,
    seeds,
    make: mutate::bytes,
    run,
};

/// Bytes of the longest message.
const LONGEST: usize = 128 << 10;

fn seeds() -> Vec<Vec<u8>> {
    let packet = Packet {
        id: 7,
        time: 1 << 60,
        queue: 3,
        protocol: 0x0800,
        hook: 2,
        family: 2,
        mark: 9,
        priority: 1,
        input: (2, "wan".into()),
        output: (3, "fifteen-letters".into()),
        connection: Some(Connection { info: 2, status: 8, mark: 5, id: 6, zone: 1 }),
        link: vec![1; 14],
        len: 30,
        payload: vec![2; 20],
    };
    let answer = Answer { mark: Some(4), payload: Some(vec![1, 2, 3]), ..Answer::new(7, Verdict::Accept) };
    let messages = [
        Message::Open(Open::default()),
        Message::Answer(answer),
        Message::Answer(Answer { up_to: true, bypass: true, ..Answer::new(8, Verdict::Queue) }),
        Message::Packet(Box::new(packet.clone())),
        Message::Packet(Box::new(Packet { connection: None, link: vec![], ..packet })),
        Message::End,
    ];
    let bytes = |message: &Message| {
        let mut out = vec![];
        queue::write(&mut out, message, &mut vec![]).expect("memory");
        out
    };
    let mut seeds: Vec<Vec<u8>> = messages.iter().map(bytes).collect();
    seeds.push(seeds.concat());
    seeds
}

fn run(data: &[u8]) {
    let (mut stream, mut buffer) = (data, Vec::new());
    while let Ok(Some(message)) = queue::read(&mut stream, &mut buffer) {
        assert!(buffer.capacity() <= 2 * LONGEST, "a buffer of {} bytes", buffer.capacity());
        // A name may have sixteen bytes that are no text, which then is longer than its field.
        if let Message::Packet(packet) = &message
            && [&packet.input.1, &packet.output.1].iter().any(|name| name.len() > 15)
        {
            continue;
        }
        let mut written = Vec::new();
        queue::write(&mut written, &message, &mut Vec::new()).expect("memory");
        let again = queue::read(&mut &written[..], &mut Vec::new());
        assert_eq!(again.ok().flatten().as_ref(), Some(&message));
    }
}
