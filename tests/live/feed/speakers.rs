// SPDX-License-Identifier: Apache-2.0

//! BGP speakers: ExaBGP on A announces what a file says, ExaBGP or GoBGP on R hears it.

use std::io::Write as _;
use std::path::PathBuf;

use crate::net::{Net, Reading};

/// Settings of ExaBGP for tests.
const EXABGP: &str = "env exabgp.daemon.user=root exabgp.daemon.drop=false exabgp.api.ack=false \
                      exabgp.api.cli=false exabgp.log.destination=stderr";

/// The announcing speaker on A.
pub struct Announcer {
    running: Option<Reading>,
    config: PathBuf,
    commands: PathBuf,
    log: PathBuf,
}

impl Announcer {
    /// Its configuration, with capabilities and static routes. It does not run yet.
    pub fn new(net: &Net, capabilities: &str, routes: &str) -> Announcer {
        let file = |name: &str| net.directory.join(name);
        let (config, commands) = (file("a.conf"), file("a.commands"));
        std::fs::write(&commands, "").unwrap();
        let text = format!(
            "process commands {{
                run /usr/bin/tail -n +1 -f {};
                encoder text;
            }}
            neighbor 198.18.0.1 {{
                router-id 198.18.0.2;
                local-address 198.18.0.2;
                local-as 65001;
                peer-as 65002;
                capability {{ {capabilities} }}
                family {{ ipv4 unicast; ipv6 unicast; ipv4 flow; ipv6 flow; }}
                api {{ processes [ commands ]; }}
                static {{ {routes} }}
            }}",
            commands.display()
        );
        std::fs::write(&config, text).unwrap();
        Announcer { running: None, config, commands, log: file("a.log") }
    }

    /// Starts it.
    pub fn start(&mut self, net: &Net) {
        let line = format!("exec {EXABGP} exabgp {} 2>&1", self.config.display());
        self.running = Some(net.spawn_in_file(&net.a, &line, &self.log));
    }

    /// Kills it: nothing is said to the peer.
    pub fn kill(&mut self) {
        drop(self.running.take().unwrap());
    }

    /// Has it say something.
    pub fn say(&self, line: &str) {
        let mut file = std::fs::File::options().append(true).open(&self.commands).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    /// Replaces a text in its configuration.
    pub fn configure(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&self.config, text.replace(from, to)).unwrap();
    }
}

/// Starts ExaBGP on R with a feed as its process.
pub fn start_exabgp(net: &Net, capabilities: &str, options: &str) -> Reading {
    let config = net.directory.join("r.conf");
    let script = net.directory.join("feed.sh");
    let log = net.directory.join("feed.log");
    let line = format!(
        "#!/bin/sh\nexec {} feed exabgp -v {options} 2>>{}\n",
        crate::net::program(),
        log.display()
    );
    std::fs::write(&script, line).unwrap();
    let text = format!(
        "process penstock {{
            run /bin/sh {};
            encoder json;
        }}
        neighbor 198.18.0.2 {{
            router-id 198.18.0.1;
            local-address 198.18.0.1;
            passive true;
            local-as 65002;
            peer-as 65001;
            capability {{ {capabilities} }}
            family {{ ipv4 unicast; ipv6 unicast; ipv4 flow; ipv6 flow; }}
            api {{
                processes [ penstock ];
                neighbor-changes;
                receive {{ parsed; update; open; notification; }}
            }}
        }}",
        script.display()
    );
    std::fs::write(&config, text).unwrap();
    let line = format!("exec {EXABGP} exabgp.tcp.bind=198.18.0.1 exabgp {} 2>&1", config.display());
    net.spawn_in_file(&net.r, &line, &net.directory.join("r.log"))
}

/// Starts GoBGP on R, with a feed of what its monitor prints.
pub fn start_gobgp(net: &Net) -> [Reading; 2] {
    let config = net.directory.join("gobgp.toml");
    let families: String = ["ipv4-unicast", "ipv6-unicast", "ipv4-flowspec", "ipv6-flowspec"]
        .map(|name| {
            format!(
                "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}\"\n"
            )
        })
        .concat();
    let text = format!(
        "[global.config]
         as = 65002
         router-id = \"198.18.0.1\"
         local-address-list = [\"198.18.0.1\"]
         [[neighbors]]
         [neighbors.config]
         neighbor-address = \"198.18.0.2\"
         peer-as = 65001
         [neighbors.transport.config]
         passive-mode = true
         {families}"
    );
    std::fs::write(&config, text).unwrap();
    let line = format!("exec gobgpd -f {} --api-hosts 127.0.0.1:50051", config.display());
    let daemon = net.spawn_in_file(&net.r, &line, &net.directory.join("gobgpd.log"));
    net.until("gobgpd answers", |net| net.run(&net.r, "gobgp neighbor").0);
    let line = "exec sh -c 'gobgp monitor global rib -j --current | $PENSTOCK feed gobgp -v'";
    let feed = net.spawn_in_file(&net.r, line, &net.directory.join("feed.log"));
    [daemon, feed]
}
