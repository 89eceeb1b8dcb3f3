// SPDX-License-Identifier: Apache-2.0

//! Packets that together meet every rule that can be met; and why others cannot.

use std::collections::HashMap;

use penstock_program::Family;
use penstock_program::expr::MetaKey;
use penstock_program::image::RuleIndex;

use crate::asked::asked;
use crate::boxes::{PacketBox, Teller};
use crate::classes::depends;
use crate::diagram::{Decided, Limits, Region, Undecided};
use crate::example::{Example, Verified};
use crate::field::{Base, Field};
use crate::place::Place;
use crate::preferred::{preferred, usual_protocol};
use crate::program::{Program, reachable};
use crate::progress::PROGRESS;
use crate::universe::Universe;
use crate::walk::{Failure, Matches, Notes, Noting, evaluate_noting, may_match};

/// The last bytes of the first case's addresses: rulesets seldom name hosts there.
const FIRST: u16 = 0x2002;
/// Packets that are tried for a rule before it is given up: bytes may not go together.
const TRIES: usize = 4;
/// Boxes that the key of an element is told by, at most.
const KEYS: usize = 4;
/// Rules that are named as those that take the packets of another, at most.
const TAKERS: usize = 8;

/// Packets that meet rules.
pub struct Cover {
    /// The fields of the rules.
    pub universe: Universe,
    /// All rules that base chains lead to, in the order of the image.
    pub rules: Vec<(RuleIndex, Coverage)>,
    /// Elements of verdict maps, if they were asked for: rule by rule, in the order of the maps.
    pub elements: Vec<Element>,
    /// The packets.
    pub cases: Vec<Case>,
}

/// An element of a verdict map.
pub struct Element {
    /// The rule that has the map.
    pub rule: RuleIndex,
    /// The key.
    pub key: Key,
    /// The case whose packet meets it; `None` if none could be made.
    pub case: Option<usize>,
    /// No packet meets it.
    pub never: bool,
}

/// The key of an element, for packets that come to its map.
pub struct Key {
    /// In terms of values.
    pub boxes: Vec<PacketBox>,
    /// `NFPROTO_*` of those packets, if that is one.
    pub nfproto: Option<u8>,
    /// Their transport protocol, if that is one.
    pub transport: Option<u8>,
}

/// What is sought besides a packet for each rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Another packet for each case.
    pub others: bool,
    /// A packet for each element of each verdict map.
    pub elements: bool,
}

/// Whether a rule can be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The packet of this case meets it.
    Case(usize),
    /// No packet that can be at the hook matches it, whatever comes before it.
    NothingMatches,
    /// No packet that matches it comes to its chain.
    NothingComes,
    /// Earlier rules of its chain take all packets that match it, those with the most first.
    Taken(Vec<RuleIndex>),
    /// Packets come to it, but none that matches it: rules before it have written something else.
    NotMatched,
    /// Packets meet it, but none of those that were tried could be made.
    NotMade,
}

/// A packet, and what the interpreter does with it.
pub struct Case {
    /// The value of each variable.
    pub example: Vec<bool>,
    /// Another packet that meets the rule that this one was sought for, with addresses of the other
    /// network where rules leave the choice.
    pub other: Option<Vec<bool>>,
    /// What becomes of it, and which rules it meets.
    pub verified: Verified,
    /// What that depends on besides the packet.
    pub depends: Vec<Field>,
}

