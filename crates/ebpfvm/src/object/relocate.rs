// SPDX-License-Identifier: Apache-2.0

//! CO-RE: accesses to fields of the kernel's structures, whose places are filled in when an object
//! is loaded (`include/uapi/linux/bpf.h`, `enum bpf_core_relo_kind`). The structures are those of
//! [`crate::types`]; headers of packets are where the object has them.

use super::ObjectError;
use super::btf::{Btf, Id, Kind, Words};
use crate::helper::Helper;
use crate::insn::{CALL, Insn, class, pseudo};
use crate::types::{self, FieldKind};

/// One relocation: which instruction, of which type, and which field of it.
#[derive(Clone, Debug)]
pub(super) struct Relocation {
    /// In bytes from the beginning of the section.
    pub(super) at: u32,
    of: Id,
    access: u32,
    kind: u32,
}

/// Structures of packets, whose layout is that of the wire.
const HEADERS: [&str; 19] = [
    "ethhdr",
    "iphdr",
    "ipv6hdr",
    "in6_addr",
    "in_addr",
    "tcphdr",
    "udphdr",
    "icmphdr",
    "icmp6hdr",
    "sctphdr",
    "arphdr",
    "vlan_hdr",
    "vlan_ethhdr",
    "ipv6_opt_hdr",
    "ip_esp_hdr",
    "ip_auth_hdr",
    "frag_hdr",
    "igmphdr",
    "mpls_label",
];

/// Relocations, with the name of the section of code that they are for.
pub(super) type Sections = Vec<(String, Vec<Relocation>)>;

/// Sections of code with relocations, at most.
const MOST_SECTIONS: usize = 4096;

/// The relocations of section `.BTF.ext`.
pub(super) fn read(data: &[u8], btf: &Btf) -> Result<Sections, ObjectError> {
    parse(data, btf).ok_or(ObjectError::Broken("its relocations of fields"))
}

fn parse(data: &[u8], btf: &Btf) -> Option<Sections> {
    let mut header = Words(data);
    if header.next()? & 0xff_ffff != 0x01_eb9f {
        return None;
    }
    let length = header.next()?;
    // Without the last two fields there are none.
    if length < 32 {
        return Some(Vec::new());
    }
    for _ in 0..4 {
        header.next()?;
    }
    let (at, len) = (header.next()? as usize, header.next()? as usize);
    let part = data.get(length as usize..)?.get(at..)?.get(..len)?;
    let mut all = Vec::new();
    if part.is_empty() {
        return Some(all);
    }
    let mut words = Words(part);
    if words.next()? != 16 {
        return None;
    }
    while !words.0.is_empty() && all.len() < MOST_SECTIONS {
        let (section, count) = (btf.string(words.next()?).to_owned(), words.next()?);
        let mut relocations = Vec::new();
        for _ in 0..count {
            relocations.push(Relocation {
                at: words.next()?,
                of: words.next()?,
                access: words.next()?,
                kind: words.next()?,
            });
        }
        all.push((section, relocations));
    }
    if !words.0.is_empty() {
        return None;
    }
    Some(all)
}

/// Where a field is.
#[derive(Clone, Copy)]
struct Place {
    /// In bits.
    at: u32,
    /// Bytes of the number that it is, or is a part of.
    size: u32,
    bits: u32,
    signed: bool,
}

impl Place {
    /// The number that has all bits of the field: where it begins, and its size, in bytes.
    fn word(self) -> (u32, u32) {
        let mut size = self.size.max(1);
        loop {
            let at =
                if self.bits == self.size * 8 { self.at / 8 } else { self.at / 8 / size * size };
            if size >= 8 || self.at + self.bits <= (at + size) * 8 {
                return (at, size);
            }
            size *= 2;
        }
    }
}

/// The names of structure and fields of an access, and where the object has it.
struct Access<'a> {
    of: &'a str,
    path: Vec<Step<'a>>,
    place: Place,
}

