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
