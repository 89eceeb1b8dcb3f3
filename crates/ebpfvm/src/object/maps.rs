// SPDX-License-Identifier: Apache-2.0

//! The maps that an object asks for: by types in section `.maps`, in the old form in section
//! `maps`, and one for each section of variables.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionIndex};

use super::btf::{Btf, Id, Kind, Type, Words};
use super::{Elf, ObjectError};
use crate::map::{MMAPABLE, MapKind, MapSpec, READ_ONLY};
use crate::space::MOST_MAPS;

/// A map of an object.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Or why it cannot be; that matters only if a program uses it.
    pub(super) spec: Result<MapSpec, String>,
    /// Where it is in the object.
    pub(super) section: SectionIndex,
    pub(super) at: u64,
    /// What its value has at the beginning, for variables.
    pub(super) contents: Option<Vec<u8>>,
    /// Where programs or maps stand that it has at the beginning, in bytes from `at`.
    pub(super) values: Option<u64>,
    /// What the maps are like that are its values.
    pub(super) inner: Option<MapSpec>,
}

pub(super) fn read(elf: &Elf<'_>, btf: &Btf) -> Result<Vec<Wanted>, ObjectError> {
    let mut all = Vec::new();
    let mut left = LARGEST;
    for section in elf.sections() {
        let name = section.name().unwrap_or("");
        if all.len() > MOST_MAPS {
            return Err(ObjectError::Unsupported("it has too many maps".to_owned()));
        }
        match name {
            ".maps" => {
                for (name, of) in btf.variables(".maps") {
                    let symbol = elf.symbols().find(|symbol| {
                        symbol.section_index() == Some(section.index()) && symbol.name() == Ok(name)
                    });
                    let Some(symbol) = symbol else { continue };
                    let mut wanted = Wanted {
                        spec: Err(String::new()),
                        section: section.index(),
                        at: symbol.address(),
                        contents: None,
                        values: None,
                        inner: None,
                    };
                    wanted.spec = by_type(btf, name, of).map(|found| {
                        (wanted.values, wanted.inner) = (found.values, found.inner);
                        found.spec
                    });
                    all.push(wanted);
                }
            }
            "maps" => all.extend(old_form(elf, section.index())?),
            _ => {
                let is = |kind: &str| {
                    name.strip_prefix(kind)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                if section.size() > 0 && (is(".data") || is(".rodata") || is(".bss")) {
                    all.push(variables(&section, name, is(".rodata"), &mut left)?);
                }
            }
        }
    }
    Ok(all)
}

/// The most bytes of variables in all sections.
const LARGEST: u64 = 1 << 24;

fn variables<'a>(
    section: &impl object::ObjectSection<'a>,
    name: &str,
    read_only: bool,
    left: &mut u64,
) -> Result<Wanted, ObjectError> {
    let too_large = ObjectError::Unsupported("its variables are too large".to_owned());
    *left = left.checked_sub(section.size()).ok_or(too_large)?;
    let mut contents = section.data().map_err(|_| ObjectError::Broken("a section"))?.to_vec();
    contents.resize(section.size() as usize, 0);
    let spec = MapSpec {
        name: name.to_owned(),
        kind: MapKind::Array,
        key: 4,
        value: contents.len() as u32,
        entries: 1,
        flags: MMAPABLE | if read_only { READ_ONLY } else { 0 },
    };
    let (section, at) = (section.index(), 0);
    Ok(Wanted { spec: Ok(spec), section, at, contents: Some(contents), values: None, inner: None })
}

/// Sizes and kind, as numbers.
#[derive(Default)]
struct Numbers {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

impl Numbers {
    fn spec(self, name: &str) -> Result<MapSpec, String> {
        let kind = MapKind::of_number(self.kind).ok_or_else(|| {
            let kind = name_of(self.kind).map_or(self.kind.to_string(), str::to_owned);
            format!("map {name} is of type {kind}, which is not supported")
        })?;
        let mut entries = self.entries;
        if kind == MapKind::Ring {
            // A ring has a whole number of pages, and a power of two of them.
            let pages = entries.max(4096).checked_next_power_of_two();
            entries = pages.ok_or_else(|| format!("map {name} is too large"))?;
        }
        let Numbers { key, value, flags, .. } = self;
        Ok(MapSpec { name: name.to_owned(), kind, key, value, entries, flags })
    }
}

/// What the kernel calls kinds of maps that are not supported (`enum bpf_map_type`).
fn name_of(kind: u32) -> Option<&'static str> {
    Some(match kind {
        4 => "BPF_MAP_TYPE_PERF_EVENT_ARRAY",
        7 => "BPF_MAP_TYPE_STACK_TRACE",
        8 => "BPF_MAP_TYPE_CGROUP_ARRAY",
        15 => "BPF_MAP_TYPE_SOCKMAP",
        16 => "BPF_MAP_TYPE_CPUMAP",
        17 => "BPF_MAP_TYPE_XSKMAP",
        18 => "BPF_MAP_TYPE_SOCKHASH",
        19 => "BPF_MAP_TYPE_CGROUP_STORAGE_DEPRECATED",
        20 => "BPF_MAP_TYPE_REUSEPORT_SOCKARRAY",
        21 => "BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE_DEPRECATED",
        24 => "BPF_MAP_TYPE_SK_STORAGE",
        26 => "BPF_MAP_TYPE_STRUCT_OPS",
        28 => "BPF_MAP_TYPE_INODE_STORAGE",
        29 => "BPF_MAP_TYPE_TASK_STORAGE",
        31 => "BPF_MAP_TYPE_USER_RINGBUF",
        32 => "BPF_MAP_TYPE_CGRP_STORAGE",
        33 => "BPF_MAP_TYPE_ARENA",
        34 => "BPF_MAP_TYPE_INSN_ARRAY",
        _ => return None,
    })
}

