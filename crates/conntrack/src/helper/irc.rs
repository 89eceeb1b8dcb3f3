// SPDX-License-Identifier: Apache-2.0

//! IRC (`nf_conntrack_irc.c`, `nf_nat_irc.c`): a client offers a direct connection (DCC) in a
//! private message.

use super::action::PortEdit;
use super::number::decimal;
use super::{Action, Announcement, Message};
use crate::Direction;
use penstock_wire::protocol;
use std::net::{IpAddr, Ipv4Addr};

const OFFERS: [&[u8]; 5] = [b"SEND ", b"CHAT ", b"MOVE ", b"TSEND ", b"SCHAT "];

/// An offer: address, port, where they stand.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    address: Ipv4Addr,
    port: u16,
    at: usize,
    len: usize,
}

/// Reads `name address port` (`parse_dcc()`); the line must end in the packet.
fn offer(data: &[u8], start: usize) -> Option<Offer> {
    let rest = &data[start..];
    // At least "AAAAAAAA P\1\n" has to follow the name.
    let name = rest[..rest.len().checked_sub(12)?].iter().position(|&c| c == b' ')? + 1;
    let text = &rest[name..];
    text.iter().position(|&c| c == b'\n')?;
    let (address, digits) = decimal(text)?;
    let blanks = text[digits..].iter().take_while(|&&c| c == b' ').count();
    let (port, more) = decimal(&text[digits + blanks..])?;
    Some(Offer {
        address: address.into(),
        port: port as u16,
        at: start + name,
        len: digits + blanks + more,
    })
}

/// Finds the first offer in the messages of a segment, if it is good. Messages of other kinds may
/// come before it, and only the first message has to be a private one.
fn search(data: &[u8], is_good: impl FnOnce(&Offer) -> bool) -> Option<Offer> {
    // " :\1DCC SEND t AAAAAAAA P\1\n" is the shortest.
    const SHORTEST: usize = 26;
    let mut at = data.iter().take_while(|c| matches!(c, b' ' | b'\r' | b'\n')).count();
    if at + 10 < data.len() {
        if !data[at..at + 8].eq_ignore_ascii_case(b"PRIVMSG ") {
            return None;
        }
        at += 8;
    }
    while at + SHORTEST < data.len() {
        if !data[at..].starts_with(b" :") {
            at += 1;
            continue;
        }
        at += 2;
        if !data[at..].starts_with(b"\x01DCC ") {
            return None;
        }
        at += 5;
        if let Some(kind) = OFFERS.iter().find(|kind| data[at..].starts_with(kind)) {
            return offer(data, at + kind.len()).filter(is_good);
        }
    }
    None
}

pub(super) fn read(m: &Message<'_>) -> Vec<Action> {
    if m.direction == Direction::Reply || !m.established || m.data.is_empty() {
        return Vec::new();
    }
    let is_good = |offer: &Offer| {
        let own = IpAddr::V4(offer.address);
        (m.tuple().source() == own || m.back().destination() == own) && offer.port != 0
    };
    let Some(offer) = search(m.data, is_good) else { return Vec::new() };
    let expectation = m.expect(protocol::TCP, None, m.back().dst, offer.port);
    let address = m.seen_address();
    let edit = (m.translated && address.is_ipv4()).then_some(PortEdit {
        at: offer.at,
        len: offer.len,
        address,
        write,
        unless: None,
    });
    vec![Action::Expect(Announcement { edit, ..m.announce_translated(expectation) })]
}

/// Address and port as offers have them.
fn write(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(a) => format!("{} {port}", u32::from(a)),
        IpAddr::V6(a) => format!("{a} {port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuple;
    use crate::helper::{HELPERS, Options, Otherwise, Ports, Surroundings};
    use crate::reference::Ref;
    use crate::tuple::{IPV4, address};

    #[test]
    fn an_irc_offer_of_a_translated_client_names_the_chosen_port() {
        let [client, server, outside] =
            ["198.18.0.1", "198.18.0.2", "198.18.0.254"].map(|a| a.parse().unwrap());
        let tuple = |from, to| Tuple {
            src: address(from),
            dst: address(to),
            l3: IPV4,
            protocol: protocol::TCP,
            ..Tuple::ZERO
        };
        let mut message = Message {
            master: Ref { entry: 1, serial: 1 },
            direction: Direction::Original,
            established: true,
            seq: 0,
            data: b"PRIVMSG bob :\x01DCC SEND file 3323068417 4000 99\x01\r\n",
            whole: true,
            tuples: [tuple(client, server), tuple(server, outside)],
            translated: true,
            expected: false,
            surroundings: Surroundings::default(),
            options: Options::default(),
            helper: HELPERS.iter().find(|h| h.name == "irc").unwrap(),
        };
        let [Action::Expect(announced)] = &read(&message)[..] else { panic!("one announcement") };
        let otherwise = Otherwise::Drop(&["all ports in use"]);
        assert_eq!((announced.ports, announced.otherwise), (Ports::FirstFree, otherwise));
        assert_eq!(announced.expectation.tuple.destination(), outside);
        let edit = announced.edit.as_ref().unwrap().with(4001).unwrap();
        assert_eq!((edit.at, &edit.text[..], edit.growth()), (28, &b"3323068670 4001"[..], 0));
        message.direction = Direction::Reply;
        assert!(read(&message).is_empty(), "servers offer nothing");
    }

    #[test]
    fn irc_dcc_offers_are_found() {
        let found = |text: &str| {
            search(text.as_bytes(), |_| true).map(|o| (o.address.to_string(), o.port, o.at, o.len))
        };
        let want = Some(("198.18.0.1".into(), 4000, 28, 15));
        assert_eq!(found("PRIVMSG bob :\x01DCC SEND file 3323068417 4000 99\x01\r\n"), want);
        assert_eq!(found("PRIVMSG bob :\x01DCC CHAT chat 3323068417 4000\x01\r\n"), want);
        let second =
            "PRIVMSG a :\x01DCC KEEP x 1 2\x01\r\nNOTICE b :\x01DCC SEND f 3323068417 4000\x01\r\n";
        assert_eq!(
            found(second).map(|(address, port, ..)| (address, port)),
            Some(("198.18.0.1".into(), 4000))
        );
        let forged = |o: &Offer| o.port != 4001;
        let after =
            "PRIVMSG a :\x01DCC SEND x 1 4001\x01\r\nPRIVMSG b :\x01DCC SEND f 2 4000\x01\r\n";
        assert_eq!(search(after.as_bytes(), forged), None, "an offer ends the search");
        for nothing in [
            "PRIVMSG bob :\x01DCC SEND file 3323068417 4000 99\x01",
            "PRIVMSG bob :hello DCC SEND file 3323068417 4000\r\n",
            "PRIVMSG bob :\x01DCC KEEP file 3323068417 4000 99\x01\r\n",
            "NOTICE bob :\x01DCC SEND file 3323068417 4000 99\x01\r\n",
            "PRIVMSG bob :\x01DCC SEND file\r\n",
            "",
            "\n",
        ] {
            assert_eq!(found(nothing), None, "{nothing:?}");
        }
    }
}
