// SPDX-License-Identifier: Apache-2.0

//! Packets of `queue` rules, and the programs that answer for them.

use std::os::unix::net::UnixListener;

use penstock_io::LinkType;
use penstock_io::queue::{self, Answer, Message, Open, Packet as QueuedPacket, Verdict};

use crate::place::{T, TO_ROUTER, TestDir, forwarded, frame, text};

/// Listens on a socket, and answers packets in its own thread until the queue ends. Returns
/// what it was sent.
fn listener(
    place: &TestDir,
    socket: &str,
    open: Open,
    mut answer: impl FnMut(&QueuedPacket) -> Vec<Answer> + Send + 'static,
) -> std::thread::JoinHandle<Vec<QueuedPacket>> {
    let listener = UnixListener::bind(place.0.join(socket)).expect("the path is short enough");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the run connects");
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        queue::write(&mut stream, &Message::Open(open), &mut buffer).expect("the run reads");
        while let Some(Message::Packet(packet)) =
            queue::read(&mut stream, &mut buffer).expect("messages")
        {
            for answer in answer(&packet) {
                queue::write(&mut stream, &Message::Answer(answer), &mut buffer)
                    .expect("the run reads");
            }
            seen.push(*packet);
        }
        seen
    })
}

const QUEUE_RULES: &str = "\
table ip t {
	chain f {
		type filter hook forward priority filter; policy accept;
		ct state new queue to 3
	}

	chain g {
		type filter hook forward priority 10; policy accept;
		udp dport 53 counter packets 0 bytes 0
		meta mark 7 counter packets 0 bytes 0
	}
}
";

#[test]
fn a_program_gives_verdicts_on_queued_packets() {
    let place = TestDir::new("queue");
    place.write("rules.nft", QUEUE_RULES.as_bytes());
    let ports = [53, 9, 54];
    let frames: Vec<_> = (T..).zip(ports).map(|(t, port)| (t, frame(port))).collect();
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let run = "--net net.ip --rules rules.nft --read lan=lan.pcap --write-dir out";

    let nobody = place.run(run);
    assert!(nobody.status.success(), "{}", text(&nobody.stderr));
    assert!(
        text(&nobody.stderr).contains("3  queue without listener: ip t f handle 3"),
        "{}",
        text(&nobody.stderr)
    );

    // Accepts, drops, and sends elsewhere with a mark.
    let program = listener(&place, "q", Open::default(), |packet| {
        let port = u16::from_be_bytes([packet.payload[22], packet.payload[23]]);
        vec![match port {
            53 => Answer::new(packet.id, Verdict::Accept),
            9 => Answer::new(packet.id, Verdict::Drop),
            _ => {
                let mut payload = packet.payload.clone();
                payload[22..24].copy_from_slice(&[0, 55]);
                Answer {
                    mark: Some(7),
                    payload: Some(payload),
                    ..Answer::new(packet.id, Verdict::Accept)
                }
            }
        }]
    });
    let out = place.run(&format!("{run} --queue 3=q"));
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(place.frames("out/wan.pcap"), [(T, forwarded(53)), (T + 2, forwarded(55))]);
    let listing = text(&out.stdout);
    assert!(listing.contains("udp dport 53 counter packets 1 bytes 28"), "{listing}");
    assert!(listing.contains("meta mark 0x00000007 counter packets 1 bytes 28"), "{listing}");
    let seen = program.join().unwrap();
    let [first, ..] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(
        (first.time, first.queue, first.hook, first.family, first.protocol),
        (T, 3, 2, 2, 0x0800)
    );
    assert_eq!((&*first.input.1, &*first.output.1, first.len), ("lan", "wan", 28));
    // A new connection that is not confirmed yet.
    assert_eq!(first.connection.map(|ct| (ct.info, ct.status)), Some((2, 0)));
    assert_eq!(first.link, TO_ROUTER);
}

#[test]
fn batch_verdicts_work_and_queue_length_is_bounded() {
    let place = TestDir::new("window");
    place.write("rules.nft", QUEUE_RULES.as_bytes());
    let frames: Vec<_> = (0..5).map(|i| (T + i, frame(100 + i as u16))).collect();
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let run = "--net net.ip --rules rules.nft --read lan=lan.pcap --write-dir out --queue 3=q";
    let sent = |place: &TestDir| place.frames("out/wan.pcap").len();
    // Answers when two are there; the fifth at the end, when the socket is closed on it.
    let pairs = |packet: &QueuedPacket| {
        let answer = Answer { up_to: true, ..Answer::new(packet.id, Verdict::Accept) };
        if packet.id.is_multiple_of(2) { vec![answer] } else { vec![] }
    };
    let program = listener(&place, "q", Open { window: 2, ..Open::default() }, pairs);
    let out = place.run(run);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!((program.join().unwrap().len(), sent(&place)), (5, 4));

    std::fs::remove_file(place.0.join("q")).unwrap();
    let cut = Open { copy: 20, ..Open::default() };
    let program = listener(&place, "q", cut, |packet| vec![Answer::new(packet.id, Verdict::Stop)]);
    assert!(place.run(run).status.success());
    let seen = program.join().unwrap();
    assert!(seen.iter().all(|p| p.payload.len() == 20 && p.len == 28), "{seen:?}");
    assert_eq!((seen.len(), sent(&place)), (5, 5));

    let gone = place.run(&run.replace("3=q", "3=nobody"));
    assert!(!gone.status.success());
    assert!(text(&gone.stderr).starts_with("Error: --queue 3=nobody: "), "{}", text(&gone.stderr));
}
