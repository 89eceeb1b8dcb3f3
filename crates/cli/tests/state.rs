// SPDX-License-Identifier: Apache-2.0

//! `penstock nft --state`: what is kept, and what nobody can do to it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_state::State;

/// A directory that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the build directory is writable");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What it says on both streams, and whether it is content.
fn nft(state: &Path, command: &str) -> (bool, String) {
    let mut call = Command::new(env!("CARGO_BIN_EXE_penstock"));
    let output = call.arg("nft").arg("--state").arg(state).arg(command).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn good(state: &Path, command: &str) -> String {
    let (ok, said) = nft(state, command);
    assert!(ok, "{command}: {said}");
    said
}

#[test]
fn a_ruleset_change_keeps_connections_and_devices_in_the_state_file() {
    let at = Scratch::new("state-shared");
    let file = at.0.join("state");
    let flow = "flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 \
                status=14 left=5000000000 udp=0";
    let connections = format!("penstock-conntrack 1\n{flow}\n");
    let links = vec![(7, "wan".to_owned())];
    let of_up =
        State { links: links.clone(), connections: connections.clone(), ..State::default() };
    of_up.write(&file, 1).expect("it is writable");
    good(&file, "add table ip t");
    let kept = State::read(&file, u64::MAX)
        .expect("it is readable")
        .expect("it is there")
        .expect("it is whole");
    assert_eq!((kept.links, kept.connections), (links, connections));
    assert_eq!(good(&file, "list ruleset"), "table ip t {\n}\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_corrupt_or_truncated_state_file_is_refused_with_the_offset() {
    let at = Scratch::new("state-flipped");
    let file = at.0.join("state");
    good(
        &file,
        "table ip t { set s { type ipv4_addr; elements = { 198.18.0.1 }; }; chain c { counter accept; }; }",
    );
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8], what: usize| {
        fs::write(&file, bytes).unwrap();
        let (ok, said) = nft(&file, "list ruleset");
        assert!(!ok && said.contains("cannot be restored: byte "), "{what}: {said}");
    };
    for bit in (0..whole.len() * 8).step_by(83) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused(&bytes, bit);
    }
    for len in (0..whole.len()).step_by(19) {
        refused(&whole[..len], len);
    }
}

#[test]
fn root_does_not_write_through_symbolic_links_of_other_users() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let at = Scratch::new("state-links");
    let (theirs, precious) = (at.0.join("theirs"), at.0.join("precious"));
    fs::create_dir(&theirs).unwrap();
    fs::write(&precious, "precious").unwrap();
    chown(&theirs, Some(65534), Some(65534)).unwrap();
    symlink(&precious, theirs.join("file")).unwrap();
    symlink(&at.0, theirs.join("directory")).unwrap();
    symlink(theirs.join("made"), theirs.join("dangling")).unwrap();
    for path in ["theirs/dangling", "theirs/directory/made"] {
        let (ok, said) = nft(&at.0.join(path), "add table ip t");
        assert!(
            !ok && said.contains("is a symbolic link that another user may have made"),
            "{path}: {said}"
        );
    }
    assert!(!nft(&theirs.join("file"), "add table ip t").0);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(
        (fs::read_dir(&theirs).unwrap().count(), fs::read_dir(&at.0).unwrap().count()),
        (3, 2)
    );
}

#[test]
fn a_broken_state_can_be_looked_at() {
    let at = Scratch::new("state-broken");
    let file = at.0.join("state");
    good(&file, "add table ip t; add chain ip t c; add rule ip t c ip ttl 7 drop");
    let check = |file: &Path| {
        let mut call = Command::new(env!("CARGO_BIN_EXE_penstock"));
        let output = call.args(["check", "--state"]).arg(file).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let rules = "table ip t {\n\tchain c {\n\t\tip ttl 7 drop\n\t}\n}\n";
    assert_eq!(check(&file), (Some(0), rules.to_owned(), String::new()));
    let whole = fs::read(&file).expect("it is readable");
    fs::write(&file, &whole[..whole.len() - 5]).expect("it is writable");
    let (status, out, err) = check(&file);
    assert_eq!((status, &*out), (Some(2), rules));
    assert!(
        err.contains("cut short\ndevices: 0 can be read\nruleset: it can be read; load"),
        "{err}"
    );
}
