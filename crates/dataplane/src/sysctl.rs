// SPDX-License-Identifier: Apache-2.0

//! Settings by the names of the kernel's sysctls.

use penstock_conntrack::SysctlError;

use crate::settings::{SECOND, Settings};

/// Those that [`Dataplane::set_sysctls`](crate::Dataplane::set_sysctls) changes between packets: MTUs
/// of paths, what packets pass on bridges, and settings of connections and of flows. The number of
/// buckets is none of them: the table has as many as it needs.
pub const LIVE_SYSCTLS: [&str; 58] = [
    "net.ipv4.ip_forward_use_pmtu",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.route.min_pmtu",
    "net.ipv4.route.mtu_expires",
    "net.ipv6.route.mtu_expires",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.bridge.bridge-nf-call-arptables",
    "net.bridge.bridge-nf-filter-vlan-tagged",
    "net.bridge.bridge-nf-filter-pppoe-tagged",
    "net.bridge.bridge-nf-pass-vlan-input-dev",
    "net.netfilter.nf_conntrack_acct",
    "net.netfilter.nf_conntrack_checksum",
    "net.netfilter.nf_conntrack_dccp_loose",
    "net.netfilter.nf_conntrack_dccp_timeout_closereq",
    "net.netfilter.nf_conntrack_dccp_timeout_closing",
    "net.netfilter.nf_conntrack_dccp_timeout_open",
    "net.netfilter.nf_conntrack_dccp_timeout_partopen",
    "net.netfilter.nf_conntrack_dccp_timeout_request",
    "net.netfilter.nf_conntrack_dccp_timeout_respond",
    "net.netfilter.nf_conntrack_dccp_timeout_timewait",
    "net.netfilter.nf_conntrack_expect_max",
    "net.netfilter.nf_conntrack_frag6_high_thresh",
    "net.netfilter.nf_conntrack_frag6_timeout",
    "net.netfilter.nf_conntrack_generic_timeout",
    "net.netfilter.nf_conntrack_gre_timeout",
    "net.netfilter.nf_conntrack_gre_timeout_stream",
    "net.netfilter.nf_conntrack_icmp_timeout",
    "net.netfilter.nf_conntrack_icmpv6_timeout",
    "net.netfilter.nf_conntrack_log_invalid",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_sctp_timeout_closed",
    "net.netfilter.nf_conntrack_sctp_timeout_cookie_echoed",
    "net.netfilter.nf_conntrack_sctp_timeout_cookie_wait",
    "net.netfilter.nf_conntrack_sctp_timeout_established",
    "net.netfilter.nf_conntrack_sctp_timeout_heartbeat_sent",
    "net.netfilter.nf_conntrack_sctp_timeout_shutdown_ack_sent",
    "net.netfilter.nf_conntrack_sctp_timeout_shutdown_recd",
    "net.netfilter.nf_conntrack_sctp_timeout_shutdown_sent",
    "net.netfilter.nf_conntrack_tcp_be_liberal",
    "net.netfilter.nf_conntrack_tcp_ignore_invalid_rst",
    "net.netfilter.nf_conntrack_tcp_loose",
    "net.netfilter.nf_conntrack_tcp_max_retrans",
    "net.netfilter.nf_conntrack_tcp_timeout_close",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_last_ack",
    "net.netfilter.nf_conntrack_tcp_timeout_max_retrans",
    "net.netfilter.nf_conntrack_tcp_timeout_syn_recv",
    "net.netfilter.nf_conntrack_tcp_timeout_syn_sent",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_unacknowledged",
    "net.netfilter.nf_conntrack_timestamp",
    "net.netfilter.nf_conntrack_udp_timeout",
    "net.netfilter.nf_conntrack_udp_timeout_stream",
    "net.netfilter.nf_flowtable_tcp_timeout",
    "net.netfilter.nf_flowtable_udp_timeout",
];

const MILLISECOND: u64 = SECOND / 1000;

/// Least MTU of IPv4 (RFC 791).
const MIN_MTU: u32 = penstock_wire::ipv4::MIN_MTU as u32;

