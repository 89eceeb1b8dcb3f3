// SPDX-License-Identifier: Apache-2.0

//! The function in the making: the packet's headers as values, what is known at the present point,
//! registers.

use std::sync::Arc;

use penstock_packet::layout;
use penstock_program::{DynamicSet, Family, Image};

use crate::asm::{Asm, Block, Is, Value, Width};
use crate::host::{Address, Helpers};
use crate::outcome::ACCEPTED;
use penstock_program::op::Parts;

/// Bytes that loads may ask for: from an address, so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) base: Value,
    /// As a signed number; negative if nothing may be loaded.
    pub(crate) len: Value,
}

/// Which window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Link,
    Network,
    /// For loads that do not ask for fragments.
    Transport,
    /// For those that do.
    WholeTransport,
}

/// The windows of a packet and other values that do not change while chains run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    pub(crate) link: Option<Window>,
    pub(crate) network: Option<Window>,
    pub(crate) transport: Option<Window>,
    pub(crate) whole_transport: Option<Window>,
    /// [`Packet::len`](penstock_packet::Packet::len).
    pub(crate) length: Option<Value>,
    /// Whether there is a transport header, and its protocol as a word.
    pub(crate) protocol: Option<(Value, Value)>,
}

impl Windows {
    pub(crate) fn of(&self, header: Header) -> Option<Window> {
        match header {
            Header::Link => self.link,
            Header::Network => self.network,
            Header::Transport => self.transport,
            Header::WholeTransport => self.whole_transport,
        }
    }

    /// Computes what is needed. The packet's offsets stay what they are until a stage that is no
    /// chain runs.
    pub(crate) fn new(asm: &mut Asm<'_>, packet: Value, needs: Parts) -> Self {
        let mut windows = Windows::default();
        if needs == Parts::default() {
            return windows;
        }
        let end = asm.load(Width::Long, packet, layout::END);
        if needs.length {
            let data = asm.load(Width::Long, packet, layout::DATA);
            windows.length = Some(asm.sub(end, data));
        }
        if !(needs.link || needs.network || needs.transport) {
            return windows;
        }
        let buffer = asm.load(Width::Long, packet, layout::BUFFER);
        let nothing = asm.long(u64::MAX);
        if needs.link {
            let link = asm.load(Width::Long, packet, layout::LINK);
            let has = asm.load(Width::Byte, packet, layout::HAS_LINK);
            let len = asm.sub(end, link);
            let len = asm.select(has, len, nothing);
            windows.link = Some(Window { base: asm.add(buffer, link), len });
        }
        if !(needs.network || needs.transport) {
            return windows;
        }
        let network = asm.load(Width::Long, packet, layout::NETWORK);
        if needs.network {
            windows.network =
                Some(Window { base: asm.add(buffer, network), len: asm.sub(end, network) });
        }
        if needs.transport {
            let has = asm.load(Width::Byte, packet, layout::HAS_TRANSPORT);
            let protocol = asm.load(Width::Byte, packet, layout::TRANSPORT_PROTOCOL);
            windows.protocol = Some((has, asm.widen(protocol, Width::Word)));
            let offset = asm.load(Width::Half, packet, layout::TRANSPORT_OFFSET);
            let fragment = asm.load(Width::Half, packet, layout::FRAGMENT_OFFSET);
            let wide = asm.widen(offset, Width::Long);
            let start = asm.add(network, wide);
            // Later fragments without a transport header are read from the data pointer on.
            let later = asm.is_number(fragment, Is::NotEqual, 0);
            let lost = asm.is_number(offset, Is::Equal, 0);
            let lost = asm.and(later, lost);
            let data = asm.load(Width::Long, packet, layout::DATA);
            let start = asm.select(lost, data, start);
            let len = asm.sub(end, start);
            let len = asm.select(has, len, nothing);
            let base = asm.add(buffer, start);
            windows.transport = Some(Window { base, len });
            if needs.whole_transport {
                windows.whole_transport =
                    Some(Window { base, len: asm.select(later, nothing, len) });
            }
        }
        windows
    }
}

/// Something that was computed once and is known wherever the present point comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// That so many bytes of a header are there.
    There(Header, u32),
    /// Bytes of a header: offset and count of 1 to 4.
    Bytes(Header, u32, u8),
    /// That there is a transport header.
    Protocol,
    /// A field of the packet's metadata, by its place.
    Meta(usize),
}

/// What is known, in the order in which it came to be known.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    all: Vec<(Known, Option<Value>)>,
}

