// SPDX-License-Identifier: Apache-2.0

//! Finished code, and calling it.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use penstock_packet::{Frame, Packet};
use penstock_program::image::RuleIndex;
use penstock_program::{DynamicSet, WorkerNumber};

use crate::Code;
use crate::Tables;
use crate::host::{Helpers, Host};
use crate::outcome::{self, Decision};
use crate::profile::{Profile, ProfileLine};

pub(crate) type OnePacket = unsafe extern "C" fn(*mut Packet, *mut c_void, u64) -> u64;
pub(crate) type Burst = unsafe extern "C" fn(*mut Packet, u64, *mut c_void, u64, *mut u64) -> u64;

pub(crate) type Frames =
    unsafe extern "C" fn(*const Frame<'_>, u64, *mut Packet, u64, *mut u64) -> u64;

pub(crate) type EgressPrecheck = unsafe extern "C" fn(*const Frame<'_>, u64) -> u64;

/// The code of a generation, which several workers may run at the same time: what differs between
/// them is an argument. It holds on to the generation, and its memory goes when it is dropped.
pub struct Compiled {
    pub(crate) code: Code,
    /// By number of the list.
    pub(crate) lists: Vec<Functions>,
    /// Base chains left to the interpreter.
    pub(crate) interpreted: usize,
    pub(crate) profile: Option<Box<Profile>>,
    pub(crate) helpers: &'static Helpers,
    pub(crate) _tables: Tables,
    /// What the code points into.
    pub(crate) _image: Arc<dyn Any + Send + Sync>,
}

/// Functions of a list.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    pub(crate) one: OnePacket,
    pub(crate) burst: Option<Burst>,
    pub(crate) frames: Option<Frames>,
    /// Sets that packets change, in which `frames` looks: then it decides on no frame after one
    /// that goes on.
    pub(crate) dynamic_sets: Vec<Arc<DynamicSet>>,
    pub(crate) egress_precheck: Option<EgressPrecheck>,
    /// Nothing that needs a host is called unless the packet is traced.
    pub(crate) without_host: bool,
    /// The first entry is a chain that the interpreter runs for its lookup.
    pub(crate) starts_with_lookup: bool,
}

impl Functions {
    /// The code for frames, while it knows all that follows from lookups. What is added by others
    /// with statements while frames are run has them from the next ones on.
    #[inline]
    fn frames(&self) -> Option<Frames> {
        let presence_only = self.dynamic_sets.iter().all(|set| set.is_presence_only());
        self.frames.filter(|_| presence_only)
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("lists", &self.lists.len())
            .field("bytes", &self.size())
            .finish()
    }
}

impl Compiled {
    /// Bytes of machine code.
    pub fn size(&self) -> u64 {
        self.code.size()
    }

    /// How many base chains, counted once per list, are left to the interpreter since no code can
    /// be made for them: rules that read registers before they write them, or chains that call each
    /// other deeper than commits allow.
    pub fn interpreted(&self) -> usize {
        self.interpreted
    }

    /// Ticks of rules and stages so far with a worker, if the code was made to count them.
    pub fn profile(&self, worker: WorkerNumber) -> Vec<ProfileLine> {
        self.profile.as_ref().map_or(Vec::new(), |profile| profile.lines(worker))
    }

    /// Whether there is code for bursts of a list ([`Bursts`](crate::Bursts)).
    #[inline]
    pub fn takes_bursts(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|functions| functions.burst.is_some())
    }

    /// Whether the first entry of a list is a chain that is run by its lookup, so that packets of a
    /// burst may be looked up beforehand ([`Host::found`]).
    #[inline]
    pub fn starts_with_lookup(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|functions| functions.starts_with_lookup)
    }

    /// Runs a packet through a list without host calls, so that no host is needed. `None`, and
    /// nothing is run, if the list is not of that kind, or the packet is traced. `worker` counts.
    #[inline]
    pub fn run_without_host(
        &self,
        list: usize,
        packet: &mut Packet,
        worker: WorkerNumber,
    ) -> Option<PackedDecision> {
        let functions = self.lists.get(list)?;
        if !functions.without_host || packet.meta.nftrace {
            return None;
        }
        // SAFETY: as in `Bound::run`, but for the host: it is only handed on to what the function
        // calls, and that is nothing for a packet that is not traced, as `compile` has seen.
        Some(PackedDecision(unsafe {
            (functions.one)(packet, std::ptr::null_mut(), distance(worker))
        }))
    }

    /// Whether there is code for frames of a list ([`List::frames`](crate::List::frames)).
    #[inline]
    pub fn takes_frames(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|functions| functions.frames().is_some())
    }

    /// Whether code for frames decides on no frame after one that goes on, since that one may
    /// change what is asked of later ones: what packets did before has to be done.
    #[inline]
    pub fn takes_frames_in_order(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|functions| !functions.dynamic_sets.is_empty())
    }

    /// Runs frames that came by one device through a list, as if they had been taken in and
    /// dissected ([`Packet::receive_dissected`]), and puts what was decided of each into
    /// `decisions`; of those that are [`PackedDecision::is_unusual`] nothing was run. `packet` has
    /// no bytes and the metadata that is the same for all of the frames: the device. `worker`
    /// counts. Gives how many of the frames were run: all, or, if the order makes a difference
    /// ([`Compiled::takes_frames_in_order`]), all up to the first one that is not dropped. `None`,
    /// and nothing is run, if there is no such code, or fewer places for decisions than frames.
    #[inline]
    pub fn run_frames(
        &self,
        list: usize,
        frames: &[Frame<'_>],
        packet: &mut Packet,
        worker: WorkerNumber,
        decisions: &mut [PackedDecision],
    ) -> Option<usize> {
        let code = self.lists.get(list)?.frames()?;
        if decisions.len() < frames.len() || packet.meta.nftrace {
            return None;
        }
        let (count, frames) = (frames.len() as u64, frames.as_ptr());
        // SAFETY: `compile` made the function for this signature; `frames` points to `count` frames
        // in a row, the bytes of which live as long, and the layout of which the code was made
        // for; it asks no host, as `compile` has seen; `PackedDecision` is a `u64`, for which there
        // are at least `count` places.
        let run =
            unsafe { code(frames, count, packet, distance(worker), decisions.as_mut_ptr().cast()) };
        Some(run.min(count) as usize)
    }

    /// Whether there is code that says of packets that they will pass a list
    /// ([`List::egress_precheck`](crate::List::egress_precheck)).
    #[inline]
    pub fn has_egress_precheck(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|functions| functions.egress_precheck.is_some())
    }

    /// Of up to 64 frames, a bit for each of `asked` of which the packet is known to pass a list
    /// without effect when it is sent: no rule changes, counts or reports anything. It is known
    /// from what does not change while a packet is forwarded without translation: that it is IPv4
    /// without options or tag, no fragment, TCP or UDP, which must hold for those of `asked`, and
    /// the first bytes of its headers. A packet without its bit may pass, too, or not. 0 if there
    /// is no such code.
    #[inline]
    pub fn egress_precheck(&self, list: usize, frames: &[Frame<'_>], asked: u64) -> u64 {
        let Some(code) = self.lists.get(list).and_then(|functions| functions.egress_precheck)
        else {
            return 0;
        };
        let last = u64::from(u64::BITS - asked.leading_zeros());
        let count = last.min(frames.len() as u64);
        let there = u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
        // SAFETY: `compile` made the function for this signature; it reads `count` frames, at most
        // 64, of their bytes no more than there are, and nothing else.
        let failed = unsafe { code(frames.as_ptr(), count) };
        asked & there & !failed
    }

    /// The code as `H` can call it; `None` if it was made for another kind of host.
    #[inline]
    pub fn bind<H: Host>(&self) -> Option<Bound<'_, H>> {
        let helpers = Helpers::of::<H>();
        // There may be several copies of a table, but mostly it is the same.
        let same = std::ptr::eq(self.helpers, helpers) || self.helpers == helpers;
        same.then_some(Bound { compiled: self, host: PhantomData })
    }
}

