// SPDX-License-Identifier: Apache-2.0

//! The Python module `penstock`. `penstock.pyi` describes it for people and type checkers.

use std::sync::{Mutex, PoisonError};

use penstock::{Counted, Engine, Event, Fate, Severity};
use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

create_exception!(penstock, Error, PyValueError, "Why something was refused.");

/// A message about a text, with its place.
#[pyclass(frozen, get_all, module = "penstock")]
struct Message {
    /// `error` or `warning`.
    severity: &'static str,
    /// The message without its place.
    text: String,
    /// Name of the text, if the message is about a place in one.
    file: Option<String>,
    /// Line, from 1.
    line: Option<usize>,
    /// First column, from 1.
    first: Option<usize>,
    /// Last column, from 1.
    last: Option<usize>,
}

#[pymethods]
impl Message {
    fn __repr__(&self) -> String {
        let Message { severity, text, file, line, first, last } = self;
        match (file, line, first, last) {
            (Some(file), Some(line), Some(first), Some(last)) => {
                format!("<Message {file}:{line}:{first}-{last}: {severity}: {text}>")
            }
            (Some(file), Some(line), ..) => format!("<Message {file}:{line}: {severity}: {text}>"),
            _ => format!("<Message {severity}: {text}>"),
        }
    }
}

impl Message {
    fn of(message: &penstock::Message) -> Self {
        let severity = match message.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let place = message.position.as_ref();
        Message {
            severity,
            text: message.text.clone(),
            file: place.and_then(|p| p.file.clone()),
            line: place.map(|p| p.line as usize),
            first: place.map(|p| p.first),
            last: place.map(|p| p.last),
        }
    }
}

/// The exception for an error, with its messages as the attribute `messages`.
fn refused(error: penstock::Error) -> PyErr {
    let text = error.to_string();
    let messages = match error {
        penstock::Error::Ruleset(error) => error.messages().iter().map(Message::of).collect(),
        penstock::Error::Network { file, line, message } => vec![Message {
            severity: "error",
            text: message,
            file: Some(file),
            line: Some(line),
            first: None,
            last: None,
        }],
        _ => Vec::new(),
    };
    exception(text, messages)
}

fn exception(text: String, messages: Vec<Message>) -> PyErr {
    Python::attach(|py| {
        let error = Error::new_err(text);
        match error.value(py).setattr("messages", messages) {
            Ok(()) => error,
            Err(other) => other,
        }
    })
}

/// Nanoseconds since the epoch: those given, or the machine's.
fn time_or_now(time: Option<u64>) -> u64 {
    use std::time::SystemTime;
    time.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    })
}

/// The bytes of a packet: those of `bytes`, or of what `bytes()` makes of it, such as a packet of
/// scapy.
fn bytes_of(packet: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = packet.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    // bytes(5) would be five zero bytes.
    if packet.extract::<i64>().is_ok() || packet.extract::<String>().is_ok() {
        return Err(PyTypeError::new_err("a packet is bytes, or something that bytes() takes"));
    }
    let bytes = packet.py().get_type::<PyBytes>().call1((packet,))?;
    Ok(bytes
        .cast_into::<PyBytes>()
        .map_err(|e| PyTypeError::new_err(e.to_string()))?
        .as_bytes()
        .to_vec())
}

/// Devices, addresses, routes and neighbours, from lines for `ip -batch`.
#[pyclass(frozen, module = "penstock")]
struct Network(penstock::Network);

#[pymethods]
impl Network {
    #[new]
    fn new(lines: &str) -> PyResult<Self> {
        penstock::Network::from_text(lines).map(Network).map_err(refused)
    }

    /// Reads a file of such lines.
    #[staticmethod]
    fn read(path: std::path::PathBuf) -> PyResult<Self> {
        penstock::Network::read(path).map(Network).map_err(refused)
    }

    /// Names of the devices, in order of creation.
    #[getter]
    fn devices(&self) -> Vec<String> {
        self.0.devices().map(|(_, name)| name.to_owned()).collect()
    }
}

/// What a rule, or a named counter, has counted.
#[pyclass(frozen, get_all, module = "penstock")]
struct Counter {
    family: String,
    table: String,
    chain: Option<String>,
    handle: Option<u64>,
    name: String,
    packets: u64,
    bytes: u64,
}

#[pymethods]
impl Counter {
    fn __repr__(&self) -> String {
        let Counter { family, table, name, packets, bytes, .. } = self;
        format!("<Counter {family} {table} {name:?}: packets {packets} bytes {bytes}>")
    }
}

/// A ruleset.
#[pyclass(frozen, module = "penstock")]
struct Ruleset(penstock::Ruleset);

