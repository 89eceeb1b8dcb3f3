// SPDX-License-Identifier: Apache-2.0

//! `penstock capture`: what passes a hook of the dataplane, or what rules log to a group, as
//! pcapng.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::control::client::{CaptureEvent, Client};
use penstock_daemon::control::{CaptureCall, Captured};
use penstock_daemon::errln;
use penstock_files::Access;
use penstock_io::PcapngWriter;

use crate::dataplane::connect;
use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

/// Families, as nft names them.
pub const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];
/// Hooks, as nft names them.
pub const HOOKS: [&str; 7] =
    ["ingress", "prerouting", "input", "forward", "output", "postrouting", "egress"];

const OPTIONS: &[Opt] = &[
    long(
        "hook",
        "the hook; default family: netdev for ingress and egress, inet for the others",
    )
    .takes("HOOK", Values::OneOf(&HOOKS)),
    long("family", "the family of the hook").takes("FAMILY", Values::OneOf(&FAMILIES)),
    long(
        "priority",
        "priority in the hook, as in a chain: `filter`, `raw - 5`, `100`; default: before all chains,\n\
         and so before the conntrack lookup",
    )
    .takes("PRIORITY", Values::Any),
    long("log-group", "instead of a hook: packets that rules log with `log group N`").takes("N", Values::Any),
    Opt {
        short: Some('i'),
        long: Some("interface"),
        argument: None,
        help: "only packets that arrive on this device or leave by it",
    }
    .takes("DEV", Values::Any),
    Opt {
        short: Some('w'),
        long: Some("write"),
        argument: None,
        help: "the file to write; default, and for `-`: standard output",
    }
    .takes("FILE", Values::Files),
    Opt { short: Some('c'), long: Some("count"), argument: None, help: "stop after this many frames" }
        .takes("COUNT", Values::Any),
    Opt {
        short: Some('s'),
        long: Some("snaplen"),
        argument: None,
        help: "keep this many bytes of each frame; default, and for 0: all",
    }
    .takes("BYTES", Values::Any),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock capture --hook HOOK [OPTIONS] [EXPRESSION]\n       penstock capture --log-group N [OPTIONS]\n\n\
         Writes packets to a pcapng file until SIGINT: those that pass a hook and match the expression, written like\n\
         the matches of a rule (`tcp dport 443 ct state new`), or those that rules log to a group. The packet path\n\
         does not wait: frames that are not written in time are lost, and counted in the file.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 24));
    out
}

#[derive(Debug, PartialEq)]
struct Options {
    call: CaptureCall,
    write: Option<PathBuf>,
    count: Option<u64>,
}

/// Before all chains.
const FIRST: &str = "-2147483648";

/// The capture of a hook: of the family that has it, and before all chains, unless they are given.
pub fn call_of(
    hook: String,
    family: Option<String>,
    priority: Option<String>,
    expression: String,
) -> CaptureCall {
    let at_device = matches!(&*hook, "ingress" | "egress");
    let family = family.unwrap_or_else(|| if at_device { "netdev" } else { "inet" }.into());
    let priority = priority.unwrap_or_else(|| FIRST.into());
    CaptureCall { family, hook, priority, device: None, snaplen: u32::MAX, group: None, expression }
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut hook, mut family, mut priority, mut device, mut group) =
        (None, None, None, None, None);
    let (mut write, mut count, mut snaplen) = (None, None, u32::MAX);
    let mut expression = Vec::new();
    let sentence = |e: lexopt::Error| e.to_string();
    let text = |parser: &mut lexopt::Parser| match parser.value() {
        Ok(value) => Ok(value.to_string_lossy().into_owned()),
        Err(e) => Err(e.to_string()),
    };
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Long("hook") => hook = Some(one_of(text(&mut parser)?, "hook", &HOOKS)?),
            Long("family") => family = Some(one_of(text(&mut parser)?, "family", &FAMILIES)?),
            Long("priority") => priority = Some(text(&mut parser)?),
            Long("log-group") => group = Some(number::<u16>(&text(&mut parser)?, "--log-group")?),
            Short('i') | Long("interface") => device = Some(text(&mut parser)?),
            Short('w') | Long("write") => write = Some(PathBuf::from(text(&mut parser)?)),
            Short('c') | Long("count") => {
                count = Some(number::<u64>(&text(&mut parser)?, "--count")?)
            }
            Short('s') | Long("snaplen") => {
                snaplen = match number::<u32>(&text(&mut parser)?, "--snaplen")? {
                    0 => u32::MAX,
                    bytes => bytes,
                }
            }
            Short('h') | Long("help") => return Ok(None),
            // Words of the expression, in one argument or several.
            Value(word) => expression.push(word.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().to_string()),
        }
    }
    match (&hook, group) {
        (None, None) => return Err("either --hook or --log-group is needed".into()),
        (Some(_), Some(_)) => return Err("either --hook or --log-group, not both".into()),
        (None, Some(_)) if family.is_some() || priority.is_some() || !expression.is_empty() => {
            return Err(
                "rules say what they log: --log-group has no family, priority or expression".into(),
            );
        }
        _ => {}
    }
    let hook = hook.unwrap_or_else(|| "forward".into());
    let call = CaptureCall {
        device,
        snaplen,
        group,
        ..call_of(hook, family, priority, expression.join(" "))
    };
    Ok(Some(Options { call, write, count }))
}

fn one_of(word: String, what: &str, all: &[&str]) -> Result<String, String> {
    if all.contains(&&*word) { Ok(word) } else { Err(format!("there is no {what} `{word}`")) }
}