/// The most bits of a structure.
const MOST_BITS: u32 = 1 << 24;

enum Step<'a> {
    Field(&'a str),
    /// Bytes from the beginning of an array, and the number of the element.
    Element(u32, u32),
}

/// A name without what follows `___`, by which sources tell versions of a structure apart.
fn essential(name: &str) -> &str {
    name.split("___").next().unwrap_or(name)
}

fn access<'a>(btf: &'a Btf, relocation: &Relocation) -> Option<Access<'a>> {
    let (mut id, root) = btf.plain(relocation.of)?;
    let text = btf.string(relocation.access);
    let mut indexes = text.split(':').map(|part| part.parse::<u32>());
    let first = indexes.next()?.ok()?;
    let mut at = first.checked_mul(btf.size(id)?)?.checked_mul(8)?;
    let mut path = Vec::new();
    let mut bits = 0;
    for index in indexes {
        let index = index.ok()?;
        match &btf.plain(id)?.1.kind {
            Kind::Struct { members, .. } => {
                let member = members.get(index as usize)?;
                at = at.checked_add(member.bits_at)?;
                bits = member.bits;
                let name = btf.string(member.name);
                // A structure without a name has its fields as if they were outside.
                if !name.is_empty() {
                    path.push(Step::Field(name));
                }
                id = member.of;
            }
            Kind::Array { of, .. } => {
                let by = index.checked_mul(btf.size(*of)?)?;
                at = at.checked_add(by.checked_mul(8)?)?;
                path.push(Step::Element(by, index));
                id = *of;
            }
            _ => return None,
        }
    }
    let size = btf.size(id)?;
    let signed = matches!(
        btf.plain(id)?.1.kind,
        Kind::Int { signed: true, .. } | Kind::Enum { signed: true, .. }
    );
    let bits = if bits == 0 { size.checked_mul(8)? } else { bits };
    // Larger structures and fields are none of the kernel's.
    if at > MOST_BITS || size > MOST_BITS / 8 {
        return None;
    }
    let of = essential(btf.string(root.name));
    Some(Access { of, path, place: Place { at, size, bits, signed } })
}

