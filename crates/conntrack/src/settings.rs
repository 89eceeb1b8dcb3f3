// SPDX-License-Identifier: Apache-2.0

//! What can be set: the kernel's `net.netfilter.nf_conntrack_*`.

use std::time::Duration;

/// Protocols that have a tracker and timeouts of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tracker {
    /// TCP.
    Tcp = 0,
    /// UDP and UDP-Lite.
    Udp = 1,
    /// ICMP for IPv4.
    Icmp = 2,
    /// ICMP for IPv6.
    Icmpv6 = 3,
    /// SCTP.
    Sctp = 4,
    /// DCCP.
    Dccp = 5,
    /// GRE.
    Gre = 6,
    /// Everything else.
    Generic = 7,
}

impl Tracker {
    /// Number of trackers.
    pub const COUNT: usize = 8;

    /// Which one tracks an IP protocol (`nf_ct_l4proto_find()`).
    #[inline]
    pub const fn of(protocol: u8) -> Self {
        use penstock_wire::protocol as p;
        match protocol {
            p::TCP => Tracker::Tcp,
            p::UDP | p::UDPLITE => Tracker::Udp,
            p::ICMP => Tracker::Icmp,
            p::ICMPV6 => Tracker::Icmpv6,
            p::SCTP => Tracker::Sctp,
            p::DCCP => Tracker::Dccp,
            p::GRE => Tracker::Gre,
            _ => Tracker::Generic,
        }
    }

    /// The names of this tracker's timeouts with their default in seconds, at the index of the
    /// state that they belong to: as `ct timeout` objects call them, and as the end of the sysctl's
    /// name.
    pub const fn timeouts(self) -> &'static [Timeout] {
        const fn t(
            index: usize,
            policy: &'static str,
            sysctl: &'static str,
            default: u32,
        ) -> Timeout {
            Timeout { index, policy, sysctl, default }
        }
        match self {
            Tracker::Tcp => {
                const {
                    &[
                        t(1, "syn_sent", "tcp_timeout_syn_sent", 120),
                        t(2, "syn_recv", "tcp_timeout_syn_recv", 60),
                        t(3, "established", "tcp_timeout_established", 432_000),
                        t(4, "fin_wait", "tcp_timeout_fin_wait", 120),
                        t(5, "close_wait", "tcp_timeout_close_wait", 60),
                        t(6, "last_ack", "tcp_timeout_last_ack", 30),
                        t(7, "time_wait", "tcp_timeout_time_wait", 120),
                        t(8, "close", "tcp_timeout_close", 10),
                        t(9, "syn_sent2", "tcp_timeout_syn_sent2", 120),
                        t(10, "retrans", "tcp_timeout_max_retrans", 300),
                        t(11, "unack", "tcp_timeout_unacknowledged", 300),
                    ]
                }
            }
            Tracker::Udp => {
                const {
                    &[
                        t(0, "unreplied", "udp_timeout", 30),
                        t(1, "replied", "udp_timeout_stream", 120),
                    ]
                }
            }
            Tracker::Icmp => const { &[t(0, "timeout", "icmp_timeout", 30)] },
            Tracker::Icmpv6 => const { &[t(0, "timeout", "icmpv6_timeout", 30)] },
            Tracker::Sctp => {
                const {
                    &[
                        t(1, "closed", "sctp_timeout_closed", 10),
                        t(2, "cookie_wait", "sctp_timeout_cookie_wait", 3),
                        t(3, "cookie_echoed", "sctp_timeout_cookie_echoed", 3),
                        t(4, "established", "sctp_timeout_established", 210),
                        t(5, "shutdown_sent", "sctp_timeout_shutdown_sent", 3),
                        t(6, "shutdown_recd", "sctp_timeout_shutdown_recd", 3),
                        t(7, "shutdown_ack_sent", "sctp_timeout_shutdown_ack_sent", 3),
                        t(8, "heartbeat_sent", "sctp_timeout_heartbeat_sent", 30),
                    ]
                }
            }
            Tracker::Dccp => {
                const {
                    &[
                        t(1, "request", "dccp_timeout_request", 240),
                        t(2, "respond", "dccp_timeout_respond", 480),
                        t(3, "partopen", "dccp_timeout_partopen", 480),
                        t(4, "open", "dccp_timeout_open", 43_200),
                        t(5, "closereq", "dccp_timeout_closereq", 64),
                        t(6, "closing", "dccp_timeout_closing", 64),
                        t(7, "timewait", "dccp_timeout_timewait", 240),
                    ]
                }
            }
            Tracker::Gre => {
                const {
                    &[
                        t(0, "unreplied", "gre_timeout", 30),
                        t(1, "replied", "gre_timeout_stream", 180),
                    ]
                }
            }
            Tracker::Generic => const { &[t(0, "timeout", "generic_timeout", 600)] },
        }
    }

    /// All of them.
    pub const ALL: [Tracker; Tracker::COUNT] = [
        Tracker::Tcp,
        Tracker::Udp,
        Tracker::Icmp,
        Tracker::Icmpv6,
        Tracker::Sctp,
        Tracker::Dccp,
        Tracker::Gre,
        Tracker::Generic,
    ];
}