impl Settings {
    /// Sets a sysctl by its name: `net.ipv4.ipfrag_time`, `net.netfilter.nf_conntrack_max`. Times
    /// are in the sysctl's own unit, seconds or milliseconds.
    ///
    /// # Errors
    /// The name is none that the path follows, or the value does not fit.
    pub fn set_sysctl(&mut self, name: &str, value: u32) -> Result<(), SysctlError> {
        let seconds = u64::from(value) * SECOND;
        let milliseconds = u64::from(value) * MILLISECOND;
        let flag = || match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SysctlError::Value),
        };
        match name {
            "net.ipv4.icmp_ratelimit" => self.icmp_ratelimit = milliseconds,
            "net.ipv4.icmp_ratemask" => self.icmp_ratemask = value,
            "net.ipv4.icmp_msgs_per_sec" => self.icmp_msgs_per_sec = value.into(),
            "net.ipv4.icmp_msgs_burst" => self.icmp_msgs_burst = value.into(),
            "net.ipv6.icmp.ratelimit" => self.icmp6_ratelimit = milliseconds,
            "net.ipv4.ip_default_ttl" => {
                self.ttl =
                    u8::try_from(value).ok().filter(|ttl| *ttl != 0).ok_or(SysctlError::Value)?;
            }
            "net.ipv4.ip_forward_use_pmtu" => self.ip_forward_use_pmtu = flag()?,
            "net.ipv4.ip_no_pmtu_disc" => {
                self.ip_no_pmtu_disc =
                    u8::try_from(value).ok().filter(|v| *v <= 3).ok_or(SysctlError::Value)?;
            }
            "net.ipv4.route.min_pmtu" => {
                self.min_pmtu =
                    Some(value).filter(|mtu| *mtu >= MIN_MTU).ok_or(SysctlError::Value)?;
            }
            "net.ipv4.route.mtu_expires" => self.mtu_expires = seconds,
            "net.ipv6.route.mtu_expires" => self.mtu_expires6 = seconds,
            "net.ipv4.ipfrag_time" => self.fragment_time = seconds,
            "net.ipv4.ipfrag_high_thresh" => self.fragment_memory = value as usize,
            "net.ipv4.ipfrag_max_dist" => self.fragment_distance = value,
            "net.ipv6.ip6frag_time" => self.fragment6_time = seconds,
            "net.ipv6.ip6frag_high_thresh" => self.fragment6_memory = value as usize,
            "net.netfilter.nf_conntrack_frag6_timeout" => self.conntrack_fragment6_time = seconds,
            "net.netfilter.nf_conntrack_frag6_high_thresh" => {
                self.conntrack_fragment6_memory = value as usize;
            }
            "net.netfilter.nf_flowtable_tcp_timeout" => self.flow.tcp_timeout = seconds,
            "net.netfilter.nf_flowtable_udp_timeout" => self.flow.udp_timeout = seconds,
            "net.bridge.bridge-nf-call-iptables" => self.bridge.call_ip = value != 0,
            "net.bridge.bridge-nf-call-ip6tables" => self.bridge.call_ip6 = value != 0,
            // No chain of nf_tables is at the hook that it is about, `forward` of ARP.
            "net.bridge.bridge-nf-call-arptables" => {}
            "net.bridge.bridge-nf-filter-vlan-tagged" => self.bridge.vlan_tagged = value != 0,
            "net.bridge.bridge-nf-pass-vlan-input-dev" => self.bridge.vlan_device = value != 0,
            // Packets in sessions of PPPoE pass bridges only.
            "net.bridge.bridge-nf-filter-pppoe-tagged" if value != 0 => {
                return Err(SysctlError::Value);
            }
            "net.bridge.bridge-nf-filter-pppoe-tagged" => {}
            "net.ipv4.fwmark_reflect" => self.fwmark_reflect = flag()?,
            _ => {
                let known = name.strip_prefix("net.netfilter.").ok_or(SysctlError::Unknown)?;
                self.conntrack.set(known, value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_followed_are_those_of_settings() {
        let mut settings = Settings::default();
        for name in LIVE_SYSCTLS {
            assert_ne!(settings.set_sysctl(name, 1), Err(SysctlError::Unknown), "{name}");
        }
        let of_trackers = penstock_conntrack::Tracker::ALL.into_iter().flat_map(|t| t.timeouts());
        // There is no sysctl for the fourth way of TCP into a connection.
        for timeout in of_trackers.filter(|timeout| timeout.policy != "syn_sent2") {
            let name = format!("net.netfilter.nf_conntrack_{}", timeout.sysctl);
            assert!(LIVE_SYSCTLS.contains(&&*name), "{name}");
        }
    }

    #[test]
    fn sysctls_have_their_effect_of_the_kernel() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("net.ipv4.ipfrag_time", 5),
            ("net.ipv4.icmp_ratelimit", 20),
            ("net.netfilter.nf_conntrack_max", 7),
            ("net.netfilter.nf_flowtable_udp_timeout", 8),
            ("net.netfilter.nf_conntrack_udp_timeout", 9),
        ] {
            assert_eq!(settings.set_sysctl(name, value), Ok(()), "{name}");
        }
        assert_eq!(
            (settings.fragment_time, settings.icmp_ratelimit),
            (5 * SECOND, 20 * MILLISECOND)
        );
        assert_eq!(settings.flow.udp_timeout, 8 * SECOND);
        assert_eq!(
            (settings.conntrack.max, settings.conntrack.get("nf_conntrack_udp_timeout")),
            (7, Some(9))
        );
        assert_eq!(settings.set_sysctl("net.ipv4.ip_default_ttl", 0), Err(SysctlError::Value));
        assert_eq!(settings.set_sysctl("net.ipv4.tcp_sack", 0), Err(SysctlError::Unknown));
    }
}
