// SPDX-License-Identifier: Apache-2.0

//! Which counters libFuzzer looks at.
//!
//! It clears and searches all counters of a program for each input, which takes longer than most
//! inputs: there are some 200,000, and a door touches a few thousand. So it is told only of those
//! near the ones that seeds touch.

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Counters that are registered together. A few functions have that many, and lie next to others of
/// their file.
const BLOCK: usize = 1024;

static COUNTERS: [AtomicPtr<u8>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
static PCS: AtomicPtr<usize> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    fn __real___sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8);
    fn __real___sanitizer_cov_pcs_init(start: *mut usize, stop: *mut usize);
}

/// Called before `main` for each object file, always with all counters of the program.
#[unsafe(no_mangle)]
extern "C" fn __wrap___sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    COUNTERS[0].store(start, Relaxed);
    COUNTERS[1].store(stop, Relaxed);
}

/// The end of the table with two words for each counter: a place in the program and its kind.
#[unsafe(no_mangle)]
extern "C" fn __wrap___sanitizer_cov_pcs_init(start: *mut usize, _stop: *mut usize) {
    PCS.store(start, Relaxed);
}

/// Runs the seeds, and tells libFuzzer of the counters near those that they touch.
pub fn measure(seeds: &[Vec<u8>], run: fn(&[u8])) {
    let [start, stop] = [COUNTERS[0].load(Relaxed), COUNTERS[1].load(Relaxed)];
    let pcs = PCS.load(Relaxed);
    // The first run makes what all others share.
    seeds.iter().take(1).for_each(|seed| run(seed));
    // SAFETY: the linker says where the counters of this program begin and end. Nothing else reads
    // them yet.
    unsafe {
        let len = stop.offset_from(start) as usize;
        start.write_bytes(0, len);
        seeds.iter().for_each(|seed| run(seed));
        let blocks: Vec<bool> = std::slice::from_raw_parts(start, len)
            .chunks(BLOCK)
            .map(|block| block.iter().any(|counter| *counter != 0))
            .collect();
        let near =
            |i: usize| blocks[i.saturating_sub(1)..(i + 2).min(blocks.len())].contains(&true);
        let mut at = 0;
        while at < blocks.len() {
            let first = at;
            while at < blocks.len() && near(at) {
                at += 1;
            }
            if at > first {
                let (from, to) = (first * BLOCK, (at * BLOCK).min(len));
                __real___sanitizer_cov_8bit_counters_init(start.add(from), start.add(to));
                __real___sanitizer_cov_pcs_init(pcs.add(2 * from), pcs.add(2 * to));
            }
            at += 1;
        }
    }
}
