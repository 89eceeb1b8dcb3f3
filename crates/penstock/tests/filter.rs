// SPDX-License-Identifier: Apache-2.0

//! Rulesets over packets, through the library.

mod common;

use common::{CLIENT, LAN, NOW, SECOND, SERVER, WAN, router, sides, tcp, udp};
use penstock::{
    Counted, Dataplane, DropReason, Engine, Error, Event, Fate, Frame, Loader, MAX_FRAME, Network,
    QueueAnswer, QueueReply, QueueVerdict, Queued, Ruleset, Sent, Session, Sink,
};

const STATEFUL: &str = "
    table inet filter {
        counter web { }
        chain forward {
            type filter hook forward priority filter; policy drop;
            ct state established,related accept
            iifname lan tcp dport 80 counter name web accept
            iifname lan udp dport 53 counter accept
            tcp dport 23 log prefix \"telnet \" reject
        }
    }
";

#[test]
fn replies_pass_and_unsolicited_packets_are_dropped_by_policy() {
    let network = router();
    let (wan, lan) = sides(&network);
    let ruleset = Ruleset::from_text(&network, STATEFUL).unwrap();
    for engine in [Engine::Interpreter, Engine::Jit, Engine::JitAtOnce] {
        let mut dataplane = Dataplane::builder(&network).engine(engine).build(&ruleset).unwrap();
        let answer = udp(WAN, (SERVER, 53), (CLIENT, 4000), b"answer");
        let outcome = dataplane.process(wan, &answer, NOW);
        assert_eq!(outcome.fate(), Fate::Dropped(DropReason::Policy));
        assert_eq!(outcome.dropped_by(), Some("inet filter forward"));
        let question = udp(LAN, (CLIENT, 4000), (SERVER, 53), b"question");
        assert_eq!(dataplane.process(lan, &question, NOW).fate(), Fate::Sent(wan));
        assert_eq!(dataplane.process(wan, &answer, NOW).fate(), Fate::Sent(lan));
        assert_eq!(dataplane.connections().count(), 1);
        let counters = dataplane.counters();
        assert_eq!((counters.received, counters.transmitted, counters.dropped()), (3, 2, 1));
        // UDP connections live for 30 s, answered ones for 120 s.
        dataplane.advance(NOW + 200 * SECOND, &mut ());
        assert_eq!(dataplane.connections().count(), 0);
    }
}

