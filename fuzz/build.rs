// SPDX-License-Identifier: Apache-2.0

//! Has the linker give coverage counters to `fuzz_targets/door.rs` before libFuzzer.

fn main() {
    for symbol in ["__sanitizer_cov_8bit_counters_init", "__sanitizer_cov_pcs_init"] {
        println!("cargo:rustc-link-arg-bins=-Wl,--wrap={symbol}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
