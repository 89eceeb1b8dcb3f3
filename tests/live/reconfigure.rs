// SPDX-License-Identifier: Apache-2.0

//! What the dataplane offers others (`allow-read`, `metrics`, `queue`, `hang-time`, `claims`,
//! `allow-kernel-rules`) follows the configuration at SIGHUP.

use crate::net::{Net, sh};

/// A dataplane with a configuration file.
struct Configured {
    net: Net,
    file: std::path::PathBuf,
}

impl Configured {
    /// Begins with these lines besides its ports.
    fn up(lines: &str) -> Option<Configured> {
        let net = Net::new()?;
        let file = net.directory.join("penstock.toml");
        let mut configured = Configured { net, file };
        configured.write(lines);
        configured.net.up(&format!("--config {}", configured.file.display()));
        Some(configured)
    }

    fn write(&self, lines: &str) {
        std::fs::write(&self.file, format!("ports = [\"r0\", \"r1\"]\n{lines}")).unwrap();
    }

    /// These lines count from now on; what the log says of it.
    fn becomes(&self, lines: &str) -> String {
        self.write(lines);
        let before = self.net.log().len();
        sh(&format!("kill -HUP {}", self.net.pid()));
        let said = || self.net.log()[before..].to_owned();
        self.net.until("it is read", |_| {
            said().contains("no ruleset to be read") || said().contains("stays as it is:")
        });
        said()
    }
}

#[test]
fn others_may_look_as_long_as_the_configuration_says_so() {
    let Some(at) = Configured::up("") else { return };
    let show = "setpriv --reuid 65534 --regid 65534 --clear-groups $PENSTOCK show";
    let looks = || at.net.run(&at.net.r, show).0;
    assert!(!looks());
    for _ in 0..2 {
        let said = at.becomes("allow-read = true\n");
        assert!(!said.contains("allow-read"), "{said}");
        assert!(looks());
        let nft = show.replace("show", "nft add table ip t");
        assert!(!at.net.run(&at.net.r, &nft).0);
        at.becomes("allow-read = false\n");
        assert!(!looks());
    }
    at.net.ok(&at.net.r, "$PENSTOCK show");
}

