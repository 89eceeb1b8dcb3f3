// SPDX-License-Identifier: Apache-2.0

//! Type information of an object: section `.BTF` (`Documentation/bpf/btf.rst` of Linux).

use super::ObjectError;

/// A type by its number; 0 is `void`.
pub(super) type Id = u32;

/// A member of a structure or union.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: u32,
    pub(super) of: Id,
    /// From the beginning of the structure.
    pub(super) bits_at: u32,
    /// Bits of a bit field, 0 for a whole member.
    pub(super) bits: u32,
}

/// What a type is, as far as objects need it.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Int {
        size: u32,
        signed: bool,
        boolean: bool,
    },
    Pointer(Id),
    Array {
        of: Id,
        count: u32,
    },
    Struct {
        size: u32,
        members: Vec<Member>,
    },
    Enum {
        size: u32,
        signed: bool,
        /// The low 32 bits of its values, in order.
        values: Vec<u32>,
    },
    /// `typedef`, `const` and the like.
    Same(Id),
    Var(Id),
    /// A section: its variables.
    Section(Vec<Id>),
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Type {
    pub(super) name: u32,
    pub(super) kind: Kind,
}

/// The types of an object.
#[derive(Debug, Default)]
pub(super) struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
}

/// Types that are looked through, and structures in structures, at most.
const DEPTH: u32 = 32;

/// Words of little-endian numbers, one after the other.
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl Words<'_> {
    pub(super) fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }
}

impl Btf {
    /// Reads a section.
    pub(super) fn read(data: &[u8]) -> Result<Btf, ObjectError> {
        Btf::parse(data).ok_or(ObjectError::Broken("its type information"))
    }

    fn parse(data: &[u8]) -> Option<Btf> {
        let mut header = Words(data);
        // The magic number, a version, flags.
        if header.next()? & 0xff_ffff != 0x01_eb9f {
            return None;
        }
        let body = data.get(header.next()? as usize..)?;
        let mut part = || {
            let (at, len) = (header.next()? as usize, header.next()? as usize);
            body.get(at..)?.get(..len)
        };
        let (types, strings) = (part()?, part()?);
        let mut btf = Btf { types: Vec::new(), strings: strings.to_vec() };
        btf.types.push(Type { name: 0, kind: Kind::Other });
        let mut words = Words(types);
        while !words.0.is_empty() {
            let read = Btf::read_type(&mut words)?;
            btf.types.push(read);
        }
        Some(btf)
    }

    fn read_type(words: &mut Words<'_>) -> Option<Type> {
        let (name, info, last) = (words.next()?, words.next()?, words.next()?);
        let (count, flag) = (info & 0xffff, info >> 31 != 0);
        let kind = match info >> 24 & 0x1f {
            1 => {
                let encoding = words.next()?;
                let (signed, boolean) = (encoding >> 24 & 1 != 0, encoding >> 24 & 4 != 0);
                Kind::Int { size: last, signed, boolean }
            }
            2 => Kind::Pointer(last),
            3 => {
                let (of, _, count) = (words.next()?, words.next()?, words.next()?);
                Kind::Array { of, count }
            }
            4 | 5 => {
                let mut members = Vec::new();
                for _ in 0..count {
                    let (name, of, at) = (words.next()?, words.next()?, words.next()?);
                    let (bits_at, bits) = if flag { (at & 0xff_ffff, at >> 24) } else { (at, 0) };
                    members.push(Member { name, of, bits_at, bits });
                }
                Kind::Struct { size: last, members }
            }
            6 | 19 => {
                let each = if info >> 24 & 0x1f == 6 { 2 } else { 3 };
                let mut values = Vec::new();
                for _ in 0..count {
                    words.next()?;
                    values.push(words.next()?);
                    for _ in 2..each {
                        words.next()?;
                    }
                }
                Kind::Enum { size: last, signed: flag, values }
            }
            8..=11 | 18 => Kind::Same(last),
            7 | 12 | 16 => Kind::Other,
            13 => {
                for _ in 0..count * 2 {
                    words.next()?;
                }
                Kind::Other
            }
            14 => {
                words.next()?;
                Kind::Var(last)
            }
            15 => {
                let mut variables = Vec::new();
                for _ in 0..count {
                    variables.push(words.next()?);
                    // Where it is and its size, which clang leaves to its symbol.
                    words.next()?;
                    words.next()?;
                }
                Kind::Section(variables)
            }
            17 => {
                words.next()?;
                Kind::Other
            }
            _ => return None,
        };
        Some(Type { name, kind })
    }

    /// A string by its offset; nothing for one that is too long to be a name.
    pub(super) fn string(&self, at: u32) -> &str {
        const LONGEST: usize = 4096;
        let bytes = self.strings.get(at as usize..).unwrap_or(&[]);
        let end = bytes.iter().take(LONGEST).position(|b| *b == 0).unwrap_or(0);
        bytes.get(..end).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("")
    }

    pub(super) fn get(&self, id: Id) -> Option<&Type> {
        self.types.get(id as usize)
    }

    /// A type without `typedef`, `const` and the like.
    pub(super) fn plain(&self, mut id: Id) -> Option<(Id, &Type)> {
        for _ in 0..DEPTH {
            let found = self.get(id)?;
            match found.kind {
                Kind::Same(of) => id = of,
                _ => return Some((id, found)),
            }
        }
        None
    }

    /// Bytes of a type.
    pub(super) fn size(&self, id: Id) -> Option<u32> {
        self.size_within(id, DEPTH)
    }

    fn size_within(&self, id: Id, depth: u32) -> Option<u32> {
        let depth = depth.checked_sub(1)?;
        match &self.plain(id)?.1.kind {
            Kind::Int { size, .. } | Kind::Struct { size, .. } | Kind::Enum { size, .. } => {
                Some(*size)
            }
            Kind::Pointer(_) => Some(8),
            Kind::Array { of, count } => self.size_within(*of, depth)?.checked_mul(*count),
            Kind::Var(of) => self.size_within(*of, depth),
            Kind::Same(_) | Kind::Section(_) | Kind::Other => None,
        }
    }

    /// The variables of a section of data: name and type.
    pub(super) fn variables(&self, section: &str) -> Vec<(&str, Id)> {
        let mut found = Vec::new();
        for entry in &self.types {
            let Kind::Section(variables) = &entry.kind else { continue };
            if self.string(entry.name) != section {
                continue;
            }
            for id in variables {
                if let Some(Type { name, kind: Kind::Var(of) }) = self.get(*id) {
                    found.push((self.string(*name), *of));
                }
            }
        }
        found
    }
}
