// SPDX-License-Identifier: Apache-2.0

//! conntrack(8), and programs that send messages of ctnetlink themselves.

use std::path::Path;
use std::process::Command;

use crate::side::{Scratch, both, has, in_exec, left, penstock};

/// Leaves out what differs from run to run, and from time to time: identifiers, and the seconds
/// that went by since a timeout was set. Lines are sorted, since a hash has no order.
const STABLE: &str = "stable() {
    sed -E 's/ id=[0-9]+$//; s/ id=[0-9]{3,}//; s/<(timeout|id)>[0-9]+/<\\1>/g;
        s/ (9[0-9]{2}|1000) / T /; s/ (4[0-9]{2}|500) / U /;
        s/^(29[0-9]|300) /V /; s/ portid=[0-9]+//; s/ progname=[a-z]+//; s/ use=[12]$//' | sort; }\n";

/// Runs a script on both sides with its lines stable, and compares.
fn both_stable(script: &str) -> Option<String> {
    both(&format!("{STABLE}{{ {script}\n }} 2>&1 | stable")).map(|left| left.stdout)
}

/// Connections of each kind.
const ENTER: &str = "
    F='-s 198.18.0.1 -d 198.18.0.2'; G='-s 2001:db8::1 -d 2001:db8::2'
    conntrack -I -p tcp $F --sport 1000 --dport 80 --state ESTABLISHED -t 1000 -u ASSURED,SEEN_REPLY
    conntrack -I -p udp $F --sport 1000 --dport 53 -t 1000 -m 5
    conntrack -I -p icmp $F --icmp-type 8 --icmp-code 0 --icmp-id 7 -t 1000
    conntrack -I -p udp $G --sport 1000 --dport 53 -t 1000
    conntrack -I -p sctp $G --sport 1 --dport 2 --state ESTABLISHED --orig-vtag 3 --reply-vtag 4 \
        -t 1000
    conntrack -I -p gre $F --srckey 0x1 --dstkey 0x2 -t 1000
    conntrack -I -p 253 $F -t 1000
    conntrack -I -p udp $F --sport 1001 --dport 53 -t 1000 --src-nat 198.18.9.9
    conntrack -I -p tcp $F --sport 1002 --dport 80 -t 1000 --state SYN_SENT \
        --dst-nat 198.18.9.9:8080
    conntrack -I -p udp $F --sport 1003 --dport 53 -t 1000 -w 5
    conntrack -I -p udp $F --sport 1004 --dport 53 -t 1000 --orig-zone 6
    conntrack -I -p udp $F --sport 1005 --dport 53 -t 1000 --reply-zone 7
    conntrack -I -p udp $F --sport 1006 --dport 53 -t 1000 -u FIXED_TIMEOUT
";

#[test]
fn connections_are_entered_listed_changed_and_deleted() {
    if !has("conntrack") {
        return;
    }
    let all = both_stable(&format!(
        "{ENTER}
        conntrack -I -p udp $F --sport 1000 --dport 53 -t 1000
        conntrack -I -p udp $F --sport 2000 --dport 53
        conntrack -L; conntrack -L -o extended; conntrack -L -o xml; conntrack -L -o save
        conntrack -L -o id,ktimestamp,labels
        conntrack -L -f ipv6; conntrack -L -p udp; conntrack -L -m 5; conntrack -L -m 1/1
        conntrack -L -w 5; conntrack -L -n; conntrack -L -g; conntrack -L -j
        conntrack -L -u ASSURED; conntrack -L -s 198.18.0.1 --dport 53
        conntrack -L --state SYN_SENT
        conntrack -L dying; conntrack -L unconfirmed; conntrack -L expect; conntrack -L -z -m 5
        conntrack -G -p udp $F --sport 1000 --dport 53
        conntrack -G -p udp $F --sport 1 --dport 53
        conntrack -U -p udp $F --sport 1000 --dport 53 -t 500 -m 9
        conntrack -U -p udp $F --sport 1 --dport 53 -t 500 -m 9
        conntrack -U -p tcp $F --sport 1002 --state ESTABLISHED -u SEEN_REPLY
        conntrack -U -p udp $F --sport 1006 --dport 53 -t 500
        conntrack -C; conntrack -C expect
        conntrack -D -p udp $F --sport 1000 --dport 53
        conntrack -D -p udp $F --sport 1000 --dport 53
        conntrack -D -w 5; conntrack -D -m 5; conntrack -D -f ipv6; conntrack -L
        conntrack -F; conntrack -L; conntrack -C; conntrack -F expect"
    ));
    if let Some(all) = all {
        assert!(all.contains("dst=198.18.9.9"), "{all}");
        assert!(all.contains("<state>ESTABLISHED</state>"), "{all}");
    }
}