/// What the type of a map says.
struct ByType {
    spec: MapSpec,
    values: Option<u64>,
    inner: Option<MapSpec>,
}

/// A map whose type says what it is: members that are pointers to arrays have as their number of
/// elements what is meant, `key` and `value` are pointers to types.
fn by_type(btf: &Btf, name: &str, of: Id) -> Result<ByType, String> {
    by_type_within(btf, name, of, 0)
}

/// One that is the value of so many others.
fn by_type_within(btf: &Btf, name: &str, of: Id, depth: u32) -> Result<ByType, String> {
    let (mut values, mut inner) = (None, None);
    let wrong = |what: &str| format!("map {name}: {what}");
    let Some((_, definition)) = btf.plain(of) else { return Err(wrong("it has no type")) };
    let Kind::Struct { members, .. } = &definition.kind else {
        return Err(wrong("its type is no structure"));
    };
    let mut numbers = Numbers::default();
    for member in members {
        let pointed = match btf.plain(member.of).map(|(_, found)| &found.kind) {
            Some(Kind::Pointer(of)) => Some(*of),
            _ => None,
        };
        let number = pointed.and_then(|of| match btf.plain(of)?.1.kind {
            Kind::Array { count, .. } => Some(count),
            _ => None,
        });
        let size = pointed.and_then(|of| btf.size(of));
        let field = btf.string(member.name);
        let (place, value) = match field {
            "type" => (&mut numbers.kind, number),
            "max_entries" => (&mut numbers.entries, number),
            "map_flags" => (&mut numbers.flags, number),
            "key_size" => (&mut numbers.key, number),
            "value_size" => (&mut numbers.value, number),
            "key" => (&mut numbers.key, size),
            "value" => (&mut numbers.value, size),
            // Where maps outlive programs: none do here.
            "pinning" => continue,
            "values" => {
                let Some((_, Type { kind: Kind::Array { of, .. }, .. })) = btf.plain(member.of)
                else {
                    return Err(wrong("its values are no array"));
                };
                values = Some(u64::from(member.bits_at / 8));
                numbers.value = 4;
                // Pointers to maps, or to functions.
                if let Some((_, Type { kind: Kind::Pointer(map), .. })) = btf.plain(*of)
                    && let Some((map, Type { kind: Kind::Struct { .. }, .. })) = btf.plain(*map)
                {
                    if depth > 0 {
                        return Err(wrong("its maps have maps"));
                    }
                    inner = Some(by_type_within(btf, &format!("{name}.inner"), map, 1)?.spec);
                }
                continue;
            }
            _ => return Err(wrong(&format!("`{field}` is not supported"))),
        };
        *place = value.ok_or_else(|| wrong(&format!("`{field}` has no such type")))?;
    }
    let has_maps = MapKind::of_number(numbers.kind).is_some_and(MapKind::has_maps);
    if has_maps != inner.is_some() {
        return Err(wrong(match has_maps {
            true => "it does not say what its maps are like (`values`)",
            false => "its kind has no maps",
        }));
    }
    if values.is_some() && !has_maps && numbers.kind != MapKind::Programs as u32 {
        return Err(wrong("its kind has no `values`"));
    }
    if has_maps {
        numbers.value = 4;
    }
    if numbers.kind == MapKind::Programs as u32 {
        numbers.key = 4;
        numbers.value = 4;
    }
    Ok(ByType { spec: numbers.spec(name)?, values, inner })
}

/// The old form: `struct bpf_map_def`, one for each symbol of the section.
fn old_form(elf: &Elf<'_>, section: SectionIndex) -> Result<Vec<Wanted>, ObjectError> {
    let broken = ObjectError::Broken("its maps");
    let found = elf.section_by_index(section).map_err(|_| broken.clone())?;
    let data = found.data().map_err(|_| broken.clone())?;
    let mut all = Vec::new();
    for symbol in elf.symbols() {
        if symbol.section_index() != Some(section) || symbol.kind() == object::SymbolKind::Section {
            continue;
        }
        let name = symbol.name().unwrap_or("");
        let at = usize::try_from(symbol.address()).map_err(|_| broken.clone())?;
        let mut words = Words(data.get(at..).ok_or(broken.clone())?);
        let mut next = || words.next().ok_or(broken.clone());
        let numbers = Numbers {
            kind: next()?,
            key: next()?,
            value: next()?,
            entries: next()?,
            flags: next()?,
        };
        let spec = numbers.spec(name).and_then(|spec| match spec.kind.has_maps() {
            true => Err(format!("map {name}: maps in maps need types, in section .maps")),
            false => Ok(spec),
        });
        all.push(Wanted {
            spec,
            section,
            at: symbol.address(),
            contents: None,
            values: None,
            inner: None,
        });
    }
    Ok(all)
}
