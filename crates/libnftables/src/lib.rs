// SPDX-License-Identifier: Apache-2.0

//! libnftables(3) on the ruleset of a dataplane or of a state file: the functions of
//! `include/nftables/libnftables.h`, which describes them for callers. `link` makes
//! `libnftables.so.1` of this crate.
//!
//! | module | is |
//! | --- | --- |
//! | `context` | a context, and how it runs texts |
//! | `settings` | what callers set |
//! | `stream` | where output goes |
//! | `names` | names of this machine, without hosts |
//!
//! No panic crosses the boundary: a mistake of the library makes the function fail. Null pointers
//! do, too.

#![allow(non_camel_case_types, reason = "the names are those of C")]

mod context;
mod names;
mod settings;
mod stream;

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use libc::FILE;

use context::{Context, Text};
use stream::Stream;

/// What callers have a pointer to.
pub struct nft_ctx(Context);

/// Runs `work` on a context; gives `failed` if the pointer is null, and if `work` panics.
///
/// # Safety
/// `ctx` is null, or a context that was not freed and that nobody else uses at the time.
unsafe fn with<T>(ctx: *mut nft_ctx, failed: T, work: impl FnOnce(&mut Context) -> T) -> T {
    // SAFETY: the caller vouches for it.
    let Some(nft_ctx(context)) = (unsafe { ctx.as_mut() }) else { return failed };
    catch_unwind(AssertUnwindSafe(|| work(context))).unwrap_or(failed)
}

/// The text at a pointer; `None` for null. Bytes that are not UTF-8 are replaced, as in files.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero byte and do not change meanwhile.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Makes a context. `flags` mean nothing, as in nft.
#[unsafe(no_mangle)]
pub extern "C" fn nft_ctx_new(_flags: u32) -> *mut nft_ctx {
    let made = catch_unwind(|| Box::new(nft_ctx(Context::new())));
    made.map_or(ptr::null_mut(), Box::into_raw)
}

/// Frees a context.
///
/// # Safety
/// `ctx` is null, or came from [`nft_ctx_new`] and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_free(ctx: *mut nft_ctx) {
    if !ctx.is_null() {
        // SAFETY: the caller vouches for it.
        let owned = unsafe { Box::from_raw(ctx) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
    }
}

/// Whether texts are only checked.
///
/// # Safety
/// `ctx` is null, or a context that was not freed and that nobody else uses at the time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_get_dry_run(ctx: *mut nft_ctx) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, false, |context| context.settings.dry_run) }
}

/// Sets whether texts are only checked.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_set_dry_run(ctx: *mut nft_ctx, dry: bool) {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, (), |context| context.settings.dry_run = dry) }
}

/// The flags of optimization.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_get_optimize(ctx: *mut nft_ctx) -> u32 {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 0, |context| context.settings.optimize) }
}

/// Sets the flags of optimization.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_set_optimize(ctx: *mut nft_ctx, flags: u32) {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, (), |context| context.settings.optimize = flags) }
}

/// The flags of input.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_input_get_flags(ctx: *mut nft_ctx) -> c_uint {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 0, |context| context.settings.input) }
}

/// Sets the flags of input, and gives those before.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_input_set_flags(ctx: *mut nft_ctx, flags: c_uint) -> c_uint {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 0, |context| std::mem::replace(&mut context.settings.input, flags)) }
}

/// The flags of output.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_output_get_flags(ctx: *mut nft_ctx) -> c_uint {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 0, |context| context.settings.output) }
}

/// Sets the flags of output.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_output_set_flags(ctx: *mut nft_ctx, flags: c_uint) {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, (), |context| context.settings.output = flags) }
}

/// The levels of debugging.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_output_get_debug(ctx: *mut nft_ctx) -> c_uint {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 0, |context| context.settings.debug) }
}

/// Sets the levels of debugging.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_output_set_debug(ctx: *mut nft_ctx, mask: c_uint) {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, (), |context| context.settings.debug = mask) }
}

/// Sets a stream, and gives the one before; null if the new one cannot be used.
///
/// # Safety
/// As of [`nft_ctx_set_output`].
unsafe fn set_stream(
    ctx: *mut nft_ctx,
    file: *mut FILE,
    which: fn(&mut Context) -> &mut Stream,
) -> *mut FILE {
    // SAFETY: as the caller vouches.
    let set = |context: &mut Context| unsafe { which(context).set(file) };
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, None, set) }.unwrap_or(ptr::null_mut())
}

/// Where a context writes answers.
fn output(context: &mut Context) -> &mut Stream {
    &mut context.streams.output
}

/// Where a context writes errors.
fn errors(context: &mut Context) -> &mut Stream {
    &mut context.streams.error
}

/// Sets the stream of answers, and gives the one before; null if the new one cannot be used.
///
/// # Safety
/// `ctx` is as of [`nft_ctx_get_dry_run`]; `file` is null or an open stream, which stays open until
/// there is another one, or no context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_set_output(ctx: *mut nft_ctx, file: *mut FILE) -> *mut FILE {
    // SAFETY: as the caller vouches.
    unsafe { set_stream(ctx, file, output) }
}

