// SPDX-License-Identifier: Apache-2.0

//! Agents on a store in a directory, with a host of the test's.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::Duration;

use penstock_agent::{Agent, Commit, Host, NotCommitted, Settings};
use penstock_fleet::canary::Node;
use penstock_fleet::draft::Draft;
use penstock_fleet::elements::{self, Delta};
use penstock_fleet::key::SecretKey;
use penstock_fleet::manifest::{FORM, SetData};
use penstock_fleet::publish::{Present, Wanted, publish};
use penstock_fleet::report::State;
use penstock_fleet::store::{Directory, Error};
use penstock_fleet::tree::Tree;
use penstock_fleet::{Digest, Manifest, Report, Store};

/// A dataplane that remembers what it was given.
#[derive(Default)]
struct Dataplane {
    number: Option<u64>,
    /// Main files and commands, in order.
    given: Vec<String>,
    refuse: Option<&'static str>,
    /// Texts that it refuses.
    refuse_elements: bool,
    tests: Vec<String>,
    /// Sets are compared if there is one.
    generation: Option<u64>,
    /// What the set is listed with.
    there: String,
    /// Commands make the set what was published.
    mends: bool,
    /// Sets may have timeouts.
    timeouts: bool,
    /// Commands with this that are no whole ruleset are refused.
    refuse_with: Option<&'static str>,
    /// It takes nothing for now.
    busy: bool,
}

impl Host for Dataplane {
    fn dataplane(&mut self) -> Option<u64> {
        self.number
    }

    fn test(&mut self, _tree: &Tree, _node: &Node, elements: &str) -> Result<(), String> {
        self.tests.push(elements.to_owned());
        if elements.contains("198.18.0.66") { Err("a test fails".into()) } else { Ok(()) }
    }

    fn commit(
        &mut self,
        commit: &Commit<'_>,
        healthy: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), NotCommitted> {
        if self.number.is_none() {
            return Err(NotCommitted::NoDataplane("none".into()));
        }
        if self.busy {
            return Err(NotCommitted::NotNow("not now".into()));
        }
        if let Some(why) = self.refuse.filter(|_| commit.whole) {
            return Err(NotCommitted::Refused(why.into()));
        }
        if self.refuse_elements && !commit.whole {
            return Err(NotCommitted::Refused("no such element".into()));
        }
        if self.refuse_with.is_some_and(|part| !commit.whole && commit.elements.contains(part)) {
            return Err(NotCommitted::Refused("not this one".into()));
        }
        if !commit.confirm.is_zero() {
            healthy().map_err(NotCommitted::RolledBack)?;
        }
        if self.mends {
            self.there = PUBLISHED.to_owned();
        }
        self.generation = self.generation.map(|generation| generation + 1);
        let main = commit.tree.file("main.nft").filter(|_| commit.whole).unwrap_or_default();
        self.given.push(format!("{}{}", String::from_utf8_lossy(main), commit.elements));
        Ok(())
    }

    fn generation(&mut self) -> Option<u64> {
        self.generation
    }

    fn list(&mut self, _set: &SetData, elements: bool) -> Result<Option<String>, String> {
        let elements = if elements { self.there.as_str() } else { "" };
        match self.there.as_str() {
            "gone" => Ok(None),
            "busy" => Err("it cannot be asked now".into()),
            _ if self.timeouts => {
                Ok(Some(listing(elements).replace("ipv4_addr", "ipv4_addr\n\t\tflags timeout")))
            }
            _ => Ok(Some(listing(elements))),
        }
    }

    fn listed(
        &mut self,
        _tree: &Tree,
        _node: &Node,
        _set: &SetData,
        elements: &str,
    ) -> Result<String, String> {
        assert_eq!(elements, "add element inet fw s { 198.18.0.1,\n}\n");
        Ok(listing(PUBLISHED))
    }

    fn say(&mut self, _line: &str) {}
}

/// As it is published, and as it is listed.
const PUBLISHED: &str = "198.18.0.1";

fn listing(elements: &str) -> String {
    let elements = match elements {
        "" => String::new(),
        some => format!("\t\telements = {{ {some} }}\n"),
    };
    format!("table inet fw {{\n\tset s {{\n\t\ttype ipv4_addr\n{elements}\t}}\n}}\n")
}

