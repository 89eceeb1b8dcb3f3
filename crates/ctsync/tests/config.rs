// SPDX-License-Identifier: Apache-2.0

//! conntrackd.conf(5), as people have it.

use penstock_ctsync::config::{Addresses, Config, Expectations, Mode};

const SYNC: &str = "Sync {
	Mode FTFW {
		DisableExternalCache Off # a comment
		ResendQueueSize 1000
		PurgeTimeout 5
	}
	Multicast Default {
		IPv4_address 225.0.0.50
		Group 3780
		IPv4_interface 198.18.0.1
		Interface eth2
		SndSocketBuffer 1249280
		RcvSocketBuffer 1249280
		Checksum off
	}
	Options {
		TCPWindowTracking On
		ExpectationSync {
			ftp
			sip
		}
	}
}
";
const GENERAL: &str = "General {
	Nice -20
	HashSize 32768
	HashLimit 131072
	LogFile on
	LockFile /var/lock/conntrack.lock
	UNIX {
		Path /var/run/conntrackd.ctl
		Backlog 20
	}
	NetlinkBufferSize 2097152
	Filter From Userspace {
		Protocol Accept { TCP SCTP DCCP }
		Address Ignore {
			IPv4_address 127.0.0.1 # loopback
			IPv4_address 198.18.0.0/24
			IPv6_address ::1
		}
		State Accept { ESTABLISHED CLOSED TIME_WAIT for TCP }
	}
}
";

#[test]
fn a_file_of_conntrackd_is_read() {
    let config = Config::read(&format!("{SYNC}{GENERAL}")).unwrap();
    assert_eq!(config.mode, Mode::FtFw { window: 300, resend_queue: 1000 });
    let [link] = config.links.as_slice() else { panic!("{:?}", config.links) };
    let group = "225.0.0.50".parse().unwrap();
    let device = Some("198.18.0.1".parse().unwrap());
    assert_eq!(link.addresses, Addresses::Multicast { group, device });
    assert_eq!((link.port, link.device.as_str(), link.first), (3780, "eth2", true));
    assert_eq!((link.send_buffer, link.checksum), (Some(1_249_280), false));
    assert!(config.window_tracking && !config.direct && !config.startup_resync);
    assert_eq!((config.purge_timeout, config.commit_timeout, config.limit), (5, None, 131_072));
    assert_eq!(config.expectations, Expectations::Of(vec!["ftp".into(), "sip".into()]));
    assert_eq!(
        config.warnings,
        ["without meaning here: Nice, HashSize, LogFile, LockFile, UNIX, NetlinkBufferSize"]
    );
}

#[test]
fn a_filter_has_protocols_addresses_and_states() {
    let filter = Config::read(&format!("{SYNC}{GENERAL}")).unwrap().filter;
    for (protocol, source, destination, state, expected) in [
        (6, "198.19.0.1", "198.19.0.2", Some(3), true),
        (6, "198.19.0.1", "198.19.0.2", Some(1), false),
        (6, "198.18.0.9", "198.19.0.2", Some(3), false),
        (6, "198.19.0.1", "198.18.0.77", Some(3), false),
        (17, "198.19.0.1", "198.19.0.2", None, false),
        (132, "198.19.0.1", "198.19.0.2", None, true),
        (132, "::1", "2001:db8::1", None, false),
        (132, "2001:db8::2", "2001:db8::1", None, true),
    ] {
        let ends = [source, destination].map(|end| end.parse().unwrap());
        assert_eq!(filter.passes(protocol, ends, state), expected, "{protocol} {source}");
    }
}