/// Finds packets that meet the rules of a program at a place. Each packet has addresses of its own
/// where rules leave the choice: see [`own_addresses`].
///
/// # Errors
/// A limit, or a rule that has no symbolic meaning.
pub fn cover(
    place: Place,
    program: &Program<'_>,
    wanted: Wanted,
    limits: Limits,
) -> Result<Cover, Failure> {
    let fields = asked(place, program).into_iter().chain(usual_fields(place));
    let mut universe = Universe::new(place, limits, fields);
    let rules = reachable(program);
    let matches = may_match(&mut universe, program, &rules)?;
    let done = program.image.rules.len();
    let limit = |limit: Undecided| Failure::Undecided { limit, done: (done, done) };
    // Each rule is looked at with the packets that it may match: there are few rules for them. What
    // rules ask after that adds fields, and says more about what is possible.
    let early = universe.possible().map_err(limit)?;
    let mut regions: HashMap<RuleIndex, Region> = HashMap::with_capacity(rules.len());
    let mut maps: HashMap<RuleIndex, Vec<(Region, Region)>> = HashMap::new();
    for (number, rule) in rules.iter().enumerate() {
        PROGRESS.note(number, rules.len());
        let enter = enters(&universe, &matches, *rule, &early).map_err(limit)?;
        let closer = wanted.elements.then_some(*rule);
        let noting = Noting { closer, maps_only: true, ..Noting::default() };
        let (_, notes) = evaluate_noting(&mut universe, program, &matches, &enter, noting)?;
        if !notes.elements.is_empty() {
            maps.insert(*rule, notes.elements);
        }
        let met = notes.met.get(rule).map_or(&[][..], |met| met);
        regions.insert(*rule, universe.diagrams.union(met).map_err(limit)?);
    }
    let possible = universe.possible().map_err(limit)?;
    let mut search = Search {
        program,
        wanted,
        found: HashMap::new(),
        cases: Vec::new(),
        meeting: HashMap::new(),
    };
    let mut elements = Vec::new();
    // Packets that come to the last rules meet others on their way.
    for (number, rule) in rules.iter().rev().enumerate() {
        PROGRESS.note(number, rules.len());
        for (key, met) in maps.remove(rule).unwrap_or_default().into_iter().rev() {
            let met = universe.diagrams.and(&met, &possible).map_err(limit)?;
            let case = search.case(&universe, *rule, &met).map_err(limit)?;
            let come = enters(&universe, &matches, *rule, &possible).map_err(limit)?;
            let key = key_of(&universe, &key, &come).map_err(limit)?;
            elements.push(Element { rule: *rule, key, case, never: met.is_none() });
        }
        if search.found.contains_key(rule) {
            continue;
        }
        let met = universe.diagrams.and(&regions[rule], &possible).map_err(limit)?;
        if met.is_none() {
            let enter = enters(&universe, &matches, *rule, &possible).map_err(limit)?;
            let noting = Noting::default();
            let (_, notes) = evaluate_noting(&mut universe, program, &matches, &enter, noting)?;
            let why = why_never(&universe, program, *rule, &notes, &enter).map_err(limit)?;
            search.found.insert(*rule, why);
        } else if search.case(&universe, *rule, &met).map_err(limit)?.is_none() {
            search.found.insert(*rule, Coverage::NotMade);
        }
    }
    elements.reverse();
    let Search { mut found, cases, .. } = search;
    let rules = rules.into_iter().filter_map(|rule| Some((rule, found.remove(&rule)?))).collect();
    Ok(Cover { universe, rules, elements, cases })
}

/// The cases so far.
struct Search<'a, 'p> {
    program: &'a Program<'p>,
    wanted: Wanted,
    found: HashMap<RuleIndex, Coverage>,
    cases: Vec<Case>,
    /// Numbers of the cases whose packets meet a rule.
    meeting: HashMap<RuleIndex, Vec<usize>>,
}

impl Search<'_, '_> {
    /// The number of a case with a packet of a region, all of which meet a rule; `None` if none can
    /// be made.
    fn case(
        &mut self,
        universe: &Universe,
        rule: RuleIndex,
        region: &Region,
    ) -> Decided<Option<usize>> {
        let meeting = self.meeting.get(&rule).map_or(&[][..], |cases| cases);
        let is_of_it = |number: &&usize| region.contains(&self.cases[**number].example);
        if let Some(known) = meeting.iter().find(is_of_it) {
            return Ok(Some(*known));
        }
        let number = self.cases.len();
        let own = Addresses { number, swapped: false };
        let packet = |addresses| packet(universe, self.program, rule, region, addresses);
        let Some((example, verified)) = packet(own)? else { return Ok(None) };
        let other = match self.wanted.others {
            true => packet(Addresses { swapped: true, ..own })?.map(|(point, _)| point),
            false => None,
        };
        for met in &verified.met {
            self.meeting.entry(*met).or_default().push(number);
            let known = self.found.entry(*met).or_insert(Coverage::Case(number));
            if *known == Coverage::NotMade {
                *known = Coverage::Case(number);
            }
        }
        self.cases.push(Case { example, other, verified, depends: depends(universe, region) });
        Ok(Some(number))
    }
}