/// A timeout that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// State that it belongs to.
    pub index: usize,
    /// Name in `ct timeout` objects.
    pub policy: &'static str,
    /// Name after `nf_conntrack_`.
    pub sysctl: &'static str,
    /// Seconds.
    pub default: u32,
}

/// Timeouts of one tracker in nanoseconds by state.
pub type Timeouts = [u64; 12];

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Ticks of a second, in which the kernel counts, as distributions build it (`CONFIG_HZ`).
pub(crate) const HZ: u32 = 250;

/// The sysctls of connection tracking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections at most (`nf_conntrack_max`). 0 stands for [`Settings::LARGEST`].
    pub max: u32,
    /// Buckets of the table, each with seven slots, and a connection takes two slots. `None`, the
    /// usual choice, takes as many as `max` needs (`nf_conntrack_buckets`).
    pub buckets: Option<u32>,
    /// Whether transport checksums are verified at prerouting (`nf_conntrack_checksum`).
    pub checksum: bool,
    /// Whether new connections count packets and bytes (`nf_conntrack_acct`).
    pub acct: bool,
    /// Whether new connections note their start and end (`nf_conntrack_timestamp`).
    pub timestamp: bool,
    /// Expectations at most (`nf_conntrack_expect_max`).
    pub expect_max: u32,
    /// Whether connections are picked up in the middle (`nf_conntrack_tcp_loose`).
    pub tcp_loose: bool,
    /// Whether only resets may be out of window (`nf_conntrack_tcp_be_liberal`).
    pub tcp_be_liberal: bool,
    /// Whether a reset out of window is let through without effect
    /// (`nf_conntrack_tcp_ignore_invalid_rst`).
    pub tcp_ignore_invalid_rst: bool,
    /// The protocol of which it is said why packets are invalid, 255 for all and 0 for none
    /// (`nf_conntrack_log_invalid`).
    pub log_invalid: u8,
    /// Retransmissions after which the timeout becomes that of `max_retrans`
    /// (`nf_conntrack_tcp_max_retrans`).
    pub tcp_max_retrans: u8,
    /// Whether DCCP connections are picked up in the middle (`nf_conntrack_dccp_loose`).
    pub dccp_loose: bool,
    /// Timeouts in nanoseconds by [`Tracker`] and state, see [`Tracker::timeouts()`].
    pub timeouts: [Timeouts; Tracker::COUNT],
}

impl Default for Settings {
    fn default() -> Self {
        let mut timeouts = [[0; 12]; Tracker::COUNT];
        for tracker in Tracker::ALL {
            for t in tracker.timeouts() {
                timeouts[tracker as usize][t.index] = u64::from(t.default) * SECOND;
            }
        }
        Self {
            max: 262_144,
            buckets: None,
            checksum: true,
            acct: false,
            timestamp: false,
            expect_max: 4096,
            tcp_loose: true,
            tcp_be_liberal: false,
            tcp_ignore_invalid_rst: false,
            log_invalid: 0,
            tcp_max_retrans: 3,
            dccp_loose: true,
            timeouts,
        }
    }
}

impl Settings {
    /// Connections that a table can hold.
    pub const LARGEST: u32 = 1 << 26;

    /// Connections at most, as they count.
    pub const fn max(&self) -> u32 {
        if self.max == 0 || self.max > Self::LARGEST { Self::LARGEST } else { self.max }
    }

    /// Buckets of the table at most, as they count: two to four of seven places are used when the
    /// table is full.
    pub(crate) const fn bucket_count(&self) -> u32 {
        match self.buckets {
            Some(buckets) => buckets,
            None => (self.max() / 2).next_power_of_two(),
        }
    }

    /// Timeouts of a tracker in nanoseconds by state.
    #[inline]
    pub const fn timeouts(&self, tracker: Tracker) -> &Timeouts {
        &self.timeouts[tracker as usize]
    }

    /// Sets one timeout by the name that it has in `ct timeout` objects; `false` if there is no
    /// such name.
    pub fn set_timeout(&mut self, tracker: Tracker, name: &str, timeout: Duration) -> bool {
        let Some(t) = tracker.timeouts().iter().find(|t| t.policy == name) else { return false };
        self.timeouts[tracker as usize][t.index] = duration_ns(timeout);
        true
    }