#[test]
fn what_is_not_there_is_refused_with_its_line() {
    let udp = "UDP { IPv4_address 198.18.0.1\nIPv4_Destination_Address 198.18.0.2\nPort 3780\nInterface x }";
    for (text, expected) in [
        ("", "there is no section Sync"),
        ("Sync { }", "there is no link: Sync has neither Multicast nor UDP"),
        ("Sync {\n TCP { } }", "line 2: links by TCP are not there: use UDP or Multicast"),
        ("Sync { Mode FAST { } }", "line 1: there is no mode `FAST`"),
        ("Sync {\n\nFoo 3 }", "line 3: Sync has no clause `Foo`"),
        (
            "Sync { Mode ALARM { ACKWindowSize 3 } }",
            "line 1: Mode ALARM has no clause `ACKWindowSize`",
        ),
        (
            "Sync { Mode FTFW { ACKWindowSize x } }",
            "line 1: a number of messages is expected, and not `x`",
        ),
        ("Sync { Mode FTFW {", "line 1: `}` is missing at the end"),
        ("Sync { UDP { Port 3 } }", "line 1: the link has no address"),
        (
            "Sync { Multicast { IPv4_address 198.18.0.1 } }",
            "line 1: 198.18.0.1 is no multicast address",
        ),
        ("Stats { }", "line 1: Stats is not there: `penstock show` has counts"),
        ("General { Filter { Protocol Accept { XYZ } } }", "line 1: there is no protocol `XYZ`"),
    ] {
        assert_eq!(Config::read(text), Err(expected.to_owned()), "{text}");
    }
    assert!(Config::read(&format!("Sync {{ Mode NOTRACK {{ }}\n{udp} }}")).is_ok());
}

const KEY: &str = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552";

