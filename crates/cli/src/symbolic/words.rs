// SPDX-License-Identifier: Apache-2.0

//! Classes of packets and their fates in the words of rules.
//!
//! Values are written by the printer of the language: a value of a field is made a rule of one
//! match, as a listing would find it, and listed.

use penstock_lang::listing::Listing;
use penstock_program::expr::{
    Bitwise, BitwiseOp, Byteorder, ByteorderOp, Cmp, CmpOp, Ct, CtKey, Expr, Exthdr, ExthdrOp,
    Meta, MetaKey, NatKind, Payload, Range, RejectType,
};
use penstock_program::{Data, Family, Register};
use penstock_ruleset::model::{Rule, Table};
use penstock_symbolic::{
    Done, End, Fate, Field, HeaderBase, Input, Key, PacketBox, Part, Place, Refusal, Universe,
    Values, What, Written,
};

/// Writes classes of packets.
pub struct Words<'a> {
    listing: Listing<'a>,
    place: Place,
    universe: &'a Universe,
    table: Table,
    /// What rules are called, by the number that inputs have.
    rule_name: &'a dyn Fn(u32) -> String,
    /// `NFPROTO_*` of all packets that are told of, if that is one.
    nfproto: Option<u8>,
    /// Their transport protocol, if that is one.
    transport: Option<u8>,
}

/// The register that a value is loaded into.
const REGISTER: Register = Register(1);

impl<'a> Words<'a> {
    /// Words for the packets of a place.
    pub fn new(
        listing: Listing<'a>,
        place: Place,
        universe: &'a Universe,
        rule_name: &'a dyn Fn(u32) -> String,
    ) -> Self {
        let table = Table {
            family: place.family,
            name: "words".into(),
            handle: 0,
            dormant: false,
            flags: 0,
            owner: 0,
            userdata: Default::default(),
            last_handle: 0,
            chains: Vec::new(),
            sets: Vec::new(),
            objects: Vec::new(),
            flowtables: Vec::new(),
        };
        Words { listing, place, universe, table, rule_name, nfproto: None, transport: None }
    }

    /// Takes it as said what protocols all packets have that are told of.
    pub fn of_protocols(self, nfproto: Option<u8>, transport: Option<u8>) -> Self {
        Words { nfproto, transport, ..self }
    }

