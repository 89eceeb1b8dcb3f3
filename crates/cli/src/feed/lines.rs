// SPDX-License-Identifier: Apache-2.0

//! What a feed of routes hears: lines on standard input, their end, signals, and news of tables.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::dataplane;

/// Something that is heard.
pub enum Input {
    /// A line, without its end.
    Line(String),
    /// A line that is longer than lines may be, or no text.
    Malformed,
    /// The end of standard input.
    End,
    /// SIGTERM or SIGINT.
    Signal,
    /// Tables of the dataplane have come or gone.
    Tables,
}

/// Bytes of the longest line.
const LONGEST: u64 = 4 << 20;
/// Bytes of lines that wait at most; then reading stops.
const WAITING: usize = 64 << 20;

/// All that is heard, in its order.
pub struct Inputs {
    from: Receiver<Input>,
    waiting: Arc<AtomicUsize>,
}

impl Inputs {
    /// Begins to hear.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start() -> io::Result<Inputs> {
        let (to, from) = channel();
        // Before other threads begin, which block the signals as this one does.
        wait_for_signals(to.clone())?;
        let waiting = Arc::new(AtomicUsize::new(0));
        dataplane::watch("tables", to.clone(), || Input::Tables);
        let bytes = waiting.clone();
        std::thread::Builder::new().spawn(move || read_lines(&to, &bytes))?;
        Ok(Inputs { from, waiting })
    }

    /// The next one, if it comes in that time.
    ///
    /// # Errors
    /// None comes.
    pub fn next(&self, time: Duration) -> Result<Input, RecvTimeoutError> {
        let input = self.from.recv_timeout(time)?;
        if let Input::Line(line) = &input {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        }
        Ok(input)
    }
}

fn read_lines(to: &Sender<Input>, waiting: &AtomicUsize) {
    let mut stdin = io::stdin().lock();
    loop {
        while waiting.load(Ordering::Relaxed) > WAITING {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut line = Vec::new();
        let read = (&mut stdin).take(LONGEST).read_until(b'\n', &mut line);
        if !read.is_ok_and(|bytes| bytes > 0) {
            let _ = to.send(Input::End);
            return;
        }
        let input = if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
            skip_line(&mut stdin);
            Input::Malformed
        } else {
            while line.last().is_some_and(u8::is_ascii_whitespace) {
                line.pop();
            }
            String::from_utf8(line).map_or(Input::Malformed, Input::Line)
        };
        if let Input::Line(line) = &input {
            waiting.fetch_add(line.len(), Ordering::Relaxed);
        }
        if to.send(input).is_err() {
            return;
        }
    }
}

/// Reads on to the end of a line.
fn skip_line(from: &mut impl BufRead) {
    loop {
        let Ok(bytes) = from.fill_buf() else { return };
        let end = bytes.iter().position(|b| *b == b'\n');
        let (length, is_over) = (bytes.len(), end.is_some() || bytes.is_empty());
        from.consume(end.map_or(length, |end| end + 1));
        if is_over {
            return;
        }
    }
}

fn wait_for_signals(to: Sender<Input>) -> io::Result<()> {
    // SAFETY: the set is initialised by sigemptyset(3) before it is used, and lives through the
    // calls.
    let set = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    };
    std::thread::Builder::new().spawn(move || {
        loop {
            let mut signal = 0;
            // SAFETY: both live through the call.
            let status = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
            if status != 0 || to.send(Input::Signal).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
