//! Whether the kernel lets tests load programs.

use penstock_ebpf::asm::Asm;
use penstock_ebpf::{Place, Program, xdp};

/// Whether programs can be loaded here; says so if not.
pub fn may_load() -> bool {
    let mut asm = Asm::new();
    asm.exit_with(xdp::PASS);
    match Program::load(Place::Xdp, "probe", &asm.finish().unwrap()) {
        Ok(_) => true,
        Err(e) if e.is_permission() => {
            println!("skipped: loading BPF programs is not permitted here ({e})");
            false
        }
        Err(e) => panic!("{e}"),
    }
}
