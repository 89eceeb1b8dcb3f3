//! Engine for VM programs that XDP can take.
#![warn(clippy::indexing_slicing)]

pub mod asm;
mod btf;
mod map;
mod next;
mod program;
pub mod rules;
mod sys;

pub use map::{Map, MapKind, MapSpec, possible_cpus};
pub use next::Next;
pub use program::{Link, LoadError, Mode, Place, Program, Ran, tcx, xdp};