    /// Sets a sysctl by its name, with or without `net.netfilter.` in front.
    ///
    /// # Errors
    /// The name is not known, or the value does not fit.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), SysctlError> {
        let short = name.strip_prefix("net.netfilter.").unwrap_or(name);
        let short = short.strip_prefix("nf_conntrack_").ok_or(SysctlError::Unknown)?;
        let flag = match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SysctlError::Value),
        };
        match short {
            "max" => self.max = value,
            "buckets" => self.buckets = Some(value),
            "expect_max" => self.expect_max = value,
            "checksum" => self.checksum = flag?,
            "acct" => self.acct = flag?,
            "timestamp" => self.timestamp = flag?,
            "tcp_loose" => self.tcp_loose = flag?,
            "tcp_be_liberal" => self.tcp_be_liberal = flag?,
            "tcp_ignore_invalid_rst" => self.tcp_ignore_invalid_rst = flag?,
            "log_invalid" => {
                self.log_invalid = u8::try_from(value).map_err(|_| SysctlError::Value)?;
            }
            "tcp_max_retrans" => {
                self.tcp_max_retrans = u8::try_from(value).map_err(|_| SysctlError::Value)?;
            }
            "dccp_loose" => self.dccp_loose = flag?,
            _ => {
                let (tracker, index) = timeout_of(short).ok_or(SysctlError::Unknown)?;
                self.timeouts[tracker as usize][index] = u64::from(value) * SECOND;
            }
        }
        Ok(())
    }

    /// A sysctl by its name, with or without `net.netfilter.` in front; timeouts in seconds.
    pub fn get(&self, name: &str) -> Option<u32> {
        let short =
            name.strip_prefix("net.netfilter.").unwrap_or(name).strip_prefix("nf_conntrack_")?;
        Some(match short {
            "max" => self.max,
            "buckets" => self.bucket_count(),
            "expect_max" => self.expect_max,
            "checksum" => self.checksum.into(),
            "acct" => self.acct.into(),
            "timestamp" => self.timestamp.into(),
            "tcp_loose" => self.tcp_loose.into(),
            "tcp_be_liberal" => self.tcp_be_liberal.into(),
            "tcp_ignore_invalid_rst" => self.tcp_ignore_invalid_rst.into(),
            "log_invalid" => self.log_invalid.into(),
            "tcp_max_retrans" => self.tcp_max_retrans.into(),
            "dccp_loose" => self.dccp_loose.into(),
            _ => {
                let (tracker, index) = timeout_of(short)?;
                (self.timeouts[tracker as usize][index] / SECOND) as u32
            }
        })
    }
}

/// Why a sysctl was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysctlError {
    /// There is none of this name.
    Unknown,
    /// It does not take this value.
    Value,
}

fn timeout_of(short: &str) -> Option<(Tracker, usize)> {
    Tracker::ALL.into_iter().find_map(|tracker| {
        // syn_sent2 has no sysctl: the kernel keeps its default.
        let t = tracker.timeouts().iter().find(|t| t.sysctl == short && t.policy != "syn_sent2")?;
        Some((tracker, t.index))
    })
}

/// The longest timeout, in nanoseconds.
pub(crate) const LONGEST: u64 = u32::MAX as u64 * SECOND;

/// A duration as it is counted here, cut at the longest time that counts.
pub(crate) fn duration_ns(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_are_set_and_read_by_their_names() {
        let mut s = Settings::default();
        for (name, default, value) in [
            ("net.netfilter.nf_conntrack_max", 262_144, 5),
            ("nf_conntrack_tcp_timeout_established", 432_000, 7),
            ("nf_conntrack_udp_timeout_stream", 120, 9),
            ("nf_conntrack_generic_timeout", 600, 1),
            ("nf_conntrack_tcp_timeout_max_retrans", 300, 2),
            ("nf_conntrack_sctp_timeout_established", 210, 3),
            ("nf_conntrack_tcp_be_liberal", 0, 1),
            ("nf_conntrack_tcp_max_retrans", 3, 255),
            ("nf_conntrack_expect_max", 4096, 1),
        ] {
            assert_eq!(s.get(name), Some(default), "{name}");
            assert_eq!(s.set(name, value), Ok(()), "{name}");
            assert_eq!(s.get(name), Some(value), "{name}");
        }
        assert_eq!(s.set("nf_conntrack_acct", 2), Err(SysctlError::Value));
        assert_eq!(s.set("nf_conntrack_nothing", 1), Err(SysctlError::Unknown));
        assert_eq!(s.get("nf_conntrack_tcp_timeout_syn_sent2"), None);
    }
}