/// The field that a path leads to, and what follows in it. Fields of structures within others, and
/// of elements of arrays, have names of several parts: `tuplehash[0].tuple.dst.protonum`.
fn find_field<'p, 'a>(
    structure: &types::Struct,
    path: &'p [Step<'a>],
) -> Option<(&'static types::Field, &'p [Step<'a>])> {
    let mut name = String::new();
    for (at, step) in path.iter().enumerate() {
        if let Some(field) = structure.field(&name) {
            return Some((field, &path[at..]));
        }
        match step {
            Step::Field(part) if name.is_empty() => name += part,
            Step::Field(part) => name = format!("{name}.{part}"),
            Step::Element(_, number) => name = format!("{name}[{number}]"),
        }
    }
    Some((structure.field(&name)?, &[]))
}

/// Where the field is here.
fn target(access: &Access<'_>) -> Option<Place> {
    if HEADERS.contains(&access.of) {
        return Some(access.place);
    }
    let structure = types::find(access.of)?;
    let (field, rest) = find_field(structure, &access.path)?;
    let whole = Place {
        at: field.at * 8,
        size: field.size,
        bits: field.size * 8,
        signed: field.kind == FieldKind::Signed,
    };
    match (field.kind, rest) {
        (FieldKind::Bits(from, bits), []) => {
            Some(Place { at: whole.at + u32::from(from), bits: u32::from(bits), ..whole })
        }
        (_, []) => Some(whole),
        (FieldKind::Text | FieldKind::Unsigned, [Step::Element(by, _)]) => {
            let size = access.place.size;
            let inside = by.checked_add(size).is_some_and(|end| end <= field.size);
            inside.then_some(Place { at: (field.at + by) * 8, size, bits: size * 8, ..whole })
        }
        _ => None,
    }
}

/// Applies a relocation to the instruction that it is for.
pub(super) fn apply(
    btf: &Btf,
    relocation: &Relocation,
    insn: &mut Insn,
) -> Result<(), ObjectError> {
    let broken = || ObjectError::Broken("a relocation of a field");
    let value = match relocation.kind {
        0..=5 => {
            let access = access(btf, relocation).ok_or_else(broken)?;
            let target = target(&access);
            field_value(relocation.kind, target)
        }
        6 => Some(relocation.of),
        8 | 9 | 12 => {
            let (id, found) = btf.plain(relocation.of).ok_or_else(broken)?;
            let name = essential(btf.string(found.name));
            let size = match types::find(name) {
                Some(structure) => Some(structure.size),
                None if HEADERS.contains(&name) => btf.size(id),
                None => None,
            };
            if relocation.kind == 9 { size } else { Some(u32::from(size.is_some())) }
        }
        10 => Some(u32::from(enumerator_exists(btf, relocation).ok_or_else(broken)?)),
        // The value that the object has it with, which is in the instruction.
        11 => return Ok(()),
        _ => return Err(ObjectError::Unsupported("a relocation of an unknown kind".to_owned())),
    };
    match value {
        Some(value) => patch(insn, value, relocation, btf).ok_or_else(broken),
        None => {
            // A program may ask first whether there is such a field, so only running this ends it.
            *insn = Insn {
                code: CALL,
                src: pseudo::KFUNC_CALL,
                imm: Helper::Missing.number(),
                ..Insn::default()
            };
            Ok(())
        }
    }
}

/// `bpf_core_enum_value_exists()`: values are those that the object has, as of the kernel's user
/// interface, except numbers of helpers, which exist if there is such a helper.
fn enumerator_exists(btf: &Btf, relocation: &Relocation) -> Option<bool> {
    let (_, found) = btf.plain(relocation.of)?;
    let Kind::Enum { values, .. } = &found.kind else { return None };
    let index: usize = btf.string(relocation.access).parse().ok()?;
    let value = *values.get(index)?;
    Some(match essential(btf.string(found.name)) {
        "bpf_func_id" => Helper::of_number(value as i32).is_some_and(|helper| !helper.is_kfunc()),
        _ => true,
    })
}

fn field_value(kind: u32, target: Option<Place>) -> Option<u32> {
    /// `bpf_core_field_exists()`
    const EXISTS: u32 = 2;
    if kind == EXISTS {
        return Some(u32::from(target.is_some()));
    }
    let target = target?;
    let (at, size) = target.word();
    match kind {
        0 => Some(at),
        1 => Some(size),
        3 => Some(u32::from(target.signed)),
        4 => 64_u32.checked_sub(target.at + target.bits - at * 8),
        _ => 64_u32.checked_sub(target.bits),
    }
}

/// Puts a value into an instruction.
fn patch(insn: &mut Insn, value: u32, relocation: &Relocation, btf: &Btf) -> Option<()> {
    match insn.code & 7 {
        class::ALU | class::ALU64 if insn.code & 8 == 0 => insn.imm = value as i32,
        class::LD if insn.code == crate::insn::LOAD_IMM64 => insn.imm = value as i32,
        class::LDX | class::ST | class::STX => {
            insn.off = i16::try_from(value).ok()?;
            // The field may have another size here than in the object.
            let access = access(btf, relocation)?;
            let (had, has) = (access.place.word().1, target(&access)?.word().1);
            let code = |size| match size {
                1 => Some(0x10),
                2 => Some(0x08),
                4 => Some(0x00),
                8 => Some(0x18),
                _ => None,
            };
            if had != has && code(had) == Some(insn.code & 0x18) {
                insn.code = insn.code & !0x18 | code(has)?;
            }
        }
        _ => return None,
    }
    Some(())
}
