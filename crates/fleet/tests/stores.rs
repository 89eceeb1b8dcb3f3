// SPDX-License-Identifier: Apache-2.0

//! One publication after another in stores: a directory, the same directory on a web server, and
//! etcd, where Debian's package `etcd-server` is there.

mod etcd;
mod web;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use penstock_fleet::blobs::Blobs;
use penstock_fleet::change::{Change, change};
use penstock_fleet::draft::Draft;
use penstock_fleet::elements::{self, Delta, Elements};
use penstock_fleet::key::SecretKey;
use penstock_fleet::manifest::FORM;
use penstock_fleet::prune::{Pruned, prune};
use penstock_fleet::publish::{Present, Wanted, publish};
use penstock_fleet::store::{Access, Directory, Error};
use penstock_fleet::tree::{self, Tree};
use penstock_fleet::{Canary, Digest, Manifest, Store, open};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("penstock-fleet-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn addresses(count: u32) -> Elements {
    let texts = (0..count).map(|n| format!("198.18.{}.{} ", n / 256, n % 256));
    elements::parse(&texts.collect::<Vec<_>>().join("\n")).expect("elements")
}

/// A ruleset with a set of so many elements.
fn first(draft: &mut Draft, count: u32) -> Manifest {
    let main = "flush ruleset\ninclude \"rules.nft\"\n";
    let rules: String = (0..5000).map(|n| format!("# rule {n}\n")).collect();
    Manifest {
        form: FORM,
        main: "main.nft".into(),
        files: [
            ("main.nft".to_owned(), draft.file(main.as_bytes())),
            ("rules.nft".to_owned(), draft.file(rules.as_bytes())),
        ]
        .into(),
        sets: vec![draft.set(["inet", "fw", "blocked"], &addresses(count))],
        ..Manifest::default()
    }
}

fn wanted(tree: Digest) -> Wanted {
    Wanted { tree, canary: None, note: String::new() }
}

/// What each store that can be written to does.
fn publications_follow_each_other(store: &dyn Store) {
    let key = SecretKey::new().expect("a key");
    let keys = [key.public()];
    let blobs = Blobs::new(Some(store), None);
    assert!(Present::read(store, &keys).expect("it can be asked").is_none());

    let mut draft = Draft::default();
    let old = first(&mut draft, 5000);
    let tree = draft.put(&old, store).expect("put");
    let head = publish(store, &key, None, wanted(tree), 1).expect("published").expect("first");
    assert_eq!((head.generation, head.previous), (1, None));
    // Somebody else who saw no head does not replace it.
    assert_eq!(publish(store, &key, None, wanted(tree), 1), Ok(None));

    let present = Present::read(store, &keys).expect("it is there").expect("a head");
    let read = Tree::read(present.head.tree, &blobs).expect("a tree");
    assert_eq!(read.manifest, old);
    assert_eq!(read.file("./main.nft"), Some(&b"flush ruleset\ninclude \"rules.nft\"\n"[..]));
    assert_eq!(read.file("/etc/passwd"), None);
    assert_eq!(read.matching("*.nft"), ["main.nft", "rules.nft"]);
    let set = &read.manifest.sets[0];
    assert_eq!(tree::elements(set, &blobs), Ok(addresses(5000)));

    // A delta of some elements is one blob more, and the only change.
    let before = addresses(5000);
    let delta = Delta { remove: vec!["198.18.0.7".into()], add: vec!["198.19.0.1".into()] };
    let mut draft = Draft::default();
    let changed = draft.changed(set, &before, &delta);
    let new = Manifest { sets: vec![changed.clone()], ..old.clone() };
    let tree = draft.put(&new, store).expect("put");
    assert_eq!(new.blobs().collect::<BTreeSet<_>>().len(), old.blobs().count() + 1);
    assert_eq!(
        change(&old, &new, &blobs),
        Ok(Change::Elements(vec![(changed.clone(), delta.clone())]))
    );
    let mut after = before.clone();
    delta.apply(&mut after);
    assert_eq!(tree::elements(&changed, &blobs), Ok(after));

    // A waiting node hears of it at once.
    let tag = present.tag.clone();
    let second = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(20) {
                if let Some(version) =
                    store.wait(Some(&tag), Duration::from_secs(5)).expect("asked")
                {
                    return version;
                }
            }
            panic!("nothing was heard of the new head");
        });
        let next = publish(store, &key, Some(&present), wanted(tree), 2).expect("published");
        assert_eq!(next.expect("nobody else").generation, 2);
        waits.join().expect("heard")
    });
    let present = Present::read(store, &keys).expect("asked").expect("a head");
    assert_eq!((&second.tag, &second.bytes), (&present.tag, &present.signed.bytes()));
    assert_eq!(store.wait(Some(&present.tag), Duration::ZERO), Ok(None));
    let earlier = Present::before(&present.head, store, &keys).expect("asked").expect("one");
    assert_eq!(earlier, head);

    // Of two who saw the same head one publishes.
    let other = publish(store, &key, Some(&present), wanted(tree), 3).expect("published");
    assert!(other.is_some());
    assert_eq!(publish(store, &key, Some(&present), wanted(tree), 3), Ok(None));

    // Another key.
    let stranger = SecretKey::new().expect("a key");
    let why = Present::read(store, &[stranger.public()]).expect_err("not signed by it");
    assert_eq!(why, Error::Wrong("the head is not signed by a key that is trusted".into()));
    assert_eq!(blobs.one(Digest::of(b"none")), Err(Error::Missing(Digest::of(b"none"))));
}

