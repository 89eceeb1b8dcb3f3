// SPDX-License-Identifier: Apache-2.0

//! SIP (`nf_conntrack_sip.c`, `nf_nat_sip.c`; RFC 3261, RFC 4566): calls announce their media in a
//! session description, registrations where calls will come in.
//!
//! What follows the kernel's defaults: media only between the two that signal (`sip_direct_media`),
//! calls only from the registrar (`sip_direct_signalling`).

use super::sip_text::{Host, Message as Text, Part};
use super::{Edit, Memory, Message, Said};
use crate::conntrack::Conntrack;
use crate::expect::{ExpectError, Expectation, Follow, expect_flag};
use crate::settings::SECOND;
use crate::{Direction, Tuple, tuple};
use penstock_wire::protocol;
use std::net::IpAddr;

/// Classes of expectations.
pub(super) const SIGNALLING: u8 = 0;
const AUDIO: u8 = 1;
const VIDEO: u8 = 2;
const IMAGE: u8 = 3;
const MEDIA: [(&str, u8); 3] = [("audio ", AUDIO), ("video ", VIDEO), ("image ", IMAGE)];
/// How long a signalling connection lives without a packet.
const TIMEOUT: u64 = 3600 * SECOND;

/// Sequence numbers of the last requests that matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dialogue {
    invite: u32,
    register: u32,
}

/// A message whose announcements cannot be tracked.
struct Refused;

impl From<ExpectError> for Refused {
    fn from(_: ExpectError) -> Self {
        Refused
    }
}

impl Conntrack {
    pub(super) fn help_sip(&mut self, m: &Message<'_>, memory: &mut Memory) -> Said {
        let tcp = m.tuples[0].protocol == protocol::TCP;
        if (tcp && !m.established) || m.data.is_empty() {
            return Said::PASS;
        }
        self.set_timeout(m.n, TIMEOUT);
        let Ok(data) = std::str::from_utf8(m.data) else { return Said::PASS };
        if !matches!(memory, Memory::Sip(_)) {
            *memory = Memory::Sip(Dialogue::default());
        }
        let Memory::Sip(dialogue) = memory else { return Said::PASS };
        let mut edits = Vec::new();
        let mut start = 0;
        // A datagram is one message; a segment may have several whole ones.
        while let Some(text) = Text::parse(&data[start..], start, tcp) {
            if self.sip_message(m, &text, dialogue, &mut edits).is_err() {
                return Said::Drop;
            }
            start = text.end;
            if !tcp || start >= data.len() {
                break;
            }
        }
        edits.sort_by_key(|e: &Edit| e.at);
        Said::Pass(edits)
    }

    fn sip_message(
        &mut self,
        m: &Message<'_>,
        text: &Text<'_>,
        dialogue: &mut Dialogue,
        edits: &mut Vec<Edit>,
    ) -> Result<(), Refused> {
        let from = edits.len();
        let (cseq, method) = text.cseq().ok_or(Refused)?;
        match text.code() {
            None => match text.method() {
                "INVITE" => {
                    self.flush_media(m);
                    self.sip_media(m, text, edits)?;
                    dialogue.invite = cseq;
                }
                "UPDATE" | "ACK" | "PRACK" => self.sip_media(m, text, edits)?,
                "BYE" => self.flush_media(m),
                "REGISTER" => {
                    self.sip_register(m, text)?;
                    dialogue.register = cseq;
                }
                _ => {}
            },
            Some(code) => match method {
                "INVITE" | "UPDATE" | "PRACK" if (100..300).contains(&code) => {
                    self.sip_media(m, text, edits)?;
                }
                "INVITE" | "UPDATE" | "PRACK" if dialogue.invite == cseq => self.flush_media(m),
                "REGISTER" if dialogue.register == cseq && code >= 200 => {
                    self.sip_registered(m, text, code)
                }
                _ => {}
            },
        }
        if m.translated {
            // The body's length changes with what was rewritten in it.
            let shift: i64 = edits[from..].iter().map(|e| e.text.len() as i64 - e.len as i64).sum();
            if shift != 0
                && let Some(length) = text.header("Content-Length", Some('l'))
                && let Ok(old) = length.text.trim().parse::<i64>()
            {
                edits.push(replace(&length, (old + shift).to_string()));
            }
            self.sip_headers(m, text, edits);
        }
        Ok(())
    }

    /// Takes back what is expected of media (`flush_expectations()`).
    fn flush_media(&mut self, m: &Message<'_>) {
        self.unexpect_of(m.n, |e| e.class != SIGNALLING);
    }