/// A point to which [`Facts`] can go back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(usize);

impl Facts {
    /// More are not kept: looking through them would take longer than what they save.
    const MOST: usize = 48;

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.all.len())
    }

    /// Forgets what came to be known since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.all.truncate(mark.0);
    }

    pub(crate) fn learn(&mut self, known: Known, value: Option<Value>) {
        if self.all.len() < Self::MOST {
            self.all.push((known, value));
        }
    }

    pub(crate) fn value(&self, known: Known) -> Option<Value> {
        self.all.iter().find(|(k, _)| *k == known)?.1
    }

    pub(crate) fn holds(&self, known: Known) -> bool {
        self.all.iter().any(|(k, _)| match (k, known) {
            (Known::There(header, have), Known::There(wanted, bytes)) => {
                *header == wanted && *have >= bytes
            }
            (k, known) => *k == known,
        })
    }

    /// The packet's bytes or metadata may have changed; what does not depend on them stays known.
    /// Marks stay good.
    pub(crate) fn packet_changed(&mut self) {
        for (known, value) in &mut self.all {
            match known {
                Known::There(..) | Known::Protocol => {}
                // Nobody asks for it.
                Known::Bytes(..) | Known::Meta(_) => {
                    (*known, *value) = (Known::Meta(usize::MAX), None)
                }
            }
        }
    }
}

/// The sixteen registers within a rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    slots: [Slot; 16],
}

/// Where the contents of a register are.
#[derive(Clone, Copy, Debug, Default)]
enum Slot {
    /// The rule has not written it.
    #[default]
    Unwritten,
    /// A word in memory order.
    Value(Value),
    /// A word in memory order that is known.
    Constant(Value, u32),
    /// In the function's memory for registers.
    Memory,
}

impl Registers {
    pub(crate) fn set(&mut self, slot: u8, value: Value) {
        self.slots[usize::from(slot & 15)] = Slot::Value(value);
    }

    pub(crate) fn set_constant(&mut self, slot: u8, value: Value, number: u32) {
        self.slots[usize::from(slot & 15)] = Slot::Constant(value, number);
    }

    pub(crate) fn constant(&self, slot: u8) -> Option<u32> {
        match self.slots[usize::from(slot & 15)] {
            Slot::Constant(_, number) => Some(number),
            Slot::Value(_) | Slot::Memory | Slot::Unwritten => None,
        }
    }

    /// The interpreter has written these.
    pub(crate) fn written_in_memory(&mut self, slots: u16) {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slots >> i & 1 != 0 {
                *slot = Slot::Memory;
            }
        }
    }
}

/// How a decision leaves the function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finish {
    /// It is returned.
    Return,
    /// It goes to a block that takes it.
    Block(Block),
    /// It goes to one of two blocks, by whether the packet passes.
    Passes {
        /// It does.
        passes: Block,
        /// It does not.
        fails: Block,
    },
}

/// A function in the making, at some packet.
pub(crate) struct LoweringCtx<'f, 'a> {
    pub(crate) asm: &'f mut Asm<'a>,
    pub(crate) image: &'f Image,
    pub(crate) helpers: &'static Helpers,
    pub(crate) packet: Value,
    pub(crate) host: Value,
    /// [`WorkerNumber::distance`](penstock_program::WorkerNumber::distance) of the worker.
    pub(crate) cells: Value,
    /// Address of 64 bytes for registers of which operations are run by the interpreter.
    pub(crate) memory: Value,
    /// Number of the entry of the list.
    pub(crate) entry: Value,
    /// Number of the entry, where it is known, for decisions.
    pub(crate) known_entry: Option<u16>,
    /// Family of the hook, as [`Context::family`](penstock_program::Context::family). Set before
    /// code of a chain is made.
    pub(crate) family: Family,
    pub(crate) windows: Windows,
    pub(crate) facts: Facts,
    /// What was known where the rule, or what several rules share, could first be left.
    pub(crate) way_out: Option<Mark>,
    pub(crate) finish: Finish,
    /// It is only to be known whether the packet will pass: what cannot be known beforehand ends it
    /// ([`crate::egress_precheck`]).
    pub(crate) prechecks: bool,
    /// When the frame came, where code is made for frames that pass one after the other: then sets
    /// that packets change are searched without a host.
    pub(crate) frame_time: Option<Value>,
    /// Those that are.
    pub(crate) dynamic_sets: Vec<Arc<DynamicSet>>,
    /// Address of the profile to be kept.
    pub(crate) profile: Option<u64>,
}

