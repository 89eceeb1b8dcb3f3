// SPDX-License-Identifier: Apache-2.0

//! SIP (`nf_conntrack_sip.c`, `nf_nat_sip.c`; RFC 3261, RFC 4566): calls announce their media in a
//! session description, registrations where calls will come in.
//!
//! What follows the kernel's defaults: media only between the two that signal (`sip_direct_media`),
//! calls only from the registrar (`sip_direct_signalling`).

use super::action::PortEdit;
use super::sip_text::{self, Found, Host, Message as Text, Span, Walk};
use super::{Action, Announcement, Edit, Memory, Message, Otherwise, Ports, Renewal};
use crate::complaint::Wrong;
use crate::expectation::{Expectation, Follow, expect_flag};
use crate::settings::{HZ, SECOND};
use crate::{Direction, Tuple, tuple};
use penstock_wire::protocol;
use std::net::IpAddr;

/// The shortest text that is read.
const SHORTEST: usize = "SIP/2.0 200".len();

/// Classes of expectations.
const SIGNALLING: u8 = 0;
const AUDIO: u8 = 1;
const VIDEO: u8 = 2;
const IMAGE: u8 = 3;
const STREAMS: [(&str, u8); 3] = [("audio ", AUDIO), ("video ", VIDEO), ("image ", IMAGE)];
/// How long a signalling connection lives without a packet.
const TIMEOUT: u64 = 3600 * SECOND;

/// What later messages need to know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialogue {
    /// Sequence numbers of the last requests that matter.
    invite: u32,
    register: u32,
    /// Where the client wants answers, if not at the port that it sends from: some phones send
    /// from any port, and listen at 5060.
    listens: Option<u16>,
}

/// Why a message is dropped, if that is said.
struct Refused(Option<Wrong>);

fn refused(why: &'static str) -> Refused {
    Refused(Some(Wrong::Text(why)))
}

/// A message and what comes of it.
struct Reader<'a> {
    m: &'a Message<'a>,
    text: Text<'a>,
    /// Where the message begins in the packet's data.
    base: usize,
    actions: Vec<Action>,
    /// The length that a header is to say, when all else has been rewritten.
    length: Option<Action>,
}

pub(super) fn read(m: &Message<'_>, memory: &Memory) -> Vec<Action> {
    let tcp = m.tuples[0].protocol == protocol::TCP;
    if (tcp && !m.established) || m.data.is_empty() {
        return Vec::new();
    }
    let mut actions = vec![Action::Live(TIMEOUT)];
    if m.data.len() < SHORTEST {
        return actions;
    }
    let mut dialogue = match memory {
        Memory::Sip(dialogue) => *dialogue,
        _ => Dialogue::default(),
    };
    let ipv6 = super::is_ipv6(&m.tuples[0]);
    let mut base = 0;
    // A datagram is one message; a segment may have several whole ones.
    while base < m.data.len() {
        let rest = &m.data[base..];
        let whole = if tcp { Text::new(rest, ipv6).end_in_stream() } else { Some(rest.len()) };
        let Some(data) = whole.and_then(|end| rest.get(..end)) else { break };
        let text = Text::new(data, ipv6);
        let mut reader = Reader { m, text, base, actions, length: None };
        let result = reader.read(&mut dialogue);
        actions = reader.actions;
        if let Err(Refused(why)) = result {
            actions.push(Action::Drop(why));
            break;
        }
        base += data.len();
    }
    actions
}

/// Removes the expectations of media (`flush_expectations()`).
const FLUSH_MEDIA: Action = Action::Unexpect(|e| e.class != SIGNALLING);