    /// Expects the media of a session description (`process_sdp()`), and rewrites its addresses.
    fn sip_media(
        &mut self,
        m: &Message<'_>,
        text: &Text<'_>,
        edits: &mut Vec<Edit>,
    ) -> Result<(), Refused> {
        let lines = text.body_lines();
        if !lines.iter().any(|l| l.text.starts_with("v=")) {
            return Ok(());
        }
        let ipv4 = m.tuples[0].l3 == tuple::IPV4;
        let first_media =
            lines.iter().position(|l| l.text.starts_with("m=")).unwrap_or(lines.len());
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
            // Media of somebody else are not ours to open a door for.
            if address != m.tuple().source() {
                continue;
            }
            let announced = self.expect_media(m, *class, port)?;
            if announced != port {
                edits.push(Edit {
                    at: line.at + at,
                    len: digits,
                    text: announced.to_string().into(),
                });
            }
            if m.translated {
                let new = Conntrack::seen_address(m);
                if let Some(own) = own {
                    edits.push(replace(&own.part, new.to_string()));
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
                    edits.push(replace(&host.part, new.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Expects data and control of a stream on a pair of ports (`set_expected_rtp_rtcp()`); gives
    /// the first.
    fn expect_media(&mut self, m: &Message<'_>, class: u8, port: u16) -> Result<u16, Refused> {
        let max = m.helper.classes[usize::from(class)].max;
        let timeout = u64::from(m.helper.classes[usize::from(class)].timeout) * SECOND;
        let base = port & !1;
        let at = |port: u16, saved: u16| Expectation {
            class,
            timeout,
            follow: m.translated.then(|| Follow {
                direction: m.direction.opposite(),
                address: Some(m.tuple().src),
                port: saved,
            }),
            ..m.expect(protocol::UDP, Some(m.back().src), m.back().dst, port)
        };
        // The same media may be described again.
        let same = self.expects_same(m.n, &at(base, base));
        if same {
            return Ok(port);
        }
        let mut candidate = base;
        for _ in 0..if m.translated { 128 } else { 1 } {
            match self.expect(at(candidate, base), max) {
                Ok(()) => match self.expect(at(candidate | 1, base | 1), max) {
                    Ok(()) => return Ok(if candidate == base { port } else { candidate }),
                    Err(e) => {
                        let given = at(candidate, base);
                        self.unexpect_of(m.n, |x| {
                            x.tuple.dst_id == given.tuple.dst_id && x.class == class
                        });
                        if e != ExpectError::Busy {
                            return Err(Refused);
                        }
                    }
                },
                Err(ExpectError::Busy) => {}
                Err(_) => return Err(Refused),
            }
            candidate = candidate.checked_add(2).unwrap_or(1024);
        }
        Err(Refused)
    }

    /// Expects calls to who registers, once the registrar has agreed
    /// (`process_register_request()`).
    fn sip_register(&mut self, m: &Message<'_>, text: &Text<'_>) -> Result<(), Refused> {
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
            self.announce(m, expectation).ok_or(Refused)?;
        }
        Ok(())
    }

    /// The registrar answers: calls are expected from now on, or not any more
    /// (`process_register_response()`).
    fn sip_registered(&mut self, m: &Message<'_>, text: &Text<'_>, code: u16) {
        let expires = match code {
            200..300 => {
                let of_contact =
                    text.contacts().iter().filter_map(|c| c.parameter("expires=")).max();
                of_contact.or(text.expires()).unwrap_or(0)
            }
            _ => 0,
        };
        let pending: Vec<Expectation> = self
            .expectations()
            .filter(|(e, _)| e.master == m.master && e.class == SIGNALLING)
            .map(|(e, _)| e.clone())
            .collect();
        self.unexpect_of(m.n, |e| e.class == SIGNALLING);
        if expires == 0 {
            return;
        }
        for e in pending {
            let active = Expectation {
                flags: e.flags & !expect_flag::INACTIVE,
                timeout: u64::from(expires) * SECOND,
                ..e
            };
            let _ = self.expect(active, m.helper.classes[0].max);
        }
    }

    /// Rewrites the addresses of both ends in the headers (`nf_nat_sip()`).
    fn sip_headers(&self, m: &Message<'_>, text: &Text<'_>, edits: &mut Vec<Edit>) {
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
                edits.push(replace(&host.part, format!("{address}:{port}")));
            }
        }
    }
}

fn replace(part: &Part<'_>, text: String) -> Edit {
    Edit { at: part.at, len: part.text.len(), text: text.into() }
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
