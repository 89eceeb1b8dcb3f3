// SPDX-License-Identifier: Apache-2.0

//! Network namespaces with what a variant needs, gone when it is dropped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use penstock_bpf::asm::Asm;
use penstock_bpf::{AttachPoint, Link, Mode, NetfilterHook, Program, xdp};

use super::Result;

/// Link addresses: of the router's devices, and of those in front of it and behind it.
pub(super) const R0: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(super) const R1: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const FRONT: [u8; 6] = [2, 0, 0, 0, 0, 0xa7];
pub(super) const BEHIND: [u8; 6] = [2, 0, 0, 0, 0, 0xb7];

/// For `ip -batch`. Frames that arrive at b0 are for another link address, and dropped for that.
const NETWORK: &str = "\
link set lo up
link add a0 type veth peer name r0
link add r1 type veth peer name b0
link set r0 address 02:00:00:00:00:02
link set r1 address 02:00:00:00:00:01
link set a0 up
link set r0 up
link set r1 up
link set b0 up
addr add 198.18.0.1/16 dev r0
addr add 198.19.0.1/16 dev r1
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev r0 nud permanent
neigh add 198.19.0.7 lladdr 02:00:00:00:00:b7 dev r1 nud permanent
";

const PREFIX: &str = "penstock-bench";

/// What counts for all labs: rights, tools, and the processor on which everything runs.
pub(super) struct Bounds {
    before: libc::cpu_set_t,
    cpu: usize,
    /// What the kernel's thread for deferred work of this processor has run
    /// (`Documentation/scheduler/sched-stats.rst`).
    deferred: File,
}

impl Bounds {
    /// Checks for the tools, removes leftovers of a killed run, and pins itself to one processor.
    pub(super) fn new() -> Result<Self> {
        let mut asm = penstock_bpf::asm::Asm::new();
        asm.exit_with(xdp::PASS);
        load("bench_probe", asm)
            .map_err(|e| format!("BPF programs cannot be loaded: {e} (run it as root)"))?;
        for tool in ["ip", "nft", "ethtool"] {
            let found = Command::new(tool)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if let Err(e) = found {
                return Err(format!("{tool}: {e}"));
            }
        }
        remove_leftovers();
        // SAFETY: it takes nothing.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize;
        let deferred = deferred_work(cpu)?;
        // SAFETY: both calls get a set of the size passed to them; the processor is one of the
        // set's.
        let before = unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            libc::sched_getaffinity(0, size, &mut before);
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, size, &one);
            before
        };
        Ok(Bounds { before, cpu, deferred })
    }

    /// From here on the caller stays off that processor.
    pub(super) fn elsewhere(&self) -> Result<()> {
        // SAFETY: both calls get a set of the size passed to them.
        let moved = unsafe {
            let mut others = self.before;
            libc::CPU_CLR(self.cpu, &mut others);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &others)
        };
        if moved == 0 { Ok(()) } else { Err("it takes two processors".into()) }
    }

    /// Time that the kernel's thread for deferred work has run on this processor.
    pub(super) fn deferred(&self) -> Duration {
        let mut text = [0; 64];
        let len = self.deferred.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(text.get(..len).unwrap_or_default());
        let ran = text.split_whitespace().next().and_then(|n| n.parse().ok());
        Duration::from_nanos(ran.unwrap_or(0))
    }
}

/// What tells how long that thread ran.
fn deferred_work(cpu: usize) -> Result<File> {
    let name = format!("ksoftirqd/{cpu}");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let thread = processes.into_iter().find(|path| {
        fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    let file = thread.ok_or_else(|| format!("there is no {name}"))?.join("schedstat");
    File::open(&file).map_err(|e| format!("{}: {e}", file.display()))
}

impl Drop for Bounds {
    fn drop(&mut self) {
        // SAFETY: a set as the kernel gave it.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.before) };
    }
}

/// Removes namespaces of processes that have ended.
fn remove_leftovers() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process =
            name.strip_prefix(PREFIX).and_then(|n| n.trim_start_matches('-').split('-').next());
        if let Some(process) =
            process.filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
            && !PathBuf::from("/proc").join(process).exists()
        {
            let _ = run("ip", &["netns", "del", &name], "");
        }
    }
}

