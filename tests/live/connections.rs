// SPDX-License-Identifier: Apache-2.0

//! conntrack(8) in front of the dataplane, by `penstock exec`.

use crate::net::Net;

/// Rules that track connections.
const RULES: &str = "table inet t {
	chain f {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
	}
}
";

/// Answers each datagram.
const ECHO: &str = r#"
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("198.18.1.2", 5000))
while True:
    data, address = sock.recvfrom(9000)
    sock.sendto(data, address)
"#;

/// Sends a datagram from a port, and waits for the answer.
fn ask(net: &Net, port: u16) {
    let program = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind((\"198.18.0.2\", {port}))\ns.settimeout(5)\n\
         s.sendto(b\"x\" * 10, (\"198.18.1.2\", 5000))\ns.recv(99)\n"
    );
    net.ok(&net.a, &format!("python3 -c '{program}'"));
}

/// A line of conntrack(8) without its time, which passes, and without the port id of who has caused
/// it.
fn timeless(line: &str) -> String {
    let line = line.find(" portid=").map_or(line, |at| &line[..at]);
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| *word == "udp")
        && words.get(at + 2).is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()))
    {
        words[at + 2] = "TIME";
    }
    words.join(" ")
}

/// Sorted lines without times.
fn lines(text: &str) -> Vec<String> {
    let mut all: Vec<_> = text.lines().map(timeless).filter(|line| !line.is_empty()).collect();
    all.sort();
    all
}

/// What conntrack(8) does and says, in front of whom `exec` says.
fn story(net: &Net, exec: &str) -> Vec<(String, Vec<String>)> {
    let file = net.directory.join("events");
    let _ = std::fs::remove_file(&file);
    let listen = format!("{exec} stdbuf -oL conntrack -E -p udp");
    let listener = net.spawn_in_file(&net.r, &listen, &file);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let mut story = Vec::new();
    let mut tell = |command: &str| {
        let (_, said) = net.run(&net.r, &format!("{exec} conntrack {command}"));
        story.push((command.to_owned(), lines(&said)));
    };
    ask(net, 4000);
    ask(net, 4001);
    tell("-L -p udp --dport 5000");
    tell("-G -p udp -s 198.18.0.2 -d 198.18.1.2 --sport 4000 --dport 5000");
    tell("-U -p udp --sport 4000 --mark 7");
    tell("-L -p udp -m 7");
    tell("-L -p udp -n");
    let new = "-p udp -s 198.18.0.2 -d 198.18.1.2 --sport 4002 --dport 5000 -t 300";
    tell(&format!("-I {new} -m 9"));
    tell(&format!("-I {new}"));
    tell("-L -p udp -o extended");
    // The answer meets what was entered.
    ask(net, 4002);
    tell("-L -p udp --sport 4002");
    tell("-D -p udp --sport 4001");
    tell("-D -p udp --sport 4001");
    tell("-L expect");
    tell(
        "-I expect -s 198.18.0.2 -d 198.18.1.2 --tuple-src 198.18.0.2 --tuple-dst 198.18.1.2 \
          --mask-src 255.255.255.255 --mask-dst 255.255.255.255 -p udp --sport 4000 --dport 5000 \
          --tuple-port-src 1 --tuple-port-dst 2 --mask-port-src 0 --mask-port-dst 65535 -t 10",
    );
    tell("-L dying");
    tell("-L unconfirmed");
    tell("-D -p udp --mark 9");
    tell("-F");
    tell("-L -p udp");
    std::thread::sleep(std::time::Duration::from_millis(500));
    listener.stop();
    let events = std::fs::read_to_string(&file).unwrap();
    story.push(("-E".into(), events.lines().map(timeless).collect()));
    story
}

#[test]
fn conntrack_shows_and_changes_what_packets_meet_as_in_the_kernel() {
    let Some(mut net) = Net::new() else { return };
    if !["conntrack", "nft", "stdbuf", "python3"].iter().all(|program| net.has(program)) {
        return;
    }
    let program = net.directory.join("echo.py");
    std::fs::write(&program, ECHO).unwrap();
    net.spawn_in('b', &format!("python3 {}", program.display()));
    let rules = net.directory.join("rules.nft");
    std::fs::write(&rules, RULES).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    net.ok(&net.r, &format!("nft -f {}", rules.display()));
    let kernels = story(&net, "");
    net.ok(&net.r, "nft flush ruleset");
    net.up("r0 r1");
    net.nft(RULES);
    let ours = story(&net, "$PENSTOCK exec --");
    for (kernel, own) in kernels.iter().zip(&ours) {
        assert_eq!(kernel, own);
    }
}

/// Rules that ask for events, by the port of who asks, and a helper.
const EVENTS: &str = "table inet t {
	ct helper ftp {
		type \"ftp\" protocol tcp
	}
	chain p {
		type filter hook prerouting priority 0;
		tcp dport 21 ct helper set \"ftp\"
	}
	chain f {
		type filter hook forward priority filter; policy accept;
		udp sport 4000 ct event set new
		udp sport 4001 ct event set destroy
		udp sport 4002 ct event set new,destroy,reply
		udp sport 4003 ct event set 0x0
		udp sport 4004 ct event set 0x80 ct mark set 5
		udp sport 4005 ct event set new ct mark set 6
		udp sport 4006 ct mark set 7
		ct state established,related accept
	}
}
";