/// Where a worker counts, as code takes it.
#[inline]
fn distance(worker: WorkerNumber) -> u64 {
    worker.distance() as u64
}

/// Code that was made for the host `H`.
pub struct Bound<'a, H> {
    compiled: &'a Compiled,
    host: PhantomData<fn(&mut H)>,
}

impl<H> Clone for Bound<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Bound<'_, H> {}

impl<H: Host> Bound<'_, H> {
    /// Runs a packet through a list; `None` if there is no list of that number.
    #[inline]
    pub fn run(&self, list: usize, packet: &mut Packet, host: &mut H) -> Option<Decision> {
        let functions = self.compiled.lists.get(list)?;
        let cells = distance(host.worker());
        // SAFETY: the function was made by `compile` for this signature and, as `bind` made sure,
        // for helpers that take an `H`; the pointers are exclusive and live while it runs; the code
        // lives as long as `compiled`.
        let packed = unsafe { (functions.one)(packet, (&raw mut *host).cast(), cells) };
        Some(outcome::unpack_list(packed))
    }

    /// Runs packets through a list, one after the other, and puts what was decided of each into
    /// `decisions`. `None`, and nothing is run, if there is no code for that
    /// ([`Compiled::takes_bursts`]), or fewer places for decisions than packets.
    #[inline]
    pub fn run_burst(
        &self,
        list: usize,
        packets: &mut [Packet],
        host: &mut H,
        decisions: &mut [PackedDecision],
    ) -> Option<()> {
        let burst = self.compiled.lists.get(list)?.burst?;
        if decisions.len() < packets.len() {
            return None;
        }
        let (count, packets) = (packets.len() as u64, packets.as_mut_ptr());
        let cells = distance(host.worker());
        // SAFETY: as in `run`; `packets` points to `count` contiguous packets without another user,
        // and `PackedDecision` is a `u64`, for which there are at least `count` places.
        unsafe {
            burst(packets, count, (&raw mut *host).cast(), cells, decisions.as_mut_ptr().cast())
        };
        Some(())
    }
}

/// A [`Decision`] as code gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PackedDecision(u64);

impl PackedDecision {
    /// Whether all entries let the packet pass.
    #[inline]
    pub fn is_pass(self) -> bool {
        self.0 <= outcome::ACCEPTED
    }

    /// Whether it is no decision: code for frames leaves the frame to code for packets.
    #[inline]
    pub fn is_unusual(self) -> bool {
        self.0 == outcome::UNUSUAL
    }

    /// The rule that drops the packet, if it is one that does.
    #[inline]
    pub fn dropped_by(self) -> Option<RuleIndex> {
        outcome::dropped_by(self.0)
    }

    /// What was decided.
    pub fn unpack(self) -> Decision {
        outcome::unpack_list(self.0)
    }
}
