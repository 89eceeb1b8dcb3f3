// SPDX-License-Identifier: Apache-2.0

//! Networks, rulesets, sessions and dataplanes.

use std::ffi::{c_char, c_void};
use std::ptr;

use penstock::{Counted, Dataplane, Device, Engine, Frame, Network, Ruleset, Session};

use crate::events::Calls;
use crate::{
    Exclusive, Handle, bytes, deref, give, guard, penstock_error, penstock_frame, penstock_sink,
    take, text, text_of, with,
};

/// Devices, addresses, routes and neighbours.
pub struct penstock_network(Network);

/// A ruleset.
pub struct penstock_ruleset(Ruleset);

/// Changes a ruleset by commands.
pub struct penstock_session(Exclusive<Session>);

/// What packets pass through.
pub struct penstock_dataplane(Exclusive<Dataplane>);

exclusive!(penstock_session: Session);
exclusive!(penstock_dataplane: Dataplane);

/// Engine: machine code where it can be made, and else the interpreter.
pub const PENSTOCK_ENGINE_BEST: u32 = 0;
/// Engine: the interpreter.
pub const PENSTOCK_ENGINE_INTERPRETER: u32 = 1;
/// Engine: machine code, which is made on its own thread; until it is there, the interpreter.
pub const PENSTOCK_ENGINE_JIT: u32 = 2;

/// A counter of a ruleset.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct penstock_counter {
    /// Family of the table: `inet`, `ip`, `ip6`, `arp`, `bridge`, `netdev`.
    pub family: *const c_char,
    /// The table.
    pub table: *const c_char,
    /// The rule's chain; null for a named counter.
    pub chain: *const c_char,
    /// The rule as nft lists it, or the counter's name.
    pub name: *const c_char,
    /// The rule's handle; 0 for a named counter.
    pub handle: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What happened to how many packets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct penstock_counters {
    /// Frames received from devices.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Packets delivered to the host.
    pub delivered: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets that the host has sent.
    pub from_host: u64,
    /// Packets that wait: fragments, and queues.
    pub waiting: u64,
}

/// Reads a network from lines for `ip -batch`. Null if it fails.
///
/// # Safety
/// `lines` is null or a text; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_network_from_text(
    lines: *const c_char,
    error: *mut *mut penstock_error,
) -> *mut penstock_network {
    guard(error, ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let lines = unsafe { text(lines) }?;
        Ok(give(penstock_network(Network::from_text(lines)?)))
    })
}

/// The index of a device by its name; 0 if there is none.
///
/// # Safety
/// `network` is null or a network that was not freed, `name` null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_network_device(
    network: *const penstock_network,
    name: *const c_char,
) -> u32 {
    guard(ptr::null_mut(), 0, || {
        // SAFETY: as the caller vouches.
        let (network, name) = unsafe { (deref(network)?, text(name)?) };
        Ok(network.0.device(name)?.index())
    })
}

/// Frees a network. Rulesets and dataplanes that were made with it stay. Null is left alone.
///
/// # Safety
/// `network` is null or a network that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_network_free(network: *mut penstock_network) {
    // SAFETY: as the caller vouches.
    unsafe { take(network) };
}

/// Reads a ruleset as `nft -f` does. Null if it fails. It may name the devices of the network, and
/// includes no files.
///
/// # Safety
/// `network` is null or a network that was not freed, `rules` null or a text; `error` is null or
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_from_text(
    network: *const penstock_network,
    rules: *const c_char,
    error: *mut *mut penstock_error,
) -> *mut penstock_ruleset {
    guard(error, ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let (network, rules) = unsafe { (deref(network)?, text(rules)?) };
        Ok(give(penstock_ruleset(Ruleset::from_text(&network.0, rules)?)))
    })
}

