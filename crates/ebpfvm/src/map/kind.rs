// SPDX-License-Identifier: Apache-2.0

//! Kinds of maps, and what a map is made from.

use super::bloom::Bloom;
use super::table::Table;

/// What a map is (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    /// Programs to continue with.
    Programs = 3,
    PerCpuHash = 5,
    PerCpuArray = 6,
    LruHash = 9,
    LruPerCpuHash = 10,
    /// Prefixes; a key begins with its length in bits.
    LongestPrefix = 11,
    /// Maps, by a number from 0 on.
    ArrayOfMaps = 12,
    /// Maps, by any key.
    HashOfMaps = 13,
    /// Devices to redirect to, by a number from 0 on.
    Devices = 14,
    /// Values that are taken in the order in which they were put.
    Queue = 22,
    /// Values of which the last one that was put is taken first.
    Stack = 23,
    /// Devices by any number.
    DevicesByHash = 25,
    Ring = 27,
    /// Values of which is asked whether they were put.
    Bloom = 30,
}

impl MapKind {
    /// All of them.
    pub const ALL: [MapKind; 16] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::Programs,
        MapKind::PerCpuHash,
        MapKind::PerCpuArray,
        MapKind::LruHash,
        MapKind::LruPerCpuHash,
        MapKind::LongestPrefix,
        MapKind::ArrayOfMaps,
        MapKind::HashOfMaps,
        MapKind::Devices,
        MapKind::Queue,
        MapKind::Stack,
        MapKind::DevicesByHash,
        MapKind::Ring,
        MapKind::Bloom,
    ];

    /// By its number.
    pub fn of_number(number: u32) -> Option<MapKind> {
        MapKind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Whether programs change it by helpers.
    pub(crate) fn changed_by_programs(self) -> bool {
        use MapKind::*;
        match self {
            Hash | Array | PerCpuHash | PerCpuArray | LruHash | LruPerCpuHash | LongestPrefix => {
                true
            }
            Programs | ArrayOfMaps | HashOfMaps | Devices | DevicesByHash | Ring | Queue
            | Stack | Bloom => false,
        }
    }

    /// Whether programs find values in it.
    pub(crate) fn searched_by_programs(self) -> bool {
        match self {
            MapKind::Devices | MapKind::DevicesByHash => true,
            _ => self.changed_by_programs() || self.has_maps(),
        }
    }

    /// Whether its values are maps.
    pub fn has_maps(self) -> bool {
        matches!(self, MapKind::ArrayOfMaps | MapKind::HashOfMaps)
    }

    pub(super) fn is_array(self) -> bool {
        use MapKind::*;
        matches!(self, Array | PerCpuArray | Devices | Programs | ArrayOfMaps)
    }

    /// Whether it is an array with places that have nothing.
    pub(super) fn has_holes(self) -> bool {
        matches!(self, MapKind::Devices | MapKind::ArrayOfMaps)
    }
}

/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;
/// `BPF_F_RDONLY_PROG`
pub(crate) const READ_ONLY: u32 = 1 << 7;
/// `BPF_F_INNER_MAP`
const INNER: u32 = 1 << 12;
/// `BPF_F_MMAPABLE`
pub(crate) const MMAPABLE: u32 = 1 << 10;

/// What a map is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// As the program's source has it.
    pub name: String,
    /// Kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Keys at most; for a ring its bytes.
    pub entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

impl MapSpec {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let common = READ_ONLY | MMAPABLE | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 8;
        let sizes = match self.kind {
            MapKind::Ring => {
                let fits = self.entries.is_power_of_two() && self.entries.is_multiple_of(4096);
                if !fits {
                    return Err("its size is no power of two, or no multiple of 4096");
                }
                self.key == 0 && self.value == 0
            }
            MapKind::Programs => self.key == 4 && self.value == 4 && self.entries > 0,
            MapKind::Devices | MapKind::DevicesByHash => {
                self.key == 4 && matches!(self.value, 4 | 8) && self.entries > 0
            }
            MapKind::ArrayOfMaps => self.key == 4 && self.value == 4 && self.entries > 0,
            MapKind::HashOfMaps => {
                self.key > 0 && self.key <= 512 && self.value == 4 && self.entries > 0
            }
            MapKind::Queue | MapKind::Stack | MapKind::Bloom => {
                self.key == 0 && (1..=512).contains(&self.value) && self.entries > 0
            }
            MapKind::LongestPrefix => {
                if self.flags & NO_PREALLOC == 0 {
                    return Err("a trie needs the flag BPF_F_NO_PREALLOC");
                }
                (5..=260).contains(&self.key) && self.value > 0 && self.entries > 0
            }
            kind if kind.is_array() => self.key == 4 && self.value > 0 && self.entries > 0,
            _ => self.key > 0 && self.key <= 512 && self.value > 0 && self.entries > 0,
        };
        if !sizes {
            return Err("its kind does not take these sizes");
        }
        // BPF_F_NO_COMMON_LRU and BPF_F_NUMA_NODE change where memory lies, not what happens.
        let allowed = match self.kind {
            MapKind::Hash | MapKind::PerCpuHash | MapKind::LongestPrefix | MapKind::HashOfMaps => {
                common | NO_PREALLOC | 4
            }
            MapKind::Array => common | 4 | INNER,
            MapKind::LruHash | MapKind::LruPerCpuHash => common | 2 | 4,
            _ => common | 4,
        };
        if self.flags & !allowed != 0 { Err("its flags are not known") } else { Ok(()) }
    }

    /// Bytes of all that it needs.
    pub(super) fn bytes(&self) -> u64 {
        let entries = u64::from(self.entries) + 1;
        let value = u64::from(self.value).next_multiple_of(8);
        match self.kind {
            MapKind::Ring => 2 * u64::from(self.entries),
            MapKind::Bloom => Bloom::bytes(self.entries),
            kind if kind.is_array() => entries.saturating_mul(value + 8),
            _ => entries.saturating_mul(value + 2 * u64::from(self.key) + Table::OVERHEAD),
        }
    }
}

impl MapSpec {
    /// Whether a map can be where one like this is wanted (`bpf_map_meta_equal()`,
    /// `array_map_meta_equal()`). The names do not matter.
    pub(super) fn is_like(&self, other: &MapSpec) -> bool {
        let arrays = matches!(self.kind, MapKind::Array | MapKind::PerCpuArray);
        let same_size = self.entries == other.entries || !arrays || self.flags & INNER != 0;
        (self.kind, self.key, self.value, self.flags)
            == (other.kind, other.key, other.value, other.flags)
            && same_size
    }
}
