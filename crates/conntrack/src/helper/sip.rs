// SPDX-License-Identifier: Apache-2.0

//! SIP (`nf_conntrack_sip.c`, `nf_nat_sip.c`; RFC 3261, RFC 4566): calls announce their media in a
//! session description, registrations where calls will come in.
//!
//! What follows the kernel's defaults: media only between the two that signal (`sip_direct_media`),
//! calls only from the registrar (`sip_direct_signalling`).

use super::action::PortEdit;
use super::sip_text::{Host, Message as Text, Part};
use super::{Action, Announcement, Edit, Memory, Message, Otherwise, Ports};
use crate::expectation::{Expectation, Follow, expect_flag};
use crate::settings::SECOND;
use crate::{Direction, Tuple, tuple};
use penstock_wire::protocol;
use std::net::IpAddr;

/// Classes of expectations.
const SIGNALLING: u8 = 0;
const AUDIO: u8 = 1;
const VIDEO: u8 = 2;
const IMAGE: u8 = 3;
const MEDIA: [(&str, u8); 3] = [("audio ", AUDIO), ("video ", VIDEO), ("image ", IMAGE)];
/// How long a signalling connection lives without a packet.
const TIMEOUT: u64 = 3600 * SECOND;

/// Sequence numbers of the last requests that matter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialogue {
    invite: u32,
    register: u32,
}

/// A message with announcements that cannot be tracked.
struct Refused;

pub(super) fn read(m: &Message<'_>, memory: &Memory) -> Vec<Action> {
    let tcp = m.tuples[0].protocol == protocol::TCP;
    if (tcp && !m.established) || m.data.is_empty() {
        return Vec::new();
    }
    let mut actions = vec![Action::Live(TIMEOUT)];
    let Ok(data) = std::str::from_utf8(m.data) else { return actions };
    let mut dialogue = match memory {
        Memory::Sip(dialogue) => *dialogue,
        _ => Dialogue::default(),
    };
    let mut start = 0;
    // A datagram is one message; a segment may have several whole ones.
    while let Some(text) = Text::parse(&data[start..], start, tcp) {
        if read_one(m, &text, &mut dialogue, &mut actions).is_err() {
            actions.push(Action::Drop);
            break;
        }
        start = text.end;
        if !tcp || start >= data.len() {
            break;
        }
    }
    actions
}

/// Reads one message.
fn read_one(
    m: &Message<'_>,
    text: &Text<'_>,
    dialogue: &mut Dialogue,
    actions: &mut Vec<Action>,
) -> Result<(), Refused> {
    let (cseq, method) = text.cseq().ok_or(Refused)?;
    match text.code() {
        None => match text.method() {
            "INVITE" => {
                actions.push(FLUSH_MEDIA);
                media(m, text, actions)?;
                dialogue.invite = cseq;
                actions.push(Action::Remember(Memory::Sip(*dialogue)));
            }
            "UPDATE" | "ACK" | "PRACK" => media(m, text, actions)?,
            "BYE" => actions.push(FLUSH_MEDIA),
            "REGISTER" => {
                register(m, text, actions);
                dialogue.register = cseq;
                actions.push(Action::Remember(Memory::Sip(*dialogue)));
            }
            _ => {}
        },
        Some(code) => match method {
            "INVITE" | "UPDATE" | "PRACK" if (100..300).contains(&code) => {
                media(m, text, actions)?;
            }
            "INVITE" | "UPDATE" | "PRACK" if dialogue.invite == cseq => actions.push(FLUSH_MEDIA),
            "REGISTER" if dialogue.register == cseq && code >= 200 => {
                actions.push(registered(text, code));
            }
            _ => {}
        },
    }
    if m.translated {
        // The body's length changes with what was rewritten in it.
        if let Some(length) = text.header("Content-Length", Some('l'))
            && let Ok(old) = length.text.trim().parse::<i64>()
        {
            let (at, len, since) = (length.at, length.text.len(), text.body_start());
            actions.push(Action::EditLength { at, len, old, since });
        }
        headers(m, text, actions);
    }
    Ok(())
}

/// Removes the expectations of media (`flush_expectations()`).
const FLUSH_MEDIA: Action = Action::Unexpect(|e| e.class != SIGNALLING);