fn number<T: std::str::FromStr>(text: &str, option: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} takes a number, not `{text}`"))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("capture", parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let to_stdout = options.write.as_ref().is_none_or(|path| path.as_os_str() == "-");
    if to_stdout && io::stdout().is_terminal() {
        errln!(
            "penstock capture: standard output is a terminal: name a file with -w, or use a pipe"
        );
        return ExitCode::from(2);
    }
    let mut client = match connect() {
        Ok(client) => client,
        Err(status) => return status,
    };
    match capture(&mut client, &options) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            errln!("Error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn capture(client: &mut Client, options: &Options) -> io::Result<u8> {
    end_at_signal(client)?;
    let named =
        |path: &PathBuf, e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let open = || -> io::Result<CaptureFile<Box<dyn Write>>> {
        let out: Box<dyn Write> = match &options.write {
            Some(path) if path.as_os_str() != "-" => {
                Box::new(penstock_files::create(path, Access::Owner).map_err(|e| named(path, e))?)
            }
            _ => Box::new(io::stdout()),
        };
        CaptureFile::new(out)
    };
    // A file that is there is not replaced before it is known that there is a capture.
    let mut opened = None;
    let status = client.capture(&options.call, &mut |seen| {
        let file = match &mut opened {
            Some(file) => file,
            None => opened.insert(open()?),
        };
        match seen {
            CaptureEvent::Lost(lost) => file.lost = lost,
            CaptureEvent::Frames(frames) => {
                for frame in frames {
                    if options.count.is_some_and(|count| file.frames >= count) {
                        break;
                    }
                    file.write(&frame)?;
                }
            }
        }
        // The reader of a pipe waits for it.
        file.writer.flush()?;
        Ok(options.count.is_none_or(|count| file.frames < count))
    })?;
    let Some(file) = opened else { return Ok(status) };
    let (frames, lost) = (file.frames, file.lost);
    file.finish(penstock_daemon::now())?;
    if status == 0 {
        errln!("{frames} frames captured, {lost} lost");
    }
    Ok(status)
}

/// At SIGINT or SIGTERM the connection is cut, so that the file gets its end.
fn end_at_signal(client: &Client) -> io::Result<()> {
    let connection = client.connection()?;
    // SAFETY: the set is initialised by sigemptyset(3) before it is used, and lives through the
    // calls.
    let set = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    std::thread::Builder::new().spawn(move || {
        let mut signal = 0;
        // SAFETY: both live through the call.
        unsafe { libc::sigwait(&set, &mut signal) };
        // It may be cut already.
        let _ = connection.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

/// The file, with an interface for each device and link type.
pub struct CaptureFile<W: Write> {
    writer: PcapngWriter<W>,
    interfaces: HashMap<(String, u16), (u32, u64)>,
    frames: u64,
    lost: u64,
}

impl<W: Write> CaptureFile<W> {
    /// Begins one.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(CaptureFile {
            writer: PcapngWriter::new(out)?,
            interfaces: HashMap::new(),
            frames: 0,
            lost: 0,
        })
    }

    /// Appends a frame.
    pub fn write(&mut self, frame: &Captured) -> io::Result<()> {
        let key = (frame.interface.clone(), frame.link_type);
        let (interface, frames) = match self.interfaces.get_mut(&key) {
            Some(known) => known,
            None => {
                let number = self.writer.interface(&frame.interface, frame.link_type)?;
                self.interfaces.entry(key).or_insert((number, 0))
            }
        };
        *frames += 1;
        self.frames += 1;
        self.writer.write_cut(*interface, frame.time, &frame.bytes, frame.len, frame.outgoing)
    }

    /// Says of each interface how many frames it had, and for the first how many are lost: their
    /// interfaces are unknown. `now` is in nanoseconds since the epoch.
    pub fn finish(mut self, now: u64) -> io::Result<()> {
        // Programs want an interface, even if nothing came by it.
        if self.interfaces.is_empty() {
            self.writer.interface("", 1)?;
            self.interfaces.insert((String::new(), 1), (0, 0));
        }
        let mut all: Vec<_> = self.interfaces.values().copied().collect();
        all.sort_unstable();
        for (interface, frames) in all {
            let lost = if interface == 0 { self.lost } else { 0 };
            self.writer.statistics(interface, now, frames + lost, lost)?;
        }
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(OsString::from))?.ok_or_else(|| "help".into())
    }

    #[test]
    fn words_after_the_hook_form_the_expression() {
        let options = options("--hook forward -i eth0 -c 3 tcp dport 443 ct state new").unwrap();
        let CaptureCall { family, hook, device, expression, .. } = &options.call;
        assert_eq!((&**family, &**hook, device.as_deref()), ("inet", "forward", Some("eth0")));
        assert_eq!((&**expression, options.count), ("tcp dport 443 ct state new", Some(3)));
    }

    #[test]
    fn a_hook_has_its_family() {
        for (line, family) in [
            ("--hook egress", "netdev"),
            ("--hook input", "inet"),
            ("--hook ingress --family inet", "inet"),
            ("--hook input --family arp", "arp"),
        ] {
            assert_eq!(options(line).unwrap().call.family, family, "{line}");
        }
    }

    #[test]
    fn wrong_calls_are_refused_with_a_message() {
        for (line, message) in [
            ("", "either --hook or --log-group is needed"),
            ("--hook nowhere", "there is no hook `nowhere`"),
            ("--hook input --log-group 1", "either --hook or --log-group, not both"),
            ("--log-group 70000", "--log-group takes a number, not `70000`"),
            (
                "--log-group 7 tcp",
                "rules say what they log: --log-group has no family, priority or expression",
            ),
        ] {
            assert_eq!(options(line), Err(message.to_owned()), "{line}");
        }
    }
}