#[test]
fn rule_and_named_counters_are_readable_under_traffic() {
    let network = router();
    let (_, lan) = sides(&network);
    let ruleset = Ruleset::from_text(&network, STATEFUL).unwrap();
    let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
    let syn = tcp(LAN, (CLIENT, 4000), (SERVER, 80), 2);
    assert_eq!(dataplane.process(lan, &syn, NOW).sent().count(), 1);
    let counters = ruleset.counters();
    let web = Counted::Object { name: "web".to_owned() };
    assert_eq!((&counters[0].what, counters[0].packets, counters[0].bytes), (&web, 1, 40));
    match &counters[1].what {
        Counted::Rule { chain, text, .. } => {
            assert_eq!(
                (&chain[..], &text[..]),
                ("forward", "iifname \"lan\" udp dport 53 counter accept")
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(counters[1].packets, 0);
    assert!(ruleset.to_text(NOW).contains("counter web {\n\t\tpackets 1 bytes 40\n"));
    assert!(
        ruleset.to_json(NOW).contains("\"packets\": 1")
            || ruleset.to_json(NOW).contains("\"packets\":1")
    );
}

#[test]
fn a_rejected_packet_is_answered_logged_and_dropped() {
    let network = router();
    let (_, lan) = sides(&network);
    let ruleset = Ruleset::from_text(&network, STATEFUL).unwrap();
    let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
    let outcome = dataplane.process(lan, &tcp(LAN, (CLIENT, 4000), (SERVER, 23), 2), NOW);
    assert_eq!(outcome.fate(), Fate::Dropped(DropReason::Reject));
    let (device, answer) = outcome.sent().next().expect("an ICMP error");
    // ICMP, destination unreachable, port unreachable.
    assert_eq!((device, answer[23], &answer[34..36]), (lan, 1, &[3, 3][..]));
    let logged = outcome
        .events
        .iter()
        .any(|e| matches!(e, Event::Logged { prefix, .. } if prefix == "telnet "));
    assert!(logged, "{outcome:?}");
}

#[test]
fn a_trace_names_each_rule_that_the_packet_meets() {
    let network = router();
    let (_, lan) = sides(&network);
    let ruleset = Ruleset::from_text(&network, STATEFUL).unwrap();
    let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
    dataplane.trace_all(true);
    let outcome = dataplane.process(lan, &udp(LAN, (CLIENT, 4000), (SERVER, 53), b""), NOW);
    let lines: Vec<&str> = outcome.trace().collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(
        lines[0].contains("inet filter forward packet: iif \"lan\" oif \"wan\""),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].ends_with("rule iifname \"lan\" udp dport 53 counter accept (verdict accept)")
    );
}

#[test]
fn errors_have_the_text_and_place_of_nft() {
    let network = router();
    let text = "table inet t {\n\tchain c {\n\t\ttcp dport 99999 accept\n\t}\n}\n";
    let error = Loader::new(&network).name("rules.nft").text(text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rules.nft:3:13-17: Error: Service out of range\n\
         \t\ttcp dport 99999 accept\n\t\t          ^^^^^"
    );
    let Error::Ruleset(error) = error else { panic!("{error:?}") };
    let [message] = error.messages() else { panic!("{error:?}") };
    let place = message.position.as_ref().expect("a place");
    assert_eq!(
        (place.file.as_deref(), place.line, place.first, place.last),
        (Some("rules.nft"), 3, 13, 17)
    );
    assert_eq!(message.text, "Service out of range");

    for (refused, place) in [
        (Ruleset::from_text(&network, "include \"/etc/passwd\""), true),
        (Ruleset::read(&network, "/no/such/file.nft"), false),
        (Ruleset::from_json(&network, "{\"nftables\": [{\"add\": 5}]}"), false),
    ] {
        let Err(Error::Ruleset(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.messages()[0].position.is_some(), place, "{error}");
        assert!(!error.messages()[0].text.is_empty());
    }
    let refused = Network::from_text("link add a type veth\nlink set b up").unwrap_err();
    assert_eq!(refused.to_string(), "network:2: Cannot find device \"b\"");
    let refused = Network::builder().ethernet("a b", [2; 6]).build().unwrap_err();
    assert_eq!(refused.to_string(), "network:0: `a b` is no name of a device");
    assert!(matches!(network.device("dmz"), Err(Error::NoDevice(name)) if name == "dmz"));
}

#[test]
fn a_session_changes_rules_while_connections_continue() {
    let network = router();
    let (wan, lan) = sides(&network);
    let mut session = Session::new(Ruleset::from_text(&network, STATEFUL).unwrap()).unwrap();
    let mut dataplane = Dataplane::new(&network, session.ruleset()).unwrap();
    let question = udp(LAN, (CLIENT, 4000), (SERVER, 53), b"question");
    let answer = udp(WAN, (SERVER, 53), (CLIENT, 4000), b"answer");
    assert_eq!(dataplane.process(lan, &question, NOW).fate(), Fate::Sent(wan));

    let changed =
        session.run("insert rule inet filter forward ip daddr 198.18.0.9 drop", NOW).unwrap();
    assert!(changed.changed);
    assert!(!session.check("delete table inet filter", NOW).unwrap().changed);
    let rules = session.rules();
    std::thread::spawn(move || assert!(rules.generation() > 1)).join().unwrap();
    dataplane.set_rules(&session.rules());
    assert_eq!(dataplane.process(lan, &question, NOW).fate(), Fate::Dropped(DropReason::Rule));
    assert_eq!(dataplane.process(wan, &answer, NOW).fate(), Fate::Sent(lan));

    session.run("define server = 198.18.0.9", NOW).unwrap();
    session.run("add rule inet filter forward ip saddr $server drop", NOW).unwrap();
    let refused = session.run("add rule inet filter none accept; flush ruleset", NOW).unwrap_err();
    assert!(refused.to_string().starts_with("commands:1:"), "{refused}");
    let listed = session.run("list chain inet filter forward", NOW).unwrap();
    assert!(listed.output.contains("ip saddr 198.18.0.9 drop"), "{}", listed.output);
    let json = session.run_json(r#"{"nftables": [{"list": {"tables": null}}]}"#, NOW).unwrap();
    assert!(json.output.contains("\"name\": \"filter\""), "{}", json.output);
}

#[test]
fn a_saved_state_keeps_rules_with_their_counters() {
    let network = router();
    let (_, lan) = sides(&network);
    let ruleset = Ruleset::from_text(&network, STATEFUL).unwrap();
    let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
    dataplane.process(lan, &tcp(LAN, (CLIENT, 4000), (SERVER, 80), 2), NOW);
    let bytes = ruleset.to_state(NOW);
    let again = Ruleset::from_state(&network, &bytes, NOW).unwrap();
    assert_eq!(again.to_text(NOW), ruleset.to_text(NOW));
    let mut second = Dataplane::new(&network, &again).unwrap();
    assert_eq!(second.load_connections(&dataplane.dump_connections(), NOW).unwrap(), 1);
    assert!(second.connections().next().unwrap().contains("dport=80"));
    for broken in [&bytes[..bytes.len() / 2], b"", b"table ip t { }"] {
        assert!(matches!(Ruleset::from_state(&network, broken, NOW), Err(Error::State { .. })));
    }
    assert!(matches!(
        second.load_connections("nonsense", NOW),
        Err(Error::Connections { line: 1, .. })
    ));
}

#[test]
fn packets_are_translated_and_replies_translated_back() {
    let network = router();
    let (wan, lan) = sides(&network);
    let text = "table ip nat { chain post { type nat hook postrouting priority srcnat; oifname wan masquerade\n }\n }";
    let ruleset = Ruleset::from_text(&network, text).unwrap();
    let mut dataplane = Dataplane::builder(&network).seed(7).build(&ruleset).unwrap();
    let outcome = dataplane.process(lan, &udp(LAN, (CLIENT, 4000), (SERVER, 53), b"?"), NOW);
    let (_, sent) = outcome.sent().next().expect("a frame");
    assert_eq!(&sent[26..30], [198, 18, 0, 1], "from the router");
    let outcome =
        dataplane.process(wan, &udp(WAN, (SERVER, 53), ([198, 18, 0, 1], 4000), b"!"), NOW);
    let (device, sent) = outcome.sent().next().expect("a frame");
    assert_eq!((device, &sent[30..34]), (lan, &CLIENT[..]));
}

/// Holds queued packets.
#[derive(Default)]
struct Listener {
    held: Vec<penstock::QueueId>,
    sent: usize,
}

impl Sink for Listener {
    fn sent(&mut self, _frame: &Sent<'_>) {
        self.sent += 1;
    }

    fn queued(&mut self, packet: &Queued<'_>) -> QueueReply {
        assert_eq!(packet.queue, 5);
        self.held.push(packet.id);
        QueueReply::Held
    }
}

#[test]
fn a_program_answers_for_queued_packets() {
    let network = router();
    let (_, lan) = sides(&network);
    let text = "table ip t { chain c { type filter hook forward priority 0; queue num 5\n }\n }";
    let ruleset = Ruleset::from_text(&network, text).unwrap();
    let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
    let bytes = udp(LAN, (CLIENT, 4000), (SERVER, 53), b"?");
    let mut listener = Listener::default();
    dataplane.receive([Frame { device: lan, bytes: &bytes, time: NOW }; 2], &mut listener);
    assert_eq!((listener.held.len(), listener.sent, dataplane.waiting()), (2, 0, 2));
    for (id, verdict) in
        listener.held.clone().into_iter().zip([QueueVerdict::Accept, QueueVerdict::Drop])
    {
        let answer = QueueAnswer::new(verdict);
        dataplane.answer(id, &answer, NOW, &mut listener).unwrap();
        assert!(matches!(dataplane.answer(id, &answer, NOW, &mut listener), Err(Error::NotQueued)));
    }
    assert_eq!(
        (
            listener.sent,
            dataplane.counters().drops(DropReason::Rule)
                + dataplane.counters().drops(DropReason::Queue)
        ),
        (1, 1)
    );
}

#[test]
fn no_frame_makes_it_panic_and_each_is_accounted_for() {
    let network = router();
    let (_, lan) = sides(&network);
    let ruleset = Ruleset::from_text(&network, STATEFUL).unwrap();
    let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
    let whole = udp(LAN, (CLIENT, 4000), (SERVER, 53), b"question");
    let mut received = 0;
    let mut process = |device, bytes: &[u8]| {
        received += 1;
        dataplane.process(device, bytes, NOW);
    };
    for len in 0..whole.len() {
        process(lan, &whole[..len]);
        let mut flipped = whole.clone();
        flipped[len] ^= 0xff;
        process(lan, &flipped);
    }
    process(penstock::Device::from_index(77), &whole);
    process(penstock::Device::from_index(u32::MAX), &whole);
    let mut long = whole.clone();
    for len in [MAX_FRAME, MAX_FRAME + 1, 1 << 20] {
        long.resize(len, 0);
        process(lan, &long);
    }
    let counters = dataplane.counters();
    assert_eq!((counters.received, counters.unaccounted()), (received, 0));
    dataplane.send_from_host(&whole[14..], NOW, &mut ());
    dataplane.send_from_host(&[], NOW, &mut ());
    dataplane.send_from_host(&long, NOW, &mut ());
    dataplane.send_raw(Frame { device: lan, bytes: &[], time: NOW }, &mut ());
    dataplane.send_raw(Frame { device: lan, bytes: &long, time: NOW }, &mut ());
    dataplane.send_raw(
        Frame { device: penstock::Device::from_index(9), bytes: &whole, time: 0 },
        &mut (),
    );
    assert_eq!(dataplane.counters().unaccounted(), 0);
}

#[test]
fn settings_are_checked_before_they_are_used() {
    let network = router();
    let ruleset = Ruleset::empty(&network);
    let builder = || Dataplane::builder(&network);
    assert!(matches!(builder().sysctl("net.ipv4.tcp_sack", 1), Err(Error::Setting(_))));
    assert!(matches!(builder().sysctl("net.ipv4.ip_default_ttl", 0), Err(Error::Setting(_))));
    let limited = builder().sysctl("net.netfilter.nf_conntrack_max", 1).unwrap().build(&ruleset);
    assert!(limited.is_ok());
    let huge = builder().sysctl("net.netfilter.nf_conntrack_buckets", u32::MAX).unwrap();
    // As far as the system has the memory.
    assert!(matches!(huge.build(&ruleset), Ok(_) | Err(Error::Setting(_))));
    if cfg!(not(feature = "jit")) {
        let refused = builder().engine(Engine::Jit).build(&ruleset);
        assert!(matches!(refused, Err(Error::Engine(_))));
    }
}

#[test]
fn shared_types_are_send_and_sync() {
    fn send<T: Send>() {}
    fn sync<T: Send + Sync>() {}
    send::<Dataplane>();
    send::<Session>();
    sync::<Network>();
    sync::<Ruleset>();
    sync::<penstock::Rules>();
    sync::<Error>();
}
