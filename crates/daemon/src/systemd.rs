// SPDX-License-Identifier: Apache-2.0

//! Notifications and watchdog of systemd: sd_notify(3), sd_watchdog_enabled(3).

use std::time::Duration;

/// Tells systemd, where it is there (sd_notify(3)).
pub(crate) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() else { return };
    use std::os::linux::net::SocketAddrExt;
    let name = path.to_string_lossy();
    let state = match state {
        "RELOADING=1" => format!("{state}\nMONOTONIC_USEC={}", monotonic()),
        _ => state.to_owned(),
    };
    // There is nowhere to report the failure.
    let _ = match name.strip_prefix('@') {
        Some(name) => std::os::unix::net::SocketAddr::from_abstract_name(name)
            .and_then(|to| socket.send_to_addr(state.as_bytes(), &to)),
        None => socket.send_to(state.as_bytes(), &*name),
    };
}

/// Microseconds of the monotonic clock.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time, which lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Interval of watchdog notifications: half of systemd's timeout.
pub(crate) struct Watchdog(pub(crate) Option<Duration>);

impl Watchdog {
    pub(crate) fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        Watchdog(number("WATCHDOG_USEC").filter(|_| ours).map(|us| Duration::from_micros(us / 2)))
    }
}
