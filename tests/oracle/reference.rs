// SPDX-License-Identifier: Apache-2.0

//! Scenarios of `tests/kernel` for which another kernel is the reference: Linux 6.18, which Debian
//! does not have (docs/testing.md). They are compared where the machine itself has it.

/// Names, and what newer kernels do there.
const OF_6_18: [(&[&str], &str); 9] = [
    (
        &["ct_other_protocols", "nat_masquerade_many_protocols", "nat_masquerade_zoo"],
        "7.3 knows nothing of UDP-Lite but its addresses",
    ),
    (
        &[
            "headers_of_cut_packets_and_later_fragments_at_ingress",
            "raw_payload",
            "rejects_of_every_type",
            "udp_and_udplite_fields",
        ],
        "in 7.3 no rule finds a transport header in later fragments",
    ),
    (
        &["ipv6_extension_headers_that_cannot_be"],
        "in 7.3 rules find no transport header after some malformed extension headers",
    ),
    (
        &["path_mtu_of_packets_that_have_no_socket"],
        "in 7.3 an error about UDP says how long packets may be also without a socket",
    ),
    (
        &["rules_change_packets"],
        "7.3 does not write to a flow label, TCP flags, or bytes after the IPv4 header from there",
    ),
    (
        &["tags_survive_forwarding_between_devices", "vlan_tags_at_ingress"],
        "in 7.3 rules at ingress look into both of two 802.1Q tags",
    ),
    (
        &[
            "bridge_does_not_flood",
            "bridge_group_forward_mask",
            "bridge_hooks_and_all_kinds_of_frames",
            "bridge_isolated",
            "bridge_port_down",
            "bridge_promiscuous",
        ],
        "in 7.3 rules look into the tag of a raw frame that the host sends on a bridge",
    ),
    (&["tc_egress_sees_what_chains_left"], "7.3 ends a packet that copies itself at egress sooner"),
    (
        &["reject_of_padded_frames", "rejects_at_other_hooks"],
        "Debian's kernels have no `reject` at ingress of devices",
    ),
];

/// Why a scenario is not compared with a kernel of Debian.
pub fn other(name: &str) -> Option<&'static str> {
    let (_, reason) = OF_6_18.iter().find(|(names, _)| names.contains(&name))?;
    Some(reason)
}
