// SPDX-License-Identifier: Apache-2.0

//! The most that is read of what a store has. A store may be anybody's: what it says is bounded
//! before it is checked.

/// Bytes of a signed head.
pub const HEAD: u64 = 64 << 10;

/// Bytes of a blob. etcd takes requests of 1.5 MiB unless it is told otherwise.
pub const BLOB: u64 = 1 << 20;

/// Bytes of a piece of a file, and about those of a chunk of a set.
pub const PIECE: usize = 256 << 10;

/// Files of a tree.
pub const FILES: usize = 4096;

/// Bytes of all files of a tree.
pub const TREE: u64 = 128 << 20;

/// Sets of a tree that are kept as data.
pub const SETS: usize = 256;

/// Elements of all sets of a tree.
pub const ELEMENTS: u64 = 8 << 20;

/// Bytes of an element.
pub const ELEMENT: usize = 512;

/// Blobs of a set: its chunks and deltas.
pub const CHUNKS: usize = 64 << 10;

/// Bytes of a report.
pub const REPORT: u64 = 16 << 10;

/// Reports that are listed.
pub const REPORTS: usize = 100_000;
