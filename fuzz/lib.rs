//! The targets of `tests/fuzz`, for cargo-fuzz.

#[path = "../tests/filetests/format.rs"]
#[allow(dead_code)]
mod format;
#[path = "../tests/fuzz/generate.rs"]
mod generate;
#[path = "../tests/filetests/language.rs"]
mod language;
#[path = "../tests/filetests/packet.rs"]
#[allow(dead_code)]
mod packet;
#[path = "../tests/fuzz/seeds.rs"]
#[allow(dead_code)]
mod seeds;
#[path = "../tests/fuzz/targets.rs"]
pub mod targets;
