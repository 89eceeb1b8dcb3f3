// SPDX-License-Identifier: Apache-2.0

//! Structures and functions of the running kernel, by its type information
//! (`Documentation/bpf/btf.rst`).

use std::fs;
use std::io;

/// `BTF_KIND_*`.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const FUNC: u32 = 12;

/// Structures in structures, and types with other names, at most.
const DEPTH: u32 = 16;

/// A field of a structure of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the structure.
    pub offset: u16,
    /// Bits from there on, of a bit field.
    pub bit: u8,
    /// Bits of a bit field, 0 for another.
    pub bits: u8,
}

/// Types of the running kernel, or of one of its modules on top of them.
#[derive(Debug)]
pub struct Types {
    base: Option<Box<Types>>,
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where each type begins; the first has number [`Types::first`].
    begin: Vec<u32>,
    first: u32,
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's type information is broken")
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

impl Types {
    /// Types of the kernel itself. The file has some megabytes.
    ///
    /// # Errors
    /// Those of reading it; `NotFound` if the kernel is built without (`CONFIG_DEBUG_INFO_BTF`).
    pub fn of_kernel() -> io::Result<Self> {
        Types::read(&fs::read("/sys/kernel/btf/vmlinux")?, None)
    }

    /// Types of a module, on top of those of the kernel.
    ///
    /// # Errors
    /// Those of reading it; `NotFound` if there is no such module.
    pub fn of_module(self, name: &str) -> io::Result<Self> {
        let file = fs::read(format!("/sys/kernel/btf/{name}"))?;
        Types::read(&file, Some(Box::new(self)))
    }

    fn read(file: &[u8], base: Option<Box<Types>>) -> io::Result<Self> {
        let first = base.as_ref().map_or(1, |base| base.first + base.begin.len() as u32);
        Types::parse(file, base, first).ok_or_else(broken)
    }

    fn parse(file: &[u8], base: Option<Box<Types>>, first: u32) -> Option<Self> {
        let header = |n: usize| word(file, n * 4).map(|n| n as usize);
        if word(file, 0)? & 0xffff != 0xeb9f {
            return None;
        }
        let body = file.get(header(1)?..)?;
        let part = |n| body.get(header(n)?..)?.get(..header(n + 1)?);
        let (types, strings) = (part(2)?.to_vec(), part(4)?.to_vec());
        let (mut begin, mut at) = (Vec::new(), 0);
        while at < types.len() {
            begin.push(at as u32);
            let info = word(&types, at + 4)?;
            let count = info as usize & 0xffff;
            at += 12
                + match info >> 24 & 0x1f {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    STRUCT | UNION | 15 | 19 => count * 12,
                    6 | 13 => count * 8,
                    2 | 7..=11 | FUNC | 16 | 18 => 0,
                    _ => return None,
                };
        }
        Some(Types { base, types, strings, begin, first })
    }

    /// Name, kind and the rest of the header of a type, and what follows it.
    fn header(&self, id: u32) -> Option<(u32, u32, u32, &[u8])> {
        if id < self.first {
            return self.base.as_ref()?.header(id);
        }
        let at = *self.begin.get((id - self.first) as usize)? as usize;
        let (name, info, last) =
            (word(&self.types, at)?, word(&self.types, at + 4)?, word(&self.types, at + 8)?);
        Some((name, info, last, self.types.get(at + 12..)?))
    }

    /// Bytes of all names of the types that these are on top of.
    fn names_before(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.names_before() + base.strings.len())
    }

    fn is_named(&self, name: u32, wanted: &str) -> bool {
        let before = self.names_before();
        let Some(at) = (name as usize).checked_sub(before) else {
            return self.base.as_ref().is_some_and(|base| base.is_named(name, wanted));
        };
        let rest = self.strings.get(at..).unwrap_or_default();
        rest.starts_with(wanted.as_bytes()) && rest.get(wanted.len()) == Some(&0)
    }