/// Reads a ruleset as `nft -j -f` does. Null if it fails.
///
/// # Safety
/// As of `penstock_ruleset_from_text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_from_json(
    network: *const penstock_network,
    rules: *const c_char,
    error: *mut *mut penstock_error,
) -> *mut penstock_ruleset {
    guard(error, ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let (network, rules) = unsafe { (deref(network)?, text(rules)?) };
        Ok(give(penstock_ruleset(Ruleset::from_json(&network.0, rules)?)))
    })
}

/// Takes the ruleset of the bytes of a state file, at a time. Null if it fails.
///
/// # Safety
/// `network` is null or a network that was not freed; `state` points to `len` bytes; `error` is
/// null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_from_state(
    network: *const penstock_network,
    state: *const u8,
    len: usize,
    now: u64,
    error: *mut *mut penstock_error,
) -> *mut penstock_ruleset {
    guard(error, ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let (network, state) = unsafe { (deref(network)?, bytes(state, len)?) };
        Ok(give(penstock_ruleset(Ruleset::from_state(&network.0, state, now)?)))
    })
}

/// The ruleset as `nft list ruleset` prints it at a time, to be freed by `penstock_text_free`. Null
/// for null.
///
/// # Safety
/// `ruleset` is null or a ruleset that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_to_text(
    ruleset: *const penstock_ruleset,
    now: u64,
) -> *mut c_char {
    guard(ptr::null_mut(), ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let ruleset = unsafe { deref(ruleset) }?;
        Ok(text_of(&ruleset.0.to_text(now)).into_raw())
    })
}

/// The ruleset as `nft -j list ruleset` prints it at a time, to be freed by `penstock_text_free`.
/// Null for null.
///
/// # Safety
/// `ruleset` is null or a ruleset that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_to_json(
    ruleset: *const penstock_ruleset,
    now: u64,
) -> *mut c_char {
    guard(ptr::null_mut(), ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let ruleset = unsafe { deref(ruleset) }?;
        Ok(text_of(&ruleset.0.to_json(now)).into_raw())
    })
}

/// Calls `take` for each counter, table by table: named ones first, then those of rules in order.
///
/// # Safety
/// `ruleset` is null or a ruleset that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_counters(
    ruleset: *const penstock_ruleset,
    take: Option<extern "C" fn(user: *mut c_void, counter: *const penstock_counter)>,
    user: *mut c_void,
) {
    guard(ptr::null_mut(), (), || {
        // SAFETY: as the caller vouches.
        let ruleset = unsafe { deref(ruleset) }?;
        let Some(take) = take else { return Ok(()) };
        for counter in ruleset.0.counters() {
            let (family, table) = (text_of(counter.family.name()), text_of(&counter.table));
            let (chain, name, handle) = match &counter.what {
                Counted::Rule { chain, handle, text } => {
                    (Some(text_of(chain)), text_of(text), *handle)
                }
                Counted::Object { name } => (None, text_of(name), 0),
            };
            let counter = penstock_counter {
                family: family.as_ptr(),
                table: table.as_ptr(),
                chain: chain.as_deref().map_or(ptr::null(), std::ffi::CStr::as_ptr),
                name: name.as_ptr(),
                handle,
                packets: counter.packets,
                bytes: counter.bytes,
            };
            take(user, &counter);
        }
        Ok(())
    });
}

/// Frees a ruleset. Sessions and dataplanes that were made with it stay. Null is left alone.
///
/// # Safety
/// `ruleset` is null or a ruleset that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_ruleset_free(ruleset: *mut penstock_ruleset) {
    // SAFETY: as the caller vouches.
    unsafe { take(ruleset) };
}

/// Begins a session with a ruleset. Null if it fails. Counters and sets are the same in both; rules
/// that the session adds are its own.
///
/// # Safety
/// `ruleset` is null or a ruleset that was not freed; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_session_new(
    ruleset: *const penstock_ruleset,
    error: *mut *mut penstock_error,
) -> *mut penstock_session {
    guard(error, ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let ruleset = unsafe { deref(ruleset) }?;
        Ok(give(penstock_session(Exclusive::new(Session::new(ruleset.0.clone())?))))
    })
}