/// The values that code for chains begins with.
pub(crate) struct Inputs {
    /// The packet.
    pub(crate) packet: Value,
    /// The host.
    pub(crate) host: Value,
    /// [`WorkerNumber::distance`](penstock_program::WorkerNumber::distance) of the worker.
    pub(crate) cells: Value,
    /// Address of 64 bytes for registers.
    pub(crate) memory: Value,
}

impl<'f, 'a> LoweringCtx<'f, 'a> {
    /// At the beginning: nothing is known of the packet, and the entry is the first of the list.
    pub(crate) fn new(
        asm: &'f mut Asm<'a>,
        image: &'f Image,
        helpers: &'static Helpers,
        inputs: Inputs,
        finish: Finish,
    ) -> Self {
        let Inputs { packet, host, cells, memory } = inputs;
        LoweringCtx {
            image,
            helpers,
            packet,
            host,
            cells,
            memory,
            entry: asm.long(0),
            known_entry: None,
            family: Family::Netdev,
            windows: Windows::default(),
            facts: Facts::default(),
            way_out: None,
            finish,
            prechecks: false,
            frame_time: None,
            dynamic_sets: Vec::new(),
            profile: None,
            asm,
        }
    }

    /// Notes that code may leave the rule here: what is learnt from now on is not known there.
    pub(crate) fn leaves(&mut self) {
        self.way_out.get_or_insert(self.facts.mark());
    }

    /// Leaves the rule if a condition holds, and continues otherwise.
    pub(crate) fn leave_if(&mut self, condition: Value, out: Block) {
        self.leaves();
        self.asm.leave_if(condition, out);
    }

    /// Leaves the rule unless a condition holds.
    pub(crate) fn leave_unless(&mut self, condition: Value, out: Block) {
        self.leaves();
        self.asm.leave_unless(condition, out);
    }

    /// Ends here with a decision that is known.
    pub(crate) fn decide(&mut self, packed: u64) {
        if let Finish::Passes { passes, fails } = self.finish {
            return self.asm.jump(if packed <= ACCEPTED { passes } else { fails });
        }
        let packed =
            self.known_entry.map_or(packed, |entry| crate::outcome::at_entry(packed, entry));
        let value = self.asm.long(packed);
        self.leave(value);
    }

    /// Ends here with a decision of a chain.
    pub(crate) fn decide_value(&mut self, packed: Value) {
        let packed = match self.known_entry {
            Some(entry) => {
                let at = self.asm.long(crate::outcome::at_entry(0, entry));
                self.asm.or(packed, at)
            }
            None => packed,
        };
        self.leave(packed);
    }

    /// From here on time counts for something.
    pub(crate) fn tick(&mut self, number: u64) {
        if let Some(profile) = self.profile {
            let [profile, number] = [profile, number].map(|number| self.asm.long(number));
            self.asm.call_address(Address::of_tick(), &[profile, number, self.cells]);
        }
    }

    /// Ends here with a packed outcome.
    pub(crate) fn leave(&mut self, value: Value) {
        if self.known_entry.is_some() {
            self.tick(0);
        }
        match self.finish {
            Finish::Return => self.asm.ret(value),
            Finish::Block(block) => self.asm.jump_with(block, value),
            Finish::Passes { passes, fails } => {
                let does = self.asm.is_number(value, Is::NotAbove, ACCEPTED);
                self.asm.branch(does, passes, fails);
            }
        }
    }

    /// A word of the registers.
    pub(crate) fn word(&mut self, registers: &mut Registers, slot: u8) -> Value {
        match registers.slots[usize::from(slot & 15)] {
            Slot::Value(value) | Slot::Constant(value, _) => value,
            Slot::Memory => {
                let value = self.asm.load(Width::Word, self.memory, usize::from(slot & 15) * 4);
                registers.set(slot, value);
                value
            }
            // Rules that read what they did not write are not compiled.
            Slot::Unwritten => self.asm.word(0),
        }
    }

    /// Puts registers into memory, for the interpreter.
    pub(crate) fn spill(&mut self, registers: &Registers, slots: u16) {
        for (i, slot) in registers.slots.iter().enumerate() {
            if slots >> i & 1 == 0 {
                continue;
            }
            match slot {
                Slot::Value(value) | Slot::Constant(value, _) => {
                    self.asm.store(*value, self.memory, i * 4)
                }
                Slot::Memory | Slot::Unwritten => {}
            }
        }
    }
}
