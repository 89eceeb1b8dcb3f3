// SPDX-License-Identifier: Apache-2.0

//! Random calls by random settings: each returns, none panics, and the state file stays one.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use penstock_nftables::{
    nft_ctx, nft_ctx_add_include_path, nft_ctx_add_var, nft_ctx_buffer_error,
    nft_ctx_buffer_output, nft_ctx_clear_include_paths, nft_ctx_clear_vars, nft_ctx_free,
    nft_ctx_get_error_buffer, nft_ctx_get_output_buffer, nft_ctx_input_set_flags, nft_ctx_new,
    nft_ctx_output_set_debug, nft_ctx_output_set_flags, nft_ctx_set_dry_run, nft_ctx_set_optimize,
    nft_ctx_set_output, nft_ctx_unbuffer_output, nft_run_cmd_from_buffer,
    nft_run_cmd_from_filename,
};
use penstock_testkit::{Chance, rounds, seed};

/// Texts to begin with.
const TEXTS: [&str; 9] = [
    "add table inet t; add chain inet t c { type filter hook input priority 0; policy drop; }",
    "add rule inet t c tcp dport { 22, 80-90 } ct state established,related counter accept",
    "table ip n { map m { type ipv4_addr : verdict; elements = { 198.18.0.1 : drop } } }",
    "define p = 22\nadd rule inet t c udp dport $p limit rate 5/second log prefix \"x\"",
    "list ruleset",
    "get element ip n m { 198.18.0.1 }; reset counters; monitor",
    "{\"nftables\": [{\"add\": {\"table\": {\"family\": \"ip\", \"name\": \"j\"}}}, {\"list\": {\"ruleset\": null}}]}",
    "delete rule inet t c handle 3; destroy table ip n; flush ruleset",
    "include \"/etc/passwd\"",
];

/// A text with some bytes changed, or none at all of it.
fn text(rng: &mut Rng) -> CString {
    let mut bytes = rng.pick(&TEXTS).as_bytes().to_vec();
    if rng.one_in(4) {
        let other = rng.pick(&TEXTS).as_bytes();
        bytes.truncate(rng.usize(..=bytes.len()));
        bytes.extend(&other[rng.usize(..other.len())..]);
    }
    for _ in 0..rng.usize(..4) {
        let at = rng.usize(..bytes.len().max(1));
        match bytes.get_mut(at) {
            Some(byte) if rng.bool() => *byte = rng.u8(1..),
            Some(_) => drop(bytes.remove(at)),
            None => bytes.push(rng.u8(1..)),
        }
    }
    bytes.retain(|byte| *byte != 0);
    CString::new(bytes).expect("no zero byte")
}

/// Makes one call.
///
/// # Safety
/// The context was not freed.
unsafe fn call(rng: &mut Rng, ctx: *mut nft_ctx) {
    let given = text(rng);
    let flags = if rng.one_in(4) { rng.u32(..) } else { 1 << rng.u32(..12) };
    // SAFETY: the caller vouches for the context, and the texts live through the calls.
    unsafe {
        match rng.u32(..16) {
            0 => nft_ctx_set_dry_run(ctx, rng.bool()),
            1 => nft_ctx_set_optimize(ctx, rng.u32(..2)),
            2 => drop(nft_ctx_input_set_flags(ctx, rng.u32(..4))),
            3 => nft_ctx_output_set_flags(ctx, flags),
            4 => nft_ctx_output_set_debug(ctx, if rng.bool() { 0 } else { rng.u32(..0x100) }),
            5 => drop(nft_ctx_add_var(ctx, given.as_ptr())),
            6 => nft_ctx_clear_vars(ctx),
            7 => drop(nft_ctx_add_include_path(ctx, given.as_ptr())),
            8 => nft_ctx_clear_include_paths(ctx),
            9 => drop(nft_ctx_set_output(ctx, ptr::null_mut())),
            10 => {
                nft_ctx_unbuffer_output(ctx);
                nft_ctx_buffer_output(ctx);
            }
            11 => assert!([0, -1].contains(&nft_run_cmd_from_filename(ctx, given.as_ptr()))),
            _ => {
                let ran = nft_run_cmd_from_buffer(ctx, given.as_ptr());
                let read = |text| CStr::from_ptr(text).to_bytes().len();
                read(nft_ctx_get_output_buffer(ctx));
                let errors = read(nft_ctx_get_error_buffer(ctx));
                assert!(ran == 0 || ran == -1 && errors > 0, "{given:?} gives {ran}");
            }
        }
    }
}

#[test]
fn random_calls_return_and_leave_a_state() {
    static PANICKED: AtomicBool = AtomicBool::new(false);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICKED.store(true, Ordering::Relaxed);
        before(panic);
    }));
    let state = std::env::temp_dir().join(format!("penstock-libnftables-{}", std::process::id()));
    // SAFETY: this is the only test of the program, and no other thread looks at the environment.
    unsafe { std::env::set_var("PENSTOCK_EXEC", &state) };
    let mut rng = Rng::with_seed(seed());
    for _ in 0..rounds(40) {
        let ctx = nft_ctx_new(0);
        // SAFETY: a context, which is freed last.
        unsafe {
            nft_ctx_buffer_output(ctx);
            nft_ctx_buffer_error(ctx);
            (0..10).for_each(|_| call(&mut rng, ctx));
            assert!(!PANICKED.load(Ordering::Relaxed));
            // Whatever has happened, the ruleset can be listed.
            nft_ctx_output_set_debug(ctx, 0);
            nft_ctx_set_dry_run(ctx, false);
            assert_eq!(nft_run_cmd_from_buffer(ctx, c"list ruleset".as_ptr()), 0);
            nft_ctx_free(ctx);
        }
    }
    let _ = std::fs::remove_file(state);
}
