// SPDX-License-Identifier: Apache-2.0

//! Three firewalls that tell each other by NATS JetStream: R and P of a pair, and C, which has no
//! traffic of its own. Each has a wire to N, where the server runs.

use std::fs;

use super::pair::{CHANGED, Pair, Peer};
use crate::net::{Net, Reading, sh};

/// Names of R, P and C.
const NODES: [&str; 3] = ["fw1", "fw2", "fw3"];

/// The file of a node, with more clauses.
fn config(own: u8, more: &str) -> String {
    format!(
        "Sync {{ PurgeTimeout 60 }}
General {{
	Filter From Userspace {{
		Address Ignore {{
			IPv4_address 127.0.0.1
			IPv4_address 198.19.0.0/16
			IPv6_address fe80::/10
			IPv6_address ff00::/8
		}}
	}}
}}
Nats {{
	Server nats://198.19.1{own}.9:4222
	Cluster office
	Node {}
	MaxBytes 67108864
	{more}
}}
",
        NODES[usize::from(own) - 1]
    )
}

/// The clause of a key that all have.
fn shared_key(net: &Net) -> String {
    let file = net.directory.join("shared.key");
    net.ok(&net.r, &format!("$PENSTOCK failover key {}", file.display()));
    format!("Key {}", file.display())
}

struct Cluster {
    pair: Pair,
    n: String,
    c: String,
    server: Option<Reading>,
    third: Option<Reading>,
}

impl Cluster {
    /// R and P run, and the server. `None` where something is missing.
    fn new(workers: u32, more: impl Fn(&Net) -> String, server: &str) -> Option<Cluster> {
        let mut pair = Pair::with(Peer::Penstock, |net, own| config(own, &more(net)), workers)?;
        if !pair.net.has("nats-server") {
            return None;
        }
        let (n, c) = (pair.net.another(), pair.net.another());
        for (own, node) in [(1, &pair.net.r), (2, &pair.p), (3, &c)] {
            sh(&format!(
                "set -e
                 ip -n {n} link add n{own} type veth peer name nats netns {node}
                 ip -n {n} addr add 198.19.1{own}.9/24 dev n{own}
                 ip -n {node} addr add 198.19.1{own}.1/24 dev nats
                 ip -n {n} link set n{own} up; ip -n {node} link set nats up"
            ));
        }
        sh(&format!(
            "ip -n {c} link add c0 type veth peer name c9; ip -n {c} link set c0 up; ip -n {c} link set c9 up"
        ));
        let text = config(3, &more(&pair.net));
        fs::write(pair.path("c.conf"), text).unwrap();
        fs::write(pair.path("server.conf"), server).unwrap();
        let mut cluster = Cluster { pair, n, c, server: None, third: None };
        cluster.load(&cluster.pair.net.r);
        cluster.load(&cluster.pair.p);
        cluster.begin_server();
        Some(cluster)
    }

    /// With a key, and a third node.
    fn of_three(workers: u32) -> Option<Cluster> {
        let mut cluster = Cluster::new(workers, shared_key, "")?;
        cluster.begin_third();
        let net = &cluster.pair.net;
        net.until_within(30, "all are in sync", |net| {
            let namespaces = [&net.r, &cluster.pair.p, &cluster.c];
            NODES.iter().zip(namespaces).all(|(own, namespace)| {
                NODES
                    .iter()
                    .filter(|other| *other != own)
                    .all(|other| of_node(net, namespace, other, "in_sync_ago") != "null")
            })
        });
        Some(cluster)
    }

    /// Loads the rules that change sets.
    fn load(&self, namespace: &str) {
        let file = self.pair.path("changed.nft");
        fs::write(&file, CHANGED).unwrap();
        self.pair.net.ok(namespace, &format!("$PENSTOCK nft -f {}", file.display()));
    }

    fn begin_server(&mut self) {
        let line = format!(
            "exec nats-server -js -sd {} -a 0.0.0.0 -p 4222 -c {} 2>&1",
            self.pair.path("jetstream").display(),
            self.pair.path("server.conf").display()
        );
        let server = self.pair.net.spawn_in_file(&self.n, &line, &self.pair.path("server.log"));
        self.server = Some(server);
        self.pair.net.until_within(20, "the server listens", |net| {
            net.run(&self.n, "ss -lnt | grep -q :4222").0
        });
    }

