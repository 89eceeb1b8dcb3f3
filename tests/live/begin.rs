// SPDX-License-Identifier: Apache-2.0

//! The beginning and the end: what cannot begin interrupts nothing, and what has ended can begin
//! again at once.

use crate::net::Net;

/// Addresses, names and states of the router's devices.
pub(crate) fn devices(net: &Net) -> String {
    net.ok(
        &net.r,
        "ip -o link | grep -o '^.*mtu [0-9]*'; ip -o addr | sed 's/valid_lft.*//; s/ tentative//; s/ nodad//'; ip route; ip -6 route",
    )
}

#[test]
fn a_failed_start_leaves_devices_alone() {
    let Some(net) = Net::new() else { return };
    let file = |name: &str, text: &str| {
        let path = net.directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let wrong =
        file("wrong.nft", "table ip t {\n\tchain c {\n\t\tip saddrr 1.2.3.4 drop\n\t}\n}\n");
    let first = file("first.nft", "table x y z\n");
    let nowhere =
        file("nowhere.nft", "table ip t { chain c { iif wan accept; iif nowhere accept; }; }\n");
    let broken = file("broken.state", "nonsense");
    let before = devices(&net);
    for (args, said) in [
        ("r0 nowhere".to_owned(), "Error: Cannot find device \"nowhere\""),
        ("r0 r1=a/b".into(), "Error: \"a/b\" cannot be the name of a device"),
        (
            "r0 r1=muchlongerthanfifteen".into(),
            "Error: \"muchlongerthanfifteen\" cannot be the name of a device",
        ),
        ("r0=r1".into(), "Error: r0: there is a device r1 already"),
        ("r0 lo".into(), "Error: lo: only Ethernet devices can be ports"),
        ("r0 r1 --rules /nonexistent".into(), "Error: /nonexistent: No such file or directory"),
        (
            format!("r0 r1 --rules {wrong}"),
            "wrong.nft:3:6-11: Error: syntax error, unexpected string",
        ),
        // The columns are those of the file.
        (
            format!("r0 r1 --rules {first}"),
            "first.nft:1:9-9: Error: syntax error, unexpected string",
        ),
        // Rules may name a future port.
        (
            format!("r0 r1=wan --rules {nowhere}"),
            "nowhere.nft:1:44-50: Error: Interface does not exist",
        ),
        (
            "r0 r1 --state /nonexistent/state".into(),
            "the state cannot be saved: No such file or directory",
        ),
        (format!("r0 r1 --state {broken}"), "broken.state: byte 0: not a saved state"),
        (format!("r0 r1 --state {}", net.directory.display()), "a directory"),
        ("r0 r1 --persist /tmp".into(), "Error: /tmp: not in a file system of type bpf"),
        ("r0 r1 --metrics 127.0.0.1:1 --metrics 198.18.0.1:1".into(), "takes a loopback address"),
    ] {
        let (ok, text) = net.run(&net.r, &format!("timeout 20 $PENSTOCK up {args}"));
        assert!(!ok && text.contains(said), "{args}: {text}");
        assert!(!text.contains("r0.port"), "{args} has touched a device: {text}");
        assert_eq!(devices(&net), before, "{args}");
    }
    // Here it is known only when devices are about to be opened, one after the other.
    net.ok(&net.r, "ip link set r1 mtu 9000");
    let before = devices(&net);
    let (ok, text) = net.run(&net.r, "timeout 20 $PENSTOCK up r0 r1 --driver xdp-generic");
    assert!(
        !ok && text.contains("AF_XDP takes no more than an MTU of 3818, and it is 9000"),
        "{text}"
    );
    assert_eq!(devices(&net), before);
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2; ping -c 2 -i 0.1 -W 2 2001:db8:1::2");
}

#[test]
fn only_root_starts_or_stops_it() {
    let Some(net) = Net::new() else { return };
    if !net.has("setpriv") {
        return;
    }
    let program = net.directory.join("penstock");
    std::fs::copy(env!("CARGO_BIN_EXE_penstock"), &program).unwrap();
    // So that there is the directory.
    net.run(&net.r, "$PENSTOCK down");
    let nobody =
        format!("setpriv --reuid 65534 --regid 65534 --clear-groups {}", program.display());
    for (command, status, said) in [
        ("up r0", 1, "Error: Operation not permitted (you must be root)\n"),
        // They cannot even see whether one runs.
        ("down", 1, "Error: Operation not permitted (you must be root)\n"),
        ("show", 1, "Error: Operation not permitted (you must be root)\n"),
    ] {
        let (_, text) = net.run(&net.r, &format!("{nobody} {command}; echo $?"));
        assert_eq!(text, format!("{status}\n{said}"), "{command}");
    }
}

#[test]
fn a_new_dataplane_starts_as_soon_as_the_old_one_has_ended() {
    let Some(mut net) = Net::new() else { return };
    for _ in 0..3 {
        net.up("r0 r1");
        // Not the process that was started, but the command that ends it, is waited for.
        net.ok(&net.r, "$PENSTOCK down && (exec timeout 60 $PENSTOCK up r0 r1 > /dev/null 2>&1 &)");
        net.until("another one runs", |net| net.run(&net.r, "$PENSTOCK show").0);
        net.ok(&net.r, "$PENSTOCK down");
        net.ended();
    }
}

#[test]
fn of_two_simultaneous_starts_one_is_refused() {
    let Some(net) = Net::new() else { return };
    let file = |device: &str| net.directory.join(device);
    for _ in 0..3 {
        let both = ["r0", "r1"].map(|device| {
            let line = format!("sh -c 'timeout 60 $PENSTOCK up {device} 2>&1'");
            net.spawn_in_file(&net.r, &line, &file(device))
        });
        net.until("one runs, and the other one is told", |_| {
            let [one, other] =
                ["r0", "r1"].map(|device| std::fs::read_to_string(file(device)).unwrap());
            let said = |text: &str| {
                (text.contains("penstock: running"), text.contains("namespace already\n"))
            };
            matches!(
                (said(&one), said(&other)),
                ((true, false), (false, true)) | ((false, true), (true, false))
            )
        });
        net.ok(&net.r, "$PENSTOCK down");
        both.into_iter().for_each(|one| drop(one.wait()));
        let links = net.ok(&net.r, "ip -o link");
        assert!(!links.contains(".port"), "{links}");
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    }
}
