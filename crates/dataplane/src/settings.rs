// SPDX-License-Identifier: Apache-2.0

//! The kernel's sysctls that the path follows, with the kernel's defaults.

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Settings of the path. Times are nanoseconds of the packet clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `net.ipv4.icmp_ratelimit`: least time between limited ICMP messages to one address, once the
    /// burst of six is used up; 0 for no limit.
    pub icmp_ratelimit: u64,
    /// `net.ipv4.icmp_ratemask`: bit per ICMP type that is limited.
    pub icmp_ratemask: u32,
    /// `net.ipv4.icmp_msgs_per_sec`: limited ICMP messages per second to all addresses, both
    /// families.
    pub icmp_msgs_per_sec: u64,
    /// `net.ipv4.icmp_msgs_burst`. The kernel takes up to two more off at random; here it is exact.
    pub icmp_msgs_burst: u64,
    /// `net.ipv6.icmp.ratelimit`; wider routes back allow more, as in the kernel.
    pub icmp6_ratelimit: u64,
    /// `net.ipv4.route.error_cost`: cost of an answer about a missing route.
    pub route_error_cost: u64,
    /// `net.ipv4.route.error_burst`.
    pub route_error_burst: u64,
    /// `net.ipv4.ip_default_ttl`.
    pub ttl: u8,
    /// `net.ipv4.ip_forward_use_pmtu`: what was learned of paths counts for packets that are
    /// forwarded, too (IPv4).
    pub ip_forward_use_pmtu: bool,
    /// `net.ipv4.ip_no_pmtu_disc`: whether ICMP messages about the MTU of a path count. 0: yes; 1:
    /// the path is taken to have [`min_pmtu`](Self::min_pmtu); 2: no; 3: only about packets of
    /// protocols that check them, which tunnels are not.
    pub ip_no_pmtu_disc: u8,
    /// `net.ipv4.route.min_pmtu`: an IPv4 path is never taken to have less, in bytes.
    pub min_pmtu: u32,
    /// `net.ipv4.route.mtu_expires`: how long what was learned of an IPv4 path counts.
    pub mtu_expires: u64,
    /// `net.ipv6.route.mtu_expires`: how long what was learned of an IPv6 path counts.
    pub mtu_expires6: u64,
    /// `net.ipv4.ipfrag_time`.
    pub fragment_time: u64,
    /// `net.ipv4.ipfrag_high_thresh`: bytes of waiting fragments.
    pub fragment_memory: usize,
    /// `net.ipv6.ip6frag_time`.
    pub fragment6_time: u64,
    /// `net.ipv6.ip6frag_high_thresh`.
    pub fragment6_memory: usize,
    /// `net.netfilter.nf_conntrack_frag6_timeout`.
    pub conntrack_fragment6_time: u64,
    /// `net.netfilter.nf_conntrack_frag6_high_thresh`.
    pub conntrack_fragment6_memory: usize,
    /// `net.ipv4.ipfrag_max_dist`: fragments of one source that may come between two of one packet;
    /// 0 for any number.
    pub fragment_distance: u32,
    /// Whether IPv6 packets for this host are worked on after `input` as by the host's own stack:
    /// extension headers are checked and answered, fragments put together. Without it they are
    /// delivered as they are after `input`, since their receiver does that.
    pub host_extensions: bool,
    /// The host has its own stack, as a kernel behind TAPs: packets to any group go to it
    /// after `input`, since it knows itself what it has joined, and IPv4 options are filled in by
    /// it. Without this only the groups count that every router joins.
    pub host_stack: bool,
    /// `net.ipv4.fwmark_reflect` and `net.ipv6.fwmark_reflect`: answers carry the mark of what they
    /// answer.
    pub fwmark_reflect: bool,
    /// What packets pass on bridges.
    pub bridge: BridgeSettings,
    /// Settings of flowtables.
    pub flow: FlowSettings,
    /// `net.netfilter.nf_conntrack_*`.
    pub conntrack: penstock_conntrack::Settings,
}

/// `net.bridge.bridge-nf-*`: packets on bridges pass the hooks of IP. The default is none, as in a
/// kernel without br_netfilter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeSettings {
    /// `bridge-nf-call-iptables`: IPv4 packets do, on all bridges.
    pub call_ip: bool,
    /// `bridge-nf-call-ip6tables`: IPv6 packets do, on all bridges.
    pub call_ip6: bool,
    /// `bridge-nf-filter-vlan-tagged`: those with a VLAN tag do, too.
    pub vlan_tagged: bool,
    /// `bridge-nf-pass-vlan-input-dev`: those with a VLAN tag come in by the VLAN device on the
    /// bridge, if there is one.
    pub vlan_device: bool,
}

/// Settings of flowtables. Times are nanoseconds of the packet clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSettings {
    /// `net.netfilter.nf_flowtable_tcp_timeout`.
    pub tcp_timeout: u64,
    /// `net.netfilter.nf_flowtable_udp_timeout`.
    pub udp_timeout: u64,
    /// Timeout of other protocols (`NF_FLOW_TIMEOUT`).
    pub other_timeout: u64,
    /// Flows of a flowtable at most; never more than connections.
    pub max: u32,
    /// At early ingress, packets of a flow within a burst are found together.
    pub chains: bool,
}

impl Default for FlowSettings {
    fn default() -> Self {
        let timeout = 30 * SECOND;
        FlowSettings {
            tcp_timeout: timeout,
            udp_timeout: timeout,
            other_timeout: timeout,
            max: u32::MAX,
            chains: true,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            icmp_ratelimit: SECOND,
            icmp_ratemask: 0x1818,
            icmp_msgs_per_sec: 1000,
            icmp_msgs_burst: 50,
            icmp6_ratelimit: SECOND,
            route_error_cost: SECOND,
            route_error_burst: 5 * SECOND,
            ttl: 64,
            ip_forward_use_pmtu: false,
            ip_no_pmtu_disc: 0,
            min_pmtu: 552,
            mtu_expires: 600 * SECOND,
            mtu_expires6: 600 * SECOND,
            fragment_time: 30 * SECOND,
            fragment_memory: 4 << 20,
            fragment6_time: 60 * SECOND,
            fragment6_memory: 4 << 20,
            conntrack_fragment6_time: 60 * SECOND,
            conntrack_fragment6_memory: 4 << 20,
            fragment_distance: 64,
            host_extensions: false,
            host_stack: false,
            fwmark_reflect: false,
            bridge: Default::default(),
            flow: Default::default(),
            conntrack: Default::default(),
        }
    }
}

impl Settings {
    /// Without any limit on the messages that the host sends, for comparisons frame by frame.
    pub fn unlimited() -> Self {
        Settings {
            icmp_ratelimit: 0,
            icmp_ratemask: 0,
            icmp6_ratelimit: 0,
            route_error_cost: 0,
            ..Self::default()
        }
    }
}
