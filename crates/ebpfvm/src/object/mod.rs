// SPDX-License-Identifier: Apache-2.0

//! Objects as clang makes them for libbpf: ELF files with programs, maps, variables, and
//! relocations between them. Sections are named as libbpf(7) names them.

mod btf;
mod kconfig;
mod link;
mod maps;
mod relocate;

use std::fmt;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::context::ProgramKind;
use crate::insn::Insn;
use crate::machine::{Machine, ProgramError};
use crate::map::{MapError, MapSpec};
use btf::Btf;
use maps::Wanted;

type Elf<'a> = ElfFile64<'a, Endianness>;

/// Why an object cannot be read or loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// It is no ELF file of 64 bits, or none for BPF.
    NoObject,
    /// A part of it makes no sense.
    Broken(&'static str),
    /// It uses something that is not supported.
    Unsupported(String),
    /// A map cannot be made.
    Map(MapError),
    /// A program cannot run: its name, and why.
    Program(String, ProgramError),
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::NoObject => f.write_str("not an object of BPF programs"),
            ObjectError::Broken(what) => write!(f, "broken object: {what}"),
            ObjectError::Unsupported(what) => f.write_str(what),
            ObjectError::Map(error) => error.fmt(f),
            ObjectError::Program(name, error) => write!(f, "program {name}: {error}"),
        }
    }
}

impl std::error::Error for ObjectError {}

impl From<MapError> for ObjectError {
    fn from(error: MapError) -> Self {
        ObjectError::Map(error)
    }
}

/// A program of an object, as it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectProgram {
    /// The name of its function.
    pub name: String,
    /// Its section.
    pub section: String,
    /// What it is by the name of its section, if that kind is supported.
    pub kind: Option<ProgramKind>,
    /// Its instructions. Maps are named by their numbers in the object.
    pub insns: Result<Vec<Insn>, ObjectError>,
}

/// A map of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMap {
    /// What it is made from, or why it cannot be made.
    pub spec: Result<MapSpec, String>,
    /// Its value at the beginning, for variables.
    pub contents: Option<Vec<u8>>,
    /// Programs that it has at the beginning: place, and number in the object.
    pub programs: Vec<(u32, usize)>,
    /// What the maps are like that are its values.
    pub inner: Option<MapSpec>,
    /// Maps that it has at the beginning: place, and number in the object.
    pub maps: Vec<(u32, usize)>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its programs, in the order of the file.
    pub programs: Vec<ObjectProgram>,
    /// Its maps.
    pub maps: Vec<ObjectMap>,
}

/// What a section's name says of its programs (libbpf(7)).
fn kind_of(section: &str) -> Option<ProgramKind> {
    let section = section.strip_prefix('?').unwrap_or(section);
    let (kind, rest) = match section.split_once('/') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (section, None),
    };
    match (kind, rest) {
        ("xdp" | "xdp.frags", Some("devmap" | "cpumap")) => None,
        ("xdp" | "xdp.frags", _) => Some(ProgramKind::Xdp),
        ("tc" | "tcx" | "classifier", _) => Some(ProgramKind::Tc),
        ("socket", _) => Some(ProgramKind::SocketFilter),
        ("netfilter", _) => Some(ProgramKind::Netfilter),
        _ => None,
    }
}