/// Sets the stream of errors, and gives the one before; null if the new one cannot be used.
///
/// # Safety
/// As of [`nft_ctx_set_output`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_set_error(ctx: *mut nft_ctx, file: *mut FILE) -> *mut FILE {
    // SAFETY: as the caller vouches.
    unsafe { set_stream(ctx, file, errors) }
}

/// Keeps answers in a buffer, which is empty then. 0.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_buffer_output(ctx: *mut nft_ctx) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 1, |context| buffer(output(context))) }
}

/// Writes answers to the stream again. 0, or 1 if there was no buffer.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_unbuffer_output(ctx: *mut nft_ctx) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 1, |context| c_int::from(!output(context).unbuffer())) }
}

/// The answers since this was asked for last.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_get_output_buffer(ctx: *mut nft_ctx) -> *const c_char {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, ptr::null(), |context| output(context).take()) }
}

/// Keeps errors in a buffer, which is empty then. 0.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_buffer_error(ctx: *mut nft_ctx) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 1, |context| buffer(errors(context))) }
}

/// Writes errors to the stream again. 0, or 1 if there was no buffer.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_unbuffer_error(ctx: *mut nft_ctx) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, 1, |context| c_int::from(!errors(context).unbuffer())) }
}

/// The errors since this was asked for last.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_get_error_buffer(ctx: *mut nft_ctx) -> *const c_char {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, ptr::null(), |context| errors(context).take()) }
}

/// Begins a buffer; the value for C.
fn buffer(stream: &mut Stream) -> c_int {
    stream.buffer();
    0
}

/// Adds a directory to those where included files are looked for. 0, or -1 for null.
///
/// # Safety
/// `ctx` is as of [`nft_ctx_get_dry_run`]; `path` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_add_include_path(ctx: *mut nft_ctx, path: *const c_char) -> c_int {
    // SAFETY: as the caller vouches.
    let Some(path) = (unsafe { text(path) }) else { return -1 };
    let add = |context: &mut Context| {
        context.settings.include_paths.push(path);
        0
    };
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, -1, add) }
}

/// Forgets all directories where included files are looked for.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_clear_include_paths(ctx: *mut nft_ctx) {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, (), |context| context.settings.include_paths.clear()) }
}

/// Adds a variable, `name=value`, for files. 0, or -1 without `=`.
///
/// # Safety
/// `ctx` is as of [`nft_ctx_get_dry_run`]; `var` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_add_var(ctx: *mut nft_ctx, var: *const c_char) -> c_int {
    // SAFETY: as the caller vouches.
    let var = unsafe { text(var) }.unwrap_or_default();
    let Some((name, value)) = var.split_once('=') else { return -1 };
    let add = |context: &mut Context| {
        context.settings.variables.push((name.to_owned(), value.to_owned()));
        0
    };
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, -1, add) }
}

/// Forgets all variables.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_ctx_clear_vars(ctx: *mut nft_ctx) {
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, (), |context| context.settings.variables.clear()) }
}

/// Runs commands. 0, or -1 if anything is refused.
///
/// # Safety
/// `ctx` is as of [`nft_ctx_get_dry_run`]; `commands` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_run_cmd_from_buffer(
    ctx: *mut nft_ctx,
    commands: *const c_char,
) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { run(ctx, text(commands).map(Text::Buffer)) }
}

/// Runs the commands of a file, `-` for standard input. 0, or -1 if anything is refused.
///
/// # Safety
/// `ctx` is as of [`nft_ctx_get_dry_run`]; `name` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nft_run_cmd_from_filename(
    ctx: *mut nft_ctx,
    name: *const c_char,
) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { run(ctx, text(name).map(Text::File)) }
}

/// Runs a text; the value for C.
///
/// # Safety
/// As of [`nft_ctx_get_dry_run`].
unsafe fn run(ctx: *mut nft_ctx, text: Option<Text>) -> c_int {
    let Some(text) = text else { return -1 };
    // SAFETY: as the caller vouches.
    unsafe { with(ctx, -1, |context| if context.run(text) { 0 } else { -1 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_pointers_are_failures() {
        let null = ptr::null_mut();
        // SAFETY: null is allowed everywhere, and the context is freed last.
        unsafe {
            nft_ctx_free(null);
            nft_ctx_set_dry_run(null, true);
            assert_eq!(nft_run_cmd_from_buffer(null, c"list ruleset".as_ptr()), -1);
            assert_eq!(nft_ctx_add_var(null, c"a=1".as_ptr()), -1);
            assert!(nft_ctx_get_output_buffer(null).is_null());
            assert!(nft_ctx_set_output(null, ptr::null_mut()).is_null());
            let ctx = nft_ctx_new(0);
            assert_eq!(nft_run_cmd_from_buffer(ctx, ptr::null()), -1);
            assert_eq!(nft_run_cmd_from_filename(ctx, ptr::null()), -1);
            assert_eq!(nft_ctx_add_include_path(ctx, ptr::null()), -1);
            nft_ctx_free(ctx);
        }
    }
}
