// SPDX-License-Identifier: Apache-2.0

//! The dataplane: what packets pass through.

use std::cell::OnceCell;
use std::sync::Arc;

use penstock_conntrack::Style;
use penstock_net::DevconfSysctls;

use crate::names::NetworkNames;
use crate::sink::Adapter;
use crate::{
    Counters, Device, DropReason, Engine, Error, Network, Outcome, QueueAnswer, QueueId, Rules,
    Ruleset, Settings, Sink,
};
use penstock_print::trace::Tracer;

/// Bytes of the longest frame: an Ethernet header with two tags, and the longest IP packet.
pub const MAX_FRAME: usize = 14 + 8 + 65_535;

/// A frame from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The device that it came in by.
    pub device: Device,
    /// The frame with its Ethernet header and tags, without frame check sequence. Its transport
    /// checksum is whole: see [`finish_checksum`](crate::finish_checksum) for one that is not.
    pub bytes: &'a [u8],
    /// When it came, in nanoseconds since the epoch.
    pub time: u64,
}

/// The packet path of one network namespace that forwards IPv4 and IPv6: hooks in the kernel's
/// order, routing, connections, neighbours, the host's own answers.
///
/// See the [crate's documentation](crate) for an example.
#[derive(Debug)]
pub struct Dataplane {
    path: penstock_dataplane::Dataplane,
    network: Network,
    devconf: DevconfSysctls,
    rules: Rules,
    names: Arc<NetworkNames>,
    tracer: OnceCell<Tracer<Arc<NetworkNames>>>,
}

/// What a dataplane is like.
#[derive(Clone, Debug)]
pub struct DataplaneBuilder {
    network: Network,
    settings: Settings,
    devconf: DevconfSysctls,
    engine: Option<Engine>,
    seed: Option<u64>,
}

impl DataplaneBuilder {
    /// All settings at once. Times are nanoseconds.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// A setting by the name that it has in the kernel, with its unit there:
    /// `net.netfilter.nf_conntrack_max`, `net.ipv4.conf.wan.rp_filter`. Settings of devices count
    /// in every network that is put in force, as far as it has the devices.
    ///
    /// # Errors
    /// [`Error::Setting`]: there is none of this name, or it does not take this value;
    /// [`Error::NoDevice`]: the network has no device of the name.
    pub fn sysctl(mut self, name: &str, value: u32) -> Result<Self, Error> {
        use penstock_dataplane::SysctlError;
        if self.devconf.set(name, value).map_err(Error::Setting)? {
            return match self.network.inner.missing_device(&self.devconf) {
                Some(device) => Err(Error::NoDevice(device.to_owned())),
                None => Ok(self),
            };
        }
        match self.settings.set_sysctl(name, value) {
            Ok(()) => Ok(self),
            Err(SysctlError::Unknown) => Err(Error::Setting(format!("there is no {name} here"))),
            Err(SysctlError::Value) => Err(Error::Setting(format!("{name} cannot be {value}"))),
        }
    }

    /// What runs the rules. By default [`Engine::Jit`] where machine code can be made, and else the
    /// interpreter. The results are the same.
    #[must_use]
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Makes runs repeat: random numbers, ports that NAT chooses and keys of hash tables follow
    /// from the seed. For tests: strangers who know the seed can make packets collide in hash
    /// tables.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The dataplane, with a ruleset in force.
    ///
    /// # Errors
    /// [`Error::Engine`] if machine code was asked for and none can be made, [`Error::Setting`] if
    /// there is not enough memory for the connections that the settings allow, and those of
    /// [`Ruleset::link`].
    pub fn build(self, ruleset: &Ruleset) -> Result<Dataplane, Error> {
        let DataplaneBuilder { network, settings, devconf, engine, seed } = self;
        let network = network.with_sysctls(&devconf);
        let supported = penstock_jit::supported();
        let engine = match (engine, supported) {
            (None, Ok(())) => Engine::Jit,
            (None, Err(_)) | (Some(Engine::Interpreter), _) => Engine::Interpreter,
            (Some(engine), Ok(())) => engine,
            (Some(_), Err(error)) => return Err(Error::Engine(error.to_string())),
        };
        settings.conntrack.check_room(1).map_err(Error::Setting)?;
        let rules = ruleset.link()?;
        let net = network.inner.clone();
        let mut path = match seed {
            Some(_) => penstock_dataplane::Dataplane::new(net, settings),
            None => penstock_dataplane::Dataplane::live(net, settings),
        };
        if let Some(seed) = seed {
            path.seed(seed);
        }
        path.set_engine(engine);
        path.set_rules(rules.linked.clone());
        let names = rules.names.clone();
        Ok(Dataplane { path, network, devconf, rules, names, tracer: OnceCell::new() })
    }
}

/// Runs `$method` of the path with a sink that tells `$sink`.
macro_rules! with {
    ($self:ident, $sink:expr, |$path:ident, $adapter:ident| $body:expr) => {{
        let Dataplane { path: $path, rules, names, tracer, .. } = $self;
        let $adapter = &mut Adapter { sink: $sink, rules, names, tracer };
        $body
    }};
}

impl Dataplane {
    /// A dataplane with a ruleset in force, for packets of strangers: what is chosen at random is
    /// unpredictable.
    ///
    /// # Errors
    /// As of [`DataplaneBuilder::build`].
    pub fn new(network: &Network, ruleset: &Ruleset) -> Result<Self, Error> {
        Dataplane::builder(network).build(ruleset)
    }

    /// A dataplane with more to choose.
    pub fn builder(network: &Network) -> DataplaneBuilder {
        DataplaneBuilder {
            network: network.clone(),
            settings: Settings::default(),
            devconf: DevconfSysctls::default(),
            engine: None,
            seed: None,
        }
    }