/// What the last heads do not name goes, and nobody who looked before publishes on it.
fn old_blobs_go(store: &dyn Store) {
    let key = SecretKey::new().expect("a key");
    let keys = [key.public()];
    let blobs = Blobs::new(Some(store), None);
    let publish_file = |text: &str, canary: Option<Digest>| {
        let mut draft = Draft::default();
        let manifest = Manifest {
            form: FORM,
            main: "main.nft".into(),
            files: [("main.nft".to_owned(), draft.file(text.as_bytes()))].into(),
            ..Manifest::default()
        };
        let tree = draft.put(&manifest, store).expect("put");
        let canary = canary.map(|tree| Canary { label: "site=a".into(), percent: 1, tree });
        let present = Present::read(store, &keys).expect("asked");
        let wanted = Wanted { tree, canary, note: String::new() };
        publish(store, &key, present.as_ref(), wanted, 1).expect("published").expect("alone");
        tree
    };
    assert_eq!(prune(store, &keys, 3), Err(Error::Refused("nothing is published yet".into())));
    let trees: Vec<Digest> = (0..150).map(|n| publish_file(&format!("# {n}\n"), None)).collect();
    // A canary's tree is named, too.
    let last = publish_file("# last\n", Some(trees[7]));
    let before = Present::read(store, &keys).expect("asked").expect("a head");
    // Two trees and that of the canary, with a file each, and two heads before the present one.
    let pruned = prune(store, &keys, 3);
    assert_eq!(pruned, Ok(Some(Pruned { heads: 3, kept: 10, removed: 442 })));
    for tree in [last, trees[149], trees[148], trees[7]] {
        assert!(Tree::read(tree, &blobs).is_ok(), "{tree}");
    }
    assert_eq!(blobs.one(trees[147]), Err(Error::Missing(trees[147])));
    // Heads are as they were; who looked before has to look again.
    let present = Present::read(store, &keys).expect("asked").expect("a head");
    assert_eq!(present.head, before.head);
    assert_eq!(publish(store, &key, Some(&before), wanted(last), 1), Ok(None));
    assert_eq!(store.remove(&before.tag, &[last]), Ok(false));
    assert!(blobs.one(last).is_ok());
    assert!(publish(store, &key, Some(&present), wanted(last), 1).expect("published").is_some());
    // What is gone already is no error.
    let pruned = prune(store, &keys, 100);
    assert_eq!(pruned, Ok(Some(Pruned { heads: 4, kept: 11, removed: 0 })));
    // A stranger removes nothing.
    let stranger = SecretKey::new().expect("a key");
    assert!(matches!(prune(store, &[stranger.public()], 1), Err(Error::Wrong(_))));
}