    /// The packets' universe.
    pub fn universe(&self) -> &'a Universe {
        self.universe
    }

    fn print(&self, exprs: Vec<Expr>) -> String {
        let rule = Rule {
            handle: 0,
            exprs,
            states: Vec::new(),
            userdata: Default::default(),
            origin: None,
        };
        print_rule(&self.listing, &self.table, &rule)
    }

    /// A box in words; what is true of all packets is left out.
    pub fn packets(&self, one: &PacketBox) -> String {
        self.packets_of(one, self.nfproto, self.transport)
    }

    /// The key of an element.
    pub fn key(&self, key: &Key) -> String {
        let Key { boxes, nfproto, transport } = key;
        let all: Vec<String> =
            boxes.iter().map(|one| self.packets_of(one, *nfproto, *transport)).collect();
        all.join(" or ")
    }

    /// A box of packets of which the protocols are known, in words.
    fn packets_of(&self, one: &PacketBox, nfproto: Option<u8>, transport: Option<u8>) -> String {
        if one.parts.is_empty() {
            return "all packets".to_owned();
        }
        let single = |wanted: Field| {
            one.parts.iter().find_map(|(part, values)| match values {
                Values::In(all) if part.fields == [wanted] => match all[..] {
                    [(first, last)] if first == last => Some(first as u8),
                    _ => None,
                },
                _ => None,
            })
        };
        let family = single(Field::Meta(MetaKey::NfProto)).or(nfproto);
        let carried = single(Field::Meta(MetaKey::L4Proto)).or(transport);
        let mut words = Vec::new();
        let (mut family_said, mut carried_said) = (false, false);
        for (part, values) in &one.parts {
            let base = match part.fields[0] {
                Field::Header { base, .. } => Some(base),
                _ => None,
            };
            let before = match base {
                Some(HeaderBase::Network) if self.place.family == Family::Inet => {
                    family.map(|family| (MetaKey::NfProto, family))
                }
                Some(HeaderBase::Transport) => carried.map(|p| (MetaKey::L4Proto, p)),
                _ => None,
            };
            let (text, implied) = self.part(part, values, before);
            match before {
                Some((MetaKey::NfProto, _)) => family_said |= implied,
                Some(_) => carried_said |= implied,
                None => {}
            }
            words.push((part, text));
        }
        let loads = |base: HeaderBase| {
            one.parts.iter().any(
                |(part, _)| matches!(part.fields[0], Field::Header { base: of, .. } if of == base),
            )
        };
        let loads_exthdr = |op: ExthdrOp, kind: u8| {
            one.parts.iter().any(|(part, _)| {
                matches!(part.fields[0], Field::Exthdr { op: of, kind: same, .. }
                    if (of, same) == (op, kind))
            })
        };
        let texts = words.into_iter().filter(|(part, text)| {
            !text.is_empty()
                && match part.fields[0] {
                    Field::Meta(MetaKey::NfProto) => !family_said,
                    Field::Meta(MetaKey::L4Proto) => !carried_said,
                    // What is compared is there.
                    Field::HasExthdr { op, kind, .. } => {
                        !(text.contains(" exists")
                            && !text.starts_with('(')
                            && loads_exthdr(op, kind))
                    }
                    Field::Present { base, .. } => !(text.starts_with("with ") && loads(base)),
                    Field::Transport => {
                        !(text.starts_with("with ")
                            && (carried.is_some() || loads(HeaderBase::Transport)))
                    }
                    _ => true,
                }
        });
        let texts: Vec<String> = texts.map(|(_, text)| text).collect();
        if texts.is_empty() { "all packets".to_owned() } else { texts.join(" ") }
    }

    /// A part with its values, and whether its words say what comes before it.
    fn part(&self, part: &Part, values: &Values, before: Option<(MetaKey, u8)>) -> (String, bool) {
        let first = part.fields[0];
        if let Some(text) = self.special(first, values) {
            return (text, false);
        }
        if first == Field::CtState {
            return (self.state(values), false);
        }
        let prefix: Vec<Expr> = before
            .into_iter()
            .flat_map(|(key, value)| {
                [Expr::Meta(Meta { key, dreg: REGISTER }), compare(CmpOp::Eq, &[value])]
            })
            .collect();
        let said = self.print(prefix.clone());
        let mut implied = !prefix.is_empty();
        let mut write = |compares: Vec<Expr>| {
            let mut exprs = prefix.clone();
            exprs.extend(self.load(part));
            exprs.extend(compares);
            let text = self.print(exprs);
            match text.strip_prefix(&said).map(str::trim_start) {
                Some(rest) if !said.is_empty() && !rest.is_empty() => {
                    implied = false;
                    rest.to_owned()
                }
                _ => text,
            }
        };
        let bytes = part.variables.len().div_ceil(8);
        let negated = matches!(values, Values::NotIn(_));
        let texts: Vec<String> = match values {
            Values::In(all) | Values::NotIn(all) => all
                .iter()
                .map(|(from, to)| {
                    write(self.interval(first, bytes, *from, *to, negated && all.len() == 1))
                })
                .collect(),
            Values::Masked(all) => all
                .iter()
                .map(|(mask, value)| {
                    let (mask, value) = (data(first, bytes, *mask), data(first, bytes, *value));
                    write(vec![mask_expr(&mask), compare(CmpOp::Eq, &value)])
                })
                .collect(),
            Values::Some => {
                let text = write(vec![compare(CmpOp::Eq, &data(first, bytes, 0))]);
                let selector = text.rsplit_once(' ').map_or(&*text, |(selector, _)| selector);
                return (format!("{selector} (many values)"), implied);
            }
        };
        let text = match texts.len() {
            0 => "no packet".to_owned(),
            1 => texts.into_iter().next().unwrap_or_default(),
            _ => {
                let selectors = texts.iter().map(|text| text.rsplit_once(' '));
                let split: Option<Vec<(&str, &str)>> = selectors.collect();
                let same = split.filter(|all| all.windows(2).all(|pair| pair[0].0 == pair[1].0));
                match same {
                    Some(all) => {
                        let values: Vec<&str> = all.iter().map(|(_, value)| *value).collect();
                        let not = if negated { "!= " } else { "" };
                        format!("{} {not}{{ {} }}", all[0].0, values.join(", "))
                    }
                    None if negated => format!("not ({})", texts.join(" or ")),
                    None => format!("({})", texts.join(" or ")),
                }
            }
        };
        (text, implied)
    }

    /// Expressions that load a part.
    fn load(&self, part: &Part) -> Vec<Expr> {
        let dreg = REGISTER;
        vec![match part.fields[0] {
            Field::Header { base, at } => Expr::Payload(Payload {
                base,
                offset: at.into(),
                len: part.fields.len() as u32,
                dreg,
            }),
            Field::Exthdr { op, kind, at } => Expr::Exthdr(Exthdr {
                op,
                kind,
                offset: at.into(),
                len: part.fields.len() as u32,
                present: false,
                dreg,
            }),
            Field::Meta(key) => Expr::Meta(Meta { key, dreg }),
            Field::Ct(key, dir) => Expr::Ct(Ct { key, dir, dreg }),
            _ => return Vec::new(),
        }]
    }

    /// Expressions that compare a part with an interval.
    fn interval(&self, field: Field, bytes: usize, from: u128, to: u128, not: bool) -> Vec<Expr> {
        let (low, high) = (data(field, bytes, from), data(field, bytes, to));
        let (eq, neq) = (CmpOp::Eq, CmpOp::Neq);
        if from == to {
            return vec![compare(if not { neq } else { eq }, &low)];
        }
        let span = (to - from).wrapping_add(1);
        let is_prefix = span.is_power_of_two() && from & (span - 1) == 0;
        let is_name = matches!(
            field,
            Field::Meta(
                MetaKey::IifName | MetaKey::OifName | MetaKey::BriIifName | MetaKey::BriOifName
            )
        );
        if is_name && is_prefix && span.trailing_zeros().is_multiple_of(8) {
            let kept = bytes - (span.trailing_zeros() / 8) as usize;
            return vec![compare(if not { neq } else { eq }, &low[..kept])];
        }
        let is_address = matches!(
            field,
            Field::Header { base: HeaderBase::Network, at: 8 | 12 | 16 | 24 }
                | Field::Ct(CtKey::SrcIp | CtKey::DstIp | CtKey::SrcIp6 | CtKey::DstIp6, _)
        );
        if is_address && is_prefix {
            let ones = if bytes == 16 { u128::MAX } else { (1 << (bytes * 8)) - 1 };
            let mask = data(field, bytes, ones & !(span - 1));
            return vec![mask_expr(&mask), compare(if not { neq } else { eq }, &low)];
        }
        let (from, to): (Data, Data) = match field.is_in_host_order() {
            true => (
                from.to_be_bytes()[16 - bytes..].to_vec().into(),
                to.to_be_bytes()[16 - bytes..].to_vec().into(),
            ),
            false => (low.into(), high.into()),
        };
        let mut exprs = Vec::new();
        if field.is_in_host_order() {
            exprs.push(Expr::Byteorder(Byteorder {
                op: ByteorderOp::Hton,
                sreg: REGISTER,
                dreg: REGISTER,
                len: bytes as u32,
                size: bytes as u32,
            }));
        }
        let op = if not { neq } else { eq };
        exprs.push(Expr::Range(Range { op, sreg: REGISTER, from, to }));
        exprs
    }

    /// `ct state` with several states.
    fn state(&self, values: &Values) -> String {
        let (all, not) = match values {
            Values::In(all) => (all, false),
            Values::NotIn(all) => (all, true),
            Values::Masked(_) | Values::Some => return "ct state ...".to_owned(),
        };
        let states =
            [(1u8, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
        let words: Vec<&str> = states
            .iter()
            .filter(|(bit, _)| {
                let value = u128::from(*bit);
                all.iter().any(|(from, to)| (*from..=*to).contains(&value)) != not
            })
            .map(|(_, word)| *word)
            .collect();
        format!("ct state {}", words.join(","))
    }

    /// Words for fields that rules have no words for.
    fn special(&self, field: Field, values: &Values) -> Option<String> {
        let is = |value: u128| match values {
            Values::In(all) => all.iter().any(|(from, to)| (*from..=*to).contains(&value)),
            Values::NotIn(all) => !all.iter().any(|(from, to)| (*from..=*to).contains(&value)),
            Values::Masked(all) => all.iter().any(|(mask, of)| value & mask == *of),
            Values::Some => true,
        };
        let on = is(1);
        let header = |base: HeaderBase| match base {
            HeaderBase::Link => "link",
            HeaderBase::Network => "network",
            HeaderBase::Transport => "transport",
            HeaderBase::Inner | HeaderBase::Tunnel => "inner",
        };
        Some(match field {
            Field::Present { base, bytes } if on => {
                format!("with {bytes} bytes from the {} header on", header(base))
            }
            Field::Present { base, bytes } => {
                format!("(cut off before byte {bytes} of the {} header)", header(base))
            }
            Field::HasExthdr { op, kind, bytes } => self.has_exthdr(op, kind, bytes, on),
            Field::Transport if on => "with a transport header".to_owned(),
            Field::Transport => "(without a transport header)".to_owned(),
            Field::LaterFragment if on => "(a later fragment)".to_owned(),
            Field::LaterFragment => "(no later fragment)".to_owned(),
            Field::HasMeta(key) => {
                format!("({} meta {key})", if on { "with" } else { "without" })
            }
            Field::CtBefore => {
                format!("({} by a loopback device)", if on { "coming" } else { "not coming" })
            }
            Field::HasCt(key, _) => {
                format!("({} ct {key})", if on { "with" } else { "without" })
            }
            Field::Untranslated if on => "(the first of its connection)".to_owned(),
            Field::Untranslated => "(not the first of its connection)".to_owned(),
            Field::Input(input) => self.input(input, values, on),
            Field::Answers(question) => {
                let text = self.universe.question_text(question);
                format!("({} for {text})", if on { "an answer" } else { "no answer" })
            }
            Field::Answer { question, .. } => {
                format!("(depending on {})", self.universe.question_text(question))
            }
            _ => return None,
        })
    }

    /// Whether there is an extension header or an option, with so many bytes.
    fn has_exthdr(&self, op: ExthdrOp, kind: u8, bytes: u16, on: bool) -> String {
        let present = |on: bool| {
            let exthdr = Exthdr { op, kind, offset: 0, len: 1, present: true, dreg: REGISTER };
            self.print(vec![Expr::Exthdr(exthdr), compare(CmpOp::Eq, &[on.into()])])
        };
        match (bytes, on) {
            (0 | 1, _) => present(on),
            (_, true) => format!("{} (with {bytes} bytes of it)", present(true)),
            (_, false) => format!("(not {} with {bytes} bytes of it)", present(true)),
        }
    }

    fn input(&self, input: Input, values: &Values, on: bool) -> String {
        let rule = (self.rule_name)(input.rule);
        match input.what {
            What::Limit => {
                let not = if on { "" } else { "not " };
                format!("(if the limit of {rule} does {not}match)")
            }
            What::Quota => {
                let not = if on { "" } else { "not " };
                format!("(if the quota of {rule} does {not}match)")
            }
            What::Connlimit => {
                let not = if on { "" } else { "not " };
                format!("(if the count of {rule} does {not}match)")
            }
            What::Member => {
                let not = if on { "" } else { "not " };
                format!("(if a set that packets change does {not}have the key)")
            }
            What::Added => {
                let not = if on { "" } else { "not " };
                format!("(if the set of {rule} does {not}take the element)")
            }
            What::Offloaded => {
                let not = if on { "" } else { "not " };
                format!("(if the flowtable of {rule} does {not}take the connection)")
            }
            What::Expected => {
                let not = if on { "" } else { "not " };
                format!("(if {rule} does {not}expect a connection)")
            }
            What::Frames => {
                let words = |all: &[(u128, u128)]| {
                    let numbers = all.iter().flat_map(|(first, last)| *first..=*last);
                    let words = numbers
                        .map_while(|number| self.universe.choice_name(input, number as u32))
                        .collect::<Vec<_>>();
                    words.join(" or ")
                };
                match values {
                    Values::In(all) => format!("(if frames {})", words(all)),
                    Values::NotIn(all) => format!("(unless frames {})", words(all)),
                    Values::Masked(_) | Values::Some => {
                        "(depending on the port of the bridge)".to_owned()
                    }
                }
            }
            What::Number | What::Port | What::Hop => {
                let values = match values {
                    Values::In(all) => list(all),
                    Values::NotIn(all) => format!("not {}", list(all)),
                    Values::Masked(_) | Values::Some => "one of some".to_owned(),
                };
                match input.what {
                    What::Port => format!("(if translation chooses port {values})"),
                    What::Hop => format!("(if routing takes next hop {values} of the route)"),
                    _ => format!("(if the number of {rule} is {values})"),
                }
            }
            What::Address => "(depending on the address that translation chooses)".to_owned(),
        }
    }

    /// A packet in words: each field that rules ask, as `penstock trace` takes them where it can.
    /// Inputs are told if they are among those that it depends on.
    pub fn example(&self, point: &[bool], parts: &[Part], depends: &[Field]) -> String {
        let has_exthdr = |op, kind| {
            self.universe.fields().iter().any(|field| {
                matches!(field, Field::HasExthdr { op: of, kind: same, bytes }
                    if (*of, *same) == (op, kind) && *bytes > 0)
                    && self.universe.flag(*field, point) == Some(true)
            })
        };
        let family = self.universe.value(Field::Meta(MetaKey::NfProto), point);
        let is_ipv4 = match self.place.family {
            Family::Inet => family.is_none_or(|family| family[..] == [2]),
            family => family == Family::Ip,
        };
        let parts = parts.iter().rev().map(|part| {
            let mut value = 0;
            for number in &part.variables {
                value = value << 1 | u128::from(point[*number as usize]);
            }
            (part.clone(), Values::In(vec![(value, value)]))
        });
        let parts: Vec<(Part, Values)> = parts
            .filter(|(part, values)| {
                let zero = matches!(values, Values::In(all) if all[..] == [(0, 0)]);
                match part.fields[0] {
                    // Checksums, what IPv4 carries, and bytes of a header that is not there.
                    Field::Header { base: HeaderBase::Network, at } if is_ipv4 => {
                        !matches!(at, 9 | 10 | 11 | 20..)
                    }
                    Field::Header { .. } => true,
                    Field::HasExthdr { .. } => !zero,
                    Field::Exthdr { op, kind, .. } => has_exthdr(op, kind),
                    Field::Meta(MetaKey::Mark | MetaKey::Priority | MetaKey::SecMark) => !zero,
                    // There is no such device.
                    Field::Meta(MetaKey::Iif | MetaKey::IifName) => !zero,
                    Field::Meta(_) | Field::CtState => true,
                    Field::Ct(..) => !zero,
                    Field::Input(input) => {
                        depends.contains(&part.fields[0])
                            && !self.universe.is_of_another(input, point)
                    }
                    _ => false,
                }
            })
            .collect();
        self.packets(&PacketBox { parts })
    }

    /// What becomes of packets.
    pub fn fate(&self, fate: &Fate) -> String {
        let mut words = vec![match fate.end {
            End::Accept => "accept".to_owned(),
            End::Drop => "drop".to_owned(),
            End::Reject(RejectType::TcpRst, _) => "reject with tcp reset".to_owned(),
            End::Reject(RejectType::IcmpUnreach, code) => match self.place.family {
                Family::Ip6 => format!("reject with icmpv6 {}", icmpv6_word(code)),
                Family::Ip => format!("reject with icmp {}", icmp_word(code)),
                _ => format!("reject with icmp code {code}"),
            },
            End::Reject(RejectType::IcmpxUnreach, code) => {
                let words =
                    ["no-route", "port-unreachable", "host-unreachable", "admin-prohibited"];
                let word = words.get(usize::from(code)).copied().unwrap_or("?");
                format!("reject with icmpx {word}")
            }
            End::Stolen => "sent elsewhere".to_owned(),
            End::Queue { total, bypass } => {
                let bypass = if bypass { " bypass" } else { "" };
                match total {
                    1 => format!("queue{bypass}"),
                    _ => format!("queue to one of {total}{bypass}"),
                }
            }
            End::Host => "to the host".to_owned(),
            End::Leaves(index) => {
                let name = self.listing.names.interface_name(index);
                format!("out of {}", name.unwrap_or_else(|| index.to_string()))
            }
            End::Refused(why) => format!("dropped: {}", refusal_word(why)),
        }];
        let number = |value: &Written| match value {
            Written::Unchanged => "unchanged".to_owned(),
            Written::Various => "various".to_owned(),
            Written::Value(bytes) => {
                let number = bytes.iter().take(16).fold(0u128, |n, b| n << 8 | u128::from(*b));
                format!("{number:#x}")
            }
        };
        let is_lost = fate.end.is_lost();
        for (field, value) in &fate.written {
            let text = match field {
                // Where it would have gone.
                Field::Done(
                    Done::NewSource
                    | Done::NewSourcePort
                    | Done::NewDestination
                    | Done::NewDestinationPort,
                ) if is_lost => continue,
                Field::Meta(key) => format!("{key} {}", number(value)),
                Field::Ct(key, _) => format!("ct {key} {}", number(value)),
                Field::Header { base, at } => format!("{base} byte {at} {}", number(value)),
                Field::Done(done) => match done_words(*done, value, &number) {
                    Some(text) => text,
                    None => continue,
                },
                _ => continue,
            };
            words.push(text);
        }
        words.join(", ")
    }
}

/// Why a network does not carry packets on.
fn refusal_word(why: Refusal) -> &'static str {
    match why {
        Refusal::NoRoute => "no route",
        Refusal::Blackhole => "a blackhole route",
        Refusal::Unreachable => "an unreachable route",
        Refusal::Prohibit => "a prohibit route",
        Refusal::NotForwarding => "the device does not forward",
        Refusal::Source => "the source cannot be one",
        Refusal::ReversePath => "the source is not routed back (rp_filter)",
        Refusal::Destination => "the destination cannot be one",
        Refusal::NotForHost => "the frame is not for the host alone",
        Refusal::NotMember => "the host is no member of the group",
        Refusal::Hops => "no hops are left",
        Refusal::Scope => "the source is of its link only",
        Refusal::NoAddress => "there is no address to translate to",
        Refusal::NoPort => "no port of the bridge takes the frame",
        Refusal::Absent => "the network has no such device or address",
    }
}

