// SPDX-License-Identifier: Apache-2.0

//! The processes: one that starts evaluators, the evaluator, and its children.
//!
//! The first only starts an evaluator, and another one when that ends: the evaluator cannot be
//! started later, when the dataplane has no rights left to give up. The evaluator has one thread,
//! so that it can fork. It reads nothing that a client has written: children do.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::mirror::Mirror;
use super::protocol::{ANSWER, Ask, Order, Unknowing};
use super::{child, sandbox};
use crate::channel::Channel;
use crate::config::Config;
use crate::log;
use crate::rules::Update;

/// How long a waiting child may leave updates unread.
const PATIENCE: Duration = Duration::from_secs(20);
/// Delay after a call before a child is forked for the next one: a call that changes the ruleset is
/// over by then.
const QUIET: Duration = Duration::from_millis(10);
/// Exit status of a child that has panicked.
const PANICKED: i32 = 101;

/// Ends this process at once.
fn exit(status: i32) -> ! {
    // SAFETY: ends the process without running what its parent has registered.
    unsafe { libc::_exit(status) }
}

/// The number of the child, and 0 in the child.
fn fork() -> io::Result<i32> {
    // SAFETY: callers have one thread, so that the child may continue like any process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        process => Ok(process),
    }
}

fn name(name: &std::ffi::CStr) {
    // SAFETY: a string with its end.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Starts the processes. There must be no other thread. Returns the end of the channel to the
/// evaluator.
pub(super) fn start(config: &Config) -> io::Result<Channel> {
    /// How long the evaluator may take to apply a large change before the next one is sent.
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Between two evaluators.
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(10);
    let (ours, theirs) = Channel::pair(PATIENCE)?;
    let parent = std::process::id();
    if fork()? != 0 {
        return Ok(ours);
    }
    drop(ours);
    let ends = begin(parent, &theirs);
    let mut pause = SHORTEST;
    loop {
        let begun = Instant::now();
        let own = std::process::id();
        match fork() {
            Ok(0) => {
                sandbox::end_with(own);
                drop(ends);
                evaluate(&theirs, config);
                exit(0)
            }
            Ok(evaluator) => {
                let ended = watch(evaluator, &theirs, &ends);
                // The dataplane has closed its end.
                if ended
                    .is_none_or(|status| libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0)
                {
                    exit(0)
                }
                log("the evaluator of rule texts has died: there is another one");
            }
            Err(e) => log(format_args!("the evaluator of rule texts cannot be started: {e}")),
        }
        // Memory may be short for a while, or there is something that keeps all of them from
        // beginning.
        pause = if begun.elapsed() > LONGEST { SHORTEST } else { (pause * 2).min(LONGEST) };
        if hung_up(&theirs, pause) {
            exit(0)
        }
    }
}

/// Waits until the evaluator ends, and gives its status; or until the dataplane has ended, and ends
/// it then. A parent that has no right to kill its children has none to have them told of its death
/// either.
fn watch(evaluator: i32, channel: &Channel, ends: &OwnedFd) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the status lives through the call.
        if unsafe { libc::waitpid(evaluator, &raw mut status, libc::WNOHANG) } == evaluator {
            return Some(status);
        }
        let event = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut polls = [event(channel.raw(), 0), event(ends.as_raw_fd(), libc::POLLIN)];
        // SAFETY: two structures, which live through the call.
        unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
        if polls[0].revents != 0 {
            // SAFETY: no pointers; this child was not waited for yet, so its number is not reused.
            unsafe { libc::kill(evaluator, libc::SIGKILL) };
            return None;
        }
        forget_told(ends);
    }
}

/// Whether the other end of a channel is closed, or will be within a time.
fn hung_up(channel: &Channel, time: Duration) -> bool {
    let mut poll = libc::pollfd { fd: channel.raw(), events: 0, revents: 0 };
    // SAFETY: one structure, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, time.as_millis() as i32) > 0 }
}

