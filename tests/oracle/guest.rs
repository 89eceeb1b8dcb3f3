// SPDX-License-Identifier: Apache-2.0

//! A whole kernel in QEMU: boots it, and runs scenarios in it, several at once.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::{Answer, Request, receive, send};
use crate::router::Unavailable;
use crate::scenario::{Outcome, Scenario};
use crate::sides::Kernel;

/// How long a guest has to boot, and for one request: a scenario may pause, and other programs may
/// leave little of the processor.
const PATIENCE: Duration = Duration::from_secs(300);

/// A lane of a guest: it runs scenarios one after the other, while other lanes run theirs. The guest
/// ends with its last lane.
pub struct Lane {
    guest: Arc<Qemu>,
    line: UnixStream,
    /// It has not answered in time: what it says next is of no use.
    lost: bool,
    /// Where the kernel is, and the number of the guest: to boot another one in its place.
    directory: PathBuf,
    number: usize,
}

/// Fetches the kernel of a suite of Debian into `directory`, if it is not there. The error is the
/// reason why it is not available, or not after so many seconds.
pub fn prepare(directory: &Path, suite: &str, seconds: u32) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/kernel");
    let made = Command::new(script)
        .arg(directory)
        .arg(suite)
        .arg(seconds.to_string())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    if made.status.success() { Ok(()) } else { Err(said) }
}

/// The version of the kernel in `directory`.
pub fn kernel(directory: &Path) -> String {
    let version = std::fs::read_to_string(directory.join("version")).unwrap_or_default();
    version.trim().to_owned()
}

/// Boots the kernel in `directory` with so many lanes. `number` tells guests of one process apart.
pub fn boot(directory: &Path, number: usize, lanes: usize) -> io::Result<Vec<Lane>> {
    let console = directory.join(format!("console-{number}.log"));
    let name = format!("penstock-oracle-{}-{number}", std::process::id());
    let sockets: Vec<PathBuf> =
        (0..lanes).map(|lane| std::env::temp_dir().join(format!("{name}-{lane}"))).collect();
    let process = command(directory, &console, &sockets)?.spawn()?;
    let mut guest = Qemu { process, version: String::new() };
    let lines: io::Result<Vec<UnixStream>> = sockets.iter().map(|s| connect(s)).collect();
    for socket in &sockets {
        let _ = std::fs::remove_file(socket);
    }
    let mut lines = lines?;
    for line in &mut lines {
        line.set_read_timeout(Some(PATIENCE))?;
        match receive(line) {
            Ok(Answer::Booted(version)) => guest.version = version,
            Ok(_) => return Err(io::Error::other("the guest answers before it has booted")),
            Err(e) => {
                let console = std::fs::read_to_string(&console).unwrap_or_default();
                let last: Vec<_> = console.lines().rev().take(20).collect();
                let last: Vec<_> = last.into_iter().rev().collect();
                return Err(io::Error::other(format!("{e}; the console:\n{}", last.join("\n"))));
            }
        }
    }
    let guest = Arc::new(guest);
    let lane = |line| Lane {
        guest: guest.clone(),
        line,
        lost: false,
        directory: directory.into(),
        number,
    };
    Ok(lines.into_iter().map(lane).collect())
}

/// How QEMU is started: without KVM, and with a line for each of these sockets. There is one
/// processor, since with two the kernel, which changes its own code, at times panics in QEMU 7.2.
fn command(directory: &Path, console: &Path, sockets: &[PathBuf]) -> io::Result<Command> {
    let agent = std::env::current_exe()?;
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-M", "q35", "-accel", "tcg,tb-size=512", "-cpu", "max,la57=off"])
        .args(["-smp", "1", "-m", "1024"])
        .args(["-display", "none", "-monitor", "none", "-no-reboot", "-net", "none"])
        .arg("-kernel")
        .arg(directory.join("vmlinuz"))
        .arg("-initrd")
        .arg(directory.join("initrd.gz"))
        .arg("-append")
        .arg(format!("{PARAMETERS} agent={}", agent.display()))
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .args(["-fsdev", "local,id=h,path=/,security_model=none,readonly=on,multidevs=remap"])
        .args(["-device", "virtio-9p-pci,fsdev=h,mount_tag=host", "-device", "virtio-serial-pci"])
        .stdin(Stdio::null());
    for (lane, socket) in sockets.iter().enumerate() {
        command
            .arg("-chardev")
            .arg(format!("socket,id=line{lane},path={},server=on,wait=off", socket.display()))
            .arg("-device")
            .arg(format!("virtserialport,chardev=line{lane},name=oracle{lane}"));
    }
    Ok(command)
}

/// Parameters of the guest's kernel. Each emulated instruction is dear: pages are not cleared
/// twice, protections against others' code are off, and programs are at the same addresses each
/// time, so that what was translated of them is used again. Ciphers are not tested, nor whether the
/// timer works, which fails if other programs leave no processor time. Grace periods of RCU end at
/// once instead of some ticks later.
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off \
                          init_on_alloc=0 norandmaps nokaslr audit=0 lsm=capability \
                          hardened_usercopy=off randomize_kstack_offset=off nowatchdog \
                          rcupdate.rcu_expedited=1 cryptomgr.notests no_timer_check";

impl Lane {
    /// The version of its kernel.
    pub fn version(&self) -> &str {
        &self.guest.version
    }

    /// Says how much processor time the guest has taken so far, all its lanes together.
    pub fn clock(&self) -> impl Fn() -> Duration + use<> {
        let guest = Arc::clone(&self.guest);
        move || guest.processor_time().unwrap_or_default()
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

impl Kernel for Lane {
    fn set_up(&mut self, net: &str) -> Result<(), Unavailable> {
        if self.lost {
            let mut lanes = boot(&self.directory, self.number, 1)?;
            *self = lanes.remove(0);
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
            Answer::Outcome(outcome) => Ok(*outcome),
            Answer::Refused(text) | Answer::Skip(text) => Err(text),
            _ => Err("the guest says something else".into()),
        }
    }
}

/// The process, which ends with this.
struct Qemu {
    process: Child,
    /// The version of the kernel in it.
    version: String,
}

impl Qemu {
    fn processor_time(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // After the name, which is in brackets: the 12th and 13th field, in ticks (proc(5)).
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
        // SAFETY: sysconf takes no pointer.
        let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        Ok(Duration::from_millis(ticks * 1000 / a_second))
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
