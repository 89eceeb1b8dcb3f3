// SPDX-License-Identifier: Apache-2.0

//! Which IPv4 address an IPv6 address has in it (6rd, RFC 5969), by which `sit` devices without a
//! remote address find the other end.

/// A network of IPv6 whose addresses have one of IPv4 after the prefix (`struct
/// ip_tunnel_6rd_parm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SixRd {
    /// The prefix of the network; bits after it are 0.
    pub prefix: u128,
    /// Bits of the prefix; with those of the IPv4 addresses at most 64.
    pub len: u8,
    /// What IPv4 addresses begin with, which is left out; bits after it are 0.
    pub relay: u32,
    /// Bits of `relay`, up to 32.
    pub relay_len: u8,
}

impl SixRd {
    /// That of 6to4: 2002::/16 (RFC 3056).
    pub const OF_6TO4: SixRd = SixRd { prefix: 0x2002 << 112, len: 16, relay: 0, relay_len: 0 };

    /// A network with these prefixes; `None` if they cannot be those of one
    /// (`ipip6_tunnel_update_6rd()`).
    pub fn new(prefix: u128, len: u8, relay: u32, relay_len: u8) -> Option<SixRd> {
        let own = 32u8.checked_sub(relay_len)?;
        let fits = u16::from(len) + u16::from(own) <= 64;
        let ends = |bits: u128, len: u8| bits.checked_shl(len.into()).unwrap_or(0) == 0;
        let whole = ends(prefix, len) && ends(u128::from(relay) << 96, relay_len);
        (fits && whole).then_some(SixRd { prefix, len, relay, relay_len })
    }

    /// The IPv4 address in an address of the network; `None` for others (`check_6rd()`).
    pub fn inside(&self, address: u128) -> Option<u32> {
        let own = 32 - u32::from(self.relay_len);
        let after = address.checked_shl(self.len.into()).unwrap_or(0);
        let found = after.checked_shr(128 - own).unwrap_or(0) as u32;
        self.shares(address, self.prefix, self.len).then_some(self.relay | found)
    }

    /// Whether two addresses are of the same site: they agree in the prefix and in the IPv4 address
    /// after it (`only_dnatted()`).
    pub fn same_site(&self, one: u128, other: u128) -> bool {
        self.shares(one, other, self.len + 32 - self.relay_len)
    }

    fn shares(&self, one: u128, other: u128, len: u8) -> bool {
        (one ^ other).checked_shr(128 - u32::from(len)).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> u128 {
        text.parse::<std::net::Ipv6Addr>().unwrap().into()
    }

    #[test]
    fn addresses_are_found_after_the_prefix() {
        for (prefix, len, relay, relay_len, tested, found) in [
            ("2002::", 16, 0, 0, "2002:c612:1::7", Some(0xc612_0001)),
            ("2002::", 16, 0, 0, "2001:c612:1::7", None),
            ("2001:db8::", 32, 0, 0, "2001:db8:c612:1::7", Some(0xc612_0001)),
            ("2001:db8::", 32, 0xc612_0000, 16, "2001:db8:63::7", Some(0xc612_0063)),
            ("2001:db8::", 29, 0xc612_0000, 15, "2001:db8:8:20::1", Some(0xc612_0002)),
            ("2001:db8::", 32, 0xc612_0001, 32, "2001:db8:63::7", Some(0xc612_0001)),
        ] {
            let network = SixRd::new(address(prefix), len, relay, relay_len).unwrap();
            assert_eq!(network.inside(address(tested)), found, "{tested} in {prefix}/{len}");
        }
    }

    #[test]
    fn prefixes_that_cannot_be_are_refused() {
        for (prefix, len, relay, relay_len) in [
            ("2001:db8::", 33, 0, 0),
            ("2001:db8::", 24, 0, 0),
            ("2001:db8::", 32, 0xc612_0001, 16),
            ("2001:db8::", 32, 0, 33),
        ] {
            assert_eq!(SixRd::new(address(prefix), len, relay, relay_len), None, "{prefix}/{len}");
        }
        assert_eq!(SixRd::new(address("2002::"), 16, 0, 0), Some(SixRd::OF_6TO4));
    }
}