    fn begin_third(&mut self) {
        let line = format!(
            "exec $PENSTOCK up c0 --seccomp kill --sync {} 2>&1",
            self.pair.path("c.conf").display()
        );
        let third = self.pair.net.spawn_in_file(&self.c, &line, &self.pair.path("c.log"));
        self.third = Some(third);
        self.pair.net.until_within(30, "it runs", |net| net.run(&self.c, "$PENSTOCK show").0);
        self.load(&self.c);
    }

    /// Waits until a node has so many connections of another one, and all that it has told.
    fn until_known(&self, namespace: &str, other: &str, count: impl Fn() -> usize) {
        self.pair.net.until_within(40, &format!("all of {other} is known"), |net| {
            of_node(net, namespace, other, "complete") == "true"
                && of_node(net, namespace, other, "cached") == count().to_string()
        });
    }

    /// Packets pass: none of many is lost.
    fn packets_pass(&self) {
        let said = self.pair.net.ok(&self.pair.net.a, "ping -i 0.02 -c 50 -W 2 198.18.1.2");
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
}

/// A field of the status of this node.
fn field(net: &Net, namespace: &str, name: &str) -> String {
    let status = net.ok(namespace, "$PENSTOCK failover status -j");
    value(&status, name).unwrap_or_else(|| panic!("{name}: {status}"))
}

fn value(status: &str, name: &str) -> Option<String> {
    let rest = status.split(&format!("\"{name}\":")).nth(1)?;
    Some(rest.split([',', '}']).next()?.to_owned())
}

/// A field of the status of another node; empty if it is not known.
fn of_node(net: &Net, namespace: &str, node: &str, name: &str) -> String {
    let status = net.ok(namespace, "$PENSTOCK failover status -j");
    let rest = status.split(&format!("\"name\":\"{node}\"")).nth(1);
    rest.and_then(|rest| value(rest, name)).unwrap_or_default()
}

fn number(net: &Net, namespace: &str, name: &str) -> u64 {
    field(net, namespace, name).parse().unwrap()
}

#[test]
fn nodes_hear_of_the_others_and_each_can_take_over() {
    let Some(mut cluster) = Cluster::of_three(2) else { return };
    cluster.pair.traffic();
    let entered = "-p udp -s 198.18.0.9 -d 198.18.1.9 --sport 9 --dport 53 -t 300 -m 9";
    let (r, p, c) = (cluster.pair.net.r.clone(), cluster.pair.p.clone(), cluster.c.clone());
    cluster.pair.net.ok(&p, &format!("$PENSTOCK exec -- conntrack -I {entered}"));
    let of_r = cluster.pair.connections(true);
    assert!(of_r.len() >= 5, "{of_r:#?}");
    for namespace in [&p, &c] {
        cluster.until_known(namespace, "fw1", || of_r.len());
    }
    for namespace in [&r, &c] {
        cluster.until_known(namespace, "fw2", || 1);
    }
    let net = &cluster.pair.net;
    net.until("elements are told", |net| of_node(net, &c, "fw1", "elements") == "2");
    let shown = net.ok(&c, "$PENSTOCK show");
    assert!(shown.contains("node fw1: there, in sync as of"), "{shown}");
    let metrics = net.ok(&c, "$PENSTOCK show --metrics");
    for line in [
        "penstock_peer_up{peer=\"fw1\"} 1\n",
        "penstock_peer_connections{peer=\"fw2\"} 1\n",
        "penstock_cluster_connected{cluster=\"office\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    let said = net.ok(&c, "$PENSTOCK failover primary");
    let expected = format!("{} connections and 2 elements", of_r.len() + 1);
    assert!(said.contains(&expected) && !said.contains("could not"), "{said}");
    // The others hear of it.
    for namespace in [&r, &p] {
        cluster.until_known(namespace, "fw3", || of_r.len() + 1);
    }
}

#[test]
fn a_translated_stream_survives_the_death_of_its_node() {
    let Some(mut cluster) = Cluster::of_three(1) else { return };
    cluster.pair.begin_stream();
    cluster.pair.stream_goes_on("the stream begins");
    let p = cluster.pair.p.clone();
    cluster.until_known(&p, "fw1", || cluster.pair.connections(true).len());
    // No word of the host's kernel reaches A and B after the end of the dataplane.
    cluster.pair.net.ok(&cluster.pair.net.a, "ip link set a0 down");
    cluster.pair.net.ok(&cluster.pair.net.b, "ip link set b0 down");
    cluster.pair.net.kill();
    cluster.pair.net.until("the kernel has the devices again", |net| {
        let has = |(n, device)| {
            net.run(&net.r, &format!("ip addr show dev {device} | grep -q 198.18.{n}.1")).0
        };
        [(0, "r0"), (1, "r1")].into_iter().all(has)
    });
    cluster.pair.move_addresses(false);
    cluster.pair.becomes_primary(false);
    cluster.pair.stream_goes_on("the stream goes on through another node");
    // The third one has it from the second by now.
    let c = cluster.c.clone();
    cluster.until_known(&c, "fw2", || cluster.pair.connections(false).len());
    cluster.pair.net.until_within(30, "the node is missed", |net| {
        net.ok(&c, "$PENSTOCK show").contains("node fw1: silent")
    });
    cluster.pair.end_stream();
}

#[test]
fn nodes_go_on_without_the_server_and_are_in_step_after() {
    let Some(mut cluster) = Cluster::of_three(1) else { return };
    let (r, p, c) = (cluster.pair.net.r.clone(), cluster.pair.p.clone(), cluster.c.clone());
    for forgets in [false, true] {
        cluster.pair.traffic();
        for namespace in [&p, &c] {
            cluster.until_known(namespace, "fw1", || cluster.pair.connections(true).len());
        }
        drop(cluster.server.take().unwrap().stop());
        cluster.pair.net.until_within(20, "the server is missed", |net| {
            [&r, &p, &c].iter().all(|namespace| field(net, namespace, "connected") == "false")
        });
        let status = cluster.pair.net.ok(&r, "$PENSTOCK failover status");
        assert!(status.contains("not connected: "), "{status}");
        cluster.packets_pass();
        // Some begin, and others end.
        cluster.pair.traffic();
        cluster.pair.net.ok(&r, "$PENSTOCK exec -- conntrack -D -p udp");
        if forgets {
            fs::remove_dir_all(cluster.pair.path("jetstream")).unwrap();
        }
        cluster.begin_server();
        for namespace in [&p, &c] {
            cluster.until_known(namespace, "fw1", || cluster.pair.connections(true).len());
        }
    }
}

/// Connections of a node that others join later: many more than a message has.
const MANY: usize = 4_000;

#[test]
fn a_node_that_joins_has_all_connections() {
    let Some(mut cluster) = Cluster::new(2, shared_key, "") else { return };
    let lines: String = (0..MANY)
        .map(|n| {
            let (host, port) = (n / 250, 1000 + n % 250);
            format!(
                "-I -p udp -s 198.18.0.{} -d 198.18.1.2 --sport {port} --dport {} -t 3000\n",
                2 + host % 200,
                5000 + host / 200
            )
        })
        .collect();
    fs::write(cluster.pair.path("many"), lines).unwrap();
    let many = cluster.pair.path("many");
    cluster.pair.net.ok(
        &cluster.pair.net.r,
        &format!("$PENSTOCK exec -- conntrack -R {} > /dev/null", many.display()),
    );
    let (r, p) = (cluster.pair.net.r.clone(), cluster.pair.p.clone());
    cluster.until_known(&p, "fw1", || MANY);
    cluster.begin_third();
    let c = cluster.c.clone();
    cluster.until_known(&c, "fw1", || MANY);
    let net = &cluster.pair.net;
    // Nobody was asked for that.
    assert_eq!(number(net, &r, "snapshots"), 1);
    let said = net.ok(&c, "$PENSTOCK failover primary");
    assert!(said.contains(&format!("{MANY} connections")), "{said}");
}

#[test]
fn a_node_without_a_way_to_the_server_is_in_step_again_after() {
    let Some(mut cluster) = Cluster::of_three(1) else { return };
    let (r, p, c) = (cluster.pair.net.r.clone(), cluster.pair.p.clone(), cluster.c.clone());
    let drop = "nft 'add table inet lose; add chain inet lose in { type filter hook input priority -300; };
        add rule inet lose in tcp sport 4222 drop'";
    for cut in [&r, &p] {
        cluster.pair.traffic();
        cluster.until_known(&p, "fw1", || cluster.pair.connections(true).len());
        cluster.pair.net.ok(cut, drop);
        cluster
            .pair
            .net
            .until_within(30, "it is missed", |net| field(net, cut, "connected") == "false");
        cluster.packets_pass();
        cluster.pair.traffic();
        cluster.pair.net.ok(&r, "$PENSTOCK exec -- conntrack -D -p udp");
        cluster.pair.net.ok(cut, "nft delete table inet lose");
        for namespace in [&p, &c] {
            cluster.until_known(namespace, "fw1", || cluster.pair.connections(true).len());
        }
    }
}

#[test]
fn messages_by_another_key_or_without_one_are_refused() {
    let Some(mut cluster) = Cluster::new(1, shared_key, "") else { return };
    let (r, p, c) = (cluster.pair.net.r.clone(), cluster.pair.p.clone(), cluster.c.clone());
    cluster.pair.traffic();
    for other in ["Key OTHER", ""] {
        let path = cluster.pair.path("other.key");
        cluster.pair.net.ok(&r, &format!("$PENSTOCK failover key {}", path.display()));
        let other = other.replace("OTHER", path.to_str().unwrap());
        fs::write(cluster.pair.path("c.conf"), config(3, &other)).unwrap();
        let before = number(&cluster.pair.net, &r, "refused_messages");
        cluster.begin_third();
        cluster.pair.net.until_within(20, "its messages are refused", |net| {
            number(net, &r, "refused_messages") > before + 2
                && number(net, &c, "refused_messages") > 2
        });
        let net = &cluster.pair.net;
        assert_eq!(of_node(net, &r, "fw3", "cached"), "");
        assert_eq!(of_node(net, &c, "fw1", "cached"), "");
        net.ok(&c, "$PENSTOCK down");
        drop(cluster.third.take().unwrap().wait());
    }
    cluster.until_known(&p, "fw1", || cluster.pair.connections(true).len());
}

#[test]
fn servers_ask_for_a_password_and_have_certificates() {
    let make = |net: &Net| {
        let file = net.directory.join("login");
        fs::write(&file, "fw:secret\n").unwrap();
        sh(&format!("chmod 600 {}", file.display()));
        let folder = net.directory.display();
        if !net.directory.join("ca.pem").exists() && net.has("openssl") {
            sh(&format!(
                "cd {folder} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
                 -keyout ca.key -out ca.pem -days 9 -subj /CN=ca 2>/dev/null &&
                 openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout n.key -out n.csr \
                 -subj /CN=n 2>/dev/null &&
                 printf 'subjectAltName=IP:198.19.11.9,IP:198.19.12.9,IP:198.19.13.9' > n.ext &&
                 openssl x509 -req -in n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 \
                 -extfile n.ext -out n.pem 2>/dev/null"
            ));
        }
        format!("Credentials {folder}/login\nCA {folder}/ca.pem\n")
    };
    let Some(mut cluster) = Cluster::new(1, make, "authorization { user: fw, password: secret }")
    else {
        return;
    };
    let (r, p, c) = (cluster.pair.net.r.clone(), cluster.pair.p.clone(), cluster.c.clone());
    cluster.pair.traffic();
    cluster.until_known(&p, "fw1", || cluster.pair.connections(true).len());
    // Another password.
    let login = cluster.pair.path("wrong");
    fs::write(&login, "fw:guess\n").unwrap();
    sh(&format!("chmod 600 {}", login.display()));
    let wrong = config(3, &format!("Credentials {}", login.display()));
    fs::write(cluster.pair.path("c.conf"), wrong).unwrap();
    cluster.begin_third();
    cluster.pair.net.until_within(20, "it is refused", |net| {
        field(net, &c, "error").to_lowercase().contains("authorization")
    });
    cluster.pair.net.ok(&c, "$PENSTOCK down");
    drop(cluster.third.take().unwrap().wait());
    // By TLS.
    drop(cluster.server.take().unwrap().stop());
    let folder = cluster.pair.net.directory.clone();
    fs::write(
        folder.join("server.conf"),
        format!(
            "authorization {{ user: fw, password: secret }}
             tls {{ cert_file: \"{0}/n.pem\", key_file: \"{0}/n.key\" }}",
            folder.display()
        ),
    )
    .unwrap();
    cluster.begin_server();
    let text = config(3, &make(&cluster.pair.net)).replace("nats://", "tls://");
    fs::write(folder.join("c.conf"), &text).unwrap();
    cluster.begin_third();
    cluster
        .pair
        .net
        .until_within(20, "it is connected", |net| field(net, &c, "connected") == "true");
    cluster.until_known(&c, "fw1", || cluster.pair.connections(true).len());
    // Where the server asks for it, also those who did not name it.
    cluster.pair.net.until_within(20, "all are connected", |net| {
        [&r, &p].iter().all(|namespace| field(net, namespace, "connected") == "true")
    });
    // Certificates of others do not count.
    cluster.pair.net.ok(&c, "$PENSTOCK down");
    drop(cluster.third.take().unwrap().wait());
    fs::write(folder.join("c.conf"), text.replace("CA ", "# ")).unwrap();
    cluster.begin_third();
    cluster.pair.net.until_within(20, "the server is refused", |net| {
        field(net, &c, "error").to_lowercase().contains("certificate")
    });
}

#[test]
fn servers_are_found_by_their_names() {
    let Some(mut cluster) = Cluster::new(1, shared_key, "") else { return };
    cluster.pair.traffic();
    let n = cluster.n.clone();
    sh(&format!(
        "ip -n {n} link add x0 type veth peer name x9; ip -n {n} link set x0 up; ip -n {n} link set x9 up"
    ));
    let text = config(3, &shared_key(&cluster.pair.net)).replace("198.19.13.9", "localhost");
    let (file, log) = (cluster.pair.path("n.conf"), cluster.pair.path("n.log"));
    fs::write(&file, text).unwrap();
    let line = format!("exec $PENSTOCK up x0 --seccomp kill --sync {} 2>&1", file.display());
    cluster.third = Some(cluster.pair.net.spawn_in_file(&n, &line, &log));
    cluster.pair.net.until_within(30, "it runs", |net| net.run(&n, "$PENSTOCK show").0);
    cluster.until_known(&n, "fw1", || cluster.pair.connections(true).len());
}

#[test]
fn wrong_files_are_refused() {
    let Some(net) = Net::new() else { return };
    let file = net.directory.join("x.conf");
    let up = |more: &str| {
        fs::write(&file, config(1, more)).unwrap();
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0 --sync {}", file.display()));
        assert!(!ok);
        said
    };
    let secret = net.directory.join("secret");
    let path = secret.display();
    let said = up(&format!("Key {path}"));
    assert!(said.contains("sync: Key ") && said.contains("No such file"), "{said}");
    fs::write(&secret, "12\n").unwrap();
    net.ok(&net.r, &format!("chmod 644 {path}"));
    for clause in ["Key", "Credentials"] {
        let said = up(&format!("{clause} {path}"));
        assert!(said.contains("others may read or write it: chmod 600"), "{said}");
    }
    net.ok(&net.r, &format!("chmod 600 {path}"));
    let said = up(&format!("Key {path}"));
    assert!(said.contains("a key is 64 hexadecimal digits"), "{said}");
    let said = up(&format!("Credentials {path}"));
    assert!(said.contains("one line USER:PASSWORD is expected"), "{said}");
    let said = up("CA /nowhere");
    assert!(said.contains("sync: CA /nowhere: No such file"), "{said}");
}