#[pymethods]
impl Ruleset {
    #[new]
    #[pyo3(signature = (network, rules, *, name = "ruleset", defines = None, time = None))]
    fn new(
        network: &Network,
        rules: &str,
        name: &str,
        defines: Option<Vec<(String, String)>>,
        time: Option<u64>,
    ) -> PyResult<Self> {
        let mut loader = penstock::Loader::new(&network.0).name(name).time(time_or_now(time));
        for (name, value) in defines.unwrap_or_default() {
            loader = loader.define(&name, &value);
        }
        loader.text(rules).map(Ruleset).map_err(refused)
    }

    /// Reads a ruleset as `nft -j -f` does.
    #[staticmethod]
    fn from_json(network: &Network, rules: &str) -> PyResult<Self> {
        penstock::Ruleset::from_json(&network.0, rules).map(Ruleset).map_err(refused)
    }

    /// Reads a file as `nft -f` does.
    #[staticmethod]
    fn read(network: &Network, path: std::path::PathBuf) -> PyResult<Self> {
        penstock::Ruleset::read(&network.0, path).map(Ruleset).map_err(refused)
    }

    /// Takes the ruleset of the bytes of a state file.
    #[staticmethod]
    #[pyo3(signature = (network, state, *, time = None))]
    fn from_state(network: &Network, state: &[u8], time: Option<u64>) -> PyResult<Self> {
        let ruleset = penstock::Ruleset::from_state(&network.0, state, time_or_now(time));
        ruleset.map(Ruleset).map_err(refused)
    }

    /// The ruleset as `nft list ruleset` prints it.
    #[pyo3(signature = (*, time = None))]
    fn text(&self, time: Option<u64>) -> String {
        self.0.to_text(time_or_now(time))
    }

    /// The ruleset as `nft -j list ruleset` prints it.
    #[pyo3(signature = (*, time = None))]
    fn json(&self, time: Option<u64>) -> String {
        self.0.to_json(time_or_now(time))
    }

    /// The ruleset as the bytes of a state file.
    #[pyo3(signature = (*, time = None))]
    fn state<'py>(&self, py: Python<'py>, time: Option<u64>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_state(time_or_now(time)))
    }

    /// All counters: of each table the named ones, and then those of rules.
    fn counters(&self) -> Vec<Counter> {
        let counter = |counter: penstock::Counter| {
            let (chain, handle, name) = match counter.what {
                Counted::Rule { chain, handle, text } => (Some(chain), Some(handle), text),
                Counted::Object { name } => (None, None, name),
            };
            let penstock::Counter { family, table, packets, bytes, .. } = counter;
            Counter { family: family.name().to_owned(), table, chain, handle, name, packets, bytes }
        };
        self.0.counters().into_iter().map(counter).collect()
    }
}

/// Changes a ruleset by commands of nft, each text one transaction.
#[pyclass(frozen, module = "penstock")]
struct Session(Mutex<penstock::Session>);

#[pymethods]
impl Session {
    #[new]
    fn new(ruleset: &Ruleset) -> PyResult<Self> {
        let session = penstock::Session::new(ruleset.0.clone()).map_err(refused)?;
        Ok(Session(Mutex::new(session)))
    }

    /// Runs commands; returns what nft prints on standard output.
    #[pyo3(signature = (commands, *, time = None))]
    fn run(&self, commands: &str, time: Option<u64>) -> PyResult<String> {
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = session.run(commands, time_or_now(time)).map_err(refused)?;
        Ok(answer.output)
    }

    /// The ruleset as it is now.
    #[getter]
    fn ruleset(&self) -> Ruleset {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ruleset(session.ruleset().clone())
    }
}

/// What came of a packet.
#[pyclass(frozen, get_all, module = "penstock")]
struct Outcome {
    /// `sent`, `delivered`, `dropped` or `held`.
    fate: &'static str,
    /// The device that the packet left by, or came to the host by.
    device: Option<String>,
    /// Why it was dropped.
    reason: Option<String>,
    /// The rule or policy that dropped it.
    rule: Option<String>,
    /// Frames that left, each with its device.
    sent: Vec<(String, Py<PyBytes>)>,
    /// Packets that came to the host.
    delivered: Vec<Py<PyBytes>>,
    /// Prefixes of `log` statements.
    logs: Vec<String>,
    /// Lines of `nft monitor trace`.
    trace: Vec<String>,
}

#[pymethods]
impl Outcome {
    fn __repr__(&self) -> String {
        let more = [&self.device, &self.reason, &self.rule].map(|word| word.as_deref());
        let more: Vec<&str> = more.into_iter().flatten().collect();
        format!("<Outcome {} {}>", self.fate, more.join(" "))
    }
}

/// What packets pass through: hooks, connections, NAT, routing.
#[pyclass(frozen, module = "penstock")]
struct Dataplane(Mutex<penstock::Dataplane>);