/// Codes of ICMP destination unreachable, as nft writes them.
fn icmp_word(code: u8) -> String {
    match code {
        0 => "net-unreachable",
        1 => "host-unreachable",
        2 => "prot-unreachable",
        3 => "port-unreachable",
        9 => "net-prohibited",
        10 => "host-prohibited",
        13 => "admin-prohibited",
        code => return code.to_string(),
    }
    .to_owned()
}

/// Codes of ICMPv6 destination unreachable, as nft writes them.
fn icmpv6_word(code: u8) -> String {
    match code {
        0 => "no-route",
        1 => "admin-prohibited",
        3 => "addr-unreachable",
        4 => "port-unreachable",
        5 => "policy-fail",
        6 => "reject-route",
        code => return code.to_string(),
    }
    .to_owned()
}

/// Lists a rule of a table that lives shorter than the listing.
fn print_rule(listing: &Listing<'_>, table: &Table, rule: &Rule) -> String {
    let listing = Listing {
        generation: listing.generation,
        format: listing.format,
        names: listing.names,
        now: listing.now,
    };
    listing.rule(table, rule).trim().to_owned()
}

fn list(all: &[(u128, u128)]) -> String {
    let texts: Vec<String> = all
        .iter()
        .map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") })
        .collect();
    texts.join(", ")
}