impl Object {
    /// Reads an object.
    ///
    /// # Errors
    /// It is none, or broken. What only some of its programs use and is not supported is an error
    /// of these programs.
    pub fn parse(bytes: &[u8]) -> Result<Object, ObjectError> {
        let elf = Elf::parse(bytes).map_err(|_| ObjectError::NoObject)?;
        if elf.architecture() != object::Architecture::Bpf || elf.endian() != Endianness::Little {
            return Err(ObjectError::NoObject);
        }
        let data = |name| match elf.section_by_name(name) {
            Some(section) => section.data().map_err(|_| ObjectError::Broken("a section")),
            None => Ok(&[][..]),
        };
        let types = data(".BTF")?;
        let btf = if types.is_empty() { Btf::default() } else { Btf::read(types)? };
        let extended = data(".BTF.ext")?;
        let fields = if extended.is_empty() { Vec::new() } else { relocate::read(extended, &btf)? };
        let mut wanted = maps::read(&elf, &btf)?;
        let kernel = kconfig::read(&elf, &btf).map(|(map, places)| {
            wanted.push(map);
            link::Kernel { map: wanted.len() - 1, places }
        });
        let linker = link::Linker::new(&elf, &btf, &fields, &wanted, kernel)?;
        let programs: Vec<ObjectProgram> = linker
            .entries()
            .map(|(name, section, function)| ObjectProgram {
                name: name.to_owned(),
                section: section.to_owned(),
                kind: kind_of(section),
                insns: linker.link(function),
            })
            .collect();
        let maps = wanted
            .iter()
            .map(|of| with_values(&elf, of, &programs, &wanted))
            .collect::<Result<_, _>>()?;
        Ok(Object { programs, maps })
    }

    /// The program of a section, or with a name of its function; without either the only one of
    /// supported kind.
    ///
    /// # Errors
    /// There is none, or more than one; the message lists the programs.
    pub fn find(&self, name: Option<&str>) -> Result<usize, ObjectError> {
        let is = |program: &ObjectProgram| match name {
            Some(name) => program.section == name || program.name == name,
            None => program.kind.is_some(),
        };
        let mut found = self.programs.iter().enumerate().filter(|(_, program)| is(program));
        match (found.next(), found.next()) {
            (Some((number, _)), None) => Ok(number),
            (first, _) => {
                let which = if first.is_none() { "no such program" } else { "several programs" };
                let names: Vec<String> = self
                    .programs
                    .iter()
                    .map(|program| format!("{} (section {})", program.name, program.section))
                    .collect();
                Err(ObjectError::Unsupported(format!("{which} among: {}", names.join(", "))))
            }
        }
    }

    /// Loads programs into a machine, with the maps that they use, and all programs that are in
    /// their arrays: the number of each in the machine, and the number of each map.
    ///
    /// # Errors
    /// A program, or a map that it uses, cannot be.
    pub fn load(&self, machine: &mut Machine, which: &[usize]) -> Result<Loaded, ObjectError> {
        let mut loading = Loading {
            object: self,
            machine,
            loaded: Loaded {
                programs: vec![None; self.programs.len()],
                maps: vec![None; self.maps.len()],
            },
        };
        for number in which {
            loading.program(*number)?;
        }
        Ok(loading.loaded)
    }
}

/// What is in the machine now, by the numbers of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Programs.
    pub programs: Vec<Option<u32>>,
    /// Maps.
    pub maps: Vec<Option<u32>>,
}

struct Loading<'a> {
    object: &'a Object,
    machine: &'a mut Machine,
    loaded: Loaded,
}