/// What the first process does before all else: what it has, its children have. Returns the
/// descriptor from which their ends are read.
fn begin(parent: u32, channel: &Channel) -> OwnedFd {
    name(c"penstock-spawn");
    sandbox::keep_only(channel.raw());
    // SAFETY: no pointers but sets that live through the calls; a separate session keeps the
    // terminal's signals away.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    if let Err(e) = sandbox::give_up_rights() {
        log(format_args!("rule texts cannot be evaluated: rights cannot be given up: {e}"));
        exit(1)
    }
    sandbox::end_with(parent);
    match sandbox::restrict_spawner().and_then(|()| ends()) {
        Ok(ends) => ends,
        Err(e) => {
            log(format_args!(
                "rule texts cannot be evaluated: system calls cannot be restricted: {e}"
            ));
            exit(1)
        }
    }
}

/// A child that serves a client, and its end of the channel to the dataplane.
struct Child {
    process: i32,
    channel: Channel,
}

/// A child that waits for a client. A fork takes as long as evaluating a small text: with the pages
/// of a large ruleset, milliseconds.
struct PreforkedChild {
    process: i32,
    /// Closed, it ends the child.
    line: Channel,
}

impl PreforkedChild {
    fn fork(mirror: &mut Mirror, config: &Config) -> io::Result<PreforkedChild> {
        let (line, theirs) = Channel::pair(PATIENCE)?;
        let own = std::process::id();
        let process = fork()?;
        if process != 0 {
            return Ok(PreforkedChild { process, line });
        }
        sandbox::end_with(own);
        name(c"penstock-ready");
        // Whatever had them is never dropped: this process ends below.
        sandbox::close_but(theirs.raw());
        std::mem::forget(line);
        panic_hook();
        let confined = sandbox::restrict_child();
        if let Ok(Some((_, fds))) = theirs.receive(ANSWER, None)
            && let Some((client, pair)) = both(fds)
        {
            name(c"penstock-nft");
            drop(theirs);
            child::serve(
                client.into(),
                Channel::from_fd(pair),
                std::mem::take(mirror),
                config,
                confined,
            );
        }
        exit(0)
    }

    /// Gives it a client, and the channel to the dataplane. Returns its number.
    fn give(self, client: &OwnedFd, channel: &Channel) -> io::Result<i32> {
        self.line.say_with(&Order::Serve, &[client.as_fd(), channel.as_fd()])?;
        Ok(self.process)
    }
}

/// The descriptors that come with [`Order::Serve`].
fn both(fds: Vec<OwnedFd>) -> Option<(OwnedFd, OwnedFd)> {
    let mut fds = fds.into_iter();
    fds.next().zip(fds.next())
}