struct Fleet {
    folder: PathBuf,
    store: Directory,
    key: SecretKey,
}

impl Fleet {
    fn new(name: &str) -> Fleet {
        let name = format!("penstock-agent-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("store")).expect("a folder");
        let store = Directory::new(folder.join("store"));
        Fleet { folder, store, key: SecretKey::new().expect("a key") }
    }

    fn settings(&self) -> Settings {
        Settings {
            node: Node { name: "fw1".into(), ..Node::default() },
            keys: vec![self.key.public()],
            state: Some(self.folder.join("state")),
            health: vec![],
            confirm: Duration::from_secs(2),
            lease: Duration::from_secs(30),
            compare: Duration::from_secs(60),
        }
    }

    fn publish(&self, draft: Draft, manifest: &Manifest) {
        let tree = draft.put(manifest, &self.store).expect("put");
        let present = Present::read(&self.store, &[self.key.public()]).expect("asked");
        let wanted = Wanted { tree, canary: None, note: String::new() };
        let head = publish(&self.store, &self.key, present.as_ref(), wanted, 1);
        head.expect("published").expect("nobody else");
    }

    fn main(&self, main: &str) -> Manifest {
        let mut draft = Draft::default();
        let set = draft.set(["inet", "fw", "s"], &elements::parse("198.18.0.1").expect("one"));
        let manifest = Manifest {
            form: FORM,
            main: "main.nft".into(),
            files: [("main.nft".to_owned(), draft.file(main.as_bytes()))].into(),
            sets: vec![set],
            ..Manifest::default()
        };
        self.publish(draft, &manifest);
        manifest
    }

    /// Publishes a set with tests.
    fn tested(&self, elements: &str) -> Manifest {
        let mut draft = Draft::default();
        let set = draft.set(["inet", "fw", "s"], &elements::parse(elements).expect("elements"));
        let files = [
            ("main.nft".to_owned(), draft.file(b"one\n")),
            ("fw.test".to_owned(), draft.file(b"test one\n")),
        ];
        let manifest = Manifest {
            form: FORM,
            main: "main.nft".into(),
            files: files.into(),
            tests: vec!["fw.test".into()],
            sets: vec![set],
            ..Manifest::default()
        };
        self.publish(draft, &manifest);
        manifest
    }

    /// Where a blob is in the store.
    fn file_of(&self, blob: Digest) -> PathBuf {
        let digits = blob.to_string();
        self.folder.join("store/blobs").join(&digits[..2]).join(&digits[2..])
    }

    fn report(&self) -> Report {
        let reports = self.store.reports().expect("asked");
        Report::read(&reports[0].1).expect("a report")
    }

    fn told(&self) -> (u64, State, String) {
        let report = self.report();
        (report.generation, report.state, report.why)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const NOW: Duration = Duration::ZERO;

#[test]
fn publications_are_put_in_force_and_reported() {
    let fleet = Fleet::new("force");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (0, State::Trying, String::new()));
    let first = fleet.main("one\n");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (1, State::InForce, String::new()));
    let whole = "one\nadd element inet fw s { 198.18.0.1,\n}\n";
    assert_eq!(dataplane.given, [whole]);

    // A delta is elements alone.
    let mut draft = Draft::default();
    let old = elements::parse("198.18.0.1").expect("one");
    let delta = Delta { remove: vec![], add: vec!["198.18.0.2".into()] };
    let set = draft.changed(&first.sets[0], &old, &delta);
    let second = Manifest { sets: vec![set], ..first.clone() };
    fleet.publish(draft, &second);
    agent.turn(&mut dataplane, NOW);
    assert_eq!(dataplane.given[1..], ["add element inet fw s { 198.18.0.2,\n}\n"]);

    // Elements that somebody else changed: all of it.
    dataplane.refuse_elements = true;
    let mut draft = Draft::default();
    let old = elements::parse("198.18.0.1,198.18.0.2").expect("two");
    let delta = Delta { remove: vec!["198.18.0.1".into()], add: vec![] };
    let set = draft.changed(&second.sets[0], &old, &delta);
    fleet.publish(draft, &Manifest { sets: vec![set], ..first.clone() });
    agent.turn(&mut dataplane, NOW);
    assert_eq!(dataplane.given[2..], ["one\nadd element inet fw s { 198.18.0.2,\n}\n"]);
    assert_eq!(fleet.told(), (3, State::InForce, String::new()));
}

#[test]
fn what_cannot_be_decided_now_is_given_again() {
    let fleet = Fleet::new("busy");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let mut dataplane = Dataplane { number: Some(1), busy: true, ..Dataplane::default() };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    let first = fleet.main("one\n");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (0, State::Trying, "not now".into()));
    dataplane.busy = false;
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (1, State::InForce, String::new()));
    // Elements that cannot be given now are no reason for the whole ruleset.
    dataplane.busy = true;
    let mut draft = Draft::default();
    let old = elements::parse("198.18.0.1").expect("one");
    let delta = Delta { remove: vec![], add: vec!["198.18.0.2".into()] };
    let set = draft.changed(&first.sets[0], &old, &delta);
    fleet.publish(draft, &Manifest { sets: vec![set], ..first.clone() });
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (1, State::Trying, "not now".into()));
    dataplane.busy = false;
    agent.turn(&mut dataplane, NOW);
    assert_eq!(dataplane.given[1..], ["add element inet fw s { 198.18.0.2,\n}\n"]);
    assert_eq!(fleet.told(), (2, State::InForce, String::new()));
}

