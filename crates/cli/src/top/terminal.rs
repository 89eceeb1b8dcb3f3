// SPDX-License-Identifier: Apache-2.0

//! The terminal: keys as they are typed, and a screen that is redrawn.

use penstock_daemon::out;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A terminal in full-screen mode; as it was before when it is dropped.
pub struct Terminal {
    before: libc::termios,
}

impl Terminal {
    /// Takes the terminal of standard input and output.
    pub fn new() -> io::Result<Terminal> {
        let fd = io::stdin().as_raw_fd();
        let mut before = MaybeUninit::uninit();
        // SAFETY: room for the settings, which the call fills if it succeeds.
        if unsafe { libc::tcgetattr(fd, before.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: filled by the call above.
        let before = unsafe { before.assume_init() };
        let mut raw = before;
        // SAFETY: the settings live through the calls.
        unsafe {
            libc::cfmakeraw(&mut raw);
            if libc::tcsetattr(fd, libc::TCSANOW, &raw) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // The other screen, without cursor.
        out!("\x1b[?1049h\x1b[?25l");
        io::stdout().flush()?;
        Ok(Terminal { before })
    }

    /// Lines and columns.
    pub fn size(&self) -> (usize, usize) {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: room for the size, which lives through the call.
        unsafe { libc::ioctl(io::stdout().as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
        match (size.ws_row, size.ws_col) {
            (0, _) | (_, 0) => (24, 80),
            (rows, columns) => (rows.into(), columns.into()),
        }
    }

    /// Shows lines in place of what is there.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        let (rows, columns) = self.size();
        let mut out = String::from("\x1b[H");
        for (i, line) in lines.iter().take(rows).enumerate() {
            if i > 0 {
                out.push_str("\r\n");
            }
            out.extend(line.chars().take(columns));
            out.push_str("\x1b[K");
        }
        out.push_str("\x1b[J");
        let mut stdout = io::stdout().lock();
        stdout.write_all(out.as_bytes())?;
        stdout.flush()
    }

    /// The next key that is typed within that time; 0 if the input has ended.
    pub fn key(&self, time: Duration) -> io::Result<Option<u8>> {
        let mut poll =
            libc::pollfd { fd: io::stdin().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        let ready = unsafe { libc::poll(&mut poll, 1, time.as_millis() as libc::c_int + 1) };
        if ready <= 0 {
            return Ok(None);
        }
        let mut key = 0u8;
        // Without the buffer of `Stdin`: what it holds, poll(2) does not see.
        // SAFETY: room for one byte, which lives through the call.
        match unsafe { libc::read(poll.fd, (&raw mut key).cast(), 1) } {
            ..0 => Err(io::Error::last_os_error()),
            // At the end of the input it stays zero.
            _ => Ok(Some(key)),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        out!("\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        // SAFETY: the settings that the terminal had.
        unsafe { libc::tcsetattr(io::stdin().as_raw_fd(), libc::TCSANOW, &self.before) };
    }
}