/// Reports end unless they are renewed.
fn reports_end(store: &dyn Store) {
    let report = |until: u64, why: &str| {
        let report = penstock_fleet::Report {
            node: "fw1".into(),
            labels: Default::default(),
            generation: 1,
            tree: None,
            since: 1,
            seen: 1,
            state: penstock_fleet::report::State::InForce,
            why: why.into(),
            took: 0,
            repairs: 0,
            repaired: String::new(),
            until,
            lease: 0,
        };
        report.bytes()
    };
    let now = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.expect("after 1970").as_secs()
    };
    let long = Duration::from_secs(60);
    for why in ["one", "two", "two"] {
        store.report("fw1", &report(now() + 60, why), long).expect("taken");
    }
    let last = report(now() + 1, "last");
    store.report("fw2", &last, Duration::from_secs(1)).expect("taken");
    let names = || {
        let reports = store.reports().expect("asked");
        let last = |bytes: &[u8]| penstock_fleet::Report::read(bytes).expect("a report").why;
        reports.into_iter().map(|(name, bytes)| (name, last(&bytes))).collect::<Vec<_>>()
    };
    let pair = |name: &str, why: &str| (name.to_owned(), why.to_owned());
    assert_eq!(names(), [pair("fw1", "two"), pair("fw2", "last")]);
    let begin = Instant::now();
    while names().len() == 2 {
        assert!(begin.elapsed() < Duration::from_secs(30), "the report of fw2 does not end");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(names(), [pair("fw1", "two")]);
    for name in ["", "../head", ".", "a/b"] {
        assert!(matches!(store.report(name, b"{}", long), Err(Error::Refused(_))), "{name}");
    }
}

#[test]
fn directory_is_a_store() {
    let folder = Folder::new("directory");
    let store = Directory::new(&folder.0);
    publications_follow_each_other(&store);
    reports_end(&store);
    let folder = Folder::new("prune");
    std::fs::create_dir_all(folder.0.join("blobs/ab")).expect("a folder");
    std::fs::write(folder.0.join("blobs/ab/note"), "no blob").expect("written");
    old_blobs_go(&Directory::new(&folder.0));
    assert!(folder.0.join("blobs/ab/note").exists());
}

