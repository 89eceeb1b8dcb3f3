// SPDX-License-Identifier: Apache-2.0

//! Group records of membership reports: IGMPv3 (RFC 3376, 4.2.4) and MLDv2 (RFC 3810, 5.2.4), which
//! differ by the length of addresses.

use crate::field::be16;

/// Bytes before the records: type, checksum and how many they are.
pub const REPORT_LEN: usize = 8;

/// What a host says about its sources of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// It takes these sources only.
    IsInclude,
    /// It takes all but these sources.
    IsExclude,
    /// From now on it takes these sources only.
    ToInclude,
    /// From now on it takes all but these sources.
    ToExclude,
    /// It takes these sources, too.
    Allow,
    /// It does not take these sources any more.
    Block,
}

/// A group record with addresses of `N` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<const N: usize> {
    /// `None` for a type that nobody knows.
    pub kind: Option<RecordType>,
    /// Address of the group, in network byte order.
    pub group: [u8; N],
    /// How many sources it names.
    pub sources: u16,
}

/// A record that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// The records of a report.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a, const N: usize> {
    rest: &'a [u8],
    left: u16,
}

impl<'a, const N: usize> Records<'a, N> {
    /// Those of a report, which begins with its type. `None` if the first eight bytes are not
    /// there.
    pub fn new(report: &'a [u8]) -> Option<Self> {
        let (head, rest) = report.split_first_chunk::<REPORT_LEN>()?;
        Some(Records { rest, left: be16(head, 6) })
    }

    /// One record. Auxiliary data, which no version defines, is taken for the next record, as by
    /// the kernel's bridge.
    fn record(&mut self) -> Option<Record<N>> {
        let (head, rest) = self.rest.split_first_chunk::<4>()?;
        let (group, rest) = rest.split_first_chunk::<N>()?;
        let sources = be16(head, 2);
        self.rest = rest.get(usize::from(sources) * N..)?;
        let kind = match head[0] {
            1 => Some(RecordType::IsInclude),
            2 => Some(RecordType::IsExclude),
            3 => Some(RecordType::ToInclude),
            4 => Some(RecordType::ToExclude),
            5 => Some(RecordType::Allow),
            6 => Some(RecordType::Block),
            _ => None,
        };
        Some(Record { kind, group: *group, sources })
    }
}

impl<const N: usize> Iterator for Records<'_, N> {
    type Item = Result<Record<N>, Truncated>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.record().ok_or(Truncated);
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_up_to_where_they_are_cut() {
        let report = [
            0x22, 0, 0, 0, 0, 0, 0, 2, // two records
            3, 0, 0, 0, 239, 1, 2, 3, // to include nothing
            5, 0, 0, 2, 239, 1, 2, 4, 198, 18, 0, 1, 198, 18, 0, 2,
        ];
        let read = |bytes| {
            Records::<4>::new(bytes).map(|records| {
                records.map(|r| r.map(|r| (r.kind, r.group[3], r.sources))).collect::<Vec<_>>()
            })
        };
        let first = Ok((Some(RecordType::ToInclude), 3, 0));
        assert_eq!(read(&report), Some(vec![first, Ok((Some(RecordType::Allow), 4, 2))]));
        for cut in 16..report.len() {
            assert_eq!(read(&report[..cut]), Some(vec![first, Err(Truncated)]), "{cut}");
        }
        assert_eq!(read(&report[..12]), Some(vec![Err(Truncated)]));
        assert_eq!(read(&report[..7]), None);
    }
}
