// SPDX-License-Identifier: Apache-2.0

//! Settings of devices: the sysctls below `net.ipv4.conf` and `net.ipv6.conf`.
//!
//! [`Devconf`] is the table of those that packets follow: name, meaning, and how the kernel puts
//! the values of `all` and of the device together (`include/linux/inetdevice.h`). Names, parsing,
//! reading from `/proc/sys` and the table in `docs/devices.md` follow from it.

/// The family of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DevconfFamily {
    /// `net.ipv4.conf`.
    Ipv4,
    /// `net.ipv6.conf`.
    Ipv6,
}

impl DevconfFamily {
    /// Its name below `net.` and `/proc/sys/net`.
    pub const fn name(self) -> &'static str {
        match self {
            DevconfFamily::Ipv4 => "ipv4",
            DevconfFamily::Ipv6 => "ipv6",
        }
    }
}

/// How the values of `all` and of a device make the value that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combined {
    /// The device's alone.
    Device,
    /// The device's alone, and setting `all` sets it for every device.
    Spread,
    /// Only that of `all`, and setting it sets it for every device.
    All,
    /// The greater one.
    Max,
    /// On if either is.
    Or,
    /// On if both are.
    And,
}

impl Combined {
    const fn text(self) -> &'static str {
        match self {
            Combined::Device => "the device's",
            Combined::Spread => "the device's; `all` sets every device",
            Combined::All => "that of `all`",
            Combined::Max => "the greater one",
            Combined::Or => "on if either is",
            Combined::And => "on if both are",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    setting: Devconf,
    family: DevconfFamily,
    name: &'static str,
    combined: Combined,
    /// What a router has from the beginning: `all`, and each device.
    all: u32,
    device: u32,
    meaning: &'static str,
}

macro_rules! devconf {
    ($($(#[doc = $doc:literal])+
        $setting:ident = $family:ident $name:literal, $combined:ident, $all:literal $device:literal;)+) => {
        /// A setting of a device that packets follow.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Devconf { $($(#[doc = $doc])+ $setting),+ }

        const ROWS: &[Row] = &[$(Row {
            setting: Devconf::$setting,
            family: DevconfFamily::$family,
            name: $name,
            combined: Combined::$combined,
            all: $all,
            device: $device,
            meaning: concat!($($doc),+),
        }),+];
    };
}

devconf! {
    /// Packets that arrive by the device are forwarded.
    Forwarding4 = Ipv4 "forwarding", Spread, 1 1;
    /// Sources must be routed back: 1 by the device that they came in by, 2 by any.
    RpFilter = Ipv4 "rp_filter", Max, 0 0;
    /// Packets with a source address of this host are taken.
    AcceptLocal = Ipv4 "accept_local", Or, 0 0;
    /// The way back to a source is looked up with the packet's mark.
    SrcValidMark = Ipv4 "src_valid_mark", Or, 0 0;
    /// Addresses in 127.0.0.0/8 are addresses like any other.
    RouteLocalnet = Ipv4 "route_localnet", Or, 0 0;
    /// Senders get a redirect to a better next hop on their own link.
    SendRedirects = Ipv4 "send_redirects", Or, 1 1;
    /// Senders get a redirect even if they share no prefix with the next hop.
    SharedMedia = Ipv4 "shared_media", Or, 1 1;
    /// IPv4 packets to one host in a frame to many are dropped.
    DropUnicastInMulticast4 = Ipv4 "drop_unicast_in_l2_multicast", Or, 0 0;
    /// Packets that leave by the device are not encrypted.
    DisableXfrm = Ipv4 "disable_xfrm", Or, 0 0;
    /// IPsec policy is not asked about packets that arrive by the device.
    DisablePolicy = Ipv4 "disable_policy", Or, 0 0;
    /// Source routes of IPv4 are followed (the options `lsrr` and `ssrr`).
    AcceptSourceRoute4 = Ipv4 "accept_source_route", And, 0 1;
    /// Packets are forwarded; a device has the addresses of a router.
    Forwarding6 = Ipv6 "forwarding", All, 1 1;
    /// Packets that arrive by the device are forwarded even if `all.forwarding` is 0.
    ForceForwarding = Ipv6 "force_forwarding", Spread, 0 0;
    /// The device has no IPv6.
    DisableIpv6 = Ipv6 "disable_ipv6", Spread, 0 0;
    /// Hop limit of packets that the host makes and that leave by the device.
    HopLimit = Ipv6 "hop_limit", Device, 64 64;
    /// Largest IPv6 packet by the device; not more than the device itself takes.
    Mtu6 = Ipv6 "mtu", Device, 0 0;
    /// IPv6 packets to one host in a frame to many are dropped.
    DropUnicastInMulticast6 = Ipv6 "drop_unicast_in_l2_multicast", Device, 0 0;
}

/// Settings that the kernel's forwarding path follows and this one does not, with the value that
/// says what this one does.
const FIXED: &[(DevconfFamily, &str, u32)] = &[
    (DevconfFamily::Ipv4, "bc_forwarding", 0),
    (DevconfFamily::Ipv4, "ignore_routes_with_linkdown", 0),
    (DevconfFamily::Ipv4, "mc_forwarding", 0),
    (DevconfFamily::Ipv6, "accept_source_route", 0),
    (DevconfFamily::Ipv6, "disable_policy", 0),
    (DevconfFamily::Ipv6, "ignore_routes_with_linkdown", 0),
    (DevconfFamily::Ipv6, "ioam6_enabled", 0),
    (DevconfFamily::Ipv6, "mc_forwarding", 0),
    (DevconfFamily::Ipv6, "proxy_ndp", 0),
    (DevconfFamily::Ipv6, "rpl_seg_enabled", 0),
    (DevconfFamily::Ipv6, "seg6_enabled", 0),
];

/// Settings of the host's own stack, by the beginnings of their names: no packet that is forwarded
/// meets them. On devices the host follows them itself.
const OF_THE_HOST: &[(DevconfFamily, &[&str])] = &[
    (
        DevconfFamily::Ipv4,
        &[
            "accept_redirects",
            "arp_",
            "bootp_relay",
            "drop_gratuitous_arp",
            "force_igmp_version",
            "igmpv",
            "log_martians",
            "medium_id",
            "promote_secondaries",
            "proxy_arp",
            "secure_redirects",
            "tag",
        ],
    ),
    (
        DevconfFamily::Ipv6,
        &[
            "accept_dad",
            "accept_ra",
            "accept_redirects",
            "accept_untracked_na",
            "addr_gen_mode",
            "autoconf",
            "dad_transmits",
            "drop_unsolicited_na",
            "enhanced_dad",
            "force_mld_version",
            "force_tllao",
            "ioam6_id",
            "keep_addr_on_down",
            "max_addresses",
            "max_desync_factor",
            "mldv",
            "ndisc_",
            "optimistic_dad",
            "ra_",
            "regen_",
            "router_",
            "seg6_require_hmac",
            "stable_secret",
            "suppress_frag_ndisc",
            "temp_",
            "use_",
        ],
    ),
];

const COUNT: usize = ROWS.len();

/// Least MTU of IPv6 (RFC 8200, 5).
const MIN_MTU: u32 = 1280;

impl Devconf {
    /// All settings.
    pub fn all() -> impl Iterator<Item = Devconf> {
        ROWS.iter().map(|row| row.setting)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its family.
    pub fn family(self) -> DevconfFamily {
        self.row().family
    }

    /// Its name, as of the file below `/proc/sys/net/FAMILY/conf/DEVICE`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    fn find(family: DevconfFamily, name: &str) -> Option<Devconf> {
        ROWS.iter().find(|r| r.family == family && r.name == name).map(|r| r.setting)
    }

    /// Whether it can have a value.
    fn check(self, value: u32) -> bool {
        match self {
            Devconf::HopLimit => (1..=255).contains(&value),
            Devconf::Mtu6 => value >= MIN_MTU,
            _ => i32::try_from(value).is_ok(),
        }
    }

    /// The rows of a table in Markdown for the documentation.
    pub fn markdown() -> String {
        let row = |r: &Row| {
            let (family, name, value) = (r.family.name(), r.name, r.combined.text());
            format!("| `net.{family}.conf.DEV.{name}` | {} | {value} |\n", r.meaning.trim())
        };
        ROWS.iter().map(row).collect()
    }
}

/// A value for each setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevconfValues([u32; COUNT]);

impl DevconfValues {
    /// Those of `all`, where nothing was set.
    pub fn of_all() -> Self {
        DevconfValues(std::array::from_fn(|i| ROWS[i].all))
    }

    /// Those of a device, where nothing was set.
    pub fn of_device() -> Self {
        DevconfValues(std::array::from_fn(|i| ROWS[i].device))
    }

    /// The value of a setting.
    #[inline]
    pub fn get(&self, setting: Devconf) -> u32 {
        self.0[setting as usize]
    }

    /// Whether a setting is not 0.
    #[inline]
    pub fn is_on(&self, setting: Devconf) -> bool {
        self.get(setting) != 0
    }

    /// Sets one.
    pub fn set(&mut self, setting: Devconf, value: u32) {
        self.0[setting as usize] = value;
    }

    /// The values that count for a device with these of its own.
    fn combined(&self, all: &DevconfValues) -> DevconfValues {
        DevconfValues(std::array::from_fn(|i| {
            let (all, own) = (all.0[i], self.0[i]);
            match ROWS[i].combined {
                Combined::Device | Combined::Spread => own,
                Combined::All => all,
                Combined::Max => all.max(own),
                Combined::Or => u32::from(all != 0 || own != 0),
                Combined::And => u32::from(all != 0 && own != 0),
            }
        }))
    }
}

/// The settings of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDevconf {
    /// Its own values.
    own: DevconfValues,
    /// Those that count, together with `all`.
    effective: DevconfValues,
}

impl Default for LinkDevconf {
    fn default() -> Self {
        LinkDevconf::new(DevconfValues::of_device(), &DevconfValues::of_all())
    }
}

impl LinkDevconf {
    /// The values in effect for a link with these values.
    pub fn new(own: DevconfValues, all: &DevconfValues) -> Self {
        LinkDevconf { own, effective: own.combined(all) }
    }