fn done_words(done: Done, value: &Written, number: &dyn Fn(&Written) -> String) -> Option<String> {
    let Written::Value(bytes) = value else {
        return Some(match done {
            Done::NewSource => "source translated".to_owned(),
            Done::NewDestination => "destination translated".to_owned(),
            Done::NewSourcePort | Done::NewDestinationPort => return None,
            _ => format!("{done:?} {}", number(value)),
        });
    };
    let zero = bytes.iter().all(|byte| *byte == 0);
    let address = || -> String {
        match bytes[..] {
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => format!("{a}.{b}.{c}.{d}"),
            _ => {
                let bytes: [u8; 16] = bytes[..].try_into().unwrap_or_default();
                std::net::Ipv6Addr::from(bytes).to_string()
            }
        }
    };
    let decimal = || bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)).to_string();
    Some(match done {
        _ if zero && done.is_part() => return None,
        Done::Nat => match bytes.last() {
            Some(0) => "not translated".to_owned(),
            Some(n) if *n == NatKind::Source as u8 + 1 => "snat".to_owned(),
            Some(n) if *n == NatKind::Destination as u8 + 1 => "dnat".to_owned(),
            Some(n) if *n == NatKind::Masquerade as u8 + 1 => "masquerade".to_owned(),
            _ => "redirect".to_owned(),
        },
        Done::NatAddress => format!("to {}", address()),
        Done::NatLastAddress => format!("up to {}", address()),
        Done::NatPort => format!("port {}", decimal()),
        Done::NatLastPort => format!("up to port {}", decimal()),
        Done::NatBasePort => format!("base port {}", decimal()),
        Done::NatFlags => format!("flags {}", number(value)),
        Done::Notrack => if zero { "tracked" } else { "notrack" }.to_owned(),
        Done::Queue => format!("to {}", decimal()),
        Done::Sent if zero => "not copied".to_owned(),
        Done::Sent => if bytes == &[1] { "copied" } else { "forwarded" }.to_owned(),
        Done::SentDevice => format!("by device {}", decimal()),
        Done::SentAddress => format!("to {}", address()),
        Done::Flowtable => if zero { "no flow" } else { "flow to a flowtable" }.to_owned(),
        Done::Object => if zero { "no object" } else { "an object for the connection" }.to_owned(),
        Done::TcpOption(kind) => format!("tcp option {kind} {}", decimal()),
        Done::Element(_) => if zero { "no element" } else { "an element changed" }.to_owned(),
        Done::NewSource if zero => "source unchanged".to_owned(),
        Done::NewSource => format!("source {}", address()),
        Done::NewDestination if zero => "destination unchanged".to_owned(),
        Done::NewDestination => format!("destination {}", address()),
        Done::NewSourcePort | Done::NewDestinationPort => format!("port {}", decimal()),
        Done::Tproxy | Done::TproxyAddress | Done::TproxyPort => return None,
    })
}

/// Register bytes of a number.
fn data(field: Field, bytes: usize, value: u128) -> Vec<u8> {
    let mut all = value.to_be_bytes()[16 - bytes.min(16)..].to_vec();
    if field.is_in_host_order() {
        all.reverse();
    }
    all
}

fn compare(op: CmpOp, bytes: &[u8]) -> Expr {
    Expr::Cmp(Cmp { op, sreg: REGISTER, data: Data::new(bytes) })
}

fn mask_expr(mask: &[u8]) -> Expr {
    Expr::Bitwise(Bitwise {
        sreg: REGISTER,
        dreg: REGISTER,
        len: mask.len() as u32,
        op: BitwiseOp::MaskXor { mask: Data::new(mask), xor: Data::new(&vec![0; mask.len()]) },
    })
}
