// SPDX-License-Identifier: Apache-2.0

//! The control socket.

use std::io::Cursor;

use penstock_daemon::control::netfilter::{Datagram, Recipient, Request};
use penstock_daemon::control::protocol::{self, Message, Show};
use penstock_daemon::control::{CaptureCall, Captured};
use penstock_print::show::{Form, Listing};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "control",
    bytes: "what client and server of the control socket say",
    holds: "a message that is read is written so that it is read as the same; a stranger's is never longer than it may be",
    longest: 1024,
    seeds,
    make: mutate::bytes,
    run,
};

/// What strangers may say at most.
const SHORT: usize = 512;

fn seeds() -> Vec<Vec<u8>> {
    let call = CaptureCall {
        family: "inet".into(),
        hook: "forward".into(),
        priority: "filter - 1".into(),
        device: Some("lan".into()),
        snaplen: 256,
        group: Some(7),
        expression: "tcp dport { 80, 443 }".into(),
    };
    let frame = Captured {
        interface: "lan".into(),
        link_type: 1,
        outgoing: true,
        time: 1 << 60,
        len: 90,
        bytes: vec![7; 60],
    };
    let mut frames = vec![];
    frame.put(&mut frames);
    frame.put(&mut frames);
    let messages = [
        Message::Nft(vec!["-f".into(), "-".into()]),
        Message::Line("list ruleset".into()),
        Message::Show(Show::new(Listing::State, Form::Json)),
        Message::Show(Show { milliseconds: 2500, ..Show::new(Listing::Stages, Form::Text) }),
        Message::Show(Show::new(Listing::Connections, Form::Json)),
        Message::Capture(call.words().to_vec()),
        Message::Read("/etc/rules.nft".into()),
        Message::Data(b"table ip t".to_vec()),
        Message::Err("Error".into()),
        Message::Unconfirmed(60_000),
        Message::Frames(frames),
        Message::Lost(9),
        Message::Exit(1),
        Message::Netfilter,
        Message::Listen(1 << 6),
        Message::Closed(4711),
        Message::Send(Request { port: 4711, ..Request::default() }),
        Message::Request(Request {
            port: 4711,
            receives_into: 65536,
            thread: 4711,
            name: "nft".into(),
            may_change: true,
            listened: true,
            options: 1 << 10,
            datagram: vec![7; 60],
        }),
        Message::Datagrams(
            [Recipient::Sender, Recipient::Others(7), Recipient::All(7)]
                .map(|to| Datagram { to, bytes: vec![7; 20] })
                .to_vec(),
        ),
    ];
    let bytes = |message: &Message| {
        let mut out = vec![];
        protocol::write(&mut out, message).expect("memory");
        out
    };
    messages.iter().map(bytes).collect()
}

fn run(data: &[u8]) {
    let mut stream = Cursor::new(data);
    while let Ok(message) = protocol::read(&mut stream, SHORT) {
        let mut written = Vec::new();
        protocol::write(&mut written, &message).expect("memory");
        // Bytes that are no text become three each.
        assert!(written.len() <= 16 + 3 * SHORT, "{} bytes", written.len());
        let again = protocol::read(&mut &written[..], protocol::LONGEST);
        assert_eq!(again.ok().as_ref(), Some(&message));
        match message {
            Message::Capture(words) => {
                if let Some(call) = CaptureCall::of(words) {
                    assert_eq!(CaptureCall::of(call.words().to_vec()).as_ref(), Some(&call));
                    std::hint::black_box(call.is_sound());
                }
            }
            Message::Frames(bytes) => {
                let Some(frames) = Captured::all(&bytes) else { continue };
                let mut out = vec![];
                frames.iter().for_each(|frame| frame.put(&mut out));
                // A name that is no text becomes longer, and may be cut.
                if frames.iter().all(|f| !f.interface.contains('\u{fffd}')) {
                    assert_eq!(Captured::all(&out).as_ref(), Some(&frames));
                }
            }
            _ => {}
        }
    }
}
