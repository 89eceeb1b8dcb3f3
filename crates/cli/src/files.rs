//! The file system, as `include` sees it.

use std::ffi::{CStr, CString};
use std::ptr;

use penstock_lang::source::Files;

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

/// A system error in the C library's words, without the number that Rust puts behind.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

impl Files for SystemFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        let bytes = std::fs::read(path).map_err(|e| words(&e))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let Ok(pattern) = CString::new(pattern) else { return Vec::new() };
        let mut found = Vec::new();
        // SAFETY: a zeroed glob_t is what glob(3) expects without GLOB_DOOFFS; the pattern is a C string; the paths are
        // C strings and live until globfree.
        unsafe {
            let mut list: libc::glob_t = std::mem::zeroed();
            if libc::glob(pattern.as_ptr(), 0, None, &mut list) == 0 {
                for i in 0..list.gl_pathc {
                    let path = *list.gl_pathv.add(i);
                    if !ptr::eq(path, ptr::null()) {
                        found.push(CStr::from_ptr(path).to_string_lossy().into_owned());
                    }
                }
            }
            libc::globfree(&mut list);
        }
        found
    }
}