    /// The value that counts.
    #[inline]
    pub fn get(&self, setting: Devconf) -> u32 {
        self.effective.get(setting)
    }

    /// Whether the value that counts is not 0.
    #[inline]
    pub fn is_on(&self, setting: Devconf) -> bool {
        self.effective.is_on(setting)
    }

    /// The values that the link itself has.
    pub fn values(&self) -> DevconfValues {
        self.own
    }

    /// The value that the link itself has.
    pub fn own(&self, setting: Devconf) -> u32 {
        self.own.get(setting)
    }

    /// Whether IPv6 packets that arrive by the link are forwarded (`ip6_forward()`).
    #[inline]
    pub fn forwards6(&self) -> bool {
        self.is_on(Devconf::Forwarding6) || self.is_on(Devconf::ForceForwarding)
    }
}

/// Where a setting is set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Default,
    Device(String),
}

/// One setting in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    place: Scope,
    setting: Devconf,
    value: u32,
}

/// Settings as they are written, `net.ipv4.conf.DEV.NAME=VALUE`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevconfSysctls(Vec<Written>);

/// The family, the device and the setting that a name says, as sysctl(8) takes it: dots or slashes
/// between its parts, and in the name of a device the other one of the two for the one that is
/// meant.
fn parts(name: &str) -> Option<(DevconfFamily, String, &str)> {
    let separator = name.chars().find(|c| matches!(c, '.' | '/'))?;
    let rest = name.strip_prefix("net")?.strip_prefix(separator)?;
    let (family, rest) = rest.split_once(separator)?;
    let families = [DevconfFamily::Ipv4, DevconfFamily::Ipv6];
    let family = families.into_iter().find(|f| f.name() == family)?;
    if (family, rest) == (DevconfFamily::Ipv4, "ip_forward") {
        return Some((family, "all".to_owned(), "forwarding"));
    }
    let (device, setting) =
        rest.strip_prefix("conf")?.strip_prefix(separator)?.rsplit_once(separator)?;
    let dots = separator == '.';
    Some((family, if dots { device.replace('/', ".") } else { device.to_owned() }, setting))
}