#[test]
fn agent_begins_from_disk_without_a_store() {
    let fleet = Fleet::new("disk");
    let away = Cell::new(false);
    let open = || -> Result<Box<dyn Store>, Error> {
        let path = if away.get() { "nowhere" } else { "store" };
        Ok(Box::new(Directory::new(fleet.folder.join(path))))
    };
    fleet.main("one\n");
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    Agent::new(fleet.settings(), &open).expect("an agent").turn(&mut dataplane, NOW);
    away.set(true);
    let mut dataplane = Dataplane { number: Some(2), ..Dataplane::default() };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(dataplane.given, ["one\nadd element inet fw s { 198.18.0.1,\n}\n"]);
    // Another dataplane gets them, too.
    dataplane.number = Some(3);
    agent.turn(&mut dataplane, NOW);
    assert_eq!(dataplane.given.len(), 2);
}

#[test]
fn changes_that_cut_the_store_off_are_taken_back() {
    let fleet = Fleet::new("cut");
    let cut = Cell::new(false);
    let open = || -> Result<Box<dyn Store>, Error> {
        let path = if cut.get() { "nowhere" } else { "store" };
        Ok(Box::new(Directory::new(fleet.folder.join(path))))
    };
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    fleet.main("one\n");
    agent.turn(&mut dataplane, NOW);
    fleet.main("two\n");
    cut.set(true);
    agent.turn(&mut dataplane, NOW);
    cut.set(false);
    let (generation, state, why) = fleet.told();
    assert_eq!((generation, state), (1, State::RolledBack));
    assert!(why.starts_with("the store is away"), "{why}");
    assert_eq!(dataplane.given.len(), 1);
}

#[test]
fn health_checks_decide_on_changes() {
    let fleet = Fleet::new("health");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let well = fleet.folder.join("well");
    let command = format!("test -e {}", well.display());
    let settings = Settings { health: vec![command.clone()], ..fleet.settings() };
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    let mut agent = Agent::new(settings, &open).expect("an agent");
    fleet.main("one\n");
    agent.turn(&mut dataplane, NOW);
    let why = format!("health check `{command}` failed: exit status: 1");
    assert_eq!(fleet.told(), (0, State::RolledBack, why));
    std::fs::write(&well, "").expect("written");
    fleet.main("two\n");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (2, State::InForce, String::new()));
}

#[test]
fn tests_of_a_tree_come_before_it_is_in_force() {
    let fleet = Fleet::new("tests");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    fleet.tested("198.18.0.1");
    agent.turn(&mut dataplane, NOW);
    fleet.tested("198.18.0.66");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (1, State::Refused, "a test fails".into()));
    assert_eq!((dataplane.given.len(), dataplane.tests.len()), (1, 2));
}