/// Takes a connection to port 21, and connects to the port that it hears of.
const SERVER: &str = r#"
import socket
listen = socket.create_server(("198.18.1.2", 21))
while True:
    control, address = listen.accept()
    control.sendall(b"220 hello\r\n")
    text = b""
    while not b"PORT" in text or not text.endswith(b"\n"):
        text += control.recv(999)
    numbers = text.decode().split()[-1].split(",")
    data = socket.create_connection((address[0], int(numbers[4]) * 256 + int(numbers[5])))
    try:
        while control.recv(999):
            pass
    except OSError:
        pass
    data.close()
"#;

/// Says where it listens, twice at two ports.
const CLIENT: &str = r#"
import socket, struct, time
control = socket.socket()
# It is reset in the end, so that the port is free at once.
control.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
control.bind(("198.18.0.2", 4021))
control.connect(("198.18.1.2", 21))
control.recv(99)
listen = socket.create_server(("198.18.0.2", 1029))
# The helper begins to read at the end of a line that it has seen.
control.sendall(b"USER x\r\n")
time.sleep(0.3)
control.sendall(b"PORT 198,18,0,2,4,5\r\n")
data = listen.accept()
control.sendall(b"PORT 198,18,0,2,4,6\r\n")
time.sleep(0.3)
"#;

