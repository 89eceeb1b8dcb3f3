// SPDX-License-Identifier: Apache-2.0

//! Where output goes: a stream of stdio, or a buffer of the context.

use std::ffi::c_char;
use std::io;

use libc::FILE;

unsafe extern "C" {
    /// Standard output, as stdio has it.
    static stdout: *mut FILE;
    /// Standard error.
    static stderr: *mut FILE;
}

/// A stream of the caller, and a buffer while there is one.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Open: a caller that sets a stream keeps it open until there is another one, or no context.
    file: *mut FILE,
    buffer: Option<Buffer>,
}

#[derive(Debug, Default)]
struct Buffer {
    /// What was written since it was asked for last.
    written: Vec<u8>,
    /// What was given last, with a zero byte at its end: the caller reads it still.
    given: Vec<u8>,
}

impl Stream {
    pub(crate) fn stdout() -> Self {
        // SAFETY: stdio sets it before the program begins.
        Stream { file: unsafe { stdout }, buffer: None }
    }

    pub(crate) fn stderr() -> Self {
        // SAFETY: as above.
        Stream { file: unsafe { stderr }, buffer: None }
    }

    /// Sets the stream, and gives the one before; refuses none, and one with an error.
    ///
    /// # Safety
    /// `file` is null or an open stream, which stays open until there is another one.
    pub(crate) unsafe fn set(&mut self, file: *mut FILE) -> Option<*mut FILE> {
        // SAFETY: the caller vouches for it.
        if file.is_null() || unsafe { libc::ferror(file) } != 0 {
            return None;
        }
        Some(std::mem::replace(&mut self.file, file))
    }

    /// Writes into a buffer from now on, which is empty.
    pub(crate) fn buffer(&mut self) {
        self.buffer.get_or_insert_default().written.clear();
    }

    /// Writes to the stream again, and drops the buffer. Whether there was one.
    pub(crate) fn unbuffer(&mut self) -> bool {
        self.buffer.take().is_some()
    }

    /// What was written since this was asked for last. It lives until something more is given, or
    /// there is no buffer any more.
    pub(crate) fn take(&mut self) -> *const c_char {
        match &mut self.buffer {
            Some(buffer) if !buffer.written.is_empty() => {
                buffer.given = std::mem::take(&mut buffer.written);
                buffer.given.push(0);
                buffer.given.as_ptr().cast()
            }
            _ => c"".as_ptr(),
        }
    }

    pub(crate) fn write(&mut self, text: &str) -> io::Result<()> {
        if let Some(buffer) = &mut self.buffer {
            buffer.written.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        // SAFETY: the stream is open, and the text has that many bytes.
        let written = unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), self.file) };
        // SAFETY: the stream is open.
        if written < text.len() || unsafe { libc::fflush(self.file) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