#[test]
fn peers_of_penstock_are_in_a_section_of_their_own() {
    let other = KEY.replace('c', "d");
    let peer = |address: &str, key: &str| format!("Peer {{ Address {address} PublicKey {key} }}");
    let own = "Address 198.19.0.1 PrivateKey /etc/key";
    let text = format!(
        "Sync {{ Options {{ TCPWindowTracking On }} PurgeTimeout 9 }}
         Penstock {{ {own} {} Peer {{ Address 198.19.0.3 Port 99 PublicKey {other} }} Elements Off
         Announce {{ Count 7 Interval 2 }} }}",
        peer("198.19.0.2", KEY)
    );
    let config = Config::read(&text).unwrap();
    let secure = config.secure.unwrap();
    assert_eq!((config.window_tracking, config.purge_timeout, config.links.len()), (true, 9, 0));
    assert_eq!((config.announce.count, config.announce.interval), (7, 2));
    assert_eq!((secure.address.to_string(), secure.elements), ("198.19.0.1:3780".into(), false));
    let peers: Vec<_> = secure.peers.iter().map(|peer| peer.address.to_string()).collect();
    assert_eq!(peers, ["198.19.0.2:3780", "198.19.0.3:99"]);
    assert_eq!(secure.peers[0].key.to_string(), KEY);
    for (text, message) in [
        (format!("Penstock {{ {own} }}"), "the section Penstock has no Peer"),
        (
            format!("Penstock {{ {} }}", peer("198.19.0.2", KEY)),
            "the section Penstock has no Address",
        ),
        (
            format!("Penstock {{ Address 198.19.0.1 {} }}", peer("198.19.0.2", KEY)),
            "the section Penstock has no PrivateKey",
        ),
        (
            format!("Penstock {{ {own} {} }}", peer("2001:db8::2", KEY)),
            "198.19.0.1 and 2001:db8::2 are of two families",
        ),
        (
            format!("Penstock {{ {own}\n{0} {0} }}", peer("198.19.0.2", KEY)),
            "line 2: another peer has this key",
        ),
        (
            format!("Penstock {{ {own} {} }}", peer("198.19.0.2", "12")),
            "line 1: a key is 64 hexadecimal digits",
        ),
        (
            "Penstock { Address fe80::1 }".into(),
            "line 1: fe80::1 is no address of one host that all links know",
        ),
        (
            format!("Sync {{ Mode FTFW {{ }} }} Penstock {{ {own} {} }}", peer("198.19.0.2", KEY)),
            "Mode and links are conntrackd's: with peers of Penstock or Nats there are none",
        ),
        (
            "Penstock { Defer On }".into(),
            "line 1: packets are not held until peers know their connections: there is no Defer",
        ),
        ("Penstock { Announce { Count 61 } }".into(), "line 1: Count is from 0 to 60"),
        ("Penstock { Announce { Interval 0 } }".into(), "line 1: Interval is from 1 to 3600"),
        ("Penstock { Nonsense }".into(), "line 1: Penstock has no clause `Nonsense`"),
        ("Penstock { }".into(), "there is no section Sync"),
    ] {
        assert_eq!(Config::read(&text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn a_cluster_is_in_a_section_of_its_own() {
    let least = "Server nats://198.19.0.9 Cluster c Node fw-1";
    let nats = Config::read(&format!("Nats {{ {least} }}")).unwrap().nats.unwrap();
    assert_eq!(
        (nats.servers, nats.cluster, nats.node),
        (vec!["nats://198.19.0.9".to_owned()], "c".into(), "fw-1".into())
    );
    assert_eq!((nats.shards, nats.elements, nats.in_memory, nats.replicas), (8, true, false, 1));
    assert_eq!((nats.max_age, nats.max_bytes), (3600, 1 << 30));
    assert_eq!((nats.credentials, nats.authorities, nats.key), (None, None, None));
    let text = "Sync { PurgeTimeout 9 } Penstock { Announce { Count 7 } }
        Nats { Server nats://[2001:db8::1]:4222 Server tls://nats.example:99 Cluster c Node n
        Credentials /a CA /b Key /c Shards 64 Elements off MaxAge 60 MaxBytes 16777216
        Storage memory Replicas 5 }";
    let config = Config::read(text).unwrap();
    assert_eq!((config.purge_timeout, config.announce.count, config.links.len()), (9, 7, 0));
    let nats = config.nats.unwrap();
    assert_eq!(nats.servers, ["nats://[2001:db8::1]:4222", "tls://nats.example:99"]);
    let files = [nats.credentials, nats.authorities, nats.key].map(|file| file.unwrap());
    assert_eq!(files.each_ref().map(|file| file.to_str().unwrap()), ["/a", "/b", "/c"]);
    assert_eq!((nats.shards, nats.elements, nats.in_memory, nats.replicas), (64, false, true, 5));
    assert_eq!((nats.max_age, nats.max_bytes), (60, 16 << 20));
    let with = |more: &str| format!("Nats {{ {least} {more} }}");
    for (text, message) in [
        ("Nats {\nCluster c Node n }".to_owned(), "line 1: the section Nats has no Server"),
        ("Nats { Server nats://a Node n }".into(), "line 1: the section Nats has no Cluster"),
        ("Nats { Server nats://a Cluster c }".into(), "line 1: the section Nats has no Node"),
        (
            with("Server http://a"),
            "line 1: `http://a` is no server: nats://HOST:PORT or tls://HOST:PORT is expected",
        ),
        (with("Server nats://u:p@a"), "line 1: user and password are in the file of Credentials"),
        (with("Server nats://a:0"), "line 1: `nats://a:0` has no host, or a wrong port"),
        (with("Server tls://:4222"), "line 1: `tls://:4222` has no host, or a wrong port"),
        (with("Node a.b"), "line 1: `a.b` is no name: 1 to 63 letters, digits, - and _"),
        (with("Shards 65"), "line 1: Shards is from 1 to 64"),
        (with("MaxAge 59"), "line 1: MaxAge is from 60 to 604800"),
        (with("Replicas 6"), "line 1: Replicas is from 1 to 5"),
        (with("Storage disk"), "line 1: `file` or `memory` is expected, and not `disk`"),
        (with("Nonsense"), "line 1: Nats has no clause `Nonsense`"),
        (with(&"Server nats://a ".repeat(16)), "line 1: there are more than 16 servers"),
        (format!("{0} {0}", with("")), "line 1: there are two sections Nats"),
        (
            format!("Sync {{ Mode FTFW {{ }} }} {}", with("")),
            "Mode and links are conntrackd's: with peers of Penstock or Nats there are none",
        ),
        (
            format!(
                "Penstock {{ Address 198.19.0.1 PrivateKey /k Peer {{ Address 198.19.0.2 PublicKey {KEY} }} }} {}",
                with("")
            ),
            "peers of Penstock and Nats do not go together: choose one",
        ),
    ] {
        assert_eq!(Config::read(&text), Err(message.to_owned()), "{text}");
    }
}