/// What listeners with masks of their own hear of packets, and of connections that go.
fn heard(net: &Net, exec: &str) -> Vec<(String, Vec<String>)> {
    let asked = [
        "-E -p udp",
        "-E -e NEW -p udp",
        "-E -e UPDATES,DESTROY -p udp",
        "-E -e NEW -p tcp",
        "-E expect",
    ];
    let file = |n: usize| net.directory.join(format!("heard-{n}"));
    let listeners: Vec<_> = asked
        .iter()
        .enumerate()
        .map(|(n, asked)| {
            let _ = std::fs::remove_file(file(n));
            net.spawn_in_file(&net.r, &format!("{exec} stdbuf -oL conntrack {asked}"), &file(n))
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_secs(1));
    (4000..4007).for_each(|port| ask(net, port));
    net.ok(&net.a, &format!("python3 {}", net.directory.join("client.py").display()));
    for port in 4000..4007 {
        net.ok(&net.r, &format!("{exec} conntrack -D -p udp --sport {port}"));
    }
    // What is expected of it goes with it.
    net.ok(&net.r, &format!("{exec} conntrack -D -p tcp --sport 4021"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let all = listeners.into_iter().zip(asked).enumerate().map(|(n, (listener, asked))| {
        listener.stop();
        let text = std::fs::read_to_string(file(n)).unwrap();
        // The port that the server connects from is its kernel's choice.
        let same = |line: String| {
            let word = |w: &str| match w.split_once('=') {
                Some((key @ ("sport" | "dport"), n))
                    if n.parse::<u16>().is_ok_and(|n| n >= 32768) =>
                {
                    format!("{key}=ANY")
                }
                _ => w.to_owned(),
            };
            let mut words: Vec<_> = line.split(' ').map(word).collect();
            // What is left of the life of an expectation.
            if words.get(2).is_some_and(|word| word.starts_with("proto=")) {
                words[1] = "TIME".into();
            }
            words.join(" ")
        };
        (asked.to_owned(), text.lines().map(timeless).map(same).collect())
    });
    all.collect()
}

#[test]
fn conntrack_hears_of_the_events_that_rules_and_listeners_ask_for_as_in_the_kernel() {
    let Some(mut net) = Net::new() else { return };
    if !["conntrack", "nft", "stdbuf", "python3"].iter().all(|program| net.has(program)) {
        return;
    }
    let written =
        [("echo.py", ECHO), ("server.py", SERVER), ("client.py", CLIENT), ("rules.nft", EVENTS)];
    for (name, text) in written {
        std::fs::write(net.directory.join(name), text).unwrap();
    }
    let path = |name: &str| net.directory.join(name).display().to_string();
    let (echo, server, rules) = (path("echo.py"), path("server.py"), path("rules.nft"));
    net.spawn_in('b', &format!("python3 {echo}"));
    net.spawn_in('b', &format!("python3 {server}"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    net.ok(&net.r, &format!("nft -f {rules}"));
    let kernels = heard(&net, "");
    net.ok(&net.r, "nft flush ruleset");
    net.up("r0 r1");
    net.nft(EVENTS);
    let ours = heard(&net, "$PENSTOCK exec --");
    for (kernel, own) in kernels.iter().zip(&ours) {
        assert_eq!(kernel, own);
        assert!(!kernel.1.is_empty(), "{kernel:?}");
    }
}

/// The sum of a count of all workers.
fn counted(statistics: &str, name: &str) -> u32 {
    let numbers = statistics.split_whitespace().filter_map(|word| word.strip_prefix(name));
    numbers.filter_map(|number| number.strip_prefix('=')?.parse::<u32>().ok()).sum()
}

#[test]
fn those_who_may_only_look_see_connections_and_change_none() {
    let Some(mut net) = Net::new() else { return };
    if !["conntrack", "setpriv", "stdbuf", "python3"].iter().all(|program| net.has(program)) {
        return;
    }
    net.up("r0 r1 --allow-read --workers 2");
    net.nft(RULES);
    let program = net.directory.join("echo.py");
    std::fs::write(&program, ECHO).unwrap();
    net.spawn_in('b', &format!("python3 {}", program.display()));
    std::thread::sleep(std::time::Duration::from_millis(500));
    // A folder that others enter.
    let own = std::env::temp_dir().join(format!("penstock-{}", net.r));
    std::fs::copy(crate::net::program(), &own).unwrap();
    let nobody =
        format!("setpriv --reuid 65534 --regid 65534 --clear-groups {} exec --", own.display());
    let file = net.directory.join("heard");
    let listen = format!("{nobody} stdbuf -oL conntrack -E -e NEW -p udp");
    let listener = net.spawn_in_file(&net.r, &listen, &file);
    std::thread::sleep(std::time::Duration::from_secs(2));
    (4000..4020).for_each(|port| ask(&net, port));
    let listed = net.ok(&net.r, &format!("{nobody} conntrack -L -p udp"));
    assert_eq!(listed.matches("dport=5000 src=198.18.1.2").count(), 20, "{listed}");
    let statistics = net.ok(&net.r, &format!("{nobody} conntrack -S"));
    assert!(counted(&statistics, "insert") >= 20, "{statistics}");
    assert_eq!(statistics.lines().count(), 2, "{statistics}");
    let count = net.ok(&net.r, &format!("{nobody} conntrack -C"));
    assert!(count.trim().parse::<u32>().unwrap() >= 20, "{count}");
    for change in ["-F", "-D -p udp", "-U -p udp --mark 1", "-L -z"] {
        let (done, said) = net.run(&net.r, &format!("{nobody} conntrack {change}"));
        assert!(!done && said.contains("must be root"), "{change}: {said}");
    }
    net.until("all are heard of", |_| {
        std::fs::read_to_string(&file).unwrap_or_default().lines().count() >= 20
    });
    listener.stop();
    // Root deletes them, each at the worker that has it.
    net.ok(&net.r, "$PENSTOCK exec -- conntrack -D -p udp --dport 5000");
    let listed = net.ok(&net.r, "$PENSTOCK exec -- conntrack -L -p udp");
    assert_eq!(listed, "");
    let _ = std::fs::remove_file(&own);
}

/// Sends datagrams from many ports.
const MANY: &str = r#"
import socket, struct
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for n in range(60000):
    udp = struct.pack("!HHHH", 1024 + n, 6000, 8, 0)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0,
        socket.inet_aton("198.18.0.2"), socket.inet_aton("198.18.1.2"))
    try:
        sock.sendto(header + udp, ("198.18.1.2", 0))
    except OSError:
        pass
"#;

#[test]
fn a_listener_that_does_not_read_gets_enobufs_and_packets_pass() {
    let Some(mut net) = Net::new() else { return };
    if !["conntrack", "python3"].iter().all(|program| net.has(program)) {
        return;
    }
    net.up("r0 r1");
    net.nft(RULES);
    let program = net.directory.join("many.py");
    std::fs::write(&program, MANY).unwrap();
    let pid = net.directory.join("pid");
    let listen = format!(
        "exec $PENSTOCK exec -- sh -c 'echo $$ > {}; exec conntrack -E -e NEW' 2>&1",
        pid.display()
    );
    let file = net.directory.join("heard");
    let listener = net.spawn_in_file(&net.r, &listen, &file);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let stopped = std::fs::read_to_string(&pid).unwrap();
    let signal = |name: &str| net.ok(&net.r, &format!("kill -{name} {stopped}"));
    signal("STOP");
    // A loaded machine loses packets.
    net.until_within(60, "there are many connections", |net| {
        net.ok(&net.a, &format!("python3 {}", program.display()));
        let count = net.ok(&net.r, "$PENSTOCK exec -- conntrack -C");
        count.trim().parse::<u32>().unwrap() > 20_000
    });
    assert!(net.run(&net.a, "ping -c 2 -i 0.2 -W 1 198.18.1.2").0);
    signal("CONT");
    net.until_within(30, "it learns that it has missed some", |_| {
        std::fs::read_to_string(&file).unwrap_or_default().contains("ENOBUFS")
    });
    listener.stop();
    // Dumps and deletions of many.
    let listed = net.ok(&net.r, "$PENSTOCK exec -- conntrack -L -p udp --dport 6000 | wc -l");
    assert!(listed.trim().parse::<u32>().unwrap() > 20_000, "{listed}");
    net.ok(&net.r, "$PENSTOCK exec -- conntrack -F");
    let listed = net.ok(&net.r, "$PENSTOCK exec -- conntrack -L -p udp");
    assert_eq!(listed, "");
}
