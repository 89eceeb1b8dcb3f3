// SPDX-License-Identifier: Apache-2.0

//! The public interface, item by item with its types: what compiles here keeps compiling in
//! programs. A change that does not compile is a breaking one, and belongs in the changelog. And
//! the list of names in `src/lib.rs` is the one that is here.

use std::path::Path;
use std::time::Duration;

use penstock::*;

type R<T> = Result<T, Error>;

/// Functions and their types.
#[test]
fn function_signatures_are_stable() {
    let _: fn(&str) -> R<Network> = Network::from_text;
    let _: fn(&str, &str) -> R<Network> = Network::from_named_text;
    let _ = |path: &Path| -> R<Network> { Network::read(path) };
    let _: fn() -> NetworkBuilder = Network::builder;
    let _: fn(&Network, &str) -> R<Device> = Network::device;
    let _: fn(&Network, Device) -> Option<&str> = Network::name;
    let _: fn(&Network, Device) -> Option<[u8; 6]> = Network::address;
    let _ = |network: Network| network.devices().collect::<Vec<(Device, &str)>>().len();
    let _: fn(NetworkBuilder, &str) -> NetworkBuilder = NetworkBuilder::line;
    let _: fn(NetworkBuilder, &str, [u8; 6]) -> NetworkBuilder = NetworkBuilder::ethernet;
    let _: fn(NetworkBuilder, &str, u32) -> NetworkBuilder = NetworkBuilder::mtu;
    let _: fn(NetworkBuilder, &str, std::net::IpAddr, u8) -> NetworkBuilder =
        NetworkBuilder::address;
    let _: fn(NetworkBuilder, std::net::IpAddr, u8, std::net::IpAddr) -> NetworkBuilder =
        NetworkBuilder::route;
    let _: fn(NetworkBuilder, std::net::IpAddr) -> NetworkBuilder = NetworkBuilder::default_route;
    let _: fn(NetworkBuilder, &str, std::net::IpAddr, [u8; 6]) -> NetworkBuilder =
        NetworkBuilder::neighbour;
    let _: fn(NetworkBuilder) -> R<Network> = NetworkBuilder::build;
    const DEVICE: Device = Device::from_index(1);
    const INDEX: u32 = DEVICE.index();
    assert_eq!((INDEX, MAX_FRAME > 65_535, MAX_DEVICE_INDEX > 1), (1, true, true));

    let _: fn(&Network) -> Ruleset = Ruleset::empty;
    let _: fn(&Network, &str) -> R<Ruleset> = Ruleset::from_text;
    let _: fn(&Network, &str) -> R<Ruleset> = Ruleset::from_json;
    let _ = |net: &Network, path: &Path| -> R<Ruleset> { Ruleset::read(net, path) };
    let _: fn(&Network, &[u8], u64) -> R<Ruleset> = Ruleset::from_state;
    let _: fn(&Ruleset, u64) -> Vec<u8> = Ruleset::to_state;
    let _: fn(&Ruleset, u64) -> String = Ruleset::to_text;
    let _: fn(&Ruleset, u64) -> String = Ruleset::to_json;
    let _: fn(&Ruleset) -> Vec<Counter> = Ruleset::counters;
    let _: fn(&Ruleset) -> R<Rules> = Ruleset::link;
    let _: fn(&Rules) -> u32 = Rules::generation;

    let _: fn(&Network) -> Loader = Loader::new;
    let _: fn(Loader, &str) -> Loader = Loader::name;
    let _: fn(Loader, bool) -> Loader = Loader::includes;
    let _: fn(Loader, bool) -> Loader = Loader::system_names;
    let _: fn(Loader, &str, &str) -> Loader = Loader::define;
    let _: fn(Loader, Limits) -> Loader = Loader::limits;
    let _: fn(Loader, Duration) -> Loader = Loader::time_allowed;
    let _: fn(Loader, u64) -> Loader = Loader::time;
    let _: fn(&Loader, &str) -> R<Ruleset> = Loader::text;
    let _: fn(&Loader, &str) -> R<Ruleset> = Loader::json;
    let _ = |loader: &Loader, path: &Path| -> R<Ruleset> { loader.file(path) };

    let _: fn(Ruleset) -> R<Session> = Session::new;
    let _: fn(&mut Session, &str, u64) -> R<Answer> = Session::run;
    let _: fn(&mut Session, &str, u64) -> R<Answer> = Session::run_json;
    let _: fn(&mut Session, &str, u64) -> R<Answer> = Session::check;
    let _: fn(&mut Session, Limits) = Session::set_limits;
    let _: fn(&mut Session, &Network) = Session::set_network;
    let _: fn(&Session) -> &Ruleset = Session::ruleset;
    let _: fn(&Session) -> Rules = Session::rules;

    let _: fn(&Network, &Ruleset) -> R<Dataplane> = Dataplane::new;
    let _: fn(&Network) -> DataplaneBuilder = Dataplane::builder;
    let _: fn(DataplaneBuilder, Settings) -> DataplaneBuilder = DataplaneBuilder::settings;
    let _: fn(DataplaneBuilder, &str, u32) -> R<DataplaneBuilder> = DataplaneBuilder::sysctl;
    let _: fn(DataplaneBuilder, Engine) -> DataplaneBuilder = DataplaneBuilder::engine;
    let _: fn(DataplaneBuilder, u64) -> DataplaneBuilder = DataplaneBuilder::seed;
    let _: fn(DataplaneBuilder, &Ruleset) -> R<Dataplane> = DataplaneBuilder::build;
    let _ = |dataplane: &mut Dataplane, frame: Frame<'_>| dataplane.receive([frame], &mut ());
    let _: fn(&mut Dataplane, Device, &[u8], u64) -> Outcome = Dataplane::process;
    let _: fn(&mut Dataplane, &[u8], u64, &mut ()) = Dataplane::send_from_host::<()>;
    let _: fn(&mut Dataplane, Frame<'_>, &mut ()) = Dataplane::send_raw::<()>;
    let _: fn(&mut Dataplane, u64, &mut ()) = Dataplane::advance::<()>;
    let _: fn(&mut Dataplane, QueueId, &QueueAnswer<'_>, u64, &mut ()) -> R<()> =
        Dataplane::answer::<()>;
    let _: fn(&mut Dataplane, &Rules) = Dataplane::set_rules;
    let _: fn(&mut Dataplane, &Network, u64, &mut ()) = Dataplane::set_network::<()>;
    let _: fn(&mut Dataplane, bool) = Dataplane::trace_all;
    let _: fn(&mut Dataplane, &[Device]) = Dataplane::capture;
    let _: fn(&Dataplane) -> &Network = Dataplane::network;
    let _: fn(&Dataplane) -> &Rules = Dataplane::rules;
    let _: fn(&Dataplane) -> Counters = Dataplane::counters;
    let _: fn(&Dataplane) -> u64 = Dataplane::waiting;
    let _ = |dataplane: &Dataplane| dataplane.connections().collect::<Vec<String>>();
    let _: fn(&Dataplane) -> String = Dataplane::dump_connections;
    let _: fn(&mut Dataplane, &str, u64) -> R<usize> = Dataplane::load_connections;
    let _: fn(&Dataplane) -> Option<String> = Dataplane::compile_error;

    let _: fn(&Outcome) -> Fate = Outcome::fate;
    let _ = |outcome: &Outcome| {
        outcome.sent().map(|(_, frame): (Device, &[u8])| frame.len()).sum::<usize>()
    };
    let _: fn(&Outcome) -> Option<&str> = Outcome::dropped_by;
    let _ = |outcome: &Outcome| outcome.trace().map(str::len).sum::<usize>();
    let _: fn(&RulesetError) -> &[Message] = RulesetError::messages;
    let _: fn(&mut [u8]) = finish_checksum;
}

/// A sink that has every function.
struct All;

impl Sink for All {
    fn sent(&mut self, frame: &Sent<'_>) {
        let Sent { device, name, frame, mark, priority, time } = *frame;
        let _: (Device, &str, &[u8], u32, u32, u64) = (device, name, frame, mark, priority, time);
    }
    fn delivered(&mut self, packet: &Delivered<'_>) {
        let Delivered { device, name, protocol, packet, mark, time } = *packet;
        let _: (Device, &str, u16, &[u8], u32, u64) = (device, name, protocol, packet, mark, time);
    }
    fn dropped(&mut self, packet: &Dropped<'_>) {
        let Dropped { reason, rule, packet, mark, time } = *packet;
        let _: (DropReason, Option<RulePlace<'_>>, &[u8], u32, u64) =
            (reason, rule, packet, mark, time);
    }
    fn dropped_several(&mut self, _: DropReason, rule: Option<RulePlace<'_>>, _: u64) -> bool {
        if let Some(RulePlace { family, table, chain, handle }) = rule {
            let _: (Family, &str, &str, Option<u64>) = (family, table, chain, handle);
        }
        true
    }
    fn logged(&mut self, record: &Logged<'_>) {
        let Logged { rule, prefix, group, input, output, packet, mark, time } = *record;
        let _: (RulePlace<'_>, &str, Option<u16>, [Option<Device>; 2]) =
            (rule, prefix, group, [input, output]);
        let _: (&[u8], u32, u64) = (packet, mark, time);
    }
    fn traced(&mut self, step: &Traced<'_>) {
        let Traced { id, place, line } = *step;
        let _: (u32, RulePlace<'_>, &str) = (id, place, line);
    }
    fn queued(&mut self, packet: &Queued<'_>) -> QueueReply {
        let Queued { id, queue, rule, input, output, packet, mark, time } = *packet;
        let _: (QueueId, u16, Option<RulePlace<'_>>, [Option<Device>; 2]) =
            (id, queue, rule, [input, output]);
        let _: (&[u8], u32, u64) = (packet, mark, time);
        QueueReply::Nobody
    }
    fn captured(&mut self, frame: &Captured<'_>) {
        let Captured { device, name, outgoing, frame, time } = *frame;
        let _: (Device, &str, bool, &[u8], u64) = (device, name, outgoing, frame, time);
    }
    fn unresolved(&mut self, next_hop: &Unresolved<'_>) -> bool {
        let Unresolved { device, name, next_hop } = *next_hop;
        let _: (Device, &str, std::net::IpAddr) = (device, name, next_hop);
        false
    }
}

/// Values that programs take apart or make.
#[test]
fn public_fields_are_stable() {
    let outcome = Outcome { events: vec![] };
    assert_eq!(outcome.fate(), Fate::Held);
    for event in outcome.events {
        match event {
            Event::Sent { device, frame, mark }
            | Event::Delivered { device, packet: frame, mark } => {
                let _: (Device, Vec<u8>, u32) = (device, frame, mark);
            }
            Event::Dropped { reason, rule } => {
                let _: (DropReason, Option<String>) = (reason, rule);
            }
            Event::Logged { prefix, group, packet } => {
                let _: (String, Option<u16>, Vec<u8>) = (prefix, group, packet);
            }
            Event::Traced(line) => drop::<String>(line),
            Event::Queued(queue) => {
                let _: u16 = queue;
            }
            _ => {}
        }
    }
    let network = Network::from_text("").expect("a network");
    let mut session = Session::new(Ruleset::empty(&network)).expect("a session");
    let Answer { output, messages, changed } = session.run("add table ip t", 0).expect("taken");
    assert_eq!((output.as_str(), messages, changed), ("", vec![], true));
    let error = session.run("frob", 0).expect_err("refused");
    match &error {
        Error::Ruleset(error) => {
            let Message { severity, position, text } = &error.messages()[0];
            assert_eq!((severity, text.is_empty()), (&Severity::Error, false));
            if let Some(Position { file, line, first, last }) = position {
                let _: (&Option<String>, u32, usize, usize) = (file, *line, *first, *last);
            }
        }
        Error::Network { file: _, line: _, message: _ }
        | Error::State { at: _, reason: _ }
        | Error::Connections { line: _, reason: _ }
        | Error::File { path: _, error: _ }
        | Error::NoDevice(_)
        | Error::Setting(_)
        | Error::Engine(_)
        | Error::NotQueued
        | Error::System(_) => panic!("{error}"),
        _ => {}
    }
    for Counter { family: _, table: _, what, packets: _, bytes: _ } in session.ruleset().counters()
    {
        match what {
            Counted::Rule { chain: _, handle: _, text } | Counted::Object { name: text } => {
                drop::<String>(text);
            }
        }
    }
    let _ = [Engine::Interpreter, Engine::Jit, Engine::JitAtOnce];
    let _ = [QueueReply::Nobody, QueueReply::Full, QueueReply::PassedBy, QueueReply::Held];
    let _ = [QueueVerdict::Accept, QueueVerdict::Drop, QueueVerdict::Repeat, QueueVerdict::Stop];
    let _ = QueueAnswer { mark: Some(1), ..QueueAnswer::new(QueueVerdict::Accept) };
    let _ = [Fate::Sent(Device::from_index(1)), Fate::Delivered(Device::from_index(1))];
    let _ = [Fate::Dropped(DropReason::Policy), Fate::Held];
    let mut dataplane = Dataplane::new(&network, session.ruleset()).expect("a dataplane");
    dataplane.receive([Frame { device: Device::from_index(1), bytes: &[], time: 0 }], &mut All);
    assert_eq!(dataplane.counters().drops(DropReason::LinkHeader), 1);
}

/// Names that `src/lib.rs` exports. A new one is added here, and above with its types.
const NAMES: &str = "Answer Captured Counted Counter Counters Dataplane DataplaneBuilder Delivered Device DropReason \
    Dropped Engine Error Event Family Fate Frame Limits Loader Logged MAX_DEVICE_INDEX MAX_FRAME Message Network \
    NetworkBuilder NewLink Outcome Position QueueAnswer QueueId QueueReply QueueVerdict Queued RulePlace Rules Ruleset \
    RulesetError Sent Session Settings Severity Sink Traced Unresolved finish_checksum";

#[test]
fn nothing_is_exported_by_accident() {
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let source = source.expect("a file");
    // What is for the program alone is not part of the interface.
    let public = source.split("#[doc(hidden)]").next().unwrap_or_default();
    let mut names = Vec::new();
    for list in public.split("pub use ").skip(1) {
        let list = list.split(';').next().unwrap_or_default();
        let list = list.split_once('{').map_or(list, |(_, list)| list);
        for item in list.split(',') {
            let item = item.split(" as ").last().unwrap_or_default();
            let name = item.rsplit("::").next().unwrap_or_default().trim().trim_matches('}').trim();
            if !name.is_empty() {
                names.push(name);
            }
        }
    }
    names.sort_unstable();
    assert_eq!(names.join(" "), NAMES);
}