/// The key of an element, as those packets have it that come to its map.
pub(crate) fn key_of(universe: &Universe, key: &Region, come: &Region) -> Decided<Key> {
    let d = &universe.diagrams;
    let own = d.and(key, come)?;
    let boxes = match own.is_none() {
        true => Teller::new(universe, &d.all()).cover(key, KEYS)?.0,
        false => Teller::new(universe, come).cover(&own, KEYS)?.0,
    };
    let only = |key| {
        let value = universe.only_value(come, Field::Meta(key))?;
        Ok(value.map(|value| value[0]))
    };
    Ok(Key { boxes, nfproto: only(MetaKey::NfProto)?, transport: only(MetaKey::L4Proto)? })
}

/// Fields that decide whether connection tracking takes a packet as the example has it, whether
/// rules ask for them or not.
fn usual_fields(place: Place) -> Vec<Field> {
    if !place.is_ip() {
        return Vec::new();
    }
    let flags = [12, 13].map(|at| Field::Header { base: Base::Transport, at });
    let mut all = vec![Field::CtState, Field::Transport, Field::Meta(MetaKey::L4Proto)];
    all.extend(flags);
    if place.family == Family::Inet {
        all.push(Field::Meta(MetaKey::NfProto));
    }
    all
}

/// Possible packets that a rule may match.
pub(crate) fn enters(
    universe: &Universe,
    matches: &Matches,
    rule: RuleIndex,
    possible: &Region,
) -> Decided<Region> {
    match matches.of(rule) {
        Some(region) => universe.diagrams.and(region, possible),
        None => Ok(universe.diagrams.none()),
    }
}

/// A packet of a region that meets a rule, and what the interpreter does with it.
fn packet(
    universe: &Universe,
    program: &Program<'_>,
    rule: RuleIndex,
    region: &Region,
    addresses: Addresses,
) -> Decided<Option<(Vec<bool>, Verified)>> {
    let d = &universe.diagrams;
    let mut rest = region.clone();
    for _ in 0..TRIES {
        let usual = usual_protocol(universe, &rest)?;
        let readable = preferred(universe, &with_addresses(universe, &usual, addresses)?)?;
        let Some(point) = d.packet_of(&readable) else { break };
        if let Some(example) = Example::new(universe, &point) {
            let verified = example.run(program);
            debug_assert!(verified.met.contains(&rule), "the interpreter does not meet the rule");
            if verified.met.contains(&rule) {
                return Ok(Some((point, verified)));
            }
        }
        // Bytes that did not go together do not with other addresses either.
        let alike: Vec<(Field, Vec<u8>)> = universe
            .fields()
            .iter()
            .filter(|field| !matches!(field, Field::Header { base: Base::Network, at } if *at >= 8))
            .filter_map(|field| Some((*field, universe.value(*field, &point)?)))
            .collect();
        rest = d.minus(&rest, &universe.with_values(&alike)?)?;
    }
    Ok(None)
}

/// The addresses of a case: of two networks, in one direction or in the other.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The number of the case.
    pub number: usize,
    /// The source is of the second network.
    pub swapped: bool,
}

impl Addresses {
    /// Source and destination, of IPv4 and of IPv6.
    fn bytes(self) -> ([u8; 8], [u8; 32]) {
        let [high, low] = (self.number as u16).wrapping_add(FIRST).to_be_bytes();
        let nets = if self.swapped { [2, 1] } else { [1, 2] };
        let (mut v4, mut v6) = ([0; 8], [0; 32]);
        for ((four, six), net) in v4.chunks_mut(4).zip(v6.chunks_mut(16)).zip(nets) {
            four.copy_from_slice(&[198, 17 + net, high, low]);
            six[..6].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, net]);
            six[14..].copy_from_slice(&[high, low]);
        }
        (v4, v6)
    }
}

