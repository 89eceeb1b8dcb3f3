// SPDX-License-Identifier: Apache-2.0

//! Makes one program of its function and those that it calls, and fills in maps, variables and
//! fields of structures.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex, SymbolKind,
};

use super::btf::Btf;
use super::kconfig::Places;
use super::maps::Wanted;
use super::relocate::{self, Relocation, Sections};
use super::{Elf, ObjectError};
use crate::helper::Helper;
use crate::insn::{CALL, Insn, LOAD_IMM64, pseudo};

/// A function: its section, and its instructions there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    section: usize,
    from: usize,
    to: usize,
}

/// A section of code.
struct Code {
    name: String,
    insns: Vec<Insn>,
    /// What the instruction refers to.
    symbols: BTreeMap<usize, object::SymbolIndex>,
    /// Fields that it accesses.
    fields: BTreeMap<usize, Relocation>,
}

/// Variables that the kernel's configuration gives values: the number of their map, and where they
/// are.
pub(super) struct Kernel {
    pub(super) map: usize,
    pub(super) places: Places,
}

pub(super) struct Linker<'a> {
    elf: &'a Elf<'a>,
    btf: &'a Btf,
    maps: &'a [Wanted],
    kernel: Option<Kernel>,
    /// By the number of the section.
    code: BTreeMap<usize, Code>,
    /// In their order.
    functions: Vec<(String, Function)>,
    /// Instructions that all programs together may still have.
    left: Cell<usize>,
}

/// The section of functions that are no programs.
const TEXT: &str = ".text";

/// Instructions that the programs of an object may have together, each with all that it calls.
const LONGEST: usize = 1 << 22;

/// A jump to the next instruction.
const NOTHING: Insn = Insn { code: 0x05, dst: 0, src: 0, off: 0, imm: 0 };

/// Whether an instruction names a map by its number.
pub(super) fn names_map(insn: &Insn) -> bool {
    insn.code == LOAD_IMM64 && matches!(insn.src, pseudo::MAP_FD | pseudo::MAP_VALUE)
}

