// SPDX-License-Identifier: Apache-2.0

//! Programs that run all the time, and change rules when something happens: fail2ban, keepalived.

use super::{answers, has_all, network, same_on_both};
use crate::net::Net;

/// Writes a file into the directory of the network, in which `DIR` is that directory.
fn write(net: &Net, name: &str, text: &str) {
    let file = net.directory.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text.replace("DIR", &net.directory.display().to_string())).unwrap();
}

/// Three jails with fail2ban's own actions.
const JAILS: &str = "
[DEFAULT]
enabled = true
backend = polling
filter = refused
logpath = DIR/refused.log
bantime = 3600
usedns = no
[by-nft]
action = nftables[type=multiport, name=by-nft, port=7000, protocol=udp]
[by-iptables]
action = iptables[type=multiport, name=by-iptables, port=7000, protocol=udp]
[by-ipset]
action = iptables-ipset[type=multiport, name=by-ipset, port=7000, protocol=udp]
";

const FAIL2BAN: &str = "
[Definition]
loglevel = INFO
logtarget = DIR/fail2ban.log
syslogsocket = auto
socket = DIR/fail2ban.sock
pidfile = DIR/fail2ban.pid
dbfile = None
dbpurgeage = 1d
";

/// Waits until fail2ban has logged something.
fn logged(net: &Net, what: &str) {
    let log = net.directory.join("fail2ban.log");
    net.until_within(60, what, |_| {
        std::fs::read_to_string(&log).unwrap_or_default().contains(what)
    });
}

#[test]
fn fail2ban_bans_and_unbans() {
    let programs = ["fail2ban-server", "fail2ban-client", "nft", "iptables", "ipset"];
    let Some(mut net) = network(&programs) else { return };
    if !net.ok(&net.r, "iptables --version").contains("nf_tables") {
        eprintln!("skipped: iptables is not iptables-nft");
        return;
    }
    write(&net, "f2b/jail.conf", JAILS);
    write(&net, "f2b/fail2ban.conf", FAIL2BAN);
    write(&net, "f2b/filter.d/refused.conf", "[Definition]\nfailregex = ^refused <HOST>$\n");
    let directory = net.directory.display().to_string();
    net.ok(&net.r, &format!("ln -s /etc/fail2ban/action.d {directory}/f2b/action.d"));
    let said = same_on_both(&mut net, |net, exec| {
        write(net, "refused.log", "");
        write(net, "fail2ban.log", "");
        let start = format!("{exec} fail2ban-server -f -c {directory}/f2b start");
        let server = net.spawn_reading(&net.r, &start);
        logged(net, "Jail 'by-ipset' started");
        let client = |what: &str| {
            net.ok(&net.r, &format!("fail2ban-client -s {directory}/fail2ban.sock {what}"))
        };
        let list = format!(
            "{exec} nft -s list ruleset 2>/dev/null; {exec} iptables-save | sed '/^[#:]/d'"
        );
        let mut said = answers(net, &["a udp 198.18.0.1 7000"]);
        for jail in ["by-nft", "by-iptables", "by-ipset"] {
            client(&format!("set {jail} banip 198.18.0.2"));
            logged(net, &format!("[{jail}] Ban 198.18.0.2"));
            // What the action does comes after the line.
            let listed = || net.ok(&net.r, &list);
            net.until_within(60, jail, |_| listed().contains(jail));
            net.until_within(60, "it is banned", |net| {
                answers(net, &["a udp 198.18.0.1 7000"]).ends_with("nobody\n")
            });
            said += &answers(net, &["a udp 198.18.1.1 7000", "b udp 198.18.1.1 7000"]);
            said += &listed();
            client(&format!("set {jail} unbanip 198.18.0.2"));
            net.until_within(60, "it is not banned", |net| {
                answers(net, &["a udp 198.18.0.1 7000"]).ends_with("r 198.18.0.2\n")
            });
        }
        client("stop");
        server.wait();
        said + &net.ok(&net.r, &format!("{exec} nft -s list ruleset; {exec} ipset list -n"))
    });
    has_all(
        &said,
        &[
            "a udp 198.18.1.1 7000: nobody\nb udp 198.18.1.1 7000: r 198.18.1.2\n",
            "elements = { 198.18.0.2 }",
        ],
    );
}

const KEEPALIVED: &str = "
global_defs {
    vrrp_version 3
    nftables keepalived
    vrrp_garp_master_repeat 1
}
vrrp_instance service {
    state MASTER
    interface r0
    virtual_router_id 7
    priority 250
    advert_int 0.2
    no_accept
    virtual_ipaddress {
        198.18.0.100/24 dev r0
    }
    virtual_ipaddress_excluded {
        2001:db8::100/64 dev r0
    }
}
";

#[test]
fn keepalived_protects_addresses_that_it_does_not_accept_for() {
    let Some(mut net) = network(&["keepalived", "nft"]) else { return };
    write(&net, "keepalived.conf", KEEPALIVED);
    let directory = net.directory.display().to_string();
    let said = same_on_both(&mut net, |net, exec| {
        let start = format!(
            "{exec} keepalived -n -l -P -f {directory}/keepalived.conf -p {directory}/keepalived.pid \
             -r {directory}/vrrp.pid"
        );
        let daemon = net.spawn_reading(&net.r, &start);
        net.until_within(30, "the address is there", |net| {
            net.ok(&net.r, "ip addr show dev r0").contains("198.18.0.100/24")
        });
        let listed = || net.ok(&net.r, &format!("{exec} nft list ruleset"));
        net.until_within(30, "the rules are there", |_| listed().contains("198.18.0.100"));
        let said = listed() + &answers(net, &["a udp 198.18.0.100 7000", "a udp 198.18.0.1 7000"]);
        net.ok(&net.r, &format!("kill $(cat {directory}/keepalived.pid)"));
        daemon.wait();
        said + &listed()
    });
    has_all(&said, &["a udp 198.18.0.100 7000: nobody\na udp 198.18.0.1 7000: r 198.18.0.2\n"]);
}
