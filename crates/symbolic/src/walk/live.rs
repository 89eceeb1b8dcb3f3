// SPDX-License-Identifier: Apache-2.0

//! Packets on their way: through the chains of a hook, and to their end.

use std::rc::Rc;

use penstock_program::Hook;
use penstock_program::expr::{CtDir, CtKey};
use penstock_program::image::{ChainIndex, RuleIndex};

use super::translation::Side;
use super::{Decision, Failure, Walk, Walked};
use crate::diagram::Region;
use crate::fate::End;
use crate::field::{Base, Field};
use crate::way::{Passage, Way};

/// Packets on their way, and what last decided that they go on.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) region: Region,
    /// Apart from each other, and together at least the region. They are cut to it where that
    /// matters: what the network says of packets makes each of them larger.
    pieces: Rc<[Piece]>,
}

/// Packets that the same rule has let on.
struct Piece {
    region: Region,
    rule: Option<RuleIndex>,
    base: Option<ChainIndex>,
}

impl Live {
    /// Packets of which nothing has decided yet.
    pub(super) fn undecided(region: Region) -> Live {
        let piece = Piece { region: region.clone(), rule: None, base: None };
        Live { region, pieces: Rc::new([piece]) }
    }
}

impl Walk<'_, '_> {
    /// Passes packets through the chains of a hook, and translates them there.
    pub(super) fn pass(&mut self, way: &Way<'_>, hook: Hook, live: Live) -> Result<Live, Failure> {
        self.universe.place.hook = hook;
        self.untranslated = Side::at(hook).filter(|_| way.translates());
        self.moved.clear();
        let mut live = match way.passage(hook) {
            Some(passage) => self.through(passage, live)?,
            None => live,
        };
        if let Some(side) = self.untranslated.take() {
            let possible = self.translate(side, &live.region)?;
            live = self.only(&live, &possible)?;
        }
        Ok(live)
    }

    /// Passes those packets through chains that are in a region, and the others around them.
    pub(super) fn pass_some(
        &mut self,
        passage: &Passage,
        live: Live,
        region: &Region,
    ) -> Result<Live, Failure> {
        self.universe.place.hook = passage.hook;
        self.untranslated = None;
        let outside = self.without(&live, region)?;
        let inside = self.only(&live, region)?;
        let inside = self.through(passage, inside)?;
        let region = self.limit(self.universe.diagrams.or(&outside.region, &inside.region))?;
        let mut pieces = self.cut(&outside)?;
        pieces.extend(self.cut(&inside)?);
        Ok(Live { region, pieces: pieces.into() })
    }

    /// Passes packets through chains.
    pub(super) fn through(&mut self, passage: &Passage, live: Live) -> Result<Live, Failure> {
        if live.region.is_none() {
            return Ok(live);
        }
        let first = self.decisions.len();
        // Rules look at addresses themselves: a region without what routing says of them is simpler,
        // and what is too much in it is taken out at the end.
        let addresses = (8..40).map(|at| Field::Header { base: Base::Network, at });
        let known = [CtKey::SrcIp, CtKey::DstIp, CtKey::SrcIp6, CtKey::DstIp6];
        let known = known
            .into_iter()
            .flat_map(|key| [CtDir::Original, CtDir::Reply].map(|dir| Field::Ct(key, Some(dir))));
        let free: Vec<u32> =
            addresses.chain(known).flat_map(|f| self.universe.variables(f).to_vec()).collect();
        let wider = self.universe.diagrams.whatever(&live.region, free.into_iter());
        let wider = self.limit(wider)?;
        let untranslated = self.untranslated.is_some();
        self.hook(&passage.bases, &wider)?;
        let mut on = Vec::new();
        let mut lost = Vec::new();
        for mut decision in self.decisions.split_off(first) {
            if decision.end == End::Accept {
                let Decision { region, rule, base, .. } = decision;
                on.push(Piece { region, rule, base });
                continue;
            }
            decision.region =
                self.limit(self.universe.diagrams.and(&decision.region, &live.region))?;
            if !decision.region.is_none() {
                lost.push(decision.region.clone());
                self.decisions.push(decision);
            }
        }
        let d = &self.universe.diagrams;
        let region = match untranslated && self.untranslated.is_none() {
            // Some choices of translation are none: nothing became of such packets.
            true => {
                let regions: Vec<Region> = on.iter().map(|piece| piece.region.clone()).collect();
                d.union(&regions).and_then(|on| d.and(&live.region, &on))
            }
            false => d.union(&lost).and_then(|lost| d.minus(&live.region, &lost)),
        };
        let region = self.limit(region)?;
        if passage.filters() {
            return Ok(Live { region, pieces: on.into() });
        }
        // Whoever decided before is still who decided; a policy that lets all pass decides nothing.
        let is_decided = live.pieces.iter().all(|piece| piece.base.is_some());
        if is_decided || on.iter().all(|passed| passed.rule.is_none()) {
            return Ok(Live { region, pieces: live.pieces });
        }
        let mut pieces = Vec::new();
        for piece in live.pieces.iter() {
            for passed in &on {
                let both = self.universe.diagrams.and(&piece.region, &passed.region);
                let region = self.limit(both)?;
                if !region.is_none() {
                    let is_new = piece.base.is_none() && passed.rule.is_some();
                    let from = if is_new { passed } else { piece };
                    pieces.push(Piece { region, ..*from });
                }
            }
        }
        Ok(Live { region, pieces: pieces.into() })
    }

    /// Those packets that are in a region.
    pub(super) fn only(&self, live: &Live, region: &Region) -> Result<Live, Failure> {
        let region = self.limit(self.universe.diagrams.and(&live.region, region))?;
        Ok(Live { region, pieces: live.pieces.clone() })
    }

    /// Those packets that are not in a region.
    pub(super) fn without(&self, live: &Live, region: &Region) -> Result<Live, Failure> {
        let others = self.universe.diagrams.not(region);
        self.only(live, &others)
    }

    /// Packets by what let them on.
    fn cut(&self, live: &Live) -> Result<Vec<Piece>, Failure> {
        let mut all = Vec::new();
        for piece in live.pieces.iter() {
            let region = self.limit(self.universe.diagrams.and(&piece.region, &live.region))?;
            if !region.is_none() {
                all.push(Piece { region, ..*piece });
            }
        }
        Ok(all)
    }

    /// Packets of a region come to an end.
    pub(super) fn end_some(&mut self, live: &Live, region: &Region, end: End) -> Walked {
        let ended = self.only(live, region)?;
        match end {
            // The network decides, and no rule.
            End::Refused(_) => {
                self.base = None;
                self.decide(ended.region, end, None);
                Ok(())
            }
            _ => self.end_all(&ended, end),
        }
    }

    pub(super) fn end_all(&mut self, live: &Live, end: End) -> Walked {
        let all = self.cut(live)?;
        self.decisions.extend(all.into_iter().map(|piece| {
            let Piece { region, rule, base } = piece;
            Decision { region, end, rule, base }
        }));
        Ok(())
    }

    pub(super) fn note_routed(&mut self, end: End, region: &Region) {
        if !region.is_none() {
            self.passed.routed.push((end, region.clone()));
        }
    }
}
