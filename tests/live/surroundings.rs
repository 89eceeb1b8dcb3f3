// SPDX-License-Identifier: Apache-2.0

//! Faults of what is around the dataplane: disks, limits, devices and namespaces that go away,
//! kills at any moment. It comes up or says why not, continues or ends, and leaves devices as they
//! were.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::inject::{devices, processes, within};
use crate::net::{Net, setting, sh};

/// A small file system, which goes with this.
struct Disk(PathBuf);

impl Disk {
    /// `None`, and said, where nothing can be mounted.
    fn new(net: &Net, kilobytes: u32) -> Option<Disk> {
        let path = net.directory.join("disk");
        std::fs::create_dir_all(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"]).arg(&path);
        if mount.stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
            return Some(Disk(path));
        }
        eprintln!("skipped: nothing can be mounted");
        None
    }

    fn remount(&self, how: &str) {
        sh(&format!("mount -o remount,{how} {}", self.0.display()));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Starts the dataplane by a shell line, with its output in a file; the process is the dataplane's.
fn begin(net: &Net, before: &str, args: &str) -> Child {
    let log = std::fs::File::create(net.directory.join("begun")).unwrap();
    let mut command = net.command(&net.r, &format!("{before} exec $PENSTOCK up {args}"));
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn said(net: &Net) -> String {
    std::fs::read_to_string(net.directory.join("begun")).unwrap_or_default()
}

/// Waits until it runs or has ended; whether it runs.
fn settled(net: &Net, child: &mut Child) -> bool {
    let mut over = false;
    let settled = (0..1500).any(|_| {
        over = child.try_wait().unwrap().is_some();
        let runs = said(net).contains("penstock: running");
        if !over && !runs {
            std::thread::sleep(Duration::from_millis(20));
        }
        over || runs
    });
    assert!(settled, "neither runs nor ends: {}", said(net));
    !over
}

/// It ends if it still runs, nothing of it stays, and devices are as they were.
fn all_is_as_before(net: &Net, child: &mut Child, before: &str, what: &str) {
    let (down, answer) = net.run(&net.r, "timeout -s KILL 20 $PENSTOCK down");
    assert!(down || answer.contains("no dataplane"), "{what}: {answer}{}", said(net));
    let ended = within(Duration::from_secs(20), || processes(net).is_empty());
    assert!(ended, "{what}: {} stay; {}", processes(net), said(net));
    child.wait().unwrap();
    let same = within(Duration::from_secs(5), || devices(net) == before);
    assert!(same, "{what}: devices are\n{}\nbut were\n{before}\n{}", devices(net), said(net));
    assert!(!said(net).contains("panicked"), "{what}: {}", said(net));
}

#[test]
fn a_full_disk_costs_the_new_state_and_not_the_old_one() {
    let Some(mut net) = Net::new() else { return };
    let Some(disk) = Disk::new(&net, 64) else { return };
    let up = format!("r0 r1 --state {}", disk.0.join("state").display());
    net.up(&up);
    net.nft("table ip small { chain c { type filter hook forward priority 0; }; }");
    net.until("it is kept", |_| disk.0.join("state").metadata().is_ok_and(|m| m.len() > 0));
    std::thread::sleep(Duration::from_millis(1500));
    sh(&format!("head -c 52000 /dev/zero > {}", disk.0.join("filler").display()));
    let many: String =
        (0..3000).map(|n| format!("ip saddr 198.19.{}.{} counter\n", n >> 8, n & 255)).collect();
    net.nft(&format!(
        "table ip large {{ chain c {{ type filter hook forward priority 0\n{many} }}; }}"
    ));
    net.until("it is said that it cannot be kept", |net| net.log().contains("No space left"));
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    assert!(net.ok(&net.r, "$PENSTOCK nft list tables").contains("large"));
    // What does not fit is not written, by the client that captures either.
    let a = net.a.clone();
    let ping = net.spawn_reading(&a, "ping -f -s 1400 -w 5 198.18.1.2");
    let file = disk.0.join("capture").display().to_string();
    let (well, told) = net.run(
        &net.r,
        &format!("timeout 10 $PENSTOCK capture --hook forward 'ip protocol icmp' -w {file}"),
    );
    assert!(!well && told.contains("No space left"), "{told}");
    ping.stop();
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    std::fs::remove_file(&file).unwrap();
    // It may end badly, but ends; the state of before is whole.
    net.ok(&net.r, "$PENSTOCK down; test $? -le 1");
    net.ended_somehow();
    net.up(&up);
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip small\n");
}

#[test]
fn a_read_only_disk_stops_nothing() {
    let Some(mut net) = Net::new() else { return };
    let Some(disk) = Disk::new(&net, 1024) else { return };
    let up = format!("r0 r1 --state {}", disk.0.join("state").display());
    disk.remount("ro");
    let (ok, told) = net.run(&net.r, &format!("timeout 20 $PENSTOCK up {up}"));
    assert!(!ok && told.contains("the state cannot be saved: Read-only file system"), "{told}");
    disk.remount("rw");
    net.up(&up);
    disk.remount("ro");
    net.nft("table ip t { chain c { type filter hook forward priority 0; }; }");
    net.until("it is said", |net| net.log().contains("Read-only file system"));
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    // As soon as it can be written it is.
    disk.remount("rw");
    net.nft("table ip u { chain c { type filter hook forward priority 0; }; }");
    net.down();
    net.up(&up);
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip t\ntable ip u\n");
}

#[test]
fn without_a_run_directory_or_with_a_full_one_devices_are_safe() {
    let Some(net) = Net::new() else { return };
    let before = devices(&net);
    for how in ["ro", "size=4k,nr_inodes=2", "size=4k,nr_inodes=4"] {
        // Mounts of its own, in which the client is, too.
        let line = format!(
            "unshare -m sh -c 'mount -t tmpfs -o {how} tmpfs /run || exit 0
             timeout -s TERM 30 $PENSTOCK up r0 r1 & for i in $(seq 100); do sleep 0.1
               $PENSTOCK show > /dev/null 2>&1 && break; kill -0 $! 2> /dev/null || break; done
             $PENSTOCK down; wait $!; echo ended $?' 2>&1"
        );
        let (_, told) = net.run(&net.r, &line);
        assert!(told.contains("ended"), "{how}: {told}");
        let same = within(Duration::from_secs(5), || {
            devices(&net) == before && processes(&net).is_empty()
        });
        assert!(same, "{how}: {told}\n{}{}", devices(&net), processes(&net));
    }
}

#[test]
fn descriptor_and_memory_limits_are_reported_or_harmless() {
    let Some(net) = Net::new() else { return };
    let before = devices(&net);
    let mut ran = Vec::new();
    for limit in ["-n 10", "-n 40", "-v 150000", "-v 900000", "-l 0", "-u 1"] {
        let mut child =
            begin(&net, &format!("ulimit {limit};"), "r0 r1 --workers 2 --driver r1=xdp-generic");
        if settled(&net, &mut child) {
            ran.push(limit);
            // What it cannot do under the limit it says, and forwards.
            let many: String = (0..3000)
                .map(|n| format!("add rule ip t c ip saddr 10.0.{}.{} drop\n", n >> 8, n & 255))
                .collect();
            let file = net.directory.join("many.nft");
            std::fs::write(&file, format!("add table ip t\nadd chain ip t c\n{many}")).unwrap();
            net.run(&net.r, &format!("timeout -s KILL 60 $PENSTOCK nft -f {}", file.display()));
            let forwards = || net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0;
            assert!(within(Duration::from_secs(10), forwards), "{limit}: {}", said(&net));
        } else {
            let words = ["Error", "error", "memory allocation", "annot"];
            assert!(words.iter().any(|word| said(&net).contains(word)), "{limit}: {}", said(&net));
        }
        all_is_as_before(&net, &mut child, &before, limit);
    }
    assert!(ran.contains(&"-v 900000") || ran.contains(&"-l 0"), "{ran:?}");
}

#[test]
fn a_namespace_that_loses_its_name_is_still_served() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let (pid, program) = (net.pid(), env!("CARGO_BIN_EXE_penstock"));
    sh(&format!("ip netns del {}", net.r));
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    sh(&format!(
        "nsenter -t {pid} -n {program} show > /dev/null && nsenter -t {pid} -n {program} down"
    ));
    net.ended();
}

#[test]
fn a_device_that_disappears_during_takeover_affects_no_other() {
    let Some(net) = Net::new() else { return };
    let (r, b) = (&net.r, &net.b);
    let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
    let remake = format!(
        "ip link del b0; for d in r1 r1.port x1; do ip -n {r} link del $d; done
         ip link add b0 type veth peer name r1 netns {r} address 02:00:00:00:00:0b
         ip addr add 198.18.1.2/24 dev b0; ip link set b0 up; ip route add default via 198.18.1.1
         ip -n {r} addr add 198.18.1.1/24 dev r1; ip -n {r} link set r1 up"
    );
    for round in 0..setting("PENSTOCK_LIVE_ROUNDS", 1) {
        for what in ["ip link set DEV name x1", "ip link del DEV", "ip link set DEV netns OTHER"] {
            for ending in [false, true] {
                net.run(b, &remake);
                let mut child = begin(&net, "", "r0 r1 --workers 2");
                let stop = ending.then(|| {
                    settled(&net, &mut child);
                    net.spawn_reading(r, "$PENSTOCK down")
                });
                std::thread::sleep(Duration::from_millis(
                    rng.u64(..if ending { 150 } else { 700 }),
                ));
                // The kernel forces a name on a device that is up since Linux 6.2.
                for device in ["r1.port", "r1"] {
                    let line = what.replace("DEV", device).replace("OTHER", b);
                    net.run(r, &line);
                }
                let told = format!("round {round}, {what}, ending: {ending}");
                settled(&net, &mut child);
                if let Some(stop) = stop {
                    stop.wait();
                }
                net.run(r, "timeout -s KILL 20 $PENSTOCK down");
                let ended = within(Duration::from_secs(20), || processes(&net).is_empty());
                assert!(ended, "{told}: {} stay; {}", processes(&net), said(&net));
                child.wait().unwrap();
                // The other device is whole.
                let there = || {
                    let links = net.ok(r, "ip -o addr show");
                    links.contains(" r0    inet 198.18.0.1/24") && !links.contains("r0.port")
                };
                assert!(
                    within(Duration::from_secs(5), there),
                    "{told}: {}{}",
                    devices(&net),
                    said(&net)
                );
                assert!(!said(&net).contains("panicked"), "{told}: {}", said(&net));
                let answers = || net.run(&net.a, "ping -c 1 -W 1 198.18.0.1").0;
                assert!(within(Duration::from_secs(10), answers), "{told}: {}", said(&net));
            }
        }
    }
}

#[test]
fn a_stopped_process_continues_after_sigcont() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --workers 2");
    let (pid, seconds) = (net.pid(), setting("PENSTOCK_LIVE_SECONDS", 3));
    let (a, r) = (net.a.clone(), net.r.clone());
    let ping = net.spawn_reading(&a, "ping -i 0.01 -s 1000 -w 60 198.18.1.2");
    // It is stopped while it reads the kernel's network, too.
    let route = "198.19.0.0/24 via 198.18.1.2";
    let changes =
        format!("while :; do ip route add {route}; ip route del 198.19.0.0/24; done 2>/dev/null");
    let changes = net.spawn_reading(&r, &format!("sh -c '{changes}'"));
    sh(&format!("kill -STOP {pid}; sleep {seconds}; kill -CONT {pid}"));
    changes.stop();
    net.until("packets pass", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    net.until("it answers", |net| net.run(&net.r, "$PENSTOCK nft list ruleset").0);
    ping.stop();
    net.down();
}

#[test]
fn link_flap_storms_are_survived() {
    let Some(mut net) = Net::new() else { return };
    for driver in ["packet", "xdp-generic"] {
        net.up(&format!("r0 r1 --driver {driver} --workers 2"));
        let a = net.a.clone();
        let ping = net.spawn_reading(&a, "ping -i 0.01 -w 60 198.18.1.2");
        for (namespace, device) in
            [(&net.r, "r0"), (&net.r, "r1.port"), (&net.b, "b0"), (&net.r, "r1")]
        {
            net.ok(
                namespace,
                &format!("for i in $(seq 30); do ip link set {device} down; ip link set {device} up; done"),
            );
        }
        ping.stop();
        // Devices that were down have lost what the kernel takes from them then.
        net.run(&net.b, "ip route add default via 198.18.1.1");
        net.until("packets pass", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
        net.down();
    }
}

#[test]
fn a_kill_at_any_moment_of_start_or_stop_loses_no_device() {
    let Some(net) = Net::new() else { return };
    let before = devices(&net);
    let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
    for kill in 0..setting("PENSTOCK_LIVE_KILLS", 4) {
        let ending = kill % 2 == 1;
        let mut child = begin(&net, "", "r0 r1 --workers 2 --driver r1=xdp-generic");
        let stop = ending.then(|| {
            assert!(settled(&net, &mut child), "{}", said(&net));
            net.spawn_reading(&net.r, "$PENSTOCK down")
        });
        std::thread::sleep(Duration::from_micros(
            rng.u64(..if ending { 200_000 } else { 900_000 }),
        ));
        let both = rng.bool();
        if both {
            for pid in sh(&format!("ip netns pids {}", net.r)).split_whitespace() {
                let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                if comm.starts_with("penstock-guard") {
                    sh(&format!("kill -9 {pid} || true"));
                }
            }
        }
        child.kill().unwrap();
        if let Some(stop) = stop {
            stop.wait();
        }
        all_is_as_before(
            &net,
            &mut child,
            &before,
            &format!("kill {kill}, of both: {both}, at the end: {ending}"),
        );
    }
    net.ok(&net.a, "ping -c 2 -i 0.2 -W 2 198.18.1.2");
}

/// A memory limit of a control group, which goes with this.
struct Group(PathBuf);

impl Group {
    /// `None`, and said, where there are none.
    fn new(name: &str, bytes: u64) -> Option<Group> {
        let path = PathBuf::from("/sys/fs/cgroup").join(name);
        // Elsewhere than in a hierarchy of version 2 it is a directory like any other.
        let limited = std::fs::create_dir(&path).is_ok()
            && path.join("cgroup.procs").exists()
            && std::fs::write(path.join("memory.max"), bytes.to_string()).is_ok();
        let group = Group(path);
        if !limited {
            eprintln!("skipped: no control group with a limit of memory");
            return None;
        }
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        within(Duration::from_secs(5), || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn a_cgroup_out_of_memory_gets_its_devices_back() {
    let Some(net) = Net::new() else { return };
    let Some(group) = Group::new(&net.r, 48 << 20) else { return };
    let before = devices(&net);
    let enter = format!("echo $$ > {}/cgroup.procs;", group.0.display());
    let mut child = begin(&net, &enter, "r0 r1 --workers 2");
    if settled(&net, &mut child) {
        let many: String = (0..100_000)
            .map(|n| {
                format!(
                    "add rule ip t c ip saddr 10.{}.{}.{} drop\n",
                    n >> 16,
                    n >> 8 & 255,
                    n & 255
                )
            })
            .collect();
        let file = net.directory.join("many.nft");
        std::fs::write(&file, format!("add table ip t\nadd chain ip t c\n{many}")).unwrap();
        net.run(&net.r, &format!("timeout -s KILL 60 $PENSTOCK nft -f {}", file.display()));
    }
    let forwards = || net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0;
    assert!(within(Duration::from_secs(10), forwards), "ours or the kernel's: {}", said(&net));
    all_is_as_before(&net, &mut child, &before, "48 MiB");
}