/// A message with an FTP connection from port 1000 and its helper, which conntrack(8) cannot give:
/// 1000 seconds, established, assured.
const FTP: &str = "a800000000010506010000000000000002000000340001801400018008000100c612000108000200c6120002 \
    1c00028005000100060000000600020003e800000600030000150000340002801400018008000100c6120002 \
    08000200c61200011c000280050001000600000006000200001500000600030003e8000008000700000003e8 \
    0c0005800800010066747000080003000000000e100004800c0001800500010003000000";

#[test]
fn expectations_and_saved_connections_are_those_of_the_kernel() {
    if !has("conntrack") || !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("saved").display().to_string();
    let all = both_stable(&format!(
        "python3 -c 'import socket; s = socket.socket(16, 3, 12); \
             s.send(bytes.fromhex(\"{FTP}\")); print(s.recv(999)[16:20].hex())'
        M='--orig-src 198.18.0.1 --orig-dst 198.18.0.2 -p tcp --orig-port-src 1000'
        T='--tuple-src 198.18.0.2 --tuple-dst 198.18.0.1 --tuple-port-src 0'
        K='--mask-src 255.255.255.255 --mask-dst 255.255.255.255 --mask-port-src 0'
        I=\"conntrack -I expect $M --orig-port-dst 21 $T $K --mask-port-dst 65535 -t 300\"
        $I --tuple-port-dst 2000; $I --tuple-port-dst 2000
        conntrack -L expect; conntrack -L expect -o xml; conntrack -C expect
        conntrack -F expect; conntrack -L expect
        conntrack -A -p udp -s 198.18.0.1 -d 198.18.0.2 --sport 1 --dport 2 -t 1000
        conntrack -A -p udp -s 198.18.0.1 -d 198.18.0.2 --sport 1 --dport 2 -t 500
        conntrack -L -o save 2>&1 | tee {file}; conntrack -F; sed -i /flow/d {file}
        conntrack -R {file}; conntrack -L"
    ));
    if let Some(all) = all {
        assert!(all.contains("class=0 helper=ftp"), "{all}");
    }
}

#[test]
fn messages_are_answered_as_by_the_kernel() {
    if !has("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/connections.py");
    if let Some(all) = both(&format!("python3 {}", script.display())) {
        assert!(all.stdout.ends_with("error 0 flags 0x100 \n"), "{}", all.stdout);
    }
}

#[test]
fn events_are_told_to_other_programs() {
    if !has("conntrack") || !has("stdbuf") {
        return;
    }
    let scratch = Scratch::new();
    let out = scratch.file("out").display().to_string();
    let all = both_stable(&format!(
        "stdbuf -oL conntrack -E >{out} 2>/dev/null & PID=$!; sleep 1
        {ENTER}
        conntrack -U -p udp $F --sport 1000 --dport 53 -m 9
        conntrack -D -p tcp; conntrack -F; sleep 1; kill $PID; wait $PID; cat {out}"
    ));
    if let Some(all) = all {
        assert!(all.contains("[DESTROY] tcp"), "{all}");
        assert!(all.contains("[UPDATE] udp"), "{all}");
    }
}

#[test]
fn events_are_told_of_changes_by_other_supervisors() {
    if !has("conntrack") || !has("stdbuf") {
        return;
    }
    let scratch = Scratch::new();
    let (state, out) = (scratch.state(), scratch.file("out").display().to_string());
    // A supervisor cannot run in another one, so the monitor runs until it has heard all.
    let monitor = format!(
        "stdbuf -oL conntrack -E >{out} 2>/dev/null & PID=$!; sleep 1; echo >{out}.ready
         for i in $(seq 300); do [ $(wc -l <{out}) -ge 3 ] && break; sleep 0.1; done
         kill $PID; wait $PID"
    );
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| in_exec(&state, &monitor));
        while !ran.is_finished() && !scratch.file("out.ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        for (change, lines) in [("-I -t 1000 -m 7", 1), ("-U -m 8", 2), ("-D", 3)] {
            let flow = "-p udp -s 198.18.0.1 -d 198.18.0.2 --sport 1 --dport 2";
            let changed = in_exec(&state, &format!("conntrack {change} {flow}"));
            assert_eq!(changed.status, Some(0), "{changed:?}");
            let told = || std::fs::read_to_string(&out).unwrap_or_default().lines().count();
            while !ran.is_finished() && told() < lines {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    });
    let told = std::fs::read_to_string(&out).expect("what was told");
    let kinds: Vec<&str> = told.split_whitespace().filter(|word| word.starts_with('[')).collect();
    let kinds: Vec<&str> = kinds.into_iter().filter(|word| *word != "[UNREPLIED]").collect();
    assert_eq!(kinds, ["[NEW]", "[UPDATE]", "[DESTROY]"], "{told}");
}