impl Dataplane {
    fn with<T>(&self, work: impl FnOnce(&mut penstock::Dataplane) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn outcome(py: Python<'_>, network: &penstock::Network, outcome: &penstock::Outcome) -> Outcome {
    let name = |device| network.name(device).unwrap_or_default().to_owned();
    let (fate, device, reason) = match outcome.fate() {
        Fate::Sent(device) => ("sent", Some(name(device)), None),
        Fate::Delivered(device) => ("delivered", Some(name(device)), None),
        Fate::Dropped(reason) => ("dropped", None, Some(reason.to_string())),
        Fate::Held => ("held", None, None),
    };
    let rule = outcome.dropped_by().filter(|_| fate == "dropped").map(str::to_owned);
    let (mut sent, mut delivered) = (Vec::new(), Vec::new());
    let (mut logs, mut trace) = (Vec::new(), Vec::new());
    for event in &outcome.events {
        match event {
            Event::Sent { device, frame, .. } => {
                sent.push((name(*device), PyBytes::new(py, frame).unbind()));
            }
            Event::Delivered { packet, .. } => delivered.push(PyBytes::new(py, packet).unbind()),
            Event::Logged { prefix, .. } => logs.push(prefix.clone()),
            Event::Traced(line) => trace.push(line.clone()),
            _ => {}
        }
    }
    Outcome { fate, device, reason, rule, sent, delivered, logs, trace }
}

#[pymethods]
impl Dataplane {
    #[new]
    #[pyo3(signature = (network, ruleset, *, seed = None, engine = None))]
    fn new(
        network: &Network,
        ruleset: &Ruleset,
        seed: Option<u64>,
        engine: Option<&str>,
    ) -> PyResult<Self> {
        let mut builder = penstock::Dataplane::builder(&network.0);
        builder = match engine {
            None => builder,
            Some("interpreter") => builder.engine(Engine::Interpreter),
            Some("jit") => builder.engine(Engine::Jit),
            Some(other) => {
                return Err(exception(format!("there is no engine {other}"), Vec::new()));
            }
        };
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        let dataplane = builder.build(&ruleset.0).map_err(refused)?;
        Ok(Dataplane(Mutex::new(dataplane)))
    }

    /// Passes a frame that came in by a device.
    #[pyo3(signature = (device, frame, *, time = None))]
    fn process(
        &self,
        py: Python<'_>,
        device: &str,
        frame: &Bound<'_, PyAny>,
        time: Option<u64>,
    ) -> PyResult<Outcome> {
        let frame = bytes_of(frame)?;
        self.with(|dataplane| {
            let device = dataplane.network().device(device).map_err(refused)?;
            let happened = dataplane.process(device, &frame, time_or_now(time));
            Ok(outcome(py, dataplane.network(), &happened))
        })
    }

    /// Sends an IP packet as the host does.
    #[pyo3(signature = (packet, *, time = None))]
    fn send(
        &self,
        py: Python<'_>,
        packet: &Bound<'_, PyAny>,
        time: Option<u64>,
    ) -> PyResult<Outcome> {
        let packet = bytes_of(packet)?;
        self.with(|dataplane| {
            let mut happened = penstock::Outcome::default();
            dataplane.send_from_host(&packet, time_or_now(time), &mut happened);
            Ok(outcome(py, dataplane.network(), &happened))
        })
    }

    /// Lets time pass without packets.
    fn advance(&self, time: u64) {
        self.with(|dataplane| dataplane.advance(time, &mut ()));
    }

    /// Puts the rules of a session in force.
    fn set_rules(&self, session: &Session) {
        let rules = session.0.lock().unwrap_or_else(PoisonError::into_inner).rules();
        self.with(|dataplane| dataplane.set_rules(&rules));
    }

    /// Traces every packet from now on, or no longer.
    fn trace_all(&self, on: bool) {
        self.with(|dataplane| dataplane.trace_all(on));
    }

    /// What happened to how many packets so far.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.with(|dataplane| dataplane.counters());
        let (all, drops) = (PyDict::new(py), PyDict::new(py));
        for (reason, count) in counters.all_drops() {
            drops.set_item(reason.to_string(), count)?;
        }
        for (name, count) in [
            ("received", counters.received),
            ("sent", counters.transmitted),
            ("delivered", counters.delivered),
            ("from_host", counters.from_host),
            ("dropped", counters.dropped()),
        ] {
            all.set_item(name, count)?;
        }
        all.set_item("drops", drops)?;
        Ok(all)
    }

    /// The connections that are tracked, each as a line of `conntrack -L`.
    fn connections(&self) -> Vec<String> {
        self.with(|dataplane| dataplane.connections().collect())
    }
}

/// The packet path of nftables: rulesets over packets of a program.
#[pymodule]
#[pyo3(name = "penstock")]
fn penstock_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<Message>()?;
    module.add_class::<Network>()?;
    module.add_class::<Ruleset>()?;
    module.add_class::<Counter>()?;
    module.add_class::<Session>()?;
    module.add_class::<Dataplane>()?;
    module.add_class::<Outcome>()
}