/// A descriptor from which the ends of children are read; `SIGCHLD` is blocked from here on.
fn ends() -> io::Result<OwnedFd> {
    // SAFETY: the set lives through the calls, which fill it and then read it; the descriptor is a
    // new one.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Empties the pipe of child events; waitpid(2) gives the details.
fn forget_told(ends: &OwnedFd) {
    let mut told = [0u8; 128];
    // SAFETY: room for so many bytes.
    while unsafe { libc::read(ends.as_raw_fd(), told.as_mut_ptr().cast(), told.len()) } > 0 {}
}

/// The evaluator, until the dataplane closes its end.
fn evaluate(channel: &Channel, config: &Config) {
    name(c"penstock-eval");
    let begun = ends().and_then(|ends| {
        sandbox::restrict_parent()?;
        channel.say(&Unknowing)?;
        Ok(ends)
    });
    let ends = match begun {
        Ok(ends) => ends,
        // The dataplane has ended before it asked for anything.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return,
        Err(e) => {
            log(format_args!("rule texts cannot be evaluated: {e}"));
            exit(1)
        }
    };
    let mut evaluation = Evaluation {
        mirror: Mirror::default(),
        children: Vec::new(),
        preforked: None,
        pause: None,
    };
    loop {
        if !wait(channel, &ends, evaluation.pause.filter(|_| evaluation.preforked.is_none())) {
            // Without one the next client waits for its child, and gets an error if none starts.
            evaluation.preforked = PreforkedChild::fork(&mut evaluation.mirror, config).ok();
            evaluation.pause = None;
        }
        evaluation.reap(&ends);
        if !channel.is_ready(Some(Duration::ZERO)).unwrap_or(true) {
            continue;
        }
        let (bytes, fds) = match channel.receive(ANSWER, None) {
            Ok(Some(received)) => received,
            Ok(None) => return,
            Err(e) => {
                log(format_args!("the evaluator of rule texts: {e}"));
                exit(1)
            }
        };
        match postcard::from_bytes(&bytes) {
            Ok(Order::Update(update)) => {
                if !evaluation.follows(&update) {
                    // If this is lost, the next message shows that the peer is gone.
                    let _ = channel.say(&Unknowing);
                }
            }
            Ok(Order::Serve) => {
                drop(bytes);
                if let Some((client, pair)) = both(fds) {
                    evaluation.serve(&client, Channel::from_fd(pair), config);
                }
            }
            Err(_) => log("the evaluator of rule texts: not an order"),
        }
    }
}

/// What the evaluator has.
struct Evaluation {
    mirror: Mirror,
    children: Vec<Child>,
    preforked: Option<PreforkedChild>,
    /// After so long without an order a child is forked ahead.
    pause: Option<Duration>,
}

impl Evaluation {
    /// Follows a step of the ruleset. If it cannot, it knows no ruleset.
    fn follows(&mut self, update: &Update) -> bool {
        // It has the ruleset of before.
        self.preforked = None;
        self.pause = Some(Duration::ZERO);
        let follows = self.mirror.follow(update).is_ok();
        if !follows {
            self.mirror = Mirror::default();
        }
        follows
    }

    /// Has a child serve a client.
    fn serve(&mut self, client: &OwnedFd, channel: Channel, config: &Config) {
        let given = self.preforked.take().and_then(|child| child.give(client, &channel).ok());
        // The one that was ready may have died.
        let given = given.map_or_else(
            || PreforkedChild::fork(&mut self.mirror, config)?.give(client, &channel),
            Ok,
        );
        match given {
            Ok(process) => self.children.push(Child { process, channel }),
            Err(e) => {
                log(format_args!("no child evaluates a rule text: {e}"));
                let _ = channel.say(&Ask::Ended(0));
            }
        }
        self.pause = Some(QUIET);
    }

    /// Tells the dataplane of children that have ended other than they should.
    fn reap(&mut self, ends: &OwnedFd) {
        forget_told(ends);
        loop {
            let mut status = 0;
            // SAFETY: the status lives through the call.
            let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if process <= 0 {
                return;
            }
            self.preforked.take_if(|child| child.process == process);
            let Some(at) = self.children.iter().position(|child| child.process == process) else {
                continue;
            };
            let child = self.children.swap_remove(at);
            let ended = if libc::WIFSIGNALED(status) { Some(libc::WTERMSIG(status)) } else { None };
            let panicked = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == PANICKED;
            if let Some(signal) = ended.or(panicked.then_some(-1)) {
                // The dataplane may have closed its end, and it does not listen for ever.
                let _ = child.channel.say(&Ask::Ended(signal));
            }
        }
    }
}

/// Waits for an order, or the end of a child. Returns whether there is one; with a time there may
/// be none.
fn wait(channel: &Channel, ends: &OwnedFd, time: Option<Duration>) -> bool {
    let event = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut polls = [event(channel.raw()), event(ends.as_raw_fd())];
    let millis = time.map_or(-1, |time| time.as_millis() as i32);
    // SAFETY: two structures, which live through the call.
    unsafe { libc::poll(polls.as_mut_ptr(), 2, millis) != 0 }
}

/// A child that panics logs it, and ends with a distinct status: programs may be made such that a
/// panic is an abort, as it is where memory has run out.
fn panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        log(format_args!("BUG: the evaluation of a rule text: {panic}"));
        exit(PANICKED)
    }));
}