/// Announces the media of a session description (`process_sdp()`), and rewrites its addresses.
fn media(m: &Message<'_>, text: &Text<'_>, actions: &mut Vec<Action>) -> Result<(), Refused> {
    let lines = text.body_lines();
    if !lines.iter().any(|l| l.text.starts_with("v=")) {
        return Ok(());
    }
    let ipv4 = m.tuples[0].l3 == tuple::IPV4;
    let first_media = lines.iter().position(|l| l.text.starts_with("m=")).unwrap_or(lines.len());
    let session = lines[..first_media].iter().find_map(|l| l.connection(ipv4));
    let mut seen = session.as_ref().map(|s| s.address);
    for (i, line) in lines.iter().enumerate().skip(first_media) {
        let Some(rest) = line.text.strip_prefix("m=") else { continue };
        let Some((name, class)) = MEDIA.iter().find(|(name, _)| rest.starts_with(name)) else {
            continue;
        };
        let digits = rest[name.len()..].bytes().take_while(u8::is_ascii_digit).count();
        let at = 2 + name.len();
        let port: u32 = line.text[at..at + digits].parse().map_err(|_| Refused)?;
        if port == 0 {
            continue;
        }
        let port = u16::try_from(port).ok().filter(|p| *p >= 1024).ok_or(Refused)?;
        let own = lines[i + 1..]
            .iter()
            .take_while(|l| !l.text.starts_with("m="))
            .find_map(|l| l.connection(ipv4));
        let address = own.as_ref().or(session.as_ref()).ok_or(Refused)?.address;
        // Media at another address than the sender's get no expectation.
        if address != m.tuple().source() {
            continue;
        }
        let edit = PortEdit {
            at: line.at + at,
            len: digits,
            address,
            write: |_, port| port.to_string(),
            unless: Some(port),
        };
        actions.push(Action::Expect(announce_stream(m, *class, port, edit)));
        if m.translated {
            let new = m.seen_address();
            if let Some(own) = own {
                actions.push(replace(&own.part, new.to_string()));
            }
            seen = Some(new);
        }
    }
    if m.translated
        && let Some(new) = seen
    {
        // Connection and owner of the session.
        let owner = lines[..first_media].iter().find_map(|l| l.owner());
        for host in session.into_iter().chain(owner) {
            if host.address == m.tuple().source() && host.address != new {
                actions.push(replace(&host.part, new.to_string()));
            }
        }
    }
    Ok(())
}

/// Announces data and control of a stream on a pair of ports (`set_expected_rtp_rtcp()`).
fn announce_stream(m: &Message<'_>, class: u8, port: u16, edit: PortEdit) -> Announcement {
    let base = port & !1;
    let expectation = Expectation {
        class,
        timeout: u64::from(m.helper.classes[usize::from(class)].timeout) * SECOND,
        follow: m.translated.then(|| Follow {
            direction: m.direction.opposite(),
            address: Some(m.tuple().src),
            port: base,
        }),
        ..m.expect(protocol::UDP, Some(m.back().src), m.back().dst, base)
    };
    let ports = Ports::Pair { asked: port, search: m.translated };
    Announcement { ports, edit: Some(edit), ..m.announce(expectation, Otherwise::Drop) }
}

/// Announces calls to who registers, which come once the registrar has agreed
/// (`process_register_request()`).
fn register(m: &Message<'_>, text: &Text<'_>, actions: &mut Vec<Action>) {
    let common = text.expires();
    for contact in text.contacts() {
        let Some(host) = contact.host() else { continue };
        let expires = contact.parameter("expires=").or(common).unwrap_or(0);
        if host.address != m.tuple().source() || expires == 0 {
            continue;
        }
        let transport = if contact.text.contains("transport=tcp") {
            protocol::TCP
        } else {
            m.tuples[0].protocol
        };
        let basis = m.expect(transport, Some(m.back().src), m.back().dst, host.port);
        let expectation = Expectation {
            flags: expect_flag::PERMANENT | expect_flag::INACTIVE,
            helper: super::helper_number("sip", transport).unwrap_or(0),
            ..basis
        };
        actions.push(Action::Expect(m.announce_translated(expectation)));
    }
}

/// The registrar answers: calls are expected from now on, or no longer
/// (`process_register_response()`).
fn registered(text: &Text<'_>, code: u16) -> Action {
    let expires = match code {
        200..300 => {
            let of_contact = text.contacts().iter().filter_map(|c| c.parameter("expires=")).max();
            of_contact.or(text.expires()).unwrap_or(0)
        }
        _ => 0,
    };
    if expires == 0 {
        return Action::Unexpect(|e| e.class == SIGNALLING);
    }
    let timeout = u64::from(expires) * SECOND;
    Action::Activate { class: SIGNALLING, timeout }
}

/// Rewrites the addresses of both ends in the headers (`nf_nat_sip()`).
fn headers(m: &Message<'_>, text: &Text<'_>, actions: &mut Vec<Action>) {
    let mut parts = vec![text.start_line()];
    parts.extend(text.header("Via", Some('v')));
    parts.extend(text.contacts());
    parts.extend(text.header("From", Some('f')));
    parts.extend(text.header("To", Some('t')));
    for part in parts {
        if let Some(host) = part.host()
            && let Some((address, port)) = mapped(m, &host)
        {
            let address = match address {
                IpAddr::V4(a) => a.to_string(),
                IpAddr::V6(a) => format!("[{a}]"),
            };
            actions.push(replace(&host.part, format!("{address}:{port}")));
        }
    }
}

fn replace(part: &Part<'_>, text: String) -> Action {
    Action::Edit(Edit { at: part.at, len: part.text.len(), text: text.into() })
}

/// What an address and port of one of the two ends become for the other (`map_addr()`).
fn mapped(m: &Message<'_>, host: &Host<'_>) -> Option<(IpAddr, u16)> {
    let (this, back): (&Tuple, &Tuple) = (m.tuple(), m.back());
    let new = if (host.address, host.port) == (this.source(), this.src_id) {
        (back.destination(), back.dst_id)
    } else if (host.address, host.port) == (this.destination(), this.dst_id) {
        (back.source(), back.src_id)
    } else {
        return None;
    };
    (new != (host.address, host.port)).then_some(new)
}

const _: () = assert!(Direction::Original as usize == 0);
