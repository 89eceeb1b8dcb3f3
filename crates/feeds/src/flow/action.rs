// SPDX-License-Identifier: Apache-2.0

//! What is to become of the packets of a flow specification: its extended communities (RFC 8955,
//! section 7; RFC 8956, section 5).

/// What is to become of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Actions {
    /// Packets beyond a rate are dropped.
    pub rate: Option<Rate>,
    /// Others get this DSCP.
    pub mark: Option<u8>,
    /// Others pass the specifications that come after this one, too.
    pub goes_on: bool,
}

/// A rate, in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Nothing.
    Zero,
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u64),
}

/// The highest rate: what a limit counts in nanoseconds does not overflow.
const HIGHEST: f32 = 9e9;

impl Actions {
    /// Adds an extended community of 8 bytes, the first one the highest. One that is no action
    /// changes nothing. Of several rates the lowest counts.
    ///
    /// # Errors
    /// It is an action that is not done here: why.
    pub fn add(&mut self, community: u64) -> Result<(), String> {
        let bytes = community.to_be_bytes();
        // The highest two bits are for who assigned the type, and whether it is transitive.
        match (bytes[0], bytes[1]) {
            (0x80, 0x06) => self.limit(community, Rate::Bytes),
            (0x80, 0x0c) => self.limit(community, Rate::Packets),
            (0x80, 0x07) => {
                // Bit 46 is S, bit 47 is T.
                if bytes[7] & 2 != 0 {
                    return Err("sampling: a rule of the ruleset can log packets".into());
                }
                self.goes_on |= bytes[7] & 1 != 0;
                Ok(())
            }
            (0x80..=0x82, 0x08) => {
                Err("redirection to a VRF: there are none, rules can mark packets for routing"
                    .into())
            }
            (0x80, 0x09) => {
                self.mark = Some(bytes[7] & 0x3f);
                Ok(())
            }
            (0x01, 0x0c) | (0x08, 0x00) => Err("redirection to a next hop".into()),
            (0x80..=0x82, sub) => Err(format!("the action with type {:#04x}{sub:02x}", bytes[0])),
            _ => Ok(()),
        }
    }

    /// Adds a rate, which is in the last four bytes.
    fn limit(&mut self, community: u64, unit: fn(u64) -> Rate) -> Result<(), String> {
        let rate = f32::from_bits(community as u32);
        if rate.is_nan() {
            return Err("a rate that is no number".into());
        }
        if rate > HIGHEST {
            return Err(format!("a rate of more than {HIGHEST:e} in a second"));
        }
        // A negative rate means zero (section 7.1), and less than one in a second is one.
        let rate = if rate <= 0.0 { Rate::Zero } else { unit((rate as u64).max(1)) };
        self.rate = match (self.rate, rate) {
            (None, rate) => Some(rate),
            (Some(Rate::Zero), _) | (_, Rate::Zero) => Some(Rate::Zero),
            (Some(Rate::Bytes(one)), Rate::Bytes(other)) => Some(Rate::Bytes(one.min(other))),
            (Some(Rate::Packets(one)), Rate::Packets(other)) => Some(Rate::Packets(one.min(other))),
            _ => return Err("a rate of bytes and one of packets".into()),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(kind: u64, rate: f32) -> u64 {
        0x8000_0000_0000_0000 | kind << 48 | u64::from(rate.to_bits())
    }

    #[test]
    fn communities_are_actions() {
        let actions = |communities: &[u64]| {
            let mut actions = Actions::default();
            communities.iter().try_for_each(|c| actions.add(*c)).map(|()| actions)
        };
        let with = |rate| Ok(Actions { rate: Some(rate), ..Actions::default() });
        for (communities, expected) in [
            (&[rate(6, 0.0)][..], with(Rate::Zero)),
            (&[rate(6, -5.0)], with(Rate::Zero)),
            (&[rate(6, 0.2)], with(Rate::Bytes(1))),
            (&[rate(6, 9600.0), rate(6, 100.0)], with(Rate::Bytes(100))),
            (&[rate(6, 9600.0), rate(12, 0.0)], with(Rate::Zero)),
            (&[rate(12, 7.0)], with(Rate::Packets(7))),
            (&[rate(12, 7.0), rate(6, 7.0)], Err("a rate of bytes and one of packets".into())),
            (&[rate(6, f32::NAN)], Err("a rate that is no number".into())),
            (&[rate(6, f32::INFINITY)], Err("a rate of more than 9e9 in a second".into())),
            (
                &[0x8009_0000_0000_002e, 0x8007_0000_0000_0001],
                Ok(Actions { rate: None, mark: Some(46), goes_on: true }),
            ),
            (
                &[0x8007_0000_0000_0002],
                Err("sampling: a rule of the ruleset can log packets".into()),
            ),
            (
                &[0x8008_fde9_0000_000c],
                Err("redirection to a VRF: there are none, rules can mark packets for routing"
                    .into()),
            ),
            (&[0x010c_c612_0001_0000], Err("redirection to a next hop".into())),
            (&[0x80ff_0000_0000_0000], Err("the action with type 0x80ff".into())),
            // A route target.
            (&[0x0002_fde9_0000_0001], Ok(Actions::default())),
        ] {
            assert_eq!(actions(communities), expected, "{communities:x?}");
        }
    }
}