/// Runs commands of nft as one transaction. `output`, where it is not null, is set to what nft
/// prints, to be freed by `penstock_text_free`. Whether it went well; else nothing is changed.
///
/// # Safety
/// `session` is null or a session that was not freed, `commands` null or a text; `output` and
/// `error` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_session_run(
    session: *const penstock_session,
    commands: *const c_char,
    now: u64,
    output: *mut *mut c_char,
    error: *mut *mut penstock_error,
) -> bool {
    let run = |session: &mut Session| {
        // SAFETY: as the caller vouches.
        let answer = session.run(unsafe { text(commands) }?, now)?;
        if !output.is_null() {
            // SAFETY: as the caller vouches.
            unsafe { *output = text_of(&answer.output).into_raw() };
        }
        Ok(true)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(session, error, false, run) }
}

/// The ruleset of a session as it is now, to be freed by `penstock_ruleset_free`. Null if it fails.
///
/// # Safety
/// `session` is null or a session that was not freed; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_session_ruleset(
    session: *const penstock_session,
    error: *mut *mut penstock_error,
) -> *mut penstock_ruleset {
    let ruleset = |session: &mut Session| Ok(give(penstock_ruleset(session.ruleset().clone())));
    // SAFETY: as the caller vouches.
    unsafe { with(session, error, ptr::null_mut(), ruleset) }
}

/// Frees a session. Null is left alone.
///
/// # Safety
/// `session` is null or a session that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_session_free(session: *mut penstock_session) {
    // SAFETY: as the caller vouches.
    unsafe { take(session) };
}

/// A dataplane with a ruleset in force. Null if it fails. `engine` is one of `PENSTOCK_ENGINE_*`.
/// With a seed other than 0 runs repeat, for tests; with 0 what is chosen at random is
/// unpredictable, as packets of strangers need.
///
/// # Safety
/// `network` and `ruleset` are null or were not freed; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_new(
    network: *const penstock_network,
    ruleset: *const penstock_ruleset,
    engine: u32,
    seed: u64,
    error: *mut *mut penstock_error,
) -> *mut penstock_dataplane {
    guard(error, ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let (network, ruleset) = unsafe { (deref(network)?, deref(ruleset)?) };
        let mut builder = Dataplane::builder(&network.0);
        builder = match engine {
            PENSTOCK_ENGINE_BEST => builder,
            PENSTOCK_ENGINE_INTERPRETER => builder.engine(Engine::Interpreter),
            PENSTOCK_ENGINE_JIT => builder.engine(Engine::Jit),
            other => return Err(penstock_error::of(&format!("there is no engine {other}"))),
        };
        if seed != 0 {
            builder = builder.seed(seed);
        }
        Ok(give(penstock_dataplane(Exclusive::new(builder.build(&ruleset.0)?))))
    })
}

/// Passes frames that came in by devices, and tells a sink, which may be null, what happens.
/// Whether it went well; that packets are dropped is no failure.
///
/// # Safety
/// `dataplane` is null or was not freed; `frames` points to `count` frames, each of which points to
/// its bytes; `sink` is null or a sink; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_receive(
    dataplane: *const penstock_dataplane,
    frames: *const penstock_frame,
    count: usize,
    sink: *const penstock_sink,
    error: *mut *mut penstock_error,
) -> bool {
    let receive = |dataplane: &mut Dataplane| {
        if count > 0 && frames.is_null() {
            return Err(penstock_error::of("a pointer is null"));
        }
        let mut burst = Vec::with_capacity(count.min(BURST));
        for n in 0..count {
            // SAFETY: as the caller vouches.
            let frame = unsafe { &*frames.add(n) };
            // SAFETY: as the caller vouches.
            let bytes = unsafe { bytes(frame.bytes, frame.len) }?;
            burst.push(Frame { device: Device::from_index(frame.device), bytes, time: frame.time });
        }
        // SAFETY: as the caller vouches.
        dataplane.receive(burst, &mut unsafe { calls(sink) });
        Ok(true)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(dataplane, error, false, receive) }
}

