// SPDX-License-Identifier: Apache-2.0

//! firewalld with zones that change while it runs.

use super::{answers, has_all, network, same_on_both};
use crate::net::Net;

/// A bus on which everything may be said.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=DIR/bus</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// What is told to firewalld, and who is reached then. From where both ports are in the zone
/// `public`, which has neither the service nor the forwarding.
const STEPS: &[(&str, &str)] = &[
    ("--zone=public --change-interface=r0", "a udp 198.18.0.1 7000"),
    ("--zone=public --add-port=7000/udp", "a udp 198.18.0.1 7000"),
    (
        "--zone=public --add-rich-rule='rule family=ipv4 source address=198.18.0.2 reject'",
        "a udp 198.18.0.1 7000",
    ),
    (
        "--zone=public --remove-rich-rule='rule family=ipv4 source address=198.18.0.2 reject'",
        "a udp 198.18.0.1 7000",
    ),
    ("--zone=external --change-interface=r1", "a udp 198.18.1.2 7000"),
    (
        "--zone=public --add-forward-port=port=8080:proto=udp:toport=7000:toaddr=198.18.1.2",
        "a udp 198.18.0.1 8080",
    ),
    ("--zone=trusted --change-interface=r0", "a udp 198.18.0.1 7000"),
    ("--zone=drop --change-interface=r0", "a udp 198.18.0.1 7000"),
    ("--zone=drop --add-source=198.18.1.0/24", "b udp 198.18.1.1 7000"),
];

#[test]
fn zones_of_firewalld_change_at_run_time() {
    let programs = ["firewalld", "firewall-cmd", "dbus-daemon", "nft"];
    let Some(mut net) = network(&programs) else { return };
    let directory = net.directory.display().to_string();
    let bus = net.directory.join("bus.conf");
    std::fs::write(&bus, BUS.replace("DIR", &directory)).unwrap();
    net.spawn_in('r', &format!("dbus-daemon --nofork --config-file={}", bus.display()));
    net.until("the bus is there", |net| net.directory.join("bus").exists());
    let at_bus = format!("env DBUS_SYSTEM_BUS_ADDRESS=unix:path={directory}/bus");
    let configuration = net.directory.join("firewalld");
    std::fs::create_dir(&configuration).unwrap();
    std::fs::write(configuration.join("firewalld.conf"), "FirewallBackend=nftables\n").unwrap();
    let said = same_on_both(&mut net, |net, exec| {
        let start = format!(
            "{exec} {at_bus} firewalld --nofork --nopid --system-config {} --log-file {directory}/log",
            configuration.display()
        );
        let daemon = net.spawn_reading(&net.r, &start);
        let tell =
            |net: &Net, what: &str| net.run(&net.r, &format!("{at_bus} firewall-cmd {what}"));
        net.until_within(60, "firewalld runs", |net| tell(net, "--state").0);
        let mut said = String::new();
        for (what, question) in STEPS {
            let (done, heard) = tell(net, what);
            assert!(done, "{what}: {heard}");
            said += &answers(net, &[question]);
        }
        said += &net.ok(&net.r, &format!("{exec} nft -s list ruleset"));
        assert!(tell(net, "--reload").0);
        said += &answers(net, &["a udp 198.18.1.2 7000"]);
        said += &net.ok(&net.r, &format!("{exec} nft -s list ruleset"));
        daemon.end();
        said + &net.ok(&net.r, &format!("{exec} nft list ruleset"))
    });
    has_all(
        &said,
        &["a udp 198.18.0.1 7000: nobody\na udp 198.18.0.1 7000: r 198.18.0.2\n\
             a udp 198.18.0.1 7000: nobody\na udp 198.18.0.1 7000: r 198.18.0.2\n\
             a udp 198.18.1.2 7000: nobody\na udp 198.18.0.1 8080: b 198.18.1.1\n\
             a udp 198.18.0.1 7000: r 198.18.0.2\na udp 198.18.0.1 7000: nobody\n\
             b udp 198.18.1.1 7000: nobody\n"],
    );
}