impl<'a> Linker<'a> {
    pub(super) fn new(
        elf: &'a Elf<'a>,
        btf: &'a Btf,
        fields: &Sections,
        maps: &'a [Wanted],
        kernel: Option<Kernel>,
    ) -> Result<Linker<'a>, ObjectError> {
        let mut linker = Linker {
            elf,
            btf,
            maps,
            kernel,
            code: BTreeMap::new(),
            functions: Vec::new(),
            left: Cell::new(LONGEST),
        };
        for section in elf.sections() {
            if section.kind() == object::SectionKind::Text && section.size() > 0 {
                linker.add_code(&section, fields)?;
            }
        }
        for symbol in elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let broken = ObjectError::Broken("a function");
            let Some(SectionIndex(section)) = symbol.section_index() else { continue };
            let Some(code) = linker.code.get(&section) else { continue };
            let (from, len) = (symbol.address() / 8, symbol.size() / 8);
            let to = from.checked_add(len).filter(|to| *to <= code.insns.len() as u64);
            let to = to.filter(|_| len > 0).ok_or(broken.clone())?;
            let name = symbol.name().map_err(|_| broken)?.to_owned();
            let function = Function { section, from: from as usize, to: to as usize };
            linker.functions.push((name, function));
        }
        linker.functions.sort_by_key(|(_, function)| *function);
        Ok(linker)
    }

    fn add_code(
        &mut self,
        section: &impl object::ObjectSection<'a>,
        fields: &Sections,
    ) -> Result<(), ObjectError> {
        let broken = ObjectError::Broken("a section of code");
        let name = section.name().map_err(|_| broken.clone())?.to_owned();
        let data = section.data().map_err(|_| broken.clone())?;
        let insns = Insn::read_all(data).ok_or(broken.clone())?;
        let mut symbols = BTreeMap::new();
        for (at, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                return Err(broken);
            };
            symbols.insert((at / 8) as usize, symbol);
        }
        let fields = fields
            .iter()
            .filter(|(section, _)| *section == name)
            .flat_map(|(_, fields)| fields)
            .map(|field| (field.at as usize / 8, field.clone()))
            .collect();
        self.code.insert(section.index().0, Code { name, insns, symbols, fields });
        Ok(())
    }

    /// Functions that are programs: name, section.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &str, Function)> {
        self.functions.iter().filter_map(|(name, function)| {
            let section = &self.code.get(&function.section)?.name;
            (section != TEXT).then_some((name.as_str(), section.as_str(), *function))
        })
    }

    /// The function that begins at an instruction.
    fn function_at(&self, section: usize, at: i64) -> Result<Function, ObjectError> {
        let broken = ObjectError::Broken("a call of what is no function");
        let from = usize::try_from(at).map_err(|_| broken.clone())?;
        let place = |function: &Function| (function.section, function.from);
        let first = self.functions.partition_point(|(_, f)| place(f) < (section, from));
        match self.functions.get(first) {
            Some((_, function)) if place(function) == (section, from) => Ok(*function),
            _ => Err(broken),
        }
    }

    /// A program, with the functions that it calls after it.
    pub(super) fn link(&self, program: Function) -> Result<Vec<Insn>, ObjectError> {
        let mut linked = Linked::default();
        linked.want(program);
        let mut next = 0;
        while let Some(function) = linked.order.get(next).copied() {
            let left = self.left.get().checked_sub(function.to - function.from);
            self.left.set(left.ok_or(ObjectError::Broken("its programs are too long"))?);
            linked.places.insert(function, linked.insns.len());
            self.add(function, &mut linked)?;
            next += 1;
        }
        for (at, function) in &linked.calls {
            let to = linked.places.get(function).copied().unwrap_or(0) as i64;
            linked.insns[*at].imm = (to - *at as i64 - 1) as i32;
        }
        Ok(linked.insns)
    }

    /// Adds the instructions of a function.
    fn add(&self, function: Function, linked: &mut Linked) -> Result<(), ObjectError> {
        let Some(code) = self.code.get(&function.section) else {
            return Err(ObjectError::Broken("a section of code"));
        };
        let mut at = function.from;
        while at < function.to {
            let wide = code.insns[at].code == LOAD_IMM64;
            let mut pair = [code.insns[at], Insn::default()];
            if wide {
                let second = code.insns.get(at + 1).filter(|_| at + 1 < function.to);
                pair[1] = *second.ok_or(ObjectError::Broken("half an instruction"))?;
            }
            if let Some(field) = code.fields.get(&at) {
                relocate::apply(self.btf, field, &mut pair[0])?;
                if wide && pair[0].code != LOAD_IMM64 {
                    pair[1] = NOTHING;
                }
            }
            let place = linked.insns.len();
            match code.symbols.get(&at) {
                Some(symbol) => {
                    let symbol = self.elf.symbol_by_index(*symbol);
                    let symbol = symbol.map_err(|_| ObjectError::Broken("a symbol"))?;
                    if let Some(to) = self.refer(&symbol, &mut pair)? {
                        linked.call(place, to);
                    }
                }
                None if pair[0].code == CALL && pair[0].src == pseudo::CALL => {
                    let to = at as i64 + 1 + i64::from(pair[0].imm);
                    linked.call(place, self.function_at(function.section, to)?);
                }
                None if wide && pair[0].src == pseudo::FUNC => {
                    let to = at as i64 + 1 + i64::from(pair[0].imm);
                    linked.call(place, self.function_at(function.section, to)?);
                }
                None => {}
            }
            let count = if wide { 2 } else { 1 };
            linked.insns.extend(&pair[..count]);
            at += count;
        }
        Ok(())
    }

    /// Fills in what an instruction refers to; a function that it calls, or whose address it takes,
    /// is the result.
    fn refer(
        &self,
        symbol: &object::read::elf::ElfSymbol64<'_, '_, object::Endianness>,
        [insn, second]: &mut [Insn; 2],
    ) -> Result<Option<Function>, ObjectError> {
        let name = symbol.name().unwrap_or("");
        let Some(section) = symbol.section_index() else {
            return self.external(name, symbol.is_weak(), [insn, second]).map(|()| None);
        };
        let offset = symbol.address();
        if insn.code == CALL {
            insn.src = pseudo::CALL;
            let to = (offset / 8) as i64 + i64::from(insn.imm) + 1;
            return self.function_at(section.0, to).map(Some);
        }
        if insn.code != LOAD_IMM64 {
            return Err(ObjectError::Broken("a relocation"));
        }
        if self.code.contains_key(&section.0) {
            insn.src = pseudo::FUNC;
            let to = (offset as i64).wrapping_add(i64::from(insn.imm)) / 8;
            return self.function_at(section.0, to).map(Some);
        }
        let at = offset.wrapping_add(insn.imm as u64);
        let map = self
            .maps
            .iter()
            .position(|map| map.section == section && (map.contents.is_some() || map.at == at));
        let Some(map) = map else {
            let what = format!("`{name}` is neither a map nor a variable");
            return Err(ObjectError::Unsupported(what));
        };
        match &self.maps[map].contents {
            Some(contents) if at <= contents.len() as u64 => {
                insn.src = pseudo::MAP_VALUE;
                second.imm = at as i32;
            }
            Some(_) => return Err(ObjectError::Broken("the place of a variable")),
            None => insn.src = pseudo::MAP_FD,
        }
        insn.imm = map as i32;
        Ok(None)
    }

    /// What the kernel has: functions, and values of its configuration.
    fn external(
        &self,
        name: &str,
        weak: bool,
        [insn, second]: [&mut Insn; 2],
    ) -> Result<(), ObjectError> {
        let place = self.kernel.as_ref().and_then(|of| Some((of.map, of.places.get(name)?)));
        if let (LOAD_IMM64, Some((map, place))) = (insn.code, place) {
            let at = place.clone().map_err(ObjectError::Unsupported)?;
            second.imm = (at as i32).wrapping_add(insn.imm);
            (insn.src, insn.imm) = (pseudo::MAP_VALUE, map as i32);
            return Ok(());
        }
        let found = Helper::kfunc(name).map(Helper::number);
        match (insn.code, found) {
            (CALL, Some(number)) => {
                *insn = Insn { code: CALL, src: pseudo::KFUNC_CALL, imm: number, ..*insn };
            }
            // A program asks first whether there is such a function.
            (CALL, None) if weak => {
                let imm = Helper::Missing.number();
                *insn = Insn { code: CALL, src: pseudo::KFUNC_CALL, imm, ..*insn };
            }
            (LOAD_IMM64, found) if weak || found.is_some() => {
                (insn.src, insn.imm, second.imm) = (0, found.unwrap_or(0), 0);
            }
            _ => return Err(ObjectError::Unsupported(format!("`{name}` is not supported"))),
        }
        Ok(())
    }
}

/// A program that grows.
#[derive(Default)]
struct Linked {
    insns: Vec<Insn>,
    /// Functions in the order in which they are added.
    order: Vec<Function>,
    /// Where they begin.
    places: BTreeMap<Function, usize>,
    /// Which instruction calls which function.
    calls: Vec<(usize, Function)>,
}

impl Linked {
    fn want(&mut self, function: Function) {
        if let Entry::Vacant(place) = self.places.entry(function) {
            place.insert(0);
            self.order.push(function);
        }
    }

    fn call(&mut self, at: usize, to: Function) {
        self.want(to);
        self.calls.push((at, to));
    }
}
