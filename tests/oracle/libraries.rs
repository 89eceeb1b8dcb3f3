// SPDX-License-Identifier: Apache-2.0

//! The libraries of nft(8) and conntrack(8), called in this process: to start a program takes most
//! of the time of a scenario where each instruction is emulated.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;

use crate::tools::Tools;

/// A library that is loaded for good.
struct Library(*mut c_void);

impl Library {
    fn open(name: &CStr) -> io::Result<Library> {
        // SAFETY: the name is a C string; both libraries are made to be loaded by any program.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(io::Error::other(format!("{} is not there", name.to_string_lossy())));
        }
        Ok(Library(handle))
    }

    /// The function of a name.
    ///
    /// # Safety
    ///
    /// `F` is a function pointer with the arguments and the result that the function has.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> io::Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is of a loaded library, and the name a C string.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if symbol.is_null() {
            return Err(io::Error::other(format!("no function {}", name.to_string_lossy())));
        }
        // SAFETY: both are pointers of the same size; the caller vouches for the type.
        Ok(unsafe { std::mem::transmute_copy(&symbol) })
    }
}

/// `struct nft_ctx`, `struct nfct_handle` or `struct nf_conntrack`: only the libraries look inside.
type Opaque = *mut c_void;

/// What is called of libnftables(3).
struct Nftables {
    new: unsafe extern "C" fn(u32) -> Opaque,
    free: unsafe extern "C" fn(Opaque),
    buffer_output: unsafe extern "C" fn(Opaque) -> c_int,
    buffer_error: unsafe extern "C" fn(Opaque) -> c_int,
    output: unsafe extern "C" fn(Opaque) -> *const c_char,
    error: unsafe extern "C" fn(Opaque) -> *const c_char,
    run: unsafe extern "C" fn(Opaque, *const c_char) -> c_int,
}

type Callback = unsafe extern "C" fn(c_uint, Opaque, *mut c_void) -> c_int;

/// What is called of libnetfilter_conntrack.
struct Conntrack {
    open: unsafe extern "C" fn(u8, c_uint) -> Opaque,
    close: unsafe extern "C" fn(Opaque) -> c_int,
    register: unsafe extern "C" fn(Opaque, c_uint, Callback, *mut c_void) -> c_int,
    query: unsafe extern "C" fn(Opaque, c_uint, *const c_void) -> c_int,
    print: Print,
    /// A connection, and an expectation: made, filled from a message, printed, freed.
    connection: Kept,
    expectation: Kept,
}

/// Functions for one kind of object.
struct Kept {
    new: unsafe extern "C" fn() -> Opaque,
    free: unsafe extern "C" fn(Opaque),
    parse: unsafe extern "C" fn(*const c_void, Opaque) -> c_int,
    print: Print,
}

type Print = unsafe extern "C" fn(*mut c_char, c_uint, Opaque, c_uint, c_uint, c_uint) -> c_int;

/// Both.
pub struct Libraries {
    nftables: Nftables,
    conntrack: Conntrack,
}

impl Libraries {
    /// Loads them.
    pub fn load() -> io::Result<Libraries> {
        let nft = Library::open(c"libnftables.so.1")?;
        let nfct = Library::open(c"libnetfilter_conntrack.so.3")?;
        // SAFETY: the types are those of `nftables/libnftables.h` and of
        // `libnetfilter_conntrack/libnetfilter_conntrack.h`; enumerations are unsigned int.
        unsafe {
            Ok(Libraries {
                nftables: Nftables {
                    new: nft.function(c"nft_ctx_new")?,
                    free: nft.function(c"nft_ctx_free")?,
                    buffer_output: nft.function(c"nft_ctx_buffer_output")?,
                    buffer_error: nft.function(c"nft_ctx_buffer_error")?,
                    output: nft.function(c"nft_ctx_get_output_buffer")?,
                    error: nft.function(c"nft_ctx_get_error_buffer")?,
                    run: nft.function(c"nft_run_cmd_from_buffer")?,
                },
                conntrack: Conntrack {
                    open: nfct.function(c"nfct_open")?,
                    close: nfct.function(c"nfct_close")?,
                    register: nfct.function(c"nfct_callback_register")?,
                    query: nfct.function(c"nfct_query")?,
                    print: nfct.function(c"nfct_snprintf")?,
                    connection: Kept {
                        new: nfct.function(c"nfct_new")?,
                        free: nfct.function(c"nfct_destroy")?,
                        parse: nfct.function(c"nfct_nlmsg_parse")?,
                        print: nfct.function(c"nfct_snprintf")?,
                    },
                    expectation: Kept {
                        new: nfct.function(c"nfexp_new")?,
                        free: nfct.function(c"nfexp_destroy")?,
                        parse: nfct.function(c"nfexp_nlmsg_parse")?,
                        print: nfct.function(c"nfexp_snprintf")?,
                    },
                },
            })
        }
    }
}

