// SPDX-License-Identifier: Apache-2.0

//! A whole kernel in QEMU: boots it, and runs scenarios in it.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::agent::{Answer, Request, receive, send};
use crate::router::Unavailable;
use crate::scenario::{Outcome, Scenario};
use crate::sides::Kernel;

/// How long a guest has to boot, and for one request: a scenario may pause, and other programs may
/// leave little of the processor.
const PATIENCE: Duration = Duration::from_secs(300);

/// A guest, as long as it is held.
pub struct Guest {
    /// Held, not used: the guest ends with it.
    _qemu: Qemu,
    line: UnixStream,
    /// It has not answered in time: what it says next is of no use.
    lost: bool,
    /// Where its kernel is, and its number: to boot another one in its place.
    directory: PathBuf,
    number: usize,
    /// The version of its kernel.
    pub version: String,
}

/// Fetches the kernel of a suite of Debian into `directory`, if it is not there. The error is the
/// reason why it is not available.
pub fn prepare(directory: &Path, suite: &str) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/kernel");
    let made = Command::new(script)
        .arg(directory)
        .arg(suite)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    if made.status.success() { Ok(()) } else { Err(said) }
}

impl Guest {
    /// Boots the kernel in `directory`. `number` tells guests of one process apart.
    pub fn boot(directory: &Path, number: usize) -> io::Result<Guest> {
        let name = format!("penstock-oracle-{}-{number}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let agent = std::env::current_exe()?;
        let console = directory.join(format!("console-{number}.log"));
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-M", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", "768"])
            .args(["-display", "none", "-monitor", "none", "-no-reboot", "-net", "none"])
            .arg("-kernel")
            .arg(directory.join("vmlinuz"))
            .arg("-initrd")
            .arg(directory.join("initrd.gz"))
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off agent={}",
                agent.display()
            ))
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .args(["-fsdev", "local,id=h,path=/,security_model=none,readonly=on,multidevs=remap"])
            .args(["-device", "virtio-9p-pci,fsdev=h,mount_tag=host"])
            .args(["-device", "virtio-serial-pci", "-chardev"])
            .arg(format!("socket,id=line,path={},server=on,wait=off", socket.display()))
            .args(["-device", "virtserialport,chardev=line,name=oracle"])
            .stdin(Stdio::null());
        let qemu = Qemu(command.spawn()?);
        let connected = connect(&socket);
        let _ = std::fs::remove_file(&socket);
        let mut guest = Guest {
            _qemu: qemu,
            line: connected?,
            lost: false,
            directory: directory.into(),
            number,
            version: String::new(),
        };
        guest.line.set_read_timeout(Some(PATIENCE))?;
        match receive(&mut guest.line) {
            Ok(Answer::Booted(version)) => guest.version = version,
            Ok(_) => return Err(io::Error::other("the guest answers before it has booted")),
            Err(e) => {
                let console = std::fs::read_to_string(&console).unwrap_or_default();
                let last: Vec<_> = console.lines().rev().take(20).collect();
                let last: Vec<_> = last.into_iter().rev().collect();
                return Err(io::Error::other(format!("{e}; the console:\n{}", last.join("\n"))));
            }
        }
        Ok(guest)
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        if self.lost {
            return Err("the guest has not answered before".into());
        }
        let answer = send(&mut self.line, request).and_then(|()| receive(&mut self.line));
        self.lost |= answer.is_err();
        answer.map_err(|e| format!("the guest: {e}"))
    }
}

impl Kernel for Guest {
    fn set_up(&mut self, net: &str) -> Result<(), Unavailable> {
        if self.lost {
            *self = Guest::boot(&self.directory.clone(), self.number)?;
        }
        match self.ask(&Request::SetUp { net: net.into() }).map_err(Unavailable::Failed)? {
            Answer::Ready => Ok(()),
            Answer::Skip(reason) => Err(Unavailable::Skip(reason)),
            Answer::Refused(text) => Err(Unavailable::Failed(text)),
            _ => Err(Unavailable::Failed("the guest says something else".into())),
        }
    }

    fn run(&mut self, scenario: &Scenario, expected: Option<&Outcome>) -> Result<Outcome, String> {
        let request =
            Request::Run { scenario: Box::new(scenario.clone()), expected: expected.cloned() };
        match self.ask(&request)? {
            Answer::Outcome(outcome) => Ok(outcome),
            Answer::Refused(text) | Answer::Skip(text) => Err(text),
            _ => Err("the guest says something else".into()),
        }
    }
}

/// The process, which ends with this.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects to the line of a guest that has just been started.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match UnixStream::connect(socket) {
            Ok(line) => return Ok(line),
            Err(e) if Instant::now() > deadline => return Err(e),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Where the kernel of a suite is kept.
pub fn directory(suite: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("oracle").join(suite)
}