/// Runs a tool to its end.
pub(super) fn run(tool: &str, args: &[&str], input: &str) -> Result<()> {
    let line = || format!("{tool} {}", args.join(" "));
    let mut command = Command::new(tool);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{tool}: {e}"))?;
    if let Some(stdin) = &mut child.stdin {
        stdin.write_all(input.as_bytes()).map_err(|e| format!("{}: {e}", line()))?;
    }
    let output = child.wait_with_output().map_err(|e| format!("{}: {e}", line()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", line(), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Has a veth poll for what it receives.
fn poll(namespace: &str, device: &str) -> Result<()> {
    run("ip", &["netns", "exec", namespace, "ethtool", "-K", device, "gro", "on"], "")
}

/// A namespace with a router in it.
pub(super) struct Lab {
    name: String,
    links: Vec<Link>,
    /// `/proc/net/dev` of the namespace.
    devices: File,
    text: RefCell<Vec<u8>>,
    indexes: HashMap<String, u32>,
    /// `penstock up`.
    dataplane: Option<Child>,
    /// A server that reads nothing.
    socket: Option<UdpSocket>,
    // What the namespace is on must go after it.
    bounds: Rc<Bounds>,
}

impl Lab {
    pub(super) fn new(bounds: &Rc<Bounds>) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        run("ip", &["netns", "add", &name], "")?;
        let made = Namespace(name);
        within(&made.0, settings)?;
        run("ip", &["-n", &made.0, "-batch", "-"], NETWORK)?;
        // A program in front of a device can only give it frames if it polls for them.
        for device in ["r0", "r1"] {
            poll(&made.0, device)?;
        }
        let (devices, indexes) = within(&made.0, || {
            let index = |device: &str| {
                let text = std::ffi::CString::new(device).unwrap_or_default();
                // SAFETY: the name is a string that ends.
                (device.to_owned(), unsafe { libc::if_nametoindex(text.as_ptr()) })
            };
            let devices = File::open("/proc/thread-self/net/dev").map_err(|e| e.to_string())?;
            Ok((devices, ["a0", "r0", "r1", "b0"].map(index).into()))
        })?;
        let name = made.keep();
        let text = RefCell::new(vec![0; 4096]);
        let (links, dataplane, socket) = (Vec::new(), None, None);
        Ok(Lab { name, links, devices, text, indexes, dataplane, socket, bounds: bounds.clone() })
    }

    /// Both ends poll, as drivers of hardware do: the router can send them frames from XDP.
    pub(super) fn ends_poll(&self) -> Result<()> {
        ["a0", "b0"].iter().try_for_each(|device| poll(&self.name, device))
    }

    /// What the namespace is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The processor on which everything in it runs.
    pub(super) fn processor(&self) -> usize {
        self.bounds.cpu
    }

    /// Loads rules.
    pub(super) fn nft(&self, rules: &str) -> Result<()> {
        run("ip", &["netns", "exec", &self.name, "nft", "-f", "-"], rules)
    }

    /// Changes the network, by lines for `ip -batch`.
    pub(super) fn ip(&self, lines: &str) -> Result<()> {
        run("ip", &["-n", &self.name, "-batch", "-"], lines)
    }

    /// Opens a port of the router, and sends from it to ports of the host in front: flows from there
    /// are connections with answers then, which last.
    pub(super) fn serve(&mut self, port: u16, peers: std::ops::Range<u16>) -> Result<()> {
        let open = || -> io::Result<UdpSocket> {
            for timeout in ["timeout", "timeout_stream"] {
                fs::write(format!("/proc/sys/net/netfilter/nf_conntrack_udp_{timeout}"), "3600")?;
            }
            let socket = UdpSocket::bind((Ipv4Addr::new(198, 18, 0, 1), port))?;
            for peer in peers {
                socket.send_to(b"answer", (Ipv4Addr::new(198, 18, 0, 7), peer))?;
            }
            Ok(socket)
        };
        self.socket = Some(self.inside(|| open().map_err(|e| format!("port {port}: {e}")))?);
        Ok(())
    }

    /// Loads a rule of iptables(8).
    pub(super) fn iptables(&self, rule: &str) -> Result<()> {
        let mut args = vec!["netns", "exec", &self.name, "iptables"];
        args.extend(rule.split(' '));
        run("ip", &args, "")
    }

    fn penstock(&self, args: &[&str]) -> Result<Command> {
        let own = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(own).args(args);
        Ok(command)
    }

    /// Has `penstock up` take the router's devices, and gives it rules.
    pub(super) fn up(&mut self, driver: &str, rules: &str) -> Result<()> {
        let lasting = [
            "net.netfilter.nf_flowtable_udp_timeout=36000",
            "net.netfilter.nf_conntrack_udp_timeout=36000",
        ];
        let args = [&["up", "r0", "r1", "--driver", driver, "--sysctl"], &lasting[..]].concat();
        let mut command = self.penstock(&args)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.dataplane = Some(command.spawn().map_err(|e| format!("penstock up: {e}"))?);
        let mut said = String::new();
        for _ in 0..100 {
            thread::sleep(Duration::from_millis(100));
            let mut nft = self.penstock(&["nft", rules])?;
            let output = nft.output().map_err(|e| format!("penstock nft: {e}"))?;
            if output.status.success() {
                return Ok(());
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        Err(format!("penstock up: {said}"))
    }

    /// Has `penstock attach` run rules in the kernel of the router, with ingress of devices where
    /// `devices` say.
    pub(super) fn run_attached(&mut self, rules: &str, devices: &[&str]) -> Result<()> {
        let file = std::env::temp_dir().join(format!("{}.nft", self.name));
        std::fs::write(&file, rules).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file.display().to_string();
        let mut command = self.penstock(&[&["attach", "--rules", &name], devices].concat())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.dataplane = Some(command.spawn().map_err(|e| format!("penstock attach: {e}"))?);
        let mut shown = false;
        for _ in 0..300 {
            thread::sleep(Duration::from_millis(100));
            if !matches!(self.dataplane.as_mut().map(Child::try_wait), Some(Ok(None))) {
                break;
            }
            let output = self.penstock(&["show"])?.output();
            let output = output.map_err(|e| format!("penstock show: {e}"))?;
            shown = String::from_utf8_lossy(&output.stdout).contains("in the kernel");
            if shown {
                break;
            }
        }
        let _ = std::fs::remove_file(&file);
        shown.then_some(()).ok_or_else(|| "penstock attach: the rules are not in force".into())
    }

    /// Flows that devices forward for it.
    pub(super) fn offloaded_flows(&self) -> Result<usize> {
        let output = self.penstock(&["show", "conntrack"])?.output().map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).matches("[HW_OFFLOAD]").count())
    }

    /// Index of a device.
    pub(super) fn index(&self, device: &str) -> Result<u32> {
        self.indexes.get(device).copied().ok_or_else(|| format!("there is no {device}"))
    }

    /// Runs a function in the namespace, on a separate thread.
    pub(super) fn inside<T: Send>(&self, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        within(&self.name, what)
    }

    /// Puts a program on a device.
    pub(super) fn attach(&mut self, device: &str, program: &Program, mode: Mode) -> Result<()> {
        let index = self.index(device)?;
        let link =
            self.inside(|| program.attach(index, mode).map_err(|e| format!("{device}: {e}")))?;
        self.links.push(link);
        Ok(())
    }

    /// Puts a program for traffic control at what leaves by a device.
    pub(super) fn attach_egress(&mut self, device: &str, program: &Program) -> Result<()> {
        let index = self.index(device)?;
        let link =
            self.inside(|| program.attach_egress(index).map_err(|e| format!("{device}: {e}")))?;
        self.links.push(link);
        Ok(())
    }

    /// Connections that the kernel's flowtables forward.
    pub(super) fn kernel_flows(&self) -> Result<usize> {
        self.inside(|| {
            let path = "/proc/thread-self/net/nf_conntrack";
            let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
            Ok(text.matches("[OFFLOAD]").count())
        })
    }

    /// Puts a program at a netfilter hook.
    pub(super) fn attach_netfilter(
        &mut self,
        hook: NetfilterHook,
        priority: i32,
        program: &Program,
    ) -> Result<()> {
        let attach = || program.attach_netfilter(hook, priority, false);
        let link = self.inside(|| attach().map_err(|e| format!("{hook}: {e}")))?;
        self.links.push(link);
        Ok(())
    }

    /// Packets that a device has received.
    pub(super) fn arrived(&self, device: &str) -> Result<u64> {
        let mut text = self.text.borrow_mut();
        let len = self.devices.read_at(&mut text, 0).map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(text.get(..len).unwrap_or_default());
        let line =
            text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'));
        let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        packets.ok_or_else(|| format!("nothing is known of {device}"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut dataplane) = self.dataplane.take() {
            let down =
                self.penstock(&["down"]).and_then(|mut c| c.output().map_err(|e| e.to_string()));
            if !down.is_ok_and(|output| output.status.success()) {
                // It is a child of ours.
                let _ = dataplane.kill();
            }
            let _ = dataplane.wait();
        }
        self.links.clear();
        self.socket = None;
        drop(Namespace(std::mem::take(&mut self.name)));
    }
}

/// Settings of a namespace before it has devices: it forwards what it gets, and says nothing by
/// itself.
fn settings() -> Result<()> {
    for (path, value) in [
        ("ipv4/ip_forward", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
    ] {
        let path = PathBuf::from("/proc/sys/net").join(path);
        match fs::write(&path, value) {
            // A kernel without IPv6.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            written => written.map_err(|e| format!("{}: {e}", path.display()))?,
        }
    }
    Ok(())
}

/// A namespace that is removed unless it is kept.
struct Namespace(String);

impl Namespace {
    fn keep(mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            // A failure cannot be handled here.
            let _ = run("ip", &["netns", "del", &self.0], "");
        }
    }
}

fn within<T: Send>(name: &str, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let enter = || -> io::Result<()> {
        let namespace = File::open(PathBuf::from("/run/netns").join(name))?;
        // SAFETY: the descriptor is open; the thread is used for nothing else and ends afterwards.
        match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter().map_err(|e| format!("namespace {name}: {e}"))?;
            what()
        });
        inside.join().unwrap_or_else(|_| Err("a thread ended early".into()))
    })
}

/// Loads a program.
pub(super) fn load(name: &str, asm: Asm) -> Result<Program> {
    let code = asm.finish().map_err(|e| e.to_string())?;
    Program::load(AttachPoint::Xdp, name, &code).map_err(|e| e.to_string())
}