    /// Number of the first type of a kind with a name.
    fn find(&self, kind: u32, name: &str) -> Option<u32> {
        let here = (self.first..).take(self.begin.len()).find(|id| {
            self.header(*id).is_some_and(|(found, info, ..)| {
                info >> 24 & 0x1f == kind && self.is_named(found, name)
            })
        });
        here.or_else(|| self.base.as_ref()?.find(kind, name))
    }

    /// Number of a function, by which programs call it if it is a kfunc.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(FUNC, name)
    }

    /// Number of a structure, by which programs say what an address is (`bpf_rdonly_cast()`).
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(STRUCT, name)
    }

    /// A field of a structure. `path` has the names of fields in fields, with points between them;
    /// structures without a name are looked into.
    pub fn field(&self, structure: &str, path: &str) -> Option<Field> {
        let mut id = self.find(STRUCT, structure)?;
        let mut found = Field { offset: 0, bit: 0, bits: 0 };
        for name in path.split('.') {
            let (of, bits_at, bits) = self.member(id, name, DEPTH)?;
            let offset = u16::try_from(bits_at / 8).ok()?.checked_add(found.offset)?;
            found = Field { offset, bit: (bits_at % 8) as u8, bits };
            id = of;
        }
        Some(found)
    }

    /// Bytes of a structure.
    pub fn size(&self, structure: &str) -> Option<u32> {
        Some(self.header(self.find(STRUCT, structure)?)?.2)
    }

    /// A type without `typedef`, `const` and the like.
    fn plain(&self, mut id: u32) -> Option<u32> {
        for _ in 0..DEPTH {
            let (_, info, last, _) = self.header(id)?;
            match info >> 24 & 0x1f {
                8..=11 | 18 => id = last,
                _ => return Some(id),
            }
        }
        None
    }

    /// A member of a structure or union: its type, where it begins in bits, and its width as a bit
    /// field.
    fn member(&self, id: u32, wanted: &str, depth: u32) -> Option<(u32, u32, u8)> {
        let depth = depth.checked_sub(1)?;
        let (_, info, _, members) = self.header(self.plain(id)?)?;
        if !matches!(info >> 24 & 0x1f, STRUCT | UNION) {
            return None;
        }
        (0..info as usize & 0xffff).find_map(|n| {
            let at = |part: usize| word(members, n * 12 + part * 4);
            let (name, of, place) = (at(0)?, at(1)?, at(2)?);
            let (bits_at, bits) =
                if info >> 31 != 0 { (place & 0xff_ffff, (place >> 24) as u8) } else { (place, 0) };
            if name == 0 {
                let (of, inside, bits) = self.member(of, wanted, depth)?;
                return Some((of, bits_at + inside, bits));
            }
            self.is_named(name, wanted).then_some((of, bits_at, bits))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of the kernel do not change these.
    #[test]
    fn fields_of_the_running_kernel_are_found() {
        let Ok(types) = Types::of_kernel() else {
            println!("skipped: the kernel has no type information");
            return;
        };
        let at = |structure, path| types.field(structure, path).map(|f| (f.offset, f.bit, f.bits));
        assert_eq!(at("iphdr", "daddr"), Some((16, 0, 0)));
        assert_eq!(at("iphdr", "version"), Some((0, 4, 4)));
        assert_eq!(at("ipv6hdr", "daddr.in6_u.u6_addr8"), Some((24, 0, 0)));
        assert_eq!(at("nf_hook_state", "pf"), Some((1, 0, 0)));
        assert_eq!(at("iphdr", "nothing"), None);
        assert_eq!(at("no_such_structure", "daddr"), None);
        assert_eq!(types.size("iphdr"), Some(20));
        assert_eq!(types.function("no_such_function"), None);
    }

    #[test]
    fn broken_files_are_refused() {
        for file in [&[][..], &[0x9f, 0xeb, 1, 0], &[0; 64]] {
            assert!(Types::read(file, None).is_err());
        }
        let Ok(mut file) = fs::read("/sys/kernel/btf/vmlinux") else { return };
        file.truncate(file.len() / 2);
        assert!(Types::read(&file, None).is_err());
    }
}