#[test]
fn a_set_that_cannot_be_renewed_keeps_no_other_from_it() {
    let fleet = Fleet::new("renewed");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let mut dataplane = Dataplane {
        number: Some(1),
        generation: Some(1),
        timeouts: true,
        refuse_with: Some("inet fw a "),
        ..Dataplane::default()
    };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    let mut draft = Draft::default();
    let elements = elements::parse("198.18.0.1 timeout 1s").expect("one");
    let manifest = Manifest {
        form: FORM,
        main: "main.nft".into(),
        files: [("main.nft".to_owned(), draft.file(b"one\n"))].into(),
        sets: ["a", "b"].map(|set| draft.set(["inet", "fw", set], &elements)).into(),
        ..Manifest::default()
    };
    fleet.publish(draft, &manifest);
    agent.turn(&mut dataplane, NOW);
    // Both are due by then.
    std::thread::sleep(Duration::from_millis(800));
    agent.turn(&mut dataplane, NOW);
    let renewed = "add element inet fw b { 198.18.0.1 timeout 1s expires 1s0ms,\n}\n";
    assert!(dataplane.given.iter().any(|given| given == renewed), "{:?}", dataplane.given);
}

#[test]
fn state_that_cannot_be_written_is_told_and_stops_nothing() {
    let fleet = Fleet::new("full");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    // A file stands where the directory would be.
    let settings = Settings { state: Some(fleet.folder.join("file/state")), ..fleet.settings() };
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    let mut agent = Agent::new(settings, &open).expect("an agent");
    std::fs::write(fleet.folder.join("file"), "").expect("written");
    fleet.main("one\n");
    agent.turn(&mut dataplane, NOW);
    let (generation, state, why) = fleet.told();
    assert_eq!((generation, state, dataplane.given.len()), (1, State::InForce, 1));
    assert!(why.starts_with("the state directory cannot be written: "), "{why}");
}

#[test]
fn memory_that_cannot_be_read_is_no_beginning() {
    let fleet = Fleet::new("memory");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let state = fleet.folder.join("state");
    std::fs::create_dir_all(&state).expect("a folder");
    for text in ["", "{", "[]", "{\"seen\":{\"generation\":1}}"] {
        std::fs::write(state.join("agent.json"), text).expect("written");
        let why = Agent::new(fleet.settings(), &open).map(drop).expect_err(text);
        assert!(why.contains("agent.json"), "{why}");
    }
}

#[test]
fn damaged_blob_is_tried_again() {
    let fleet = Fleet::new("damaged");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let mut dataplane = Dataplane { number: Some(1), ..Dataplane::default() };
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    let manifest = fleet.main("one\n");
    let digest = Digest::of(&manifest.bytes());
    let file = fleet.file_of(digest);
    let whole = std::fs::read(&file).expect("a blob");
    std::fs::write(&file, &whole[..20]).expect("written");
    agent.turn(&mut dataplane, NOW);
    let why = format!("blob {digest} is damaged in the store");
    assert_eq!(fleet.told(), (0, State::Trying, why));
    std::fs::write(&file, &whole).expect("written");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (1, State::InForce, String::new()));

    // Elements that tests need are no other.
    let digest = fleet.tested("198.18.0.2").sets[0].chunks[0].digest;
    let file = fleet.file_of(digest);
    let whole = std::fs::read(&file).expect("a blob");
    std::fs::remove_file(&file).expect("there");
    agent.turn(&mut dataplane, NOW);
    let (generation, state, why) = fleet.told();
    assert_eq!((generation, state, dataplane.tests.len()), (1, State::Trying, 0));
    assert!(why.contains(&digest.to_string()), "{why}");
    std::fs::write(&file, &whole).expect("written");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (2, State::InForce, String::new()));
}

#[test]
fn dataplane_that_begins_later_gets_the_rules() {
    let fleet = Fleet::new("later");
    let asked = RefCell::new(0);
    let open = || -> Result<Box<dyn Store>, Error> {
        *asked.borrow_mut() += 1;
        Ok(Box::new(fleet.store.clone()))
    };
    let mut dataplane = Dataplane::default();
    let mut agent = Agent::new(fleet.settings(), &open).expect("an agent");
    fleet.main("one\n");
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (0, State::NoDataplane, "none".into()));
    dataplane.number = Some(1);
    agent.turn(&mut dataplane, NOW);
    assert_eq!(fleet.told(), (1, State::InForce, String::new()));
    // The store was asked over a new connection before the change was kept.
    assert_eq!(*asked.borrow(), 2);
}