impl DevconfSysctls {
    /// Adds a setting by its name: `net.ipv4.conf.DEV.NAME`, with `all` or `default` for a device,
    /// or `net.ipv4.ip_forward` (`net.ipv4.conf.all.forwarding`). `false` if the name is none of
    /// settings of devices.
    ///
    /// # Errors
    /// The setting is unknown, of the host's own stack, or not followed with this value.
    pub fn set(&mut self, name: &str, value: u32) -> Result<bool, String> {
        let Some((family, device, short)) = parts(name) else { return Ok(false) };
        let Some(setting) = Devconf::find(family, short) else {
            return refuse(family, short, name, value).map(|()| true);
        };
        setting.check(value).then_some(()).ok_or_else(|| format!("{name} cannot be {value}"))?;
        let place = match &*device {
            "all" => Scope::All,
            "default" => Scope::Default,
            _ => Scope::Device(device),
        };
        self.0.push(Written { place, setting, value });
        Ok(true)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The devices that are named.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|written| match &written.place {
            Scope::Device(name) => Some(&**name),
            Scope::All | Scope::Default => None,
        })
    }

    /// Puts them in force, in order; `default` first, as it counts for devices that have no value
    /// of their own (`devinet_copy_dflt_conf()`).
    pub(crate) fn apply(
        &self,
        all: &mut DevconfValues,
        devices: &mut [(&str, &mut DevconfValues)],
    ) {
        for Written { setting, value, .. } in self.0.iter().filter(|s| s.place == Scope::Default) {
            devices.iter_mut().for_each(|(_, own)| own.set(*setting, *value));
        }
        for Written { place, setting, value } in &self.0 {
            let spreads = matches!(setting.row().combined, Combined::Spread | Combined::All);
            match place {
                Scope::Default => {}
                Scope::All => {
                    all.set(*setting, *value);
                    if spreads {
                        devices.iter_mut().for_each(|(_, own)| own.set(*setting, *value));
                    }
                }
                Scope::Device(name) => {
                    let named = devices.iter_mut().filter(|(device, _)| device == name);
                    named.for_each(|(_, own)| own.set(*setting, *value));
                }
            }
        }
    }
}

