//! Forwarding by `penstock up` on the devices of a lab, against the kernel's own: small frames of established flows.
//!
//! Everything runs on one processor, and all of it is counted: making the frames, the kernel's part, and our process. The
//! figure is what a second of a processor forwards, whoever spends it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use super::generator::{Frames, Generator};
use super::lab::{Bounds, Lab};
use super::{FLOWS, Result, STATEFUL};
use crate::Variant;

/// Packets of a call, and as many as are on their way at a time: less than the rings of sockets hold.
const PACKETS: u64 = 8192;
const ON_THEIR_WAY: u64 = 1024;

/// Pauses until what is on its way has arrived; what others do with the processor meanwhile does not count.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSES: u32 = 2000;

/// Established flows leave the rules.
const FLOWTABLE: &str = "table ip t {
    flowtable f { hook early_ingress priority 0; devices = { w0, w1 }; }
    chain c { type filter hook forward priority 0; ct state established flow add @f
      ct state established,related accept; }; }\n";

/// All variants. What it makes is gone when they are.
///
/// # Errors
/// A sentence that says which rights or tools are missing.
pub(crate) fn variants() -> Result<Vec<Variant>> {
    const KERNEL: &str = "kernel-ct-10k";
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    if program.file_name().is_none_or(|name| name != "penstock") {
        return Err(format!("{} is not penstock, and cannot be run as `penstock up`", program.display()));
    }
    let bounds = Rc::new(Bounds::new()?);
    let mut all = Vec::new();
    let mut variant = |name: &str, driver: Option<&str>, rules: &str| -> Result<()> {
        let lab = Lab::new(&bounds)?;
        let path = match driver {
            Some(driver) => Some(Up::start(&lab, driver, rules)?),
            None => {
                lab.nft(rules)?;
                None
            }
        };
        let mut stream = Stream::new(lab)?;
        stream.establish().map_err(|what| format!("{name}: {what}"))?;
        let process = path.as_ref().map(Up::process);
        let deferred = bounds.clone();
        let made = Variant::new(name, PACKETS, move || {
            // Ends before its namespace.
            let _ = &path;
            stream.send(PACKETS);
        })
        .with_others(move || deferred.deferred() + process.map_or(Duration::ZERO, time_of));
        all.push(if name == KERNEL { made } else { made.against(KERNEL) });
        Ok(())
    };
    variant(KERNEL, None, STATEFUL)?;
    for driver in ["xdp", "packet"] {
        variant(&format!("{driver}-ct-10k"), Some(driver), STATEFUL)?;
        variant(&format!("{driver}-flowtable-10k"), Some(driver), FLOWTABLE)?;
    }
    Ok(all)
}

/// Frames into a lab, as many at a time as it can take.
struct Stream {
    // Before the namespace.
    there: Generator,
    back: Generator,
    lab: Lab,
}

impl Stream {
    fn new(lab: Lab) -> Result<Self> {
        let there = Generator::new(&lab, "a0", FLOWS, Frames::Change, false)?;
        let back = Generator::new(&lab, "b0", FLOWS, Frames::Change, true)?;
        Ok(Stream { there, back, lab })
    }

    /// Sends so many. What does not arrive makes the figure worse.
    fn send(&mut self, packets: u64) {
        let mut left = packets;
        while left > 0 {
            let some = left.min(ON_THEIR_WAY);
            let _ = arrive(&mut self.there, &self.lab, "b0", some);
            left -= some;
        }
    }

    /// A packet of each flow in both directions, and the first one again: then they are established.
    fn establish(&mut self) -> Result<()> {
        for _ in 0..2 {
            for (generator, end) in [(&mut self.there, "b0"), (&mut self.back, "a0")] {
                let mut left = u64::from(FLOWS);
                while left > 0 {
                    let some = left.min(ON_THEIR_WAY);
                    arrive(generator, &self.lab, end, some)?;
                    left -= some;
                }
            }
        }
        Ok(())
    }
}

/// Sends frames until so many have arrived.
fn arrive(generator: &mut Generator, lab: &Lab, end: &str, packets: u64) -> Result<()> {
    const TRIES: u32 = 10;
    let wanted = lab.arrived(end)? + packets;
    let mut missing = packets;
    for _ in 0..TRIES {
        generator.send(missing as u32)?;
        let mut before = 0;
        for _ in 0..PAUSES {
            let now = lab.arrived(end)?;
            missing = wanted.saturating_sub(now);
            if missing == 0 {
                return Ok(());
            }
            if now == before {
                thread::sleep(PAUSE);
            } else {
                thread::yield_now();
            }
            before = now;
        }
    }
    Err(format!("{missing} frames do not arrive at {end}"))
}

/// A dataplane that runs.
struct Up {
    child: Child,
}

impl Up {
    fn start(lab: &Lab, driver: &str, rules: &str) -> Result<Self> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let file = std::env::temp_dir().join(format!("{}.nft", lab.name()));
        fs::write(&file, rules).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", lab.name()]).arg(&program).args(["up", "r0=w0", "r1=w1"]);
        command.args(["--driver", driver, "--rules"]).arg(&file);
        // SAFETY: between fork and exec only this call is made, which takes numbers.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        // What it logs is of interest only if it ends.
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut up = Up { child: child.map_err(|e| format!("{}: {e}", program.display()))? };
        let started = up.wait(lab);
        let _ = fs::remove_file(file);
        started.map(|()| up)
    }

    /// Waits until it answers.
    fn wait(&mut self, lab: &Lab) -> Result<()> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut show = Command::new("ip");
        show.args(["netns", "exec", lab.name()]).arg(program).arg("show");
        show.stdout(Stdio::null()).stderr(Stdio::null());
        for _ in 0..200 {
            if show.status().is_ok_and(|status| status.success()) {
                // Machine code is made in the background.
                thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let mut said = String::new();
        let _ = self.child.kill();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = std::io::Read::read_to_string(stderr, &mut said);
        }
        Err(format!("penstock up: {}", said.trim()))
    }

    fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // SAFETY: a process that was started here and has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// Time that a process has spent on processors, with threads that have ended.
fn time_of(process: u32) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls fill in what they are given, which lives through them; a process that is gone has no clock.
    let known = unsafe {
        libc::clock_getcpuclockid(process as i32, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    if known { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
}
