// SPDX-License-Identifier: Apache-2.0

//! BFD by FRR between the two firewalls decides which one is primary.

use std::fs;
use std::path::Path;

use super::pair::{Pair, Peer};
use super::secure::own_config;
use crate::net::{Reading, sh};

/// Daemons of FRR in the namespace of a firewall: bfdd, and zebra that it asks for devices.
fn frr(pair: &Pair, namespace: &str, name: &str, other: u8) -> [Reading; 2] {
    let folder = pair.path(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("zebra.conf"), "").unwrap();
    let text = format!(
        "bfd\n peer 198.19.0.{other}\n  receive-interval 200\n  transmit-interval 200\n  detect-multiplier 4\n"
    );
    fs::write(folder.join("bfdd.conf"), text).unwrap();
    let d = folder.display();
    sh(&format!("chmod 755 {} && chown -R frr:frr {d}", pair.net.directory.display()));
    ["zebra", "bfdd"].map(|daemon| {
        let control = if daemon == "bfdd" { format!("--bfdctl {d}/ctl") } else { String::new() };
        let line = format!(
            "/usr/lib/frr/{daemon} -u frr -g frr -f {d}/{daemon}.conf -z {d}/zserv --vty_socket {d} \
             -i {d}/{daemon}.pid {control} 2>&1"
        );
        let running = pair.net.spawn_in_file(namespace, &line, &pair.path(&format!("{name}.log")));
        pair.net.until("it runs", |_| folder.join(format!("{daemon}.vty")).exists());
        running
    })
}

#[test]
fn a_lost_session_of_bfd_makes_the_other_one_primary() {
    if !Path::new("/usr/lib/frr/bfdd").exists() {
        eprintln!("skipped: FRR is not installed");
        return;
    }
    let Some(mut pair) = Pair::with(Peer::Penstock, own_config, 1) else { return };
    let [_zebra, bfdd] = frr(&pair, &pair.net.r, "frr-r", 2);
    let _other = frr(&pair, &pair.p, "frr-p", 1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bfd-failover");
    let line = format!("{script} 198.19.0.1 --vty_socket {}", pair.path("frr-p").display());
    let follows = pair.net.spawn_in_file(&pair.p, &line, &pair.path("follow.log"));
    let said = |what: &str| {
        pair.net.until_within(20, what, |_| {
            fs::read_to_string(pair.path("follow.log")).unwrap().contains(what)
        });
    };
    said("peers are asked for their connections");
    pair.traffic();
    let expected = pair.connections(true);
    pair.net.until("all is told", |_| pair.cached(false) >= expected.len());
    // The first firewall is no more.
    drop(bfdd.stop());
    pair.net.kill();
    let what = format!("{} connections and 0 elements of peers are taken over", expected.len());
    pair.net.until_within(20, &what, |_| {
        fs::read_to_string(pair.path("follow.log")).unwrap().contains(&what)
    });
    assert_eq!(pair.connections(false), expected);
    drop(follows.stop());
}