/// Frames that memory is taken for beforehand.
const BURST: usize = 64;

/// The functions of a sink; none for null.
///
/// # Safety
/// `sink` is null or a sink.
unsafe fn calls(sink: *const penstock_sink) -> Calls {
    let none = penstock_sink {
        user: ptr::null_mut(),
        sent: None,
        delivered: None,
        dropped: None,
        logged: None,
        traced: None,
    };
    // SAFETY: the caller vouches for it.
    Calls(unsafe { sink.as_ref() }.copied().unwrap_or(none))
}

/// Sends an IP packet, from its header on, as the host does. Whether it went well; that it is
/// dropped is no failure.
///
/// # Safety
/// `dataplane` is null or was not freed; `packet` points to `len` bytes; `sink` is null or a sink;
/// `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_send_from_host(
    dataplane: *const penstock_dataplane,
    packet: *const u8,
    len: usize,
    time: u64,
    sink: *const penstock_sink,
    error: *mut *mut penstock_error,
) -> bool {
    let send = |dataplane: &mut Dataplane| {
        // SAFETY: as the caller vouches.
        let (packet, mut calls) = unsafe { (bytes(packet, len)?, calls(sink)) };
        dataplane.send_from_host(packet, time, &mut calls);
        Ok(true)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(dataplane, error, false, send) }
}

/// Lets time pass without packets. Call it once a second while none come.
///
/// # Safety
/// `dataplane` is null or was not freed; `sink` is null or a sink; `error` is null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_advance(
    dataplane: *const penstock_dataplane,
    time: u64,
    sink: *const penstock_sink,
    error: *mut *mut penstock_error,
) -> bool {
    let advance = |dataplane: &mut Dataplane| {
        // SAFETY: as the caller vouches.
        dataplane.advance(time, &mut unsafe { calls(sink) });
        Ok(true)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(dataplane, error, false, advance) }
}

/// Puts the rules of a session in force. Connections, counters and elements of sets stay.
///
/// # Safety
/// `dataplane` and `session` are null or were not freed; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_set_rules(
    dataplane: *const penstock_dataplane,
    session: *const penstock_session,
    error: *mut *mut penstock_error,
) -> bool {
    let set_rules = |dataplane: &mut Dataplane| {
        // SAFETY: as the caller vouches.
        let rules = unsafe { deref(session) }?.exclusive().with(|session| Ok(session.rules()))?;
        dataplane.set_rules(&rules);
        Ok(true)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(dataplane, error, false, set_rules) }
}

/// Traces every packet from now on, or no longer.
///
/// # Safety
/// `dataplane` is null or was not freed; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_trace_all(
    dataplane: *const penstock_dataplane,
    on: bool,
    error: *mut *mut penstock_error,
) -> bool {
    let trace_all = |dataplane: &mut Dataplane| {
        dataplane.trace_all(on);
        Ok(true)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(dataplane, error, false, trace_all) }
}

/// What happened to how many packets so far. All 0 for null.
///
/// # Safety
/// `dataplane` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_counters(
    dataplane: *const penstock_dataplane,
) -> penstock_counters {
    let counters = |dataplane: &mut Dataplane| {
        let counters = dataplane.counters();
        Ok(penstock_counters {
            received: counters.received,
            sent: counters.transmitted,
            delivered: counters.delivered,
            dropped: counters.dropped(),
            from_host: counters.from_host,
            waiting: dataplane.waiting(),
        })
    };
    // SAFETY: as the caller vouches.
    unsafe { with(dataplane, ptr::null_mut(), penstock_counters::default(), counters) }
}

/// Frees a dataplane. Null is left alone.
///
/// # Safety
/// `dataplane` is null or was not freed, and no callback of it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_dataplane_free(dataplane: *mut penstock_dataplane) {
    // SAFETY: as the caller vouches.
    unsafe { take(dataplane) };
}