#[test]
fn metrics_are_served_where_the_configuration_says() {
    let Some(at) = Configured::up("metrics = \"127.0.0.1:9900\"\n") else { return };
    if !at.net.has("curl") {
        return;
    }
    let r = &at.net.r;
    let told = |address: &str| {
        at.net.run(r, &format!("curl -sS --max-time 10 http://{address}/metrics | grep -c EOF")).0
    };
    assert!(told("127.0.0.1:9900"));
    at.becomes("metrics = \"[::1]:9901\"\n");
    assert!(told("[::1]:9901") && !told("127.0.0.1:9900"));
    // An address that another program has.
    let taken = "import socket, time
s = socket.socket(); s.bind((\"127.0.0.1\", 9902)); s.listen(); time.sleep(60)";
    std::fs::write(at.net.directory.join("taken.py"), taken).unwrap();
    let taken = format!("python3 {}", at.net.directory.join("taken.py").display());
    let taken = at.net.spawn_reading(r, &taken);
    at.net.until("it is taken", |net| net.run(r, "ss -lnt | grep -q :9902").0);
    let said = at.becomes("metrics = \"127.0.0.1:9902\"\n");
    assert!(said.contains("metrics on 127.0.0.1:9902: Address already in use"), "{said}");
    assert!(told("[::1]:9901"));
    taken.stop();
    at.becomes("metrics = \"127.0.0.1:9902\"\n");
    assert!(told("127.0.0.1:9902") && !told("[::1]:9901"));
    at.becomes("");
    assert!(!told("127.0.0.1:9902"));
    // The address is free.
    at.becomes("metrics = \"127.0.0.1:9902\"\n");
    assert!(told("127.0.0.1:9902"));
}

#[test]
fn queues_go_to_the_programs_of_the_configuration() {
    let Some(mut at) = Configured::up("") else { return };
    at.net.nft(
        "table ip t { chain f { type filter hook forward priority 0; icmp type echo-request queue to 3; }; }",
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/queue.py");
    let directory = at.net.directory.clone();
    let socket = |name: &str| directory.join(name).display().to_string();
    let (a, r) = (at.net.a.clone(), at.net.r.clone());
    for (name, mode) in [("drops", "drop"), ("accepts", "accept")] {
        at.net.spawn_in('r', &format!("python3 {script} {} {mode}", socket(name)));
        at.net.until("the program listens", |_| directory.join(name).exists());
    }
    let passes = |net: &Net| net.run(&a, "ping -c 1 -W 1 198.18.1.2").0;
    assert!(!passes(&at.net));
    at.becomes(&format!("queue = [\"3={}\"]\n", socket("accepts")));
    at.net.until("they pass", passes);
    // A queue that stays keeps its program.
    at.becomes(&format!("queue = [\"3={}\", \"4=/nowhere\"]\n", socket("accepts")));
    assert!(passes(&at.net));
    at.net.until("the other one is asked for", |net| net.log().contains("queue 4: /nowhere"));
    at.becomes(&format!("queue = [\"3={}\"]\n", socket("drops")));
    at.net.until("they are dropped", |net| !passes(net));
    let without = |net: &Net| net.ok(&r, "$PENSTOCK show").contains("queue without listener");
    at.becomes("");
    at.net.until("nobody listens", |net| {
        passes(net);
        without(net)
    });
    at.becomes(&format!("queue = [\"3={}\"]\n", socket("accepts")));
    at.net.until("they pass again", passes);
}

#[test]
fn a_process_that_hangs_ends_after_the_time_of_the_configuration() {
    let Some(mut at) = Configured::up("hang-time = 600\n") else { return };
    let said = at.becomes("hang-time = 0\n");
    assert!(!said.contains("hang-time"), "{said}");
    at.becomes("hang-time = 2\n");
    std::thread::sleep(std::time::Duration::from_secs(3));
    at.net.ok(&at.net.a, "ping -c 1 -W 2 198.18.1.2");
    sh(&format!("kill -STOP {}", at.net.pid()));
    let begun = std::time::Instant::now();
    at.net.ended_somehow();
    let time = begun.elapsed();
    assert!((1..30).contains(&time.as_secs()), "{time:?}");
    at.net.until("the kernel forwards", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
}

#[test]
fn changes_keep_the_claims_of_the_configuration() {
    let Some(at) = Configured::up("") else { return };
    let claims = at.net.directory.join("claims");
    let lines = format!("claims = \"{}\"\n", claims.display());
    let open = |net: &Net| net.run(&net.r, "$PENSTOCK nft add table ip t");
    std::fs::write(&claims, "hook forward\nnever accept tcp dport 23\n").unwrap();
    let said = at.becomes(&lines);
    assert!(!said.contains("claims"), "{said}");
    let (ok, refused) = open(&at.net);
    assert!(!ok && refused.contains(":2: never accept tcp dport 23"), "{refused}");
    // Other lines of the same file.
    std::fs::write(&claims, "hook forward\nalways accept tcp dport 23\n").unwrap();
    at.becomes(&lines);
    assert!(open(&at.net).0);
    std::fs::write(&claims, "nonsense\n").unwrap();
    let said = at.becomes(&lines);
    assert!(said.contains("the configuration stays as it is"), "{said}");
    at.becomes("");
    at.net.ok(&at.net.r, "$PENSTOCK nft flush ruleset");
}

#[test]
fn rules_of_the_kernel_are_named_once_they_are_not_known_any_more() {
    let Some(at) = Configured::up("allow-kernel-rules = true\n") else { return };
    if !at.net.has("nft") {
        return;
    }
    at.net.ok(&at.net.r, "nft 'table ip k { chain i { type filter hook input priority 0; }; }'");
    let named = "the kernel has nftables rules of its own";
    let said = at.becomes("allow-kernel-rules = true\n");
    assert!(!said.contains(named), "{said}");
    let said = at.becomes("");
    assert!(said.contains(named) && !said.contains("next start"), "{said}");
}
