// SPDX-License-Identifier: Apache-2.0

//! Sizes that a user chooses are refused in words where there is no memory for them; the process
//! does not abort.

use std::fs;
use std::path::Path;
use std::process::Command;

const NET: &str = "link add wan type veth\nlink set wan up\naddr add 198.18.0.1/24 dev wan\n";
const RULES: &str =
    "table ip t { chain c { type filter hook input priority 0; ct state new counter; }; }\n";

/// A set of as many elements as numbers can say.
const LARGE: &str = "type ipv4_addr; size 4294967295; flags dynamic;";

#[test]
fn no_claimed_size_exhausts_memory() {
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory");
    let _ = fs::remove_dir_all(&at);
    fs::create_dir(&at).expect("the build directory is writable");
    fs::write(at.join("net.ip"), NET).unwrap();
    fs::write(at.join("rules.nft"), RULES).unwrap();
    // A capture with a first frame that claims four gigabytes.
    let header =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, u32::MAX, 1, 1, 0, u32::MAX - 15, u32::MAX - 15];
    fs::write(at.join("in.pcap"), header.map(u32::to_le_bytes).concat()).unwrap();
    fs::write(
        at.join("empty.pcap"),
        header[..6].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>(),
    )
    .unwrap();
    let grown = format!(
        "table ip t {{ set s {{ type ipv4_addr; size 9; flags dynamic; }}; chain c {{ add @s {{ ip saddr }}; }}; }}\n\
         add set ip t s {{ {LARGE} }}\n"
    );
    fs::write(at.join("grown.nft"), grown).unwrap();
    let dynamic = format!(
        "nft --offline 'table ip t {{ set s {{ {LARGE} }}; chain c {{ add @s {{ ip saddr }}; }}; }}'"
    );
    let run = "run --net net.ip --rules rules.nft --read";
    // Kilobytes of address space; the command; what it says.
    for (limit, command, said) in [
        (400_000, &*dynamic, "Could not process rule: Cannot allocate memory"),
        (400_000, "nft --offline -f grown.nft", "Could not process rule: Cannot allocate memory"),
        (
            1_500_000,
            &format!("{run} wan=empty.pcap --sysctl net.netfilter.nf_conntrack_max=4294967295"),
            "nf_conntrack_max, nf_conntrack_buckets: 33554432 buckets: Cannot allocate memory",
        ),
        (
            1_500_000,
            &format!("{run} wan=empty.pcap --sysctl net.netfilter.nf_conntrack_buckets=4294967295"),
            "buckets: Cannot allocate memory",
        ),
        (1_500_000, &format!("{run} wan=in.pcap"), "in.pcap"),
        (
            1_500_000,
            "trace --net net.ip --rules rules.nft wan 'ip saddr 198.18.0.7 ip daddr 198.18.0.1 meta length 4294967295'",
            "no packet has 4294967295 bytes, but at most",
        ),
    ] {
        let script = format!(
            "ulimit -c 0; ulimit -v {limit}; exec {} {command}",
            env!("CARGO_BIN_EXE_penstock")
        );
        let output =
            Command::new("sh").arg("-c").arg(script).current_dir(&at).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {text}");
        assert!(text.contains(said), "{command}: {text}");
    }
    let _ = fs::remove_dir_all(&at);
}