impl Loading<'_> {
    /// Loads a program and what it can come to by arrays of programs.
    fn program(&mut self, first: usize) -> Result<(), ObjectError> {
        let mut waiting = vec![first];
        // Where in arrays they belong.
        let mut places = Vec::new();
        while let Some(number) = waiting.pop() {
            let Some(program) = self.object.programs.get(number) else {
                return Err(ObjectError::Broken("the number of a program"));
            };
            if self.loaded.programs[number].is_some() {
                continue;
            }
            let Some(kind) = program.kind else {
                let what = format!(
                    "program {}: programs of section {} are not supported",
                    program.name, program.section
                );
                return Err(ObjectError::Unsupported(what));
            };
            let mut insns = program.insns.clone()?;
            for insn in insns.iter_mut().filter(|insn| link::names_map(insn)) {
                let map = insn.imm as usize;
                let (made, new) = self.map(map)?;
                insn.imm = made as i32;
                if new {
                    for (index, program) in &self.object.maps[map].programs {
                        places.push((made, *index, *program));
                        waiting.push(*program);
                    }
                }
            }
            let added = self.machine.add_program(kind, &insns);
            let added = added.map_err(|e| ObjectError::Program(program.name.clone(), e))?;
            self.loaded.programs[number] = Some(added);
        }
        for (map, index, program) in places {
            let Some(program) = self.loaded.programs[program] else { continue };
            let set = self.machine.set_program(map, index, program);
            set.map_err(|_| ObjectError::Broken("an array of programs"))?;
        }
        Ok(())
    }

    /// The number of a map in the machine, and whether it is new there.
    fn map(&mut self, number: usize) -> Result<(u32, bool), ObjectError> {
        let Some(map) = self.object.maps.get(number) else {
            return Err(ObjectError::Broken("the number of a map"));
        };
        if let Some(made) = self.loaded.maps[number] {
            return Ok((made, false));
        }
        let spec = map.spec.clone().map_err(ObjectError::Unsupported)?;
        let made = match &map.inner {
            Some(inner) => self.machine.add_outer_map(spec, inner.clone())?,
            None => self.machine.add_map(spec)?,
        };
        if let (Some(contents), Some(map)) = (&map.contents, self.machine.map_mut(made)) {
            let set = map.set(&[0; 4], contents, 0);
            set.map_err(|_| ObjectError::Broken("its variables"))?;
        }
        self.loaded.maps[number] = Some(made);
        for (place, inner) in &map.maps {
            // It has no maps itself: `add_outer_map` sees to that.
            let (inner, _) = self.map(*inner)?;
            let set = self.machine.set_map(made, &place.to_le_bytes(), inner);
            set.map_err(|errno| {
                let name = map.spec.as_ref().map_or("", |spec| &spec.name);
                let error = std::io::Error::from_raw_os_error(errno.0);
                ObjectError::Unsupported(format!("map {name}: its value {place}: {error}"))
            })?;
        }
        Ok((made, true))
    }
}

/// Places of a map that has programs or maps at the beginning.
const MOST_PLACES: u32 = 1 << 16;

/// A map with the programs or maps that it has at the beginning.
fn with_values(
    elf: &Elf<'_>,
    wanted: &Wanted,
    programs: &[ObjectProgram],
    maps: &[Wanted],
) -> Result<ObjectMap, ObjectError> {
    let mut map = ObjectMap {
        spec: wanted.spec.clone(),
        contents: wanted.contents.clone(),
        programs: Vec::new(),
        inner: wanted.inner.clone(),
        maps: Vec::new(),
    };
    let Some(from) = wanted.values else { return Ok(map) };
    let broken = || ObjectError::Broken("the values of a map");
    let section = elf.section_by_index(wanted.section).map_err(|_| broken())?;
    let symbol = elf
        .symbols()
        .find(|s| {
            s.section_index() == Some(wanted.section) && s.address() == wanted.at && s.size() > 0
        })
        .ok_or_else(broken)?;
    let places = symbol.size().saturating_sub(from) / 8;
    let begins = wanted.at.checked_add(from).ok_or_else(broken)?;
    for (at, relocation) in section.relocations() {
        let Some(place) = at.checked_sub(begins).map(|by| by / 8) else { continue };
        if place >= places {
            continue;
        }
        let object::RelocationTarget::Symbol(symbol) = relocation.target() else {
            return Err(broken());
        };
        let symbol = elf.symbol_by_index(symbol).map_err(|_| broken())?;
        let place = u32::try_from(place).ok().filter(|place| *place < MOST_PLACES);
        let place = place.ok_or_else(broken)?;
        if map.inner.is_some() {
            let is = |map: &Wanted| {
                Some(map.section) == symbol.section_index() && map.at == symbol.address()
            };
            let inner = maps.iter().position(is).ok_or_else(broken)?;
            if maps[inner].inner.is_some() {
                return Err(broken());
            }
            map.maps.push((place, inner));
        } else {
            let name = symbol.name().map_err(|_| broken())?;
            let program = programs.iter().position(|p| p.name == name).ok_or_else(broken)?;
            map.programs.push((place, program));
        }
    }
    if let Ok(spec) = &mut map.spec {
        let most = map.programs.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
        spec.entries = spec.entries.max(most);
    }
    Ok(map)
}