    /// Passes frames that came in by devices, and does all that follows from each before the next.
    /// Frames that came within a tenth of a millisecond are passed as a burst of at most 64: the
    /// results are the same as one by one, and sooner there.
    ///
    /// Frames that are too long ([`MAX_FRAME`]) are dropped and counted; the sink is not told.
    pub fn receive<'f, S: Sink>(
        &mut self,
        frames: impl IntoIterator<Item = Frame<'f>>,
        sink: &mut S,
    ) {
        let mut long = 0;
        let frames = frames.into_iter().filter_map(|Frame { device, bytes, time }| {
            if bytes.len() > MAX_FRAME {
                long += 1;
                return None;
            }
            Some(penstock_dataplane::Frame { device: device.index(), bytes, time })
        });
        with!(self, sink, |path, adapter| path.receive(frames, adapter));
        if long > 0 {
            self.path.count_lost(DropReason::LinkHeader, long);
        }
    }

    /// Passes one frame, and collects what came of it. `time` is in nanoseconds since the epoch.
    pub fn process(&mut self, device: Device, bytes: &[u8], time: u64) -> Outcome {
        let mut outcome = Outcome::default();
        self.receive([Frame { device, bytes, time }], &mut outcome);
        outcome
    }

    /// Sends an IP packet (`bytes` from its header on) as the host does: it is routed, and passes
    /// `output`, `postrouting` and egress.
    pub fn send_from_host<S: Sink>(&mut self, bytes: &[u8], time: u64, sink: &mut S) {
        if bytes.len() > MAX_FRAME {
            return self.path.count_lost(DropReason::HostPacket, 1);
        }
        with!(self, sink, |path, adapter| path.send_host(bytes, time, adapter));
    }

    /// Sends a frame as the host does from a packet socket: only egress of the device sees it.
    pub fn send_raw<S: Sink>(&mut self, frame: Frame<'_>, sink: &mut S) {
        let Frame { device, bytes, time } = frame;
        if bytes.len() > MAX_FRAME {
            return self.path.count_lost(DropReason::HostPacket, 1);
        }
        with!(self, sink, |path, adapter| path.send_raw(device.index(), bytes, time, adapter));
    }

    /// Lets time pass without packets, to a time in nanoseconds since the epoch: fragments and
    /// connections expire, with their events. A program calls it from time to time without packets;
    /// once a second is enough.
    pub fn advance<S: Sink>(&mut self, time: u64, sink: &mut S) {
        with!(self, sink, |path, adapter| path.advance(time, adapter));
    }

    /// Answers for a packet that waits in a queue, which continues or ends at `time`.
    ///
    /// # Errors
    /// [`Error::NotQueued`]: no such packet waits, maybe because the rules changed meanwhile.
    pub fn answer<S: Sink>(
        &mut self,
        id: QueueId,
        answer: &QueueAnswer<'_>,
        time: u64,
        sink: &mut S,
    ) -> Result<(), Error> {
        let answered = with!(self, sink, |path, adapter| path.verdict(id.0, answer, time, adapter));
        answered.map_err(|_| Error::NotQueued)
    }

    /// Puts rules in force for all packets that come after. Connections, counters and elements of
    /// sets stay.
    pub fn set_rules(&mut self, rules: &Rules) {
        self.path.set_rules(rules.linked.clone());
        self.rules = rules.clone();
        self.names = rules.names.clone();
        self.tracer = OnceCell::new();
    }

    /// Puts another network in force at `time`. Devices that are in both keep their indexes;
    /// connections, and what bridges have learned, continue. Packets that waited for a neighbour
    /// that is known now leave.
    pub fn set_network<S: Sink>(&mut self, network: &Network, time: u64, sink: &mut S) {
        let network = network.clone().with_sysctls(&self.devconf);
        let net = network.inner.clone();
        with!(self, sink, |path, adapter| path.set_network(net, time, adapter));
        self.network = network;
    }

    /// Traces every packet from its first hook on, as if the first rule were `meta nftrace set 1`.
    pub fn trace_all(&mut self, on: bool) {
        self.path.trace_all(on);
    }

    /// Shows all frames of these devices to [`Sink::captured`], and of no others.
    pub fn capture(&mut self, devices: &[Device]) {
        let devices: Vec<u32> = devices.iter().map(|device| device.index()).collect();
        self.path.set_taps(&devices);
    }

    /// The network in force.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What happened so far: frames received and sent, packets dropped by reason.
    pub fn counters(&self) -> Counters {
        self.path.counters()
    }

    /// Packets that wait: in queues of rules, for a neighbour's link address, for the rest of their
    /// fragments.
    pub fn waiting(&self) -> u64 {
        self.path.waiting()
    }

    /// The connections that are tracked, each as a line in the form of `conntrack -L`.
    pub fn connections(&self) -> impl Iterator<Item = String> {
        self.path.conntrack().iter().map(|connection| connection.line(Style::default()).to_string())
    }

    /// The connections as text that [`Dataplane::load_connections`] reads.
    pub fn dump_connections(&self) -> String {
        self.path.conntrack().dump()
    }

    /// Adds the connections of a dump at a time in nanoseconds since the epoch, and gives how many.
    ///
    /// # Errors
    /// [`Error::Connections`]: a line cannot be read, a connection is there already, or the table is
    /// full. Lines before it are loaded.
    pub fn load_connections(&mut self, dump: &str, now: u64) -> Result<usize, Error> {
        self.path
            .conntrack_mut()
            .load(dump, now)
            .map_err(|error| Error::Connections { line: error.line, reason: error.reason })
    }

    /// Why there is no machine code for the rules or BPF programs in force, if it was tried: the
    /// interpreter runs them.
    pub fn compile_error(&self) -> Option<String> {
        self.path.compile_error()
    }
}
