// SPDX-License-Identifier: Apache-2.0

//! Requests between threads.
//!
//! | file | is |
//! | --- | --- |
//! | [`workers`] | queries and commands for all workers |
//! | [`inbox`] | the queue of a thread's requests |
//! | `barrier` | a point that all workers reach before one continues |

mod barrier;
pub(crate) mod inbox;
pub(crate) mod workers;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use penstock_conntrack::Conntrack;
use penstock_dataplane::{BpfPrograms, Dataplane, Engine, NewLink};
use penstock_ebpf::rules::Record;
use penstock_io::device::MirrorTx;
use penstock_io::queue::Answer;
use penstock_net::{DevconfSysctls, Network};
use penstock_nfnetlink::VerdictChange;
use penstock_print::show::status::Status;
use penstock_print::trace::Tracer;
use penstock_program::image::ChainIndex;
use penstock_ruleset::link::{CannotOffload, Linked, LinkedFlowtable};
use penstock_system::SystemNames;

use crate::broadcast::Broadcast;
use crate::config::{PortConfig, PortWishes};
use crate::devices::ports::WireShare;
use crate::events::Listeners;
use crate::host_sysctls::{Given, Values};
use crate::loggers::Logger;
use crate::port_share::PortShare;
use crate::probe::Probe;
use crate::queues::{Program, Wishes};
pub(crate) use barrier::Barrier;

/// Prints traces, with the names of this machine.
pub(crate) type SystemTracer = Tracer<Arc<SystemNames>>;

/// Reads something of a worker's path, and says it to those who have asked.
pub(crate) type Look = Box<dyn FnOnce(&Dataplane) + Send>;

/// Does something with a worker's connections, and tells those who have asked.
pub(crate) type Act = Box<dyn FnOnce(&mut Conntrack) + Send>;

/// What an answer about a packet says that comes by netlink alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Further {
    /// New priority.
    pub(crate) priority: Option<u32>,
    /// What becomes of the packet's connection.
    pub(crate) connection: Option<Box<VerdictChange>>,
    /// What becomes of the link layer of a bridged frame.
    pub(crate) link: Option<NewLink>,
}

/// Does something with a worker's path, and tells those who have asked.
pub(crate) type Change = Box<dyn FnOnce(&mut Dataplane) + Send>;

/// What others ask of a worker.
pub(crate) enum Request {
    /// Another state of the network is in force.
    Network(Arc<Network>),
    /// Sysctls have these values now.
    Sysctls(Values),
    /// Another generation is in force, and these chains run on devices (by index). Answered when it
    /// is.
    Rules(Arc<Linked>, Vec<(ChainIndex, u32)>, Sender<()>),
    /// These chains of the generation run on devices from now on, and no others: when all workers
    /// have done what they have received before.
    Offloaded(Vec<(ChainIndex, u32)>, Barrier),
    /// These BPF programs are attached, and no others.
    Bpf(BpfPrograms, Sender<()>),
    /// Whether packets are still done.
    Alive(Sender<()>),
    /// What happened so far.
    Status(Sender<Status>),
    /// Replaces the device of a port, or removes it.
    Wire(usize, Option<Box<WireShare>>),
    /// There is one more port: frames of it are received from now on.
    AddPort(Box<PortShare>),
    /// The port with this number is no more, once all workers have done what came by it. What the
    /// worker had of it goes to who asks, since closing it takes time.
    RemovePort(usize, Barrier, Sender<Option<PortShare>>),
    /// Somebody listens to a port on its TAP: its frames are shown there.
    Mirror(Box<MirrorTx>),
    /// Nobody listens any more to the port whose TAP has this index. What the worker had for that
    /// goes to who asks, since closing it takes time.
    EndMirror(u32, Sender<Option<MirrorTx>>),
    /// Devices, by index, that can forward flows.
    OffloadDevices(Vec<u32>),
    /// Reads state of the dataplane, between two bursts.
    Look(Look),
    /// Reads or changes the state of the dataplane, between two bursts.
    Change(Change),
    /// Reads or changes the connections, between two bursts.
    Connections(Act),
    /// These are told of what happens to connections, and nobody else.
    WatchConnections(Listeners),
    /// Whether devices can forward the flows of these flowtables.
    CanOffload(Vec<LinkedFlowtable>, Sender<Result<(), CannotOffload>>),
    /// Connections from a number on, so many numbers, as a part of a dump, and the number to
    /// continue with.
    Dump(u32, u32, Sender<(String, Option<u32>)>),
    /// Loads connections of a dump into the table. Answered with the error.
    Load(String, Sender<Result<usize, String>>),
    /// Code counts the time of rules and stages from now on, or not.
    Profile(Engine, bool),
    /// What it has counted: name, times, ticks.
    ProfileLines(Sender<Vec<(String, u64, u64)>>),
    /// A program listens to a queue, or no longer.
    Queue(u16, Option<Program>),
    /// The program that listens to a queue wants something else of its packets.
    QueueWishes(u16, Wishes),
    /// Answers of programs to packets of queues, in their order, each with the number of the queue.
    Answers(Arc<[(u16, Answer, Further)]>),
    /// These get packets that rules log, and nobody else with a netfilter socket.
    Loggers(Arc<[Logger]>),
    /// One more capture.
    Probe(Probe),
    /// The capture with this number ends.
    EndProbe(u32),
    /// Steps of traced packets go there, or nowhere.
    Trace(Option<(Arc<SystemTracer>, Arc<Broadcast>)>),
    /// What programs of an attached ruleset have told. Answered when it is passed on.
    Records(Vec<Record>, Sender<()>),
    /// Ruleset and connections are there: frames are received from now on.
    Begin,
    /// The end.
    Stop,
}

/// What others ask of the thread that keeps the network in step with the kernel's.
#[derive(Debug)]
pub(crate) enum SyncRequest {
    /// The link address of a neighbour is wanted, on the device with this index.
    Resolve(u32, IpAddr),
    /// These sysctls, and settings of devices, count instead of the host's from now on.
    Sysctls(Given, DevconfSysctls),
    /// Something is wanted of the ports. Answered with what is to be printed, or the error.
    Ports(PortRequest, Sender<Result<String, String>>),
    /// The end.
    Stop,
}

/// What can be asked of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortRequest {
    /// These devices become ports: all of them, or none.
    Add(Vec<PortConfig>),
    /// The ports with these names, or of devices with these names, are returned: all of them, or
    /// none if one is not there.
    Remove(Vec<String>),
    /// All ports, and devices that are waited for; as JSON or as text.
    List(bool),
    /// These are to be the ports that the configuration names; ports that were added by hand stay.
    Configure(PortWishes),
}
