//! Concatenations whose fields are ranges.
//!
//! As in the kernel's `nft_set_pipapo.c`, entries may overlap: a new one is refused only if its first or its last
//! corner lies inside an existing one. Of several that match, the one inserted first is found.

use crate::set::InsertError;

/// Where a field lies in the key.
#[derive(Clone, Copy, Debug)]
struct Field {
    offset: usize,
    len: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    from: Box<[u8]>,
    to: Box<[u8]>,
    slot: u32,
}

/// Index on concatenations of ranges.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    key_len: usize,
    fields: Vec<Field>,
    /// In order of insertion.
    entries: Vec<Entry>,
}

impl Ranges {
    pub fn new(key_len: usize, lengths: &[u8]) -> Self {
        let mut offset = 0;
        let mut fields = Vec::new();
        for &len in lengths {
            let len = usize::from(len);
            if offset + len <= key_len {
                fields.push(Field { offset, len });
            }
            offset += len.next_multiple_of(4);
        }
        Ranges { key_len, fields, entries: Vec::new() }
    }

    fn matches(&self, entry: &Entry, key: &[u8]) -> bool {
        self.fields.iter().all(|f| {
            let part = f.offset..f.offset + f.len;
            entry.from[part.clone()] <= key[part.clone()] && key[part.clone()] <= entry.to[part]
        })
    }

    /// The first match that is alive.
    #[inline]
    pub fn lookup(&self, key: &[u8], alive: impl Fn(u32) -> bool) -> Option<u32> {
        if key.len() != self.key_len {
            return None;
        }
        self.entries.iter().find(|e| self.matches(e, key) && alive(e.slot)).map(|e| e.slot)
    }

    pub fn find(&self, from: &[u8], to: &[u8]) -> Option<u32> {
        self.entries.iter().find(|e| *e.from == *from && *e.to == *to).map(|e| e.slot)
    }

    pub fn insert(&mut self, from: &[u8], to: &[u8], slot: u32) -> Result<(), InsertError> {
        let ordered = |f: &Field| from[f.offset..f.offset + f.len] <= to[f.offset..f.offset + f.len];
        if from.len() != self.key_len || to.len() != self.key_len || !self.fields.iter().all(ordered) {
            return Err(InsertError::Invalid);
        }
        for corner in [from, to] {
            if let Some(entry) = self.entries.iter().find(|e| self.matches(e, corner)) {
                let same = *entry.from == *from && *entry.to == *to;
                return Err(if same { InsertError::Exists } else { InsertError::Overlap });
            }
        }
        self.entries.push(Entry { from: from.into(), to: to.into(), slot });
        Ok(())
    }

    pub fn remove(&mut self, from: &[u8], to: &[u8]) -> Option<u32> {
        let at = self.entries.iter().position(|e| *e.from == *from && *e.to == *to)?;
        Some(self.entries.remove(at).slot)
    }

    pub fn in_order(&self) -> Vec<u32> {
        self.entries.iter().map(|e| e.slot).collect()
    }

    pub fn is_sealed(&self) -> bool {
        true
    }

    pub fn seal(&mut self) {}
}
