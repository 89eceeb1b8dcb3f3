// SPDX-License-Identifier: Apache-2.0

//! Records that programs leave for this process (`BPF_MAP_TYPE_RINGBUF`,
//! `Documentation/bpf/ringbuf.rst`).
//!
//! ```text
//! page: where the reader is | page: where programs are | records | the same records once more
//! ```
//!
//! A record lies in one piece, since what follows the end of the records is their beginning.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::map::{Map, MapKind};
use crate::mapping::Mapping;

/// In the length of a record: a program is still writing it.
const BUSY: u32 = 1 << 31;
/// In the length of a record: its program has thought better of it.
const DISCARDED: u32 = 1 << 30;
/// Bytes in front of a record.
const HEAD: usize = 8;

/// The reader of a ring of records. There is one for each ring.
#[derive(Debug)]
pub struct RecordRing {
    fd: OwnedFd,
    /// Bytes of records that there is room for, a power of two.
    size: usize,
    /// The first page, which only this process writes.
    reader: Pages,
    /// All that follows, which only programs write.
    records: Pages,
    /// Bytes of a page.
    page: usize,
}

impl RecordRing {
    /// The reader of a map of records.
    ///
    /// # Errors
    /// Those of bpf(2) and mmap(2); another kind of map.
    pub fn new(map: &Map) -> io::Result<Self> {
        if map.spec().kind != MapKind::Records {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = map.create()?;
        // SAFETY: no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
        let page = page.map_err(io::Error::other)?;
        let reader = Pages(Mapping::new(fd, 0, page, libc::PROT_READ | libc::PROT_WRITE)?);
        let size = map.spec().entries as usize;
        let len = page + 2 * size;
        let records = Pages(Mapping::new(fd, page, len, libc::PROT_READ)?);
        Ok(RecordRing { fd: fd.try_clone_to_owned()?, size, reader, records, page })
    }

    /// Visits the records that are there, `most` of them at most, and makes room for others; how
    /// many there were.
    pub fn read(&mut self, most: usize, mut visit: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        let mask = self.size.wrapping_sub(1);
        let mut at = self.reader.position().load(Ordering::Relaxed);
        while count < most && at != self.records.position().load(Ordering::Acquire) {
            let from = self.page + (at & mask);
            let len = self.records.length(from).load(Ordering::Acquire);
            if len & BUSY != 0 {
                break;
            }
            let bytes = (len & !DISCARDED) as usize;
            if len & DISCARDED == 0 {
                visit(self.records.bytes(from + HEAD, bytes));
                count += 1;
            }
            at = at.wrapping_add((HEAD + bytes).next_multiple_of(8));
            self.reader.position().store(at, Ordering::Release);
        }
        count
    }
}

/// Readable while there are records.
impl AsFd for RecordRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Some pages.
///
/// # Invariant
/// They are readable; writable if it is the page of the reader.
#[derive(Debug)]
struct Pages(Mapping);

impl Pages {
    /// The number at the beginning.
    fn position(&self) -> &AtomicUsize {
        // SAFETY: a page begins with it; both sides change it by atomic operations only.
        unsafe { self.0.start().cast().as_ref() }
    }

    /// The length of the record at an offset.
    fn length(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(HEAD) && at < self.0.len(),
            "records begin at multiples of eight"
        );
        // SAFETY: it is within the mapping and aligned; programs change it by atomic operations.
        unsafe { self.0.start().add(at).cast().as_ref() }
    }

    /// Bytes that no program writes, until the reader has made room for others.
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let end = at.checked_add(len).filter(|end| *end <= self.0.len());
        assert!(end.is_some(), "records end before their second appearance does");
        // SAFETY: they are within the mapping, and nothing writes them as long as they are borrowed:
        // the kernel has finished the record, and the reader moves on after that.
        unsafe { std::slice::from_raw_parts(self.0.start().add(at).as_ptr(), len) }
    }
}