/// Of a region the packets with the addresses of a case, as far as rules leave the choice:
/// destination before source.
fn with_addresses(universe: &Universe, region: &Region, addresses: Addresses) -> Decided<Region> {
    let d = &universe.diagrams;
    let (v4, v6) = addresses.bytes();
    let bytes = |protocol: u8, first: u16, bytes: &[u8]| -> Vec<(Field, Vec<u8>)> {
        let fields = (first..).map(|at| Field::Header { base: Base::Network, at });
        let mut all: Vec<(Field, Vec<u8>)> =
            fields.zip(bytes).map(|(field, byte)| (field, vec![*byte])).collect();
        all.push((Field::Meta(MetaKey::NfProto), vec![protocol]));
        all.retain(|(field, _)| universe.has(*field));
        all
    };
    let mut wishes = Vec::new();
    if universe.place.family != Family::Ip6 {
        wishes.extend([bytes(2, 16, &v4[4..]), bytes(2, 12, &v4[..4])]);
    }
    if matches!(universe.place.family, Family::Ip6 | Family::Inet) {
        wishes.extend([bytes(10, 24, &v6[16..]), bytes(10, 8, &v6[..16])]);
    }
    let mut region = region.clone();
    for wish in wishes {
        let wanted = d.and(&region, &universe.with_values(&wish)?)?;
        if !wanted.is_none() {
            region = wanted;
        }
    }
    Ok(region)
}

/// The packet of a case from its network header on, with addresses of its own: bytes of addresses
/// that rules do not ask for are those of no other case.
pub fn own_addresses(example: &Example<'_>, addresses: Addresses) -> Vec<u8> {
    let mut packet = example.packet.network().to_vec();
    let (v4, v6) = addresses.bytes();
    let (first, own) = match packet.first().map(|byte| byte >> 4) {
        Some(4) => (12, &v4[..]),
        Some(6) => (8, &v6[..]),
        _ => return packet,
    };
    for (at, byte) in (first..).zip(own) {
        let is_free = example.value(Field::Header { base: Base::Network, at }).is_none();
        if let Some(to) = packet.get_mut(usize::from(at)).filter(|_| is_free) {
            *to = *byte;
        }
    }
    packet
}

/// Why none of the packets that a rule may match meets it.
pub(crate) fn why_never(
    universe: &Universe,
    program: &Program<'_>,
    rule: RuleIndex,
    notes: &Notes,
    matched: &Region,
) -> Decided<Coverage> {
    if matched.is_none() {
        return Ok(Coverage::NothingMatches);
    }
    let d = &universe.diagrams;
    let chain = program.image.rule_name(rule).map(|name| name.chain);
    let entered = chain.and_then(|chain| notes.entered.get(&chain));
    let entered = d.union(entered.map_or(&[], |entered| entered))?;
    let matched = d.and(matched, &entered)?;
    if matched.is_none() {
        return Ok(Coverage::NothingComes);
    }
    let mut takers: Vec<(f64, RuleIndex)> = Vec::new();
    let mut left = matched.clone();
    let same_chain = |other: RuleIndex| program.image.rule_name(other).map(|n| n.chain) == chain;
    for (taker, region) in &notes.taken {
        if *taker >= rule || !same_chain(*taker) {
            continue;
        }
        let share = d.share(&d.and(&matched, region)?);
        left = d.minus(&left, region)?;
        match takers.iter_mut().find(|(_, known)| known == taker) {
            Some((sum, _)) => *sum += share,
            None if share > 0.0 => takers.push((share, *taker)),
            None => {}
        }
    }
    takers.sort_by(|a, b| b.0.total_cmp(&a.0));
    takers.truncate(TAKERS);
    Ok(match left.is_none() {
        true => Coverage::Taken(takers.into_iter().map(|(_, taker)| taker).collect()),
        false => Coverage::NotMatched,
    })
}
