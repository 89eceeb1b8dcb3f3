// SPDX-License-Identifier: Apache-2.0

//! What messages say of an expectation (`build.c` and `parse.c` of conntrack-tools).

use penstock_conntrack::Tuple;
use penstock_conntrack::tuple::{IPV4, IPV6};

use crate::attribute::{
    be32, each, put, put_addresses, put_ports, put_text, read_addresses, read_ports, text, u8,
};
use crate::connection::HELPER_NAME;
use crate::message::{Change, Kind, Malformed, begin, finish};
use crate::outgoing::{Encoded, Key};

/// Types of attributes (`enum nta_exp_attr`): those of a tuple are IPv4 addresses, IPv6 addresses,
/// the protocol and ports.
mod kind {
    pub(super) const MASTER: u16 = 0;
    pub(super) const EXPECTED: u16 = 4;
    pub(super) const MASK: u16 = 8;
    pub(super) const TIMEOUT: u16 = 12;
    pub(super) const FLAGS: u16 = 13;
    pub(super) const CLASS: u16 = 14;
    pub(super) const NAT_IPV4: u16 = 15;
    pub(super) const NAT_PORT: u16 = 16;
    pub(super) const NAT_L4PROTO: u16 = 17;
    pub(super) const NAT_DIR: u16 = 18;
    pub(super) const HELPER_NAME: u16 = 19;
    pub(super) const FN: u16 = 20;
}

/// Bytes of the name of a function at most.
const FUNCTION_NAME: usize = 28;

/// How the expected connection is translated. There is no place for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// What its source becomes; IPv4.
    pub tuple: Tuple,
    /// Direction of the master: 0 for the original one.
    pub direction: u32,
}

/// What a message says of an expectation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectationState {
    /// The original tuple of its master.
    pub master: Tuple,
    /// Its original tuple.
    pub expected: Tuple,
    /// Which bits of that tuple count.
    pub mask: Tuple,
    /// What is left of its life, in seconds.
    pub timeout: Option<u32>,
    /// Bits of [`penstock_conntrack::expect_flag`].
    pub flags: Option<u32>,
    /// Class.
    pub class: Option<u32>,
    /// How it is translated.
    pub nat: Option<Nat>,
    /// Name of its helper.
    pub helper: Option<Box<str>>,
    /// Name of what the kernel does with a connection that meets it.
    pub function: Option<Box<str>>,
}

fn read_tuple(tuple: &mut Tuple, place: u16, contents: &[u8]) -> Result<(), Malformed> {
    match place {
        0 => read_addresses(tuple, IPV4, contents),
        1 => read_addresses(tuple, IPV6, contents),
        2 => u8(contents).map(|protocol| tuple.protocol = protocol),
        _ => read_ports(tuple, contents),
    }
}

fn put_tuple(to: &mut Vec<u8>, first: u16, tuple: &Tuple) {
    put_addresses(to, [first, first + 1], tuple);
    put(to, first + 2, &[tuple.protocol]);
    put_ports(to, first + 3, tuple);
}

impl ExpectationState {
    /// Reads the attributes of a message.
    ///
    /// # Errors
    /// [`Malformed::Payload`]: an attribute is none, has another length, or is not known; or master
    /// or tuple are missing.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut out = ExpectationState::default();
        let (mut nat, mut direction) = (Tuple::ZERO, 0);
        each(body, |kind, contents| {
            match kind {
                kind::MASTER..kind::EXPECTED => {
                    read_tuple(&mut out.master, kind - kind::MASTER, contents)?;
                }
                kind::EXPECTED..kind::MASK => {
                    read_tuple(&mut out.expected, kind - kind::EXPECTED, contents)?;
                }
                kind::MASK..kind::TIMEOUT => {
                    read_tuple(&mut out.mask, kind - kind::MASK, contents)?;
                }
                kind::TIMEOUT => out.timeout = Some(be32(contents)?),
                kind::FLAGS => out.flags = Some(be32(contents)?),
                kind::CLASS => out.class = Some(be32(contents)?),
                kind::NAT_IPV4 => read_addresses(&mut nat, IPV4, contents)?,
                kind::NAT_PORT => read_ports(&mut nat, contents)?,
                kind::NAT_L4PROTO => nat.protocol = u8(contents)?,
                kind::NAT_DIR => direction = be32(contents)?,
                kind::HELPER_NAME => out.helper = Some(text(contents, HELPER_NAME)?),
                kind::FN => out.function = Some(text(contents, FUNCTION_NAME)?),
                _ => return Err(Malformed::Payload),
            }
            Ok(())
        })?;
        out.nat = (nat.l3 != 0).then_some(Nat { tuple: nat, direction });
        let whole = out.master.l3 != 0 && out.expected.l3 == out.master.l3;
        if whole { Ok(out) } else { Err(Malformed::Payload) }
    }

    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let put32 = |to: &mut Vec<u8>, kind, number: u32| put(to, kind, &number.to_be_bytes());
        put_tuple(to, kind::MASTER, &self.master);
        put_tuple(to, kind::EXPECTED, &self.expected);
        put_tuple(to, kind::MASK, &self.mask);
        self.timeout.into_iter().for_each(|timeout| put32(to, kind::TIMEOUT, timeout));
        self.flags.into_iter().for_each(|flags| put32(to, kind::FLAGS, flags));
        self.class.into_iter().for_each(|class| put32(to, kind::CLASS, class));
        if let Some(Nat { tuple, direction }) = &self.nat {
            put(to, kind::NAT_IPV4, &[&tuple.src[..4], &tuple.dst[..4]].concat());
            put(to, kind::NAT_L4PROTO, &[tuple.protocol]);
            put_ports(to, kind::NAT_PORT, tuple);
            put32(to, kind::NAT_DIR, *direction);
        }
        self.helper.iter().for_each(|helper| put_text(to, kind::HELPER_NAME, helper));
        self.function.iter().for_each(|function| put_text(to, kind::FN, function));
    }
}

/// A message about an expectation.
pub fn write_expectation(change: Change, state: &ExpectationState) -> Encoded {
    let mut bytes = begin(Kind::Expectation(change));
    state.write(&mut bytes);
    Encoded { key: Key::Expectation(state.expected), bytes: finish(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::tuple;
    use crate::message::split;
    use fastrand::Rng;

    #[test]
    fn what_is_written_is_read() {
        let mut rng = Rng::with_seed(8);
        for _ in 0..500 {
            let [master, expected, mask, nat] =
                std::array::from_fn(|_| Tuple { zone: 0, ..tuple(&mut rng) });
            let expected = Tuple { l3: master.l3, src: master.src, dst: master.dst, ..expected };
            let nat = Nat { tuple: nat, direction: rng.u32(..2) };
            let state = ExpectationState {
                master,
                expected,
                mask,
                timeout: rng.bool().then_some(9),
                flags: rng.bool().then_some(2),
                class: rng.bool().then_some(1),
                nat: Some(nat).filter(|nat| nat.tuple.l3 == IPV4),
                helper: rng.bool().then(|| "ftp".into()),
                function: rng.bool().then(|| "nat-follow-master".into()),
            };
            let message = write_expectation(Change::New, &state);
            let read: Vec<_> = split(&message.bytes).collect();
            let [Ok(read)] = read.as_slice() else { panic!("{read:?}") };
            assert_eq!(ExpectationState::read(read.body), Ok(state));
            for cut in 0..read.body.len() {
                let _ = ExpectationState::read(&read.body[..cut]);
            }
        }
    }
}