impl Reader<'_> {
    /// Reads the message (`process_sip_msg()`).
    fn read(&mut self, dialogue: &mut Dialogue) -> Result<(), Refused> {
        if self.text.begins("SIP/2.0 ") {
            self.response(dialogue)?;
        } else {
            self.request(dialogue)?;
        }
        self.actions.extend(self.length.take());
        if self.m.translated {
            self.headers(dialogue.listens);
            self.redirect(dialogue.listens)?;
        }
        Ok(())
    }

    /// Has a message to the client arrive at the port where it listens.
    fn redirect(&mut self, port: Option<u16>) -> Result<(), Refused> {
        match port {
            Some(_) if self.m.direction == Direction::Original => Ok(()),
            Some(_) if self.m.tuples[0].protocol != protocol::UDP => Err(Refused(None)),
            Some(port) => {
                self.actions.push(Action::Redirect(port));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Number of the request, and where it ends.
    fn cseq(&self) -> Result<(u32, usize), Refused> {
        let Found::Is(span) = self.text.header(0, sip_text::CSEQ) else {
            return Err(refused("cannot parse cseq"));
        };
        let number = self.text.number(span).ok_or(refused("cannot get cseq"))?;
        Ok((number, span.end()))
    }

    /// A request; other methods than these need no number (`process_sip_request()`).
    fn request(&mut self, dialogue: &mut Dialogue) -> Result<(), Refused> {
        const METHODS: [&str; 6] = ["INVITE", "UPDATE", "ACK", "PRACK", "BYE", "REGISTER"];
        let (tuple, via) =
            (self.m.tuple(), self.text.host(&mut Walk::default(), sip_text::VIA_UDP));
        if let Some(via) = via
            && via.address == tuple.source()
            && via.port != tuple.src_id
        {
            dialogue.listens = Some(via.port);
            self.actions.push(Action::Remember(Memory::Sip(*dialogue)));
        }
        let data = self.text.data();
        let is = |method: &&&str| {
            let rest = data.get(method.len()..).unwrap_or(&[]);
            self.text.begins(method) && matches!(rest, [b' ', c, ..] if c.is_ascii_alphabetic())
        };
        let Some(method) = METHODS.iter().find(is) else { return Ok(()) };
        let (cseq, _) = self.cseq()?;
        match *method {
            "INVITE" => {
                self.actions.push(FLUSH_MEDIA);
                self.media()?;
                dialogue.invite = cseq;
                self.actions.push(Action::Remember(Memory::Sip(*dialogue)));
            }
            "BYE" => self.actions.push(FLUSH_MEDIA),
            "REGISTER" => {
                if self.register(dialogue.listens)? {
                    dialogue.register = cseq;
                    self.actions.push(Action::Remember(Memory::Sip(*dialogue)));
                }
            }
            _ => self.media()?,
        }
        Ok(())
    }

    /// A response (`process_sip_response()`).
    fn response(&mut self, dialogue: &Dialogue) -> Result<(), Refused> {
        if self.text.data().len() < SHORTEST {
            return Ok(());
        }
        let code = self.text.number_at("SIP/2.0 ".len());
        if code == 0 {
            return Err(refused("cannot get code"));
        }
        let (cseq, end) = self.cseq()?;
        let method = self.text.data().get(end + 1..).unwrap_or(&[]);
        let method = Text::new(method, false);
        if ["INVITE", "UPDATE", "PRACK"].iter().any(|of| method.begins(of)) {
            match code {
                100..300 => self.media()?,
                _ if dialogue.invite == cseq => self.actions.push(FLUSH_MEDIA),
                _ => {}
            }
        } else if method.begins("REGISTER")
            && dialogue.register == cseq
            && !(100..200).contains(&code)
        {
            self.registered(code);
        }
        Ok(())
    }

    /// Announces the media of a session description (`process_sdp()`), and rewrites its addresses.
    fn media(&mut self) -> Result<(), Refused> {
        let (m, text) = (self.m, self.text);
        let family = usize::from(super::is_ipv6(&m.tuples[0]));
        let connection = sip_text::CONNECTION[family];
        let Found::Is(version) = text.description(0, sip_text::VERSION, None) else {
            return Ok(());
        };
        let session = text.described(version.at, connection, sip_text::MEDIA);
        let (mut at, mut streams) = (version.at, 0);
        let mut seen = session.map(|(address, _)| address);
        while streams < STREAMS.len() {
            let Found::Is(line) = text.description(at, sip_text::MEDIA, None) else { break };
            let kind = &text.data()[line.at..line.end()];
            let known = STREAMS.iter().find(|(name, _)| kind.starts_with(name.as_bytes()));
            let Some((name, class)) = known else {
                at = line.end();
                continue;
            };
            let port = Span { at: line.at + name.len(), len: line.len - name.len() };
            at = port.at;
            let number = text.number(port).unwrap_or(0);
            if number == 0 {
                continue;
            }
            let valid = u16::try_from(number).ok().filter(|p| *p >= 1024);
            let asked = valid.ok_or(Refused(Some(Wrong::Port(number))))?;
            let own = text.described(at, connection, sip_text::MEDIA);
            let (address, _) = own.or(session).ok_or(refused("cannot parse SDP message"))?;
            let mut now = address;
            // Media at another address than the sender's get no expectation.
            if address == m.tuple().source() {
                self.stream(*class, asked, port, address);
                now = if m.translated { m.seen_address() } else { address };
            }
            if m.translated
                && let Some((_, span)) = own
            {
                self.replace(span, now.to_string());
                self.length(version, "cannot mangle SDP")?;
            }
            seen = Some(now);
            streams += 1;
        }
        match seen {
            Some(address) if m.translated => self.session(version, family, address),
            _ => Ok(()),
        }
    }

    /// Rewrites the addresses of the session's owner and connection (`nf_nat_sdp_session()`).
    fn session(&mut self, version: Span, family: usize, address: IpAddr) -> Result<(), Refused> {
        let end = Some(sip_text::MEDIA);
        let find = |field| self.text.description(version.at, field, end);
        let owner = find(sip_text::OWNER[family]);
        let connection = find(sip_text::CONNECTION[family]);
        let Found::Is(owner) = owner else { return Err(Refused(None)) };
        self.replace(owner, address.to_string());
        if let Found::Is(connection) = connection {
            self.replace(connection, address.to_string());
        }
        self.length(version, "").map_err(|_| Refused(None))
    }

    /// Writes how long the session description has become (`mangle_content_len()`).
    fn length(&mut self, version: Span, otherwise: &'static str) -> Result<(), Refused> {
        let Found::Is(length) = self.text.header(0, sip_text::LENGTH) else {
            return Err(refused(otherwise));
        };
        let start = version.at - "v=".len();
        self.length = Some(Action::EditLength {
            at: self.base + length.at,
            len: length.len,
            old: (self.text.data().len() - start) as i64,
            since: self.base + start,
        });
        Ok(())
    }

    /// Announces data and control of a stream on a pair of ports (`set_expected_rtp_rtcp()`).
    fn stream(&mut self, class: u8, asked: u16, place: Span, address: IpAddr) {
        let m = self.m;
        let base = asked & !1;
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
        let edit = PortEdit {
            at: self.base + place.at,
            len: place.len,
            address,
            write: |_, port| port.to_string(),
            unless: Some(asked),
        };
        let ports = Ports::Pair { asked, search: m.translated };
        let otherwise = Otherwise::Drop(match m.translated {
            true => &["all ports in use for SDP media", "cannot add expectation for voice"],
            false => &["cannot add expectation for voice"],
        });
        let announcement = m.announce(expectation, otherwise);
        self.actions.push(Action::Expect(Announcement { ports, edit: Some(edit), ..announcement }));
    }

    /// The protocol of a contact, if it is this connection's (`ct_sip_parse_transport()`).
    fn transport(&self, after: usize) -> Option<u8> {
        let own = self.m.tuples[0].protocol;
        let Some(value) = self.text.parameter(after, "transport=") else { return Some(own) };
        let value = Text::new(value, false);
        let said = match (value.begins("TCP"), value.begins("UDP")) {
            (true, _) => protocol::TCP,
            (_, true) => protocol::UDP,
            _ => return None,
        };
        (said == own).then_some(own)
    }

    /// How long all registrations hold, in seconds.
    fn expires(&self) -> u32 {
        self.text
            .header(0, sip_text::EXPIRES)
            .is()
            .and_then(|span| self.text.number(span))
            .unwrap_or(0)
    }

    /// Announces calls to who registers, which come once the registrar has agreed
    /// (`process_register_request()`). Returns whether the registration is remembered.
    fn register(&mut self, listens: Option<u16>) -> Result<bool, Refused> {
        let m = self.m;
        if m.expected {
            return Ok(false);
        }
        let common = self.expires();
        let Some(contact) = self.text.host(&mut Walk::default(), sip_text::CONTACT) else {
            return Ok(false);
        };
        let after = contact.span.end();
        let Some(transport) = self.transport(after) else { return Ok(false) };
        if contact.address != m.tuple().source() {
            return Ok(false);
        }
        let seconds = match self.text.numeric_parameter(after, "expires=") {
            Found::Is((seconds, _)) => seconds,
            Found::Nothing => common,
            Found::Wrong(_) => return Err(refused("cannot parse expires")),
        };
        if seconds == 0 {
            return Ok(true);
        }
        let expectation = Expectation {
            flags: expect_flag::PERMANENT | expect_flag::INACTIVE,
            helper: super::helper_number("sip", transport).unwrap_or(0),
            ..m.expect(transport, Some(m.back().src), m.back().dst, contact.port)
        };
        self.actions.push(Action::Expect(self.announce_calls(expectation, &contact, listens)));
        Ok(true)
    }

    /// Announces calls to a contact; a translated one gets the address and port that it has outside
    /// (`nf_nat_sip_expect()`).
    fn announce_calls(
        &self,
        mut expectation: Expectation,
        contact: &Host,
        listens: Option<u16>,
    ) -> Announcement {
        let m = self.m;
        if !m.translated {
            return m.announce(expectation, super::NOT_ADDED);
        }
        expectation.follow =
            Some(Follow { direction: m.direction.opposite(), address: None, port: contact.port });
        if contact.port == listens.unwrap_or(m.tuple().src_id) {
            expectation.tuple.dst_id = m.back().dst_id;
        }
        let edit = PortEdit {
            at: self.base + contact.span.at,
            len: contact.span.len,
            address: m.seen_address(),
            write: with_port,
            unless: (m.seen_address() == contact.address).then_some(contact.port),
        };
        Announcement {
            otherwise: Otherwise::Drop(&["all ports in use for SIP"]),
            edit: Some(edit),
            ..m.announce_translated(expectation)
        }
    }

    /// The registrar answers: calls are expected from now on, or no longer
    /// (`process_register_response()`).
    fn registered(&mut self, code: u32) {
        let m = self.m;
        let (mut walk, mut wanted, mut wrong) = (Walk::default(), Vec::new(), None);
        let common = self.expires();
        while (200..300).contains(&code) {
            let Some(contact) = self.text.host(&mut walk, sip_text::CONTACT) else { break };
            let after = contact.span.end();
            if contact.address != m.tuple().destination() {
                continue;
            }
            let Some(protocol) = self.transport(after) else { continue };
            let seconds = match self.text.numeric_parameter(after, "expires=") {
                Found::Is((seconds, _)) => seconds,
                Found::Nothing => common,
                Found::Wrong(_) => {
                    wrong = Some(Wrong::Text("cannot parse expires"));
                    break;
                }
            };
            if seconds == 0 {
                break;
            }
            wanted.push(Renewal {
                protocol,
                address: tuple::address(contact.address),
                port: contact.port,
                // The kernel counts ticks in 32 bits, so that many seconds become few.
                timeout: u64::from(seconds.wrapping_mul(HZ)) * (SECOND / u64::from(HZ)),
            });
        }
        self.actions.push(Action::Renew { class: SIGNALLING, wanted, wrong });
    }

    /// Rewrites the addresses of both ends in the headers (`nf_nat_sip()`).
    fn headers(&mut self, listens: Option<u16>) {
        let (m, text) = (self.m, self.text);
        let request = !text.begins("SIP/2.0");
        if request && let Some(host) = text.request() {
            self.map(&host, listens);
        }
        let tcp = m.tuples[0].protocol == protocol::TCP;
        let via = if tcp { sip_text::VIA_TCP } else { sip_text::VIA_UDP };
        if let Some(host) = text.host(&mut Walk::default(), via) {
            let end = if request {
                (m.tuple().source(), m.tuple().src_id)
            } else {
                (m.tuple().destination(), m.tuple().dst_id)
            };
            if (host.address, host.port) == end {
                self.map(&host, listens);
                self.via_parameters(host.span.end());
            }
        }
        let mut walk = Walk::default();
        while let Some(host) = text.host(&mut walk, sip_text::CONTACT) {
            self.map(&host, listens);
        }
        for field in [sip_text::FROM, sip_text::TO] {
            if let Some(host) = text.host(&mut Walk::default(), field) {
                self.map(&host, listens);
            }
        }
    }

    /// Rewrites the parameters of a Via: where answers go (`maddr=`), and where the request came
    /// from as the server saw it (`received=`, `rport=`; RFC 3581).
    fn via_parameters(&mut self, after: usize) {
        let (m, text) = (self.m, self.text);
        let (source, outside) = (m.tuple().source(), m.back().destination());
        if let Some((address, span)) = text.address_parameter(after, "maddr=", false)
            && address == source
            && address != outside
        {
            self.replace(span, bracketed(outside));
        }
        let (destination, inside) = (m.tuple().destination(), m.back().source());
        if let Some((address, span)) = text.address_parameter(after, "received=", true)
            && address == destination
            && address != inside
        {
            self.replace(span, inside.to_string());
        }
        let (port, own) = (m.tuple().dst_id, m.back().src_id);
        if let Found::Is((number, span)) = text.numeric_parameter(after, "rport=")
            && number as u16 == port
            && number as u16 != own
        {
            self.replace(span, own.to_string());
        }
    }

    /// Rewrites an address and port of one of the two ends as the other sees it (`map_addr()`).
    fn map(&mut self, host: &Host, listens: Option<u16>) {
        let (this, back): (&Tuple, &Tuple) = (self.m.tuple(), self.m.back());
        let (address, port) = if (host.address, host.port) == (this.source(), this.src_id) {
            (back.destination(), back.dst_id)
        } else if (host.address, host.port) == (this.destination(), this.dst_id) {
            (back.source(), listens.unwrap_or(back.src_id))
        } else {
            return;
        };
        if (address, port) != (host.address, host.port) {
            self.replace(host.span, with_port(address, port));
        }
    }

    /// New text for a part of the message, unless it has some already.
    fn replace(&mut self, span: Span, text: String) {
        let at = self.base + span.at;
        let taken = |action: &Action| match action {
            Action::Edit(edit) => edit.at == at,
            Action::Expect(announcement) => announcement.edit.as_ref().is_some_and(|e| e.at == at),
            _ => false,
        };
        if !self.actions.iter().any(taken) {
            self.actions.push(Action::Edit(Edit { at, len: span.len, text: text.into() }));
        }
    }
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(a) => a.to_string(),
        IpAddr::V6(a) => format!("[{a}]"),
    }
}

fn with_port(address: IpAddr, port: u16) -> String {
    format!("{}:{port}", bracketed(address))
}