#[test]
fn labels_have_room_where_rules_use_them() {
    if !has("conntrack") || !has("nft") {
        return;
    }
    both_stable(
        "F='-s 198.18.0.1 -d 198.18.0.2'
        conntrack -I -p udp $F --sport 1 --dport 2 -t 1000
        conntrack -U -p udp $F --sport 1 --dport 2 --label-add 3
        nft add table ip t; nft add chain ip t c; nft add rule ip t c ct label set 1
        conntrack -I -p udp $F --sport 2 --dport 2 -t 1000 --label-add 3
        conntrack -U -p udp $F --sport 2 --dport 2 --label-add 5
        conntrack -L -o labels",
    );
}

#[test]
fn connections_stay_in_the_file() {
    if !has("conntrack") {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state();
    assert_eq!(in_exec(&state, ENTER).status, Some(0));
    let list = "conntrack -L 2>/dev/null | sort";
    let first = in_exec(&state, list).stdout;
    assert_eq!(first.lines().count(), 13, "{first}");
    // A ruleset that changes leaves connections alone.
    let add = ["nft", "--state"];
    let added = left(penstock().args(add).arg(&state).args(["add", "table", "ip", "t"]));
    assert_eq!(added.status, Some(0), "{added:?}");
    assert_eq!(in_exec(&state, list).stdout, first);
    assert_eq!(in_exec(&state, "conntrack -F 2>/dev/null; conntrack -L 2>/dev/null").stdout, "");
}

#[test]
fn a_file_that_cannot_be_written_refuses_the_change() {
    if !has("conntrack") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.file("folder");
    std::fs::create_dir(&folder).expect("a folder");
    let state = folder.join("state");
    let enter = "conntrack -I -p udp -s 198.18.0.1 -d 198.18.0.2 --dport 53 -t 1000 --sport";
    // The folder is gone, and with it the file: the next change finds no place for a new one.
    let script = format!(
        "{enter} 1 2>/dev/null && conntrack -C && rm -r {}; {enter} 2; conntrack -C",
        folder.display()
    );
    let refused = in_exec(&state, &script);
    assert_eq!(refused.stdout, "1\n0\n", "{refused:?}");
    assert!(refused.stderr.contains("Operation failed"), "{refused:?}");
}

#[test]
fn programs_of_other_users_may_not_change_connections() {
    let root = left(Command::new("id").arg("-u")).stdout == "0\n";
    if !root || !has("conntrack") || !has("setpriv") {
        println!("SKIPPED: not root, or no conntrack or setpriv");
        return;
    }
    let scratch = Scratch::new();
    let other = "setpriv --reuid 65534 --clear-groups --inh-caps=-all";
    let script = format!("{ENTER} {other} conntrack -F; conntrack -C");
    let tried = in_exec(&scratch.state(), &script);
    assert_eq!(tried.stdout, "13\n", "{tried:?}");
    assert!(tried.stderr.contains("Operation failed"), "{tried:?}");
}

#[test]
fn the_file_is_changed_by_one_program_at_a_time() {
    if !has("conntrack") {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state();
    let enter = |from: u32| {
        format!(
            "for i in 1 2 3 4 5 6 7 8; do conntrack -I -p udp -s 198.18.0.1 -d 198.18.0.2 \
             --sport $(({from}+i)) --dport 53 -t 1000 || exit 1; done"
        )
    };
    std::thread::scope(|scope| {
        let run = |from| {
            let state = state.clone();
            scope.spawn(move || in_exec(&state, &enter(from)).status)
        };
        let all = [run(100), run(200), run(300)];
        all.into_iter().for_each(|one| assert_eq!(one.join().ok().flatten(), Some(0)));
    });
    assert_eq!(in_exec(&state, "conntrack -C").stdout, "24\n");
}

#[test]
fn many_changes_in_a_row_are_found_by_all() {
    if !has("python3") || !has("conntrack") || !has("nft") {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/many.py");
    let count = |state: &Path| in_exec(state, "conntrack -C").stdout;
    std::thread::scope(|scope| {
        let run = |first: u32| {
            let (state, script) = (state.clone(), script.display().to_string());
            // Another program that reads the file, and one that changes it, come in between.
            let look = format!("{} nft --state {}", penstock().get_program().display(), {
                state.display()
            });
            let all = format!(
                "python3 {script} 300 {first} && {look} list ruleset && {look} add table ip t{first} \
                 && python3 {script} 100 {} && nft add table ip u{first}",
                first + 300
            );
            scope.spawn(move || in_exec(&state, &all).status)
        };
        let all = [run(1000), run(2000)];
        all.into_iter().for_each(|one| assert_eq!(one.join().ok().flatten(), Some(0)));
    });
    assert_eq!(count(&state), "800\n");
    for first in [3000, 4000, 5000] {
        let entered = in_exec(&state, &format!("python3 {} 100 {first}", script.display()));
        assert_eq!(entered.status, Some(0), "{entered:?}");
        assert_eq!(count(&state), format!("{}\n", 800 + (first - 2000) / 10));
    }
    let tables = left(penstock().args(["nft", "--state"]).arg(&state).args(["list", "tables"]));
    assert_eq!(tables.stdout.lines().count(), 4, "{tables:?}");
}