/// What to say of a setting that is not followed; nothing if its value is what is done here.
fn refuse(family: DevconfFamily, short: &str, name: &str, value: u32) -> Result<(), String> {
    match FIXED.iter().find(|(f, n, _)| (*f, *n) == (family, short)) {
        Some((_, _, fixed)) if *fixed == value => return Ok(()),
        Some((_, _, fixed)) => {
            return Err(format!("{name} is always {fixed} here, and cannot be {value}"));
        }
        None => {}
    }
    let mut of_the_host =
        OF_THE_HOST.iter().filter(|(f, _)| *f == family).flat_map(|(_, names)| *names);
    match of_the_host.any(|n| short.starts_with(n)) {
        true => Err(format!("{name} is of the host's own stack, which no packet meets here")),
        false => Err(format!("there is no {name} here")),
    }
}

/// Settings that the kernel follows with other values than this path: the name of the file below
/// `/proc/sys/net/FAMILY/conf/DEVICE`, and the value that says what this path does.
pub fn fixed_devconf() -> impl Iterator<Item = (DevconfFamily, &'static str, u32)> {
    FIXED.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_settings() {
        for (i, row) in ROWS.iter().enumerate() {
            assert_eq!(row.setting as usize, i, "{}", row.name);
            assert_eq!(Devconf::find(row.family, row.name), Some(row.setting));
        }
    }

    #[test]
    fn documentation_has_the_table() {
        let documentation = include_str!("../../../docs/devices.md");
        assert!(documentation.contains(&Devconf::markdown()), "\n{}", Devconf::markdown());
    }

    #[test]
    fn names_are_those_of_sysctl() {
        for name in ["net.ipv4.conf.eth0/7.rp_filter", "net/ipv4/conf/eth0.7/rp_filter"] {
            let (family, device, setting) = parts(name).unwrap();
            assert_eq!((family, &*device, setting), (DevconfFamily::Ipv4, "eth0.7", "rp_filter"));
        }
        let mut sysctls = DevconfSysctls::default();
        assert_eq!(sysctls.set("net.ipv4.ip_default_ttl", 0), Ok(false));
        assert_eq!(sysctls.set("net.ipv4.conf.a.bc_forwarding", 0), Ok(true));
        assert!(sysctls.is_empty());
        assert_eq!(sysctls.set("net.ipv4.ip_forward", 0), Ok(true));
        assert_eq!(sysctls.0[0].setting, Devconf::Forwarding4);
        let start = "net.ipv4.conf.a";
        for (name, value, why) in [
            ("net.ipv6.conf.a.hop_limit", 256, "net.ipv6.conf.a.hop_limit cannot be 256".into()),
            ("net.ipv4.conf.a.b", 0, format!("there is no {start}.b here")),
            (
                "net.ipv4.conf.a.bc_forwarding",
                1,
                format!("{start}.bc_forwarding is always 0 here, and cannot be 1"),
            ),
            (
                "net.ipv4.conf.a.arp_ignore",
                1,
                format!(
                    "{start}.arp_ignore is of the host's own stack, which no packet meets here"
                ),
            ),
        ] {
            assert_eq!(sysctls.set(name, value), Err(why));
        }
    }

    #[test]
    fn values_of_all_and_device_are_combined_as_in_the_kernel() {
        let value = |setting, all, own| {
            let (mut a, mut d) = (DevconfValues::of_all(), DevconfValues::of_device());
            a.set(setting, all);
            d.set(setting, own);
            LinkDevconf::new(d, &a).get(setting)
        };
        assert_eq!((value(Devconf::RpFilter, 2, 1), value(Devconf::RpFilter, 0, 1)), (2, 1));
        assert_eq!((value(Devconf::AcceptLocal, 0, 1), value(Devconf::AcceptLocal, 0, 0)), (1, 0));
        assert_eq!(value(Devconf::Forwarding4, 1, 0), 0);
        assert_eq!(value(Devconf::Forwarding6, 1, 0), 1);
    }

    #[test]
    fn later_settings_win_and_default_comes_first() {
        let set = |lines: &[(&str, u32)]| {
            let mut sysctls = DevconfSysctls::default();
            for (name, value) in lines {
                assert_eq!(sysctls.set(name, *value), Ok(true));
            }
            let mut all = DevconfValues::of_all();
            let (mut a, mut b) = (DevconfValues::of_device(), DevconfValues::of_device());
            sysctls.apply(&mut all, &mut [("a", &mut a), ("b", &mut b)]);
            (a.get(Devconf::Forwarding4), b.get(Devconf::Forwarding4))
        };
        let (all, a) = ("net.ipv4.conf.all.forwarding", "net.ipv4.conf.a.forwarding");
        let default = "net.ipv4.conf.default.forwarding";
        assert_eq!(set(&[(all, 0), (a, 1)]), (1, 0));
        assert_eq!(set(&[(a, 1), (all, 0)]), (0, 0));
        assert_eq!(set(&[(a, 1), (default, 0)]), (1, 0));
    }
}
