// SPDX-License-Identifier: Apache-2.0

//! The directory of a test, with a router's network and rules, and packets through it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use penstock_io::{Capture, CaptureWriter, LinkType};

pub const NET: &str = "\
link add name lan address 02:00:00:00:01:01 type veth
link add name wan address 02:00:00:00:02:01 type veth
link set lan up
link set wan up
addr add 198.18.0.1/24 dev lan
addr add 198.19.0.1/24 dev wan
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
";

pub const RULES: &str = "\
table inet t {
	chain f {
		type filter hook forward priority filter; policy drop;
		udp dport 53 counter packets 0 bytes 0 accept
		udp dport 9 counter packets 0 bytes 0 drop
	}

	chain o {
		type filter hook output priority filter; policy accept;
		oifname \"wan\" counter packets 0 bytes 0
	}
}
table netdev n {
	chain e {
		type filter hook egress device \"wan\" priority filter; policy accept;
		oifname \"wan\" counter packets 0 bytes 0
	}
}
";

/// A directory of a test's own.
pub struct TestDir(pub PathBuf);

impl TestDir {
    pub fn new(test: &str) -> TestDir {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run").join(test);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the build directory is writable");
        let place = TestDir(path);
        place.write("net.ip", NET.as_bytes());
        place.write("rules.nft", RULES.as_bytes());
        place
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).expect("the build directory is writable");
    }

    pub fn capture(&self, name: &str, link: LinkType, frames: &[(u64, Vec<u8>)]) {
        let file = self.0.join(name);
        let mut writer =
            CaptureWriter::create(&file, link).expect("the build directory is writable");
        for (time, frame) in frames {
            writer.write(*time, frame).expect("the build directory is writable");
        }
        writer.finish().expect("the build directory is writable");
    }

    /// Runs with these arguments, in words.
    pub fn run(&self, arguments: &str) -> Output {
        self.command("run", arguments)
    }

    pub fn command(&self, name: &str, arguments: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_penstock"))
            .current_dir(&self.0)
            .arg(name)
            .args(arguments.split_whitespace())
            .output()
            .expect("the program starts")
    }

    pub fn frames(&self, name: &str) -> Vec<(u64, Vec<u8>)> {
        let mut capture = Capture::open(&self.0.join(name)).expect("was written");
        let mut frames = vec![];
        while capture.advance().expect("is whole") {
            frames.push((capture.frame().time, capture.frame().bytes.to_vec()));
        }
        frames
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A UDP packet of 28 bytes.
pub fn packet(source: [u8; 4], destination: [u8; 4], dport: u16) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0];
    p.extend(source);
    p.extend(destination);
    let sum: u32 = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend([0x13, 0x88]);
    p.extend(dport.to_be_bytes());
    p.extend([0, 8, 0, 0]);
    p
}

/// Link header of what the client sends to the router.
pub const TO_ROUTER: [u8; 14] = [2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 0x10, 8, 0];
/// Link header of what the router sends to the gateway.
pub const TO_GATEWAY: [u8; 14] = [2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1, 8, 0];

/// From the client through the router.
pub fn frame(dport: u16) -> Vec<u8> {
    [&TO_ROUTER[..], &packet([198, 18, 0, 10], [198, 19, 0, 2], dport)].concat()
}

/// What [`frame`] is when the router has sent it on.
pub fn forwarded(dport: u16) -> Vec<u8> {
    let mut f = [&TO_GATEWAY[..], &packet([198, 18, 0, 10], [198, 19, 0, 2], dport)].concat();
    f[22] -= 1;
    f[24] += 1;
    f
}

pub const T: u64 = 1_700_000_000_000_000_000;