#[test]
fn sets_are_repaired_by_as_little_as_it_takes() {
    let whole = "one\nadd element inet fw s { 198.18.0.1,\n}\n";
    let all = "the whole ruleset was put in force again";
    for (there, given, repaired) in [
        ("198.18.0.1", vec![], ""),
        ("", vec!["add element inet fw s { 198.18.0.1,\n}\n"], "elements added: 1, deleted: 0"),
        (
            "198.18.0.1, 198.18.0.2",
            vec!["delete element inet fw s { 198.18.0.2,\n}\n"],
            "elements added: 0, deleted: 1",
        ),
        ("gone", vec![whole], all),
        // What is not known is not repaired.
        ("busy", vec![], ""),
    ] {
        let fleet = Fleet::new("compare");
        let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
        let mut dataplane =
            Dataplane { number: Some(1), generation: Some(1), mends: true, ..Dataplane::default() };
        let settings = Settings { compare: NOW, ..fleet.settings() };
        let mut agent = Agent::new(settings, &open).expect("an agent");
        fleet.main("one\n");
        agent.turn(&mut dataplane, NOW);
        dataplane.given.clear();
        dataplane.there = there.to_owned();
        dataplane.generation = Some(10);
        agent.turn(&mut dataplane, NOW);
        agent.turn(&mut dataplane, NOW);
        assert_eq!(dataplane.given, given, "{there}");
        let report = fleet.report();
        let told =
            if repaired.is_empty() { String::new() } else { format!("set inet fw s: {repaired}") };
        assert_eq!((report.repairs, report.repaired), (u64::from(!repaired.is_empty()), told));
    }
}

#[test]
fn sets_that_could_not_be_compared_or_repaired_are_once_they_can() {
    let fleet = Fleet::new("soon");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    for busy in ["generation", "list", "commit"] {
        let mut dataplane =
            Dataplane { number: Some(1), generation: Some(1), mends: true, ..Dataplane::default() };
        let settings = Settings { compare: NOW, ..fleet.settings() };
        let mut agent = Agent::new(settings, &open).expect("an agent");
        fleet.main(&format!("{busy}\n"));
        agent.turn(&mut dataplane, NOW);
        dataplane.given.clear();
        dataplane.there = if busy == "list" { "busy" } else { "" }.to_owned();
        dataplane.generation = Some(10).filter(|_| busy != "generation");
        dataplane.busy = busy == "commit";
        agent.turn(&mut dataplane, NOW);
        assert_eq!((fleet.report().repairs, dataplane.given.len()), (0, 0), "{busy}");
        dataplane.there = String::new();
        (dataplane.generation, dataplane.busy) = (Some(10), false);
        agent.turn(&mut dataplane, NOW);
        assert_eq!((fleet.report().repairs, fleet.told().1), (1, State::InForce), "{busy}");
        assert_eq!(dataplane.there, PUBLISHED, "{busy}");
    }
}

#[test]
fn what_no_repair_changes_is_told_and_tried_once() {
    let fleet = Fleet::new("different");
    let open = || -> Result<Box<dyn Store>, Error> { Ok(Box::new(fleet.store.clone())) };
    let mut dataplane = Dataplane { number: Some(1), generation: Some(1), ..Dataplane::default() };
    let settings = Settings { compare: NOW, ..fleet.settings() };
    let mut agent = Agent::new(settings, &open).expect("an agent");
    dataplane.there = "198.18.0.66".to_owned();
    fleet.main("one\n");
    for _ in 0..5 {
        agent.turn(&mut dataplane, NOW);
    }
    // The publication, elements, and all of it.
    assert_eq!(dataplane.given.len(), 3, "{:?}", dataplane.given);
    let (generation, state, why) = fleet.told();
    assert_eq!((generation, state), (1, State::InForce));
    let expected = "set inet fw s is not as it was published: a repair did not change that";
    assert_eq!((why.as_str(), fleet.report().repairs), (expected, 0));
}