impl Tools for Libraries {
    /// Each time with a context of its own, as nft(8) does it.
    fn nft(&self, commands: &str) -> Result<String, String> {
        let text = CString::new(commands).map_err(|e| e.to_string())?;
        let nft = &self.nftables;
        // SAFETY: the context is live from its creation to its end, its buffers until then, and the
        // commands are a C string.
        unsafe {
            let context = (nft.new)(0);
            if context.is_null() {
                return Err("libnftables: no context".into());
            }
            (nft.buffer_output)(context);
            (nft.buffer_error)(context);
            let failed = (nft.run)(context, text.as_ptr()) != 0;
            let said = if failed { (nft.error)(context) } else { (nft.output)(context) };
            let said = if said.is_null() { c"" } else { CStr::from_ptr(said) };
            let said = said.to_string_lossy().into_owned();
            (nft.free)(context);
            if failed { Err(format!("nft: {said}")) } else { Ok(said) }
        }
    }

    fn connections(&self) -> Option<Vec<String>> {
        const CONNTRACK: u8 = 1;
        const NFCT_T_ALL: c_uint = 7;
        const NFCT_Q_DUMP: c_uint = 5;
        let nfct = &self.conntrack;
        let mut listing = Listing { print: nfct.print, lines: vec![] };
        // SAFETY: the handle is live from its creation to its end, and so are the listing and the
        // families, which are of the type that this query takes.
        unsafe {
            let handle = (nfct.open)(CONNTRACK, 0);
            if handle.is_null() {
                return None;
            }
            (nfct.register)(handle, NFCT_T_ALL, print, (&raw mut listing).cast());
            let mut failed = false;
            for family in [libc::AF_INET as u32, libc::AF_INET6 as u32] {
                failed |= (nfct.query)(handle, NFCT_Q_DUMP, (&raw const family).cast()) < 0;
            }
            (nfct.close)(handle);
            if failed { None } else { Some(listing.lines) }
        }
    }

    fn event(&self, message: &[u8]) -> Option<String> {
        const DELETE: u8 = 2;
        const EXPECTATIONS: u8 = 2;
        const NEW: c_uint = 1;
        const UPDATE: c_uint = 2;
        const DESTROY: c_uint = 4;
        let (&kind, &subsystem) = (message.get(4)?, message.get(5)?);
        let flags = u16::from_ne_bytes([*message.get(6)?, *message.get(7)?]);
        let kind = match kind {
            DELETE => DESTROY,
            _ if flags & libc::NLM_F_CREATE as u16 != 0 => NEW,
            _ => UPDATE,
        };
        let nfct = &self.conntrack;
        let kept = if subsystem == EXPECTATIONS { &nfct.expectation } else { &nfct.connection };
        let mut line = [0u8; 1024];
        // SAFETY: the object is live from its creation to its end; the message is a whole one with
        // its header; the buffer has the length given, and ends with a zero since its last byte is
        // not given.
        unsafe {
            let object = (kept.new)();
            if object.is_null() {
                return None;
            }
            let parsed = (kept.parse)(message.as_ptr().cast(), object) >= 0;
            let room = line.len() as c_uint - 1;
            let at = line.as_mut_ptr().cast();
            if parsed {
                (kept.print)(at, room, object, kind, 0, 0);
            }
            (kept.free)(object);
            parsed.then(|| CStr::from_ptr(at).to_string_lossy().trim_end().to_owned())
        }
    }
}

/// What a dump of connections fills.
struct Listing {
    print: Print,
    lines: Vec<String>,
}

/// Adds the line of a connection, as `conntrack -L` has it.
unsafe extern "C" fn print(_kind: c_uint, connection: Opaque, listing: *mut c_void) -> c_int {
    const NFCT_T_UNKNOWN: c_uint = 0;
    const NFCT_O_DEFAULT: c_uint = 0;
    const NFCT_CB_CONTINUE: c_int = 1;
    let mut line = [0u8; 1024];
    // SAFETY: the library calls this during a dump with what was registered for it, a live listing;
    // the buffer has the length given, and ends with a zero since its last byte is not given.
    unsafe {
        let listing = &mut *listing.cast::<Listing>();
        let room = line.len() as c_uint - 1;
        let at = line.as_mut_ptr().cast();
        (listing.print)(at, room, connection, NFCT_T_UNKNOWN, NFCT_O_DEFAULT, 0);
        listing.lines.push(CStr::from_ptr(at).to_string_lossy().into_owned());
    }
    NFCT_CB_CONTINUE
}
