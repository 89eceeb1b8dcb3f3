// SPDX-License-Identifier: Apache-2.0

//! Where lines go that rules log: standard error, a file that is rotated by its size, the journal,
//! or the system's logger.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use penstock_files::Access;

use crate::config::RuleLog;

/// Where journald listens (systemd's native journal protocol).
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Where the system's logger listens (syslog(3)).
const SYSLOG: &str = "/dev/log";
/// `LOG_DAEMON`, with room for the level.
const FACILITY: u32 = 3 << 3;
/// The level of a line that says none, `LOG_WARNING`.
const LEVEL: u32 = 4;

/// An open target.
pub(crate) enum Target {
    /// Standard error.
    Stderr,
    /// A file.
    File(Rotated),
    /// The journal.
    Journal(Logger),
    /// The system's logger.
    Syslog(Logger),
}

impl Target {
    /// Opens it.
    ///
    /// # Errors
    /// Those of opening the file, or of connecting to the socket.
    pub(crate) fn open(wanted: &RuleLog) -> io::Result<Target> {
        match wanted {
            RuleLog::Stderr => Ok(Target::Stderr),
            RuleLog::Journal => Logger::connect(Path::new(JOURNAL)).map(Target::Journal),
            RuleLog::Syslog => Logger::connect(Path::new(SYSLOG)).map(Target::Syslog),
            RuleLog::File { path, size, files } => {
                Rotated::open(path, *size, *files).map(Target::File)
            }
        }
    }

    /// Writes a line, with its end.
    pub(crate) fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            Target::Stderr => io::stderr().write_all(line.as_bytes()),
            Target::File(file) => file.write(line),
            Target::Journal(logger) => logger.send(&journal_entry(line)),
            Target::Syslog(logger) => logger.send(syslog_entry(line).as_bytes()),
        }
    }

    /// Opens the file again: another program may have renamed it.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.reopen(),
            Target::Stderr | Target::Journal(_) | Target::Syslog(_) => Ok(()),
        }
    }
}

/// The level and the text of a line such as `<4>[   12.345678] text`.
fn parts(line: &str) -> (u32, &str) {
    let line = line.trim_end_matches('\n');
    let level = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let Some((Ok(level), rest)) = level.map(|(level, rest)| (level.parse(), rest)) else {
        return (LEVEL, line);
    };
    let text = rest.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    (level, text.map_or(rest, |(_, text)| text))
}

fn journal_entry(line: &str) -> Vec<u8> {
    let (level, text) = parts(line);
    let facility = FACILITY >> 3;
    let mut entry =
        format!("PRIORITY={level}\nSYSLOG_IDENTIFIER=penstock-rules\nSYSLOG_FACILITY={facility}\n")
            .into_bytes();
    match text.contains('\n') {
        false => entry.extend(format!("MESSAGE={text}\n").bytes()),
        // What follows would be fields of its own.
        true => {
            entry.extend(b"MESSAGE\n");
            entry.extend((text.len() as u64).to_le_bytes());
            entry.extend(text.bytes());
            entry.push(b'\n');
        }
    }
    entry
}

fn syslog_entry(line: &str) -> String {
    let (level, text) = parts(line);
    format!("<{}>penstock-rules: {text}", FACILITY | (level & 7))
}

/// A socket of datagrams to a logger, which is connected to again after it was started anew.
pub(crate) struct Logger {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Logger {
    fn connect(path: &Path) -> io::Result<Logger> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Logger { path: path.to_owned(), socket })
    }

    fn send(&mut self, entry: &[u8]) -> io::Result<()> {
        if self.socket.send(entry).is_err() {
            self.socket.connect(&self.path)?;
            self.socket.send(entry)?;
        }
        Ok(())
    }
}

/// A file that is rotated by its size.
pub(crate) struct Rotated {
    path: PathBuf,
    file: File,
    len: u64,
    size: u64,
    files: usize,
}

impl Rotated {
    fn open(path: &Path, size: u64, files: usize) -> io::Result<Rotated> {
        let file = penstock_files::append(path, Access::Owner)?;
        let len = file.metadata()?.len();
        Ok(Rotated { path: path.to_owned(), file, len, size, files })
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self = Rotated::open(&self.path, self.size, self.files)?;
        Ok(())
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.size > 0 && self.len > 0 && self.len + line.len() as u64 > self.size {
            self.rotate()?;
        }
        self.file.write_all(line.as_bytes())?;
        self.len += line.len() as u64;
        Ok(())
    }

    /// `FILE` becomes `FILE.1`, that `FILE.2`, and the last one goes.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.files).rev() {
            match penstock_files::rename_end(
                &self.path,
                &format!(".{number}"),
                &format!(".{}", number + 1),
            ) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        match penstock_files::set_aside(&self.path, ".1") {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        self.reopen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_rotated_by_its_size() {
        let directory = std::env::temp_dir().join(format!("rotated-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("log");
        let wanted = RuleLog::File { path: path.clone(), size: 20, files: 2 };
        let mut target = Target::open(&wanted).expect("a file");
        for number in 0..9 {
            target.write(&format!("line {number}\n")).expect("written");
        }
        let text = |end: &str| std::fs::read_to_string(directory.join(format!("log{end}")));
        assert_eq!(text("").ok().as_deref(), Some("line 8\n"));
        assert_eq!(text(".1").ok().as_deref(), Some("line 6\nline 7\n"));
        assert_eq!(text(".2").ok().as_deref(), Some("line 4\nline 5\n"));
        assert!(text(".3").is_err());
        // What is there stays, and another program's rotation is followed.
        let mut target = Target::open(&wanted).expect("a file");
        target.write("more\n").expect("written");
        std::fs::rename(&path, directory.join("other")).expect("renamed");
        target.reopen().expect("opened");
        target.write("new\n").expect("written");
        assert_eq!(std::fs::read_to_string(directory.join("other")).unwrap(), "line 8\nmore\n");
        assert_eq!(text("").ok().as_deref(), Some("new\n"));
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn loggers_get_the_level_and_the_text() {
        let line = "<6>[   12.345678] in IN=eth0 OUT=\n";
        assert_eq!(parts(line), (6, "in IN=eth0 OUT="));
        assert_eq!(parts("lost\n"), (4, "lost"));
        assert_eq!(syslog_entry(line), "<30>penstock-rules: in IN=eth0 OUT=");
        let entry = journal_entry(line);
        assert!(
            entry.starts_with(b"PRIORITY=6\n") && entry.ends_with(b"\nMESSAGE=in IN=eth0 OUT=\n")
        );
        let entry = journal_entry("<6>[   1.0] a\nb\n");
        assert!(entry.ends_with(b"\nMESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n"));
        let directory = std::env::temp_dir().join(format!("logger-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("socket");
        let listen = || UnixDatagram::bind(&path).expect("a socket");
        let first = listen();
        let mut logger = Logger::connect(&path).expect("connected");
        let receive = |socket: &UnixDatagram| {
            let mut bytes = [0; 100];
            let len = socket.recv(&mut bytes).expect("received");
            String::from_utf8_lossy(&bytes[..len]).into_owned()
        };
        logger.send(b"one").expect("sent");
        assert_eq!(receive(&first), "one");
        drop(first);
        std::fs::remove_file(&path).expect("removed");
        assert!(logger.send(b"lost").is_err());
        let second = listen();
        logger.send(b"two").expect("sent");
        assert_eq!(receive(&second), "two");
        std::fs::remove_dir_all(directory).expect("removed");
    }
}