#[test]
fn web_server_shows_what_is_published_to_its_directory() {
    let folder = Folder::new("web");
    let directory = Directory::new(&folder.0);
    let port = web::serve(folder.0.clone());
    let store = open(&format!("http://127.0.0.1:{port}"), &Access::default()).expect("an address");
    assert_eq!(store.head(), Ok(None));
    publications_follow_each_other(&directory);
    let version = store.head().expect("asked").expect("a head");
    assert_eq!(version.bytes, directory.head().expect("asked").expect("a head").bytes);
    // The server says by its tag that nothing changed.
    assert_eq!(store.wait(Some(&version.tag), Duration::ZERO), Ok(None));
    let signed = penstock_fleet::SignedHead::read(&version.bytes).expect("a head");
    assert!(signed.verify(&[]).is_err());
    for refused in [store.put_blobs(&[b"x"]), store.swap_head(None, b"x").map(drop)] {
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    for refused in [store.names().map(drop), store.remove("x", &[]).map(drop)] {
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    let taken = store.report("fw1", b"{}", Duration::from_secs(1));
    assert_eq!(taken, Err(Error::Refused("the server takes no reports".into())));
}

#[test]
fn etcd_is_a_store() {
    let Some(cluster) = etcd::Cluster::start(1) else { return };
    let store = open(&cluster.address("one"), &Access::default()).expect("an address");
    publications_follow_each_other(&*store);
    let store = open(&cluster.address("two"), &Access::default()).expect("an address");
    reports_end(&*store);
    let store = open(&cluster.address("three"), &Access::default()).expect("an address");
    old_blobs_go(&*store);
}

#[test]
fn cluster_goes_on_without_one_member() {
    let Some(mut cluster) = etcd::Cluster::start(3) else { return };
    let store = open(&cluster.address("fleet"), &Access::default()).expect("an address");
    store.put_blobs(&[b"before"]).expect("put");
    // The member that was asked so far.
    cluster.kill(0);
    publications_follow_each_other(&*store);
    assert_eq!(store.blobs(&[Digest::of(b"before")]), Ok(vec![b"before".to_vec()]));
    // One of three is no cluster.
    cluster.kill(1);
    assert!(matches!(store.head(), Err(Error::Away(_))));
    cluster.again(1);
    let begin = Instant::now();
    while store.head().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the cluster does not come back");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn damaged_blobs_are_no_blobs() {
    let folder = Folder::new("damaged");
    let store = Directory::new(folder.0.join("store"));
    let kept = folder.0.join("kept");
    let mut draft = Draft::default();
    let manifest = first(&mut draft, 3000);
    let tree = draft.put(&manifest, &store).expect("put");
    let set = &manifest.sets[0];
    let path = |store: &str, digest: Digest| {
        let digits = digest.to_string();
        folder.0.join(store).join("blobs").join(&digits[..2]).join(&digits[2..])
    };
    let all = |store: Option<&dyn Store>| {
        let blobs = Blobs::new(store, Some(&kept));
        Tree::read(tree, &blobs).and_then(|_| tree::elements(set, &blobs))
    };
    for blob in [tree, manifest.files["rules.nft"].pieces[1], set.chunks[0].digest] {
        let file = path("store", blob);
        let whole = std::fs::read(&file).expect("a blob");
        std::fs::write(&file, &whole[..whole.len() - 1]).expect("written");
        let why = format!("blob {blob} is damaged in the store");
        assert_eq!(all(Some(&store)), Err(Error::Wrong(why)));
        std::fs::write(&file, &whole).expect("written");
    }
    assert_eq!(all(Some(&store)).map(|elements| elements.len()), Ok(3000));
    // The disk has all of it now, and what is damaged there is fetched again.
    assert_eq!(all(None).map(|elements| elements.len()), Ok(3000));
    std::fs::write(path("kept", tree), b"{}").expect("written");
    assert_eq!(all(None).map(|elements| elements.len()), Err(Error::Missing(tree)));
    assert_eq!(all(Some(&store)).map(|elements| elements.len()), Ok(3000));
    assert_eq!(all(None).map(|elements| elements.len()), Ok(3000));
    // What no tree names is forgotten.
    Blobs::new(None, Some(&kept)).forget_others(&[tree].into());
    assert!(path("kept", tree).exists() && !path("kept", set.chunks[0].digest).exists());
}

#[test]
fn manifests_stay_inside_their_tree_and_limits() {
    let good = first(&mut Draft::default(), 10);
    assert_eq!(Manifest::read(&good.bytes()), Ok(good.clone()));
    let file = good.files["main.nft"].clone();
    let with = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        Manifest::read(&manifest.bytes()).expect_err("refused")
    };
    for (change, message) in [
        (
            &(|m: &mut Manifest| drop(m.files.insert("../a".into(), file.clone())))
                as &dyn Fn(&mut Manifest),
            "the file \"../a\" is not inside the tree",
        ),
        (&|m| m.main = "other".into(), "the file \"other\" is not in the tree"),
        (&|m| m.form = 2, "the manifest has the form 2, and 1 is known here"),
        (&|m| m.sets[0].elements = u64::MAX, "the sets have more than 8388608 elements"),
        (&|m| m.sets.push(m.sets[0].clone()), "set inet fw blocked is there twice"),
        (&|m| m.sets[0].name = "a { }".into(), "\"inet fw a { }\" is no family, table and set"),
        (
            &|m| drop(m.defines.insert("A".into(), "1\nflush ruleset".into())),
            "the definition of \"A\" is none",
        ),
        (
            &|m| m.files.values_mut().for_each(|file| file.size = u64::MAX),
            "the files have more than 134217728 bytes",
        ),
    ] {
        assert_eq!(with(change), message);
    }
}
