// SPDX-License-Identifier: Apache-2.0

//! Flowtables of the live dataplane: files arrive whole while flows come and go, and listings show
//! flows and the reasons of refusals.

use crate::net::Net;
use crate::{fetch, serve};

fn rules(hook: &str) -> String {
    format!(
        "table inet t {{
           flowtable f {{
             hook {hook} priority filter
             devices = {{ r0, r1 }}
             counter
           }}
           chain forward {{
             type filter hook forward priority filter
             flow add @f
             counter
           }}
         }}"
    )
}

#[test]
fn flows_are_shown_with_their_path_or_the_reason_for_none() {
    let Some(mut net) = Net::new() else { return };
    let sum = serve(&mut net);
    for hook in ["ingress", "early_ingress"] {
        net.up("r0 r1 --driver packet");
        net.nft(&rules(hook));
        net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
        assert_eq!(fetch(&net, "http://198.18.1.2/file"), sum, "{hook}");
        let flows = net.ok(&net.r, "$PENSTOCK show flows");
        for what in [
            "inet t f: tcp 198.18.0.2:",
            "\n    r0 -> r1 via 198.18.1.2 mtu 1500: ",
            "\n    r1 -> r0 via 198.18.0.2 mtu 1500: ",
            ", in software",
            "\n    not offloaded: protocol\n",
            " flows added, ",
        ] {
            assert!(flows.contains(what), "{hook}: {flows}");
        }
        let connections = net.ok(&net.r, "$PENSTOCK show conntrack");
        assert!(connections.contains("[OFFLOAD]"), "{hook}: {connections}");
        // What is refused changes nothing.
        let (done, said) = net.run(
            &net.r,
            "$PENSTOCK nft 'flush ruleset; table ip n { flowtable g { hook ingress priority 0; devices = { lo }; flags offload; }; }'",
        );
        assert!(!done && said.contains("Operation not supported: device lo"), "{said}");
        assert!(said.contains("^"), "{said}");
        assert!(net.ok(&net.r, "$PENSTOCK nft list flowtables").contains("flowtable f"));
        net.down();
    }
}

#[test]
fn files_arrive_whole_while_generations_change() {
    let Some(mut net) = Net::new() else { return };
    let sum = serve(&mut net);
    for hook in ["ingress", "early_ingress"] {
        net.up("r0 r1 --driver packet");
        net.nft(&rules(hook));
        // Rules change, the flowtable is removed and added again, and the network changes as well.
        let script = net.directory.join("changes");
        let changes = format!(
            "for i in $(seq 1 40); do\n\
               $PENSTOCK nft add rule inet t forward counter\n\
               [ $((i % 4)) = 0 ] && $PENSTOCK nft 'flush ruleset; {}'\n\
               ip route replace 198.19.$i.0/24 via 198.18.1.2\n\
             done",
            rules(hook)
        );
        std::fs::write(&script, changes).unwrap();
        let changing = net.spawn_reading(&net.r, &format!("sh -e {}", script.display()));
        for _ in 0..3 {
            assert_eq!(fetch(&net, "http://198.18.1.2/file"), sum, "{hook}");
        }
        changing.stop();
        let flows = net.ok(&net.r, "$PENSTOCK show flows");
        assert!(!flows.contains("\n0 flows added"), "{hook}: {flows}");
        net.down();
    }
}
