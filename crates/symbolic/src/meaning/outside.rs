// SPDX-License-Identifier: Apache-2.0

//! What depends on more than the packet, and what is asked of or done to the outside.

use penstock_program::expr::MetaKey;
use penstock_program::image::{CtObject, FlowtableIndex, Stateful};
use penstock_program::op::{LinkedQueue, Op};

use super::{Answer, At, Meaning, RuleEnd, ends, next, unable};
use crate::bits::Bit;
use crate::diagram::{Decided, Region};
use crate::field::{Done, Field, Input, What};
use crate::machine::{host_words, known};
use crate::question::Question;

impl Meaning<'_> {
    /// An input of one bit that only this operation of this rule has.
    pub(super) fn input(&mut self, what: What) -> Decided<Region> {
        let At { rule, op, .. } = self.at;
        self.universe.holds(Field::Input(Input { what, rule, op }))
    }

    pub(super) fn number(&mut self, modulus: u32, offset: u32, dst: u8, live: Region) -> Answer {
        let At { rule, op, .. } = self.at;
        let input = Input { what: What::Number, rule, op };
        if modulus != 0 && offset.checked_add(modulus - 1).is_some() {
            self.universe.bound(input, offset, offset + modulus - 1);
        }
        let value = self.machine.in_register(self.universe, Field::Input(input))?;
        self.machine.load(dst, &value);
        next(live)
    }

    /// What the outside answers; without an answer the rule breaks.
    pub(super) fn ask(&mut self, op: &Op, live: Region) -> Answer {
        let Some(Question { text, dst, bytes }) = Question::of(op) else { return next(live) };
        let question = self.universe.question(text);
        let has = self.universe.holds(Field::Answers(question))?;
        let live = self.universe.diagrams.and(&live, &has)?;
        let value = self.universe.bits(Field::Answer { question, bytes })?;
        self.machine.load(dst, &value);
        next(live)
    }

    /// Writes a TCP option. Whether the packet has it makes no difference for what follows but that
    /// the rule ends: nothing after it may depend on that.
    pub(super) fn tcp_option(&mut self, kind: u8, src: u8, len: u8, live: Region) -> Answer {
        let value = self.machine.read(src, len.min(4));
        let mut bits = vec![Bit::ZERO; 32 - value.len()];
        bits.extend(value);
        let question = self.universe.question(Question::tcp_option(kind));
        let has = self.universe.holds(Field::Answers(question))?;
        let live = self.universe.diagrams.and(&live, &has)?;
        let field = Field::Done(Done::TcpOption(kind));
        self.machine.write(self.universe, &live, field, &bits)?;
        next(live)
    }

    /// Gives the packet to a listener.
    pub(super) fn queue(&mut self, queue: &LinkedQueue, live: Region) -> Answer {
        let total = match queue.sreg {
            Some(slot) => {
                let value = self.machine.read(slot, 4);
                let number = host_words(&value)[16..].to_vec();
                self.machine.write(self.universe, &live, Field::Done(Done::Queue), &number)?;
                1
            }
            None => {
                self.machine.done(self.universe, &live, Done::Queue, queue.num.into())?;
                queue.total.max(1)
            }
        };
        ends(live, RuleEnd::Queue { total, bypass: queue.bypass })
    }

    pub(super) fn flow_offload(&mut self, flowtable: FlowtableIndex, live: Region) -> Answer {
        let taken = self.input(What::Offloaded)?;
        let live = self.universe.diagrams.and(&live, &taken)?;
        self.machine.done(self.universe, &live, Done::Flowtable, flowtable.0 + 1)?;
        next(live)
    }

    pub(super) fn stateful(&mut self, stateful: &Stateful, live: Region) -> Answer {
        let what = match stateful {
            Stateful::Counter(_) | Stateful::Last(_) => return next(live),
            Stateful::Quota { .. } | Stateful::NamedQuota { .. } => What::Quota,
            Stateful::Limit { .. } => What::Limit,
            Stateful::Connlimit { .. } => What::Connlimit,
            Stateful::SecMark(mark) => {
                let value = known(&mark.to_ne_bytes());
                let field = Field::Meta(MetaKey::SecMark);
                self.machine.write_register(self.universe, &live, field, &value)?;
                return next(live);
            }
            Stateful::Ct(object) => {
                let number = self.universe.question(format!("{object:?}")) + 1;
                let expects = matches!(&**object, CtObject::Expect { .. });
                let live = match expects {
                    true => {
                        let may = self.input(What::Expected)?;
                        self.universe.diagrams.and(&live, &may)?
                    }
                    false => live,
                };
                self.machine.done(self.universe, &live, Done::Object, number)?;
                return next(live);
            }
            Stateful::Synproxy(_) => {
                return unable("synproxy answers for a server");
            }
        };
        let on = self.input(what)?;
        self.only(live, &on, true)
    }

    pub(super) fn sent(
        &mut self,
        how: u32,
        addr: Option<u8>,
        v6: bool,
        dev: Option<u8>,
        live: &Region,
    ) -> Decided<()> {
        self.machine.done(self.universe, live, Done::Sent, how)?;
        if let Some(slot) = dev {
            let device = self.machine.read(slot, 4);
            let field = Field::Done(Done::SentDevice);
            self.machine.write_register(self.universe, live, field, &device)?;
        }
        if let Some(slot) = addr {
            let address = self.machine.read(slot, if v6 { 16 } else { 4 });
            let field = Field::Done(Done::SentAddress);
            self.machine.write_register(self.universe, live, field, &address)?;
        }
        Ok(())
    }
}
