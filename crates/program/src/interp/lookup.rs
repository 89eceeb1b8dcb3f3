//! Sets and maps (`net/netfilter/nft_lookup.c`, `nft_objref_map_eval()` of `net/netfilter/nft_objref.c`).

use penstock_packet::Packet;
use penstock_sets::Set;

use super::registers::Registers;
use super::{Step, stateful};
use crate::image::{LinkedData, LinkedValue, Load};

#[inline(never)]
pub(super) fn lookup(
    set: &Set<LinkedValue>,
    src: u8,
    key_len: u8,
    inverse: bool,
    load: Load,
    registers: &mut Registers,
    packet: &Packet,
) -> Step {
    let found = set.lookup(registers.bytes(src, key_len), packet.meta.time);
    if found.is_some() == inverse {
        return Step::Break;
    }
    let Some(element) = found else { return Step::Next };
    let value = &element.value;
    let mut step = Step::Next;
    match (load, &value.data) {
        (Load::Nothing, _) => {}
        (Load::Verdict, LinkedData::Verdict(verdict)) => step = Step::Verdict(*verdict),
        (Load::Bytes { dst, len }, LinkedData::Value(bytes)) => {
            registers.set(dst, bytes.get(..usize::from(len)).unwrap_or(bytes));
        }
        (Load::Bytes { dst, len }, LinkedData::Long(bytes)) => {
            registers.set(dst, bytes.get(..usize::from(len)).unwrap_or(bytes));
        }
        // Elements of a map hold what the map says.
        (Load::Verdict | Load::Bytes { .. }, _) => return Step::Break,
    }
    for statement in &value.statements {
        if stateful::run(statement, packet) == Step::Break {
            return Step::Break;
        }
    }
    step
}

pub(super) fn object(
    set: &Set<LinkedValue>,
    src: u8,
    key_len: u8,
    registers: &mut Registers,
    packet: &Packet,
) -> Step {
    match set.lookup(registers.bytes(src, key_len), packet.meta.time).map(|e| &e.value.data) {
        Some(LinkedData::Object(object)) => stateful::run(object, packet),
        _ => Step::Break,
    }
}
