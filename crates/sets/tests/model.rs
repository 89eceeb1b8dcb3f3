// SPDX-License-Identifier: Apache-2.0

//! Every backend against a list that is searched from one end to the other.

use penstock_sets::{Backend, Description, Element, InsertError, Policy, Set, Structure};

/// A set without any structure.
struct Model {
    description: Description,
    elements: Vec<Element<u32>>,
}

impl Model {
    fn end(e: &Element<u32>) -> &[u8] {
        e.key_end.as_deref().unwrap_or(&e.key)
    }

    fn parts(&self) -> Vec<std::ops::Range<usize>> {
        let d = &self.description;
        if d.fields.len() < 2 || !d.interval {
            let whole = 0..d.key_len;
            return Vec::from([whole]);
        }
        let mut offset = 0;
        let mut part = |&len: &u8| {
            let part = offset..offset + usize::from(len);
            offset += usize::from(len).next_multiple_of(4);
            part
        };
        d.fields.iter().map(&mut part).collect()
    }

    fn contains(&self, e: &Element<u32>, key: &[u8]) -> bool {
        self.parts()
            .into_iter()
            .all(|p| e.key[p.clone()] <= key[p.clone()] && key[p.clone()] <= Self::end(e)[p])
    }

    fn sweep(&mut self, now: u64) {
        self.elements.retain(|e| e.is_alive(now));
    }

    fn insert(&mut self, new: Element<u32>, now: u64) -> Result<(), InsertError> {
        self.sweep(now);
        let catch_all = self.elements.iter().any(|e| e.key.is_empty());
        if new.key.is_empty() {
            if catch_all {
                return Err(InsertError::Exists);
            }
        } else {
            let keyed = || self.elements.iter().filter(|e| !e.key.is_empty());
            if keyed().any(|e| e.key == new.key && Self::end(e) == Self::end(&new)) {
                return Err(InsertError::Exists);
            }
            let several = self.parts().len() > 1;
            let touches = |e: &Element<u32>| {
                self.contains(e, &new.key)
                    || self.contains(e, Self::end(&new))
                    || !several && self.contains(&new, &e.key)
            };
            if self.description.interval && keyed().any(touches) {
                return Err(InsertError::Overlap);
            }
            if self.description.size.is_some_and(|max| keyed().count() >= max as usize) {
                return Err(InsertError::Full);
            }
        }
        self.elements.push(new);
        Ok(())
    }

    fn find(&self, key: &[u8], end: &[u8], now: u64) -> Option<&Element<u32>> {
        self.elements.iter().find(|e| *e.key == *key && Self::end(e) == end && e.is_alive(now))
    }

    fn lookup(&self, key: &[u8], now: u64) -> Option<u32> {
        let mut alive = self.elements.iter().filter(|e| e.is_alive(now));
        let matching = alive.clone().find(|e| !e.key.is_empty() && self.contains(e, key));
        matching.or_else(|| alive.find(|e| e.key.is_empty())).map(|e| e.value)
    }
}

/// Keys from a small space, so that they meet.
fn key(rng: &mut fastrand::Rng, d: &Description) -> Box<[u8]> {
    let mut key = vec![0; d.key_len];
    let mut offset = 0;
    let whole = [d.key_len as u8];
    for &len in if d.fields.is_empty() { &whole[..] } else { &d.fields } {
        let len = usize::from(len);
        key[offset] = rng.u8(0..2) * 0x81;
        key[offset + len - 1] = if len == 1 { rng.u8(0..40) } else { rng.u8(0..12) * 20 };
        offset += len.next_multiple_of(4);
    }
    key.into()
}

fn element(rng: &mut fastrand::Rng, d: &Description, now: u64) -> Element<u32> {
    let catch_all = rng.u8(0..20) == 0;
    let a = if catch_all { [].into() } else { key(rng, d) };
    let mut end = None;
    let mut start = a.clone();
    if d.interval && !catch_all && rng.bool() {
        let b = key(rng, d);
        let (mut lo, mut hi) = (a.to_vec(), a.to_vec());
        let mut offset = 0;
        let whole = [d.key_len as u8];
        for &len in if d.fields.len() < 2 { &whole[..] } else { &d.fields } {
            let part = offset..offset + usize::from(len);
            lo[part.clone()].copy_from_slice((&a[part.clone()]).min(&b[part.clone()]));
            hi[part.clone()].copy_from_slice((&a[part.clone()]).max(&b[part.clone()]));
            offset += usize::from(len).next_multiple_of(4);
        }
        start = lo.into();
        end = Some(hi.into());
    }
    let expires_at = (d.timeout && rng.bool()).then(|| now + rng.u64(1..400));
    Element { key: start, key_end: end, value: rng.u32(..), expires_at }
}

fn descriptions() -> Vec<Description> {
    let d = Description::default;
    let mut all = Vec::new();
    for key_len in [1, 2, 4, 6, 8, 16, 20, 64] {
        for interval in [false, true] {
            for map in [false, true] {
                for timeout in [false, true] {
                    for size in [None, Some(10), Some(500)] {
                        all.push(Description { key_len, interval, map, timeout, size, ..d() });
                    }
                }
            }
        }
    }
    for (key_len, fields) in
        [(8, vec![4, 2]), (8, vec![1, 2]), (36, vec![16, 6, 2, 4]), (12, vec![2, 2, 2])]
    {
        for interval in [false, true] {
            for timeout in [false, true] {
                for size in [None, Some(10), Some(500)] {
                    let fields = fields.clone();
                    all.push(Description { key_len, fields, interval, timeout, size, ..d() });
                }
            }
        }
    }
    all
}

/// What has changed is among what [`Set::differing`] gives, with places in the order of the set.
fn check_differing(before: &Set<u64>, now: &Set<u64>, context: &str) {
    let all = |s: &Set<u64>| s.iter().map(|e| e.to_element()).collect::<Vec<_>>();
    let (were, are) = (all(before), all(now));
    let mut differ: Vec<_> = now.differing(before).map(|(n, e)| (n, e.to_element())).collect();
    for changed in are.iter().filter(|e| !were.contains(e)) {
        assert!(differ.iter().any(|(_, e)| e == changed), "{changed:?} {context}");
    }
    differ.retain(|(_, e)| !e.key.is_empty());
    differ.sort_by_key(|(place, _)| *place);
    if now.backend() == Backend::ConcatenatedRanges {
        let order = differ.iter().map(|(_, e)| are.iter().position(|other| other == e));
        assert!(order.is_sorted(), "{context}");
    }
}

/// `backend` is what holds the set; where there is none, the set chooses.
fn run(seed: u64, description: &Description, backend: Option<Backend>, steps: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let set = match backend {
        Some(backend) => Set::with_backend(description.clone(), backend),
        None => Set::new(description.clone()),
    };
    let Some(mut set) = set else {
        panic!("{backend:?} said that it suits {description:?}");
    };
    let mut model = Model { description: description.clone(), elements: Vec::new() };
    let mut now = 1;
    let mut doubled_before: Option<(Set<u32>, Set<u64>)> = None;
    let mut older: Option<(Set<u32>, Vec<Element<u32>>)> = None;
    for step in 0..steps {
        let context = || format!("seed {seed} step {step} {backend:?} {description:?}");
        now += rng.u64(0..4);
        match rng.u8(0..20) {
            0..8 => {
                let e = element(&mut rng, description, now);
                assert_eq!(
                    set.insert(e.clone(), now),
                    model.insert(e.clone(), now),
                    "insert {e:?} {}",
                    context()
                );
            }
            8..11 => {
                let known =
                    (!model.elements.is_empty()).then(|| rng.usize(0..model.elements.len()));
                let e = match known {
                    Some(i) if rng.u8(0..4) > 0 => model.elements[i].clone(),
                    _ => element(&mut rng, description, now),
                };
                let expected = model.find(&e.key, Model::end(&e), now).cloned();
                let removed = set.remove(&e.key, e.key_end.as_deref(), now);
                assert_eq!(removed, expected, "remove {}", context());
                if let Some(gone) = expected {
                    model.elements.retain(|e| *e != gone);
                }
            }
            11 => set.commit(),
            12 => older = Some((set.clone(), set.iter().map(|e| e.to_element()).collect())),
            13 if rng.u8(0..20) == 0 => {
                set.clear();
                model.elements.clear();
            }
            14 => {
                let double = |v: &u32| u64::from(*v) * 2;
                let made = match &doubled_before {
                    Some((before, made)) => set.map_values_after((before, made), double),
                    None => set.map_values(double),
                };
                let all = |s: &Set<u64>| s.iter().map(|e| e.to_element()).collect::<Vec<_>>();
                assert_eq!(all(&made), all(&set.map_values(double)), "{}", context());
                if let Some((_, before)) = &doubled_before {
                    check_differing(before, &made, &context());
                }
                let doubled = made.clone();
                doubled_before = Some((set.clone(), made));
                let k = key(&mut rng, description);
                let expected = model.lookup(&k, now).map(|v| u64::from(v) * 2);
                assert_eq!(doubled.lookup(&k, now).map(|e| *e.value), expected, "{}", context());
            }
            15 => {
                let e = element(&mut rng, description, now);
                let mut expected = false;
                for m in &mut model.elements {
                    if m.key == e.key && Model::end(m) == Model::end(&e) && m.is_alive(now) {
                        (m.value, m.expires_at, expected) = (e.value, e.expires_at, true);
                    }
                }
                let modified = set.modify(&e.key, e.key_end.as_deref(), now, |value, expires| {
                    (*value, *expires) = (e.value, e.expires_at);
                });
                assert_eq!(modified, expected, "{}", context());
            }
            _ => {
                let keys: Vec<_> =
                    (0..rng.usize(..40)).map(|_| key(&mut rng, description)).collect();
                let slices: Vec<&[u8]> = keys.iter().map(|k| &**k).collect();
                let mut found = vec![None; keys.len()];
                set.lookup_batch(&slices, now, &mut found);
                for (k, found) in keys.iter().zip(&found).take(4) {
                    let expected = model.lookup(k, now);
                    assert_eq!(found.map(|e| *e.value), expected, "lookup {k:?} {}", context());
                    assert_eq!(
                        set.lookup(k, now).map(|e| *e.value),
                        expected,
                        "lookup {k:?} {}",
                        context()
                    );
                    assert_eq!(set.contains(k, now), expected.is_some(), "{}", context());
                }
            }
        }
        if step % 64 == 0 {
            let mut expected: Vec<_> =
                model.elements.iter().filter(|e| e.is_alive(now)).cloned().collect();
            if set.backend() != Backend::ConcatenatedRanges {
                expected.sort_by(|a, b| a.key.cmp(&b.key));
            }
            expected.sort_by_key(|e| e.key.is_empty());
            let listed: Vec<_> =
                set.iter().filter(|e| e.is_alive(now)).map(|e| e.to_element()).collect();
            assert_eq!(listed, expected, "{}", context());
            assert!(set.len() >= expected.len());
        }
        if let Some((older, listed)) = &older {
            assert!(
                older.iter().eq(listed.iter().map(Element::view)),
                "a clone changed with its original: {}",
                context()
            );
        }
    }
}

#[test]
fn every_backend_agrees_with_a_plain_list() {
    let seed = penstock_testkit::seed();
    let kinds = [
        Backend::HashFast,
        Backend::Hash,
        Backend::ResizableHash,
        Backend::Bitmap,
        Backend::Intervals,
        Backend::ConcatenatedRanges,
    ];
    for (i, description) in descriptions().iter().enumerate() {
        let suitable: Vec<_> = kinds.into_iter().filter(|b| b.suits(description)).collect();
        assert!(!suitable.is_empty(), "{description:?}");
        for backend in suitable {
            // The same operations on each backend: what agrees with the list agrees with the
            // others.
            run(seed.wrapping_add(i as u64), description, Some(backend), 150);
        }
        for policy in [Policy::Performance, Policy::Memory] {
            run(
                seed.wrapping_add(i as u64),
                &Description { policy, ..description.clone() },
                None,
                150,
            );
        }
    }
}

#[test]
fn a_hundred_thousand_elements_are_inserted_and_found() {
    let number = |i: u32| i.wrapping_mul(2_654_435_761) & !0xff;
    let plain = Description { key_len: 4, ..Description::default() };
    let nets = Description { interval: true, ..plain.clone() };
    let both = Description { key_len: 8, fields: vec![4, 2], interval: true, ..plain.clone() };

    for description in [plain, nets, both] {
        let mut set = Set::new(description.clone()).unwrap();
        let mut count = 0;
        let all = if description.fields.is_empty() { 100_000 } else { 20_000 };
        for i in 0..all {
            let (mut key, mut end) =
                (number(i).to_be_bytes().to_vec(), (number(i) | 0xff).to_be_bytes().to_vec());
            if description.key_len == 8 {
                key.extend([0, 80, 0, 0]);
                end.extend([0, 90, 0, 0]);
            }
            let key_end = description.interval.then(|| end.into());
            count += usize::from(
                set.insert(Element { key: key.into(), key_end, value: i, expires_at: None }, 0)
                    .is_ok(),
            );
        }
        set.commit();
        assert_eq!(set.len(), count);
        for i in (0..all).step_by(777) {
            let mut key = number(i).to_be_bytes().to_vec();
            if description.key_len == 8 {
                key.extend([0, 85, 0, 0]);
            }
            assert_eq!(
                set.lookup(&key, 0).map(|e| &e.key[..4]),
                Some(&number(i).to_be_bytes()[..])
            );
        }
    }
}

#[test]
fn concatenated_ranges_survive_many_insertions_and_removals() {
    let seed = penstock_testkit::seed();
    let fields = vec![4, 2, 1];
    for timeout in [false, true] {
        let description = Description {
            key_len: 12,
            fields: fields.clone(),
            interval: true,
            timeout,
            ..Description::default()
        };
        run_wide(seed, &description);
    }
}

/// [`run`] with keys from a space wide enough for hundreds of entries.
fn run_wide(seed: u64, description: &Description) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut set = Set::new(description.clone()).unwrap();
    let mut model = Model { description: description.clone(), elements: Vec::new() };
    let point = |rng: &mut fastrand::Rng| {
        let mut key =
            vec![10, rng.u8(0..4), rng.u8(..), 0, 0, rng.u8(0..40), 0, 0, rng.u8(0..3), 0, 0, 0];
        key[3] = rng.u8(0..2) * 77;
        key
    };
    let mut now = 1;
    for step in 0..1_500 {
        now += 1;
        if rng.u8(0..4) > 0 {
            let from = point(&mut rng);
            let mut to = from.clone();
            if rng.bool() {
                to[3] = 0xff;
            }
            if rng.bool() {
                to[5] = to[5].saturating_add(rng.u8(0..9));
            }
            let expires_at = description.timeout.then(|| now + rng.u64(1..2_000));
            let e = Element { key: from.into(), key_end: Some(to.into()), value: step, expires_at };
            assert_eq!(set.insert(e.clone(), now), model.insert(e, now), "seed {seed} step {step}");
        } else if !model.elements.is_empty() {
            let e = model.elements.swap_remove(rng.usize(0..model.elements.len()));
            model.elements.sort_by_key(|e| e.value);
            let expected = e.is_alive(now).then(|| e.clone());
            assert_eq!(
                set.remove(&e.key, e.key_end.as_deref(), now),
                expected,
                "seed {seed} step {step}"
            );
            if expected.is_none() {
                set.sweep(now);
            }
        }
        if rng.u8(0..40) == 0 {
            set.commit();
        }
        for _ in 0..3 {
            let key = point(&mut rng);
            let expected = model.lookup(&key, now);
            assert_eq!(
                set.lookup(&key, now).map(|e| *e.value),
                expected,
                "seed {seed} step {step} {key:?}"
            );
        }
    }
    assert!(set.len() > 150, "{}", set.len());
}

#[test]
fn intervals_of_any_number_and_spread_are_found() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..70 {
        let key_len = [2, 3, 4, 6, 8, 16, 20][round % 7];
        let mut set =
            Set::new(Description { key_len, interval: true, ..Description::default() }).unwrap();
        let mut model = Model { description: set.description().clone(), elements: Vec::new() };
        // Bits that differ: narrow ones make a cluster.
        let spread = rng.u32(1..=16);
        let base = rng.u16(..);
        let point = |rng: &mut fastrand::Rng| {
            let mut key = vec![0x20; key_len];
            let value = base ^ (rng.u16(..) & ((1u32 << spread) - 1) as u16);
            let at = key_len / 2 - 1;
            key[at..at + 2].copy_from_slice(&value.to_be_bytes());
            key
        };
        for value in 0..rng.u32(0..400) {
            let (a, b) = (point(&mut rng), point(&mut rng));
            let end = if rng.bool() { a.clone() } else { a.clone().max(b) };
            let e = Element { key: a.into(), key_end: Some(end.into()), value, expires_at: None };
            assert_eq!(set.insert(e.clone(), 0), model.insert(e, 0), "seed {seed}");
        }
        set.commit();
        let edges: Vec<_> =
            model.elements.iter().flat_map(|e| [e.key.to_vec(), Model::end(e).to_vec()]).collect();
        let ends = [vec![0; key_len], vec![0xff; key_len]];
        for key in edges.into_iter().chain(ends).chain((0..50).map(|_| point(&mut rng))) {
            assert_eq!(
                set.lookup(&key, 0).map(|e| *e.value),
                model.lookup(&key, 0),
                "seed {seed} {key:?}"
            );
        }
    }
}

#[test]
fn backends_are_selected_by_type_and_size() {
    let d = Description::default;
    let ranges = || Description { key_len: 8, fields: vec![4, 2], interval: true, ..d() };
    let memory = Policy::Memory;
    for (description, len, structure) in [
        (Description { key_len: 2, ..d() }, 3, Structure::Bitmap),
        (Description { key_len: 2, map: true, timeout: true, ..d() }, 3, Structure::Bitmap),
        (Description { key_len: 2, policy: memory, ..d() }, 3, Structure::Hash),
        (Description { key_len: 2, policy: memory, ..d() }, 2000, Structure::Bitmap),
        (Description { key_len: 4, ..d() }, 2000, Structure::WordHash),
        (Description { key_len: 16, ..d() }, 2000, Structure::Hash),
        (Description { key_len: 4, interval: true, ..d() }, 2000, Structure::IntervalIndex),
        (
            Description { key_len: 4, interval: true, policy: memory, ..d() },
            2000,
            Structure::IntervalArray,
        ),
        (ranges(), 4, Structure::RangeList),
        (ranges(), 2000, Structure::RangeTables),
        (ranges(), 5000, Structure::RangeTrees),
        (Description { policy: memory, ..ranges() }, 2000, Structure::RangeGroups),
    ] {
        let mut set = Set::new(description.clone()).unwrap();
        let of = |value: u32| {
            let key = (value * 2).to_be_bytes();
            let mut key = key[4 - description.key_len.min(4)..].to_vec();
            key.resize(description.key_len, 0);
            Element { key: key.into(), key_end: None, value, expires_at: None }
        };
        for value in 0..len {
            set.insert(of(value), 0).unwrap();
        }
        set.commit();
        assert_eq!(set.structure(), structure, "{len} elements of {description:?}");
        for value in 0..len {
            assert_eq!(
                set.lookup(&of(value).key, 0).map(|e| *e.value),
                Some(value),
                "{description:?}"
            );
        }
        // A few changes later it is still the same.
        set.remove(&of(1).key, None, 0).unwrap();
        set.insert(of(len), 0).unwrap();
        set.commit();
        let found = [1, len].map(|value| set.lookup(&of(value).key, 0).map(|e| *e.value));
        assert_eq!((found, set.structure()), ([None, Some(len)], structure), "{description:?}");
    }
}

/// What is made of a large set, and what is compared with it, after one change, costs as little as
/// the change.
#[test]
fn a_change_of_many_elements_concerns_few() {
    let of = |n: u32| Element {
        key: n.to_be_bytes().into(),
        key_end: Some((n + 1).to_be_bytes().into()),
        value: n,
        expires_at: None,
    };
    let description = Description { key_len: 4, interval: true, ..Description::default() };
    let mut set = Set::new(description).unwrap();
    (0..50_000).for_each(|n| set.insert(of(n * 4), 0).unwrap());
    set.commit();
    let (before, made) = (set.clone(), set.map_values(|v| u64::from(*v)));
    let mut changed = set.clone();
    changed.remove(&of(400).key, of(400).key_end.as_deref(), 0).unwrap();
    changed.insert(of(1_000_000), 0).unwrap();
    changed.commit();
    let mut asked = 0;
    let made_of_changed = changed.map_values_after((&before, &made), |v| {
        asked += 1;
        u64::from(*v)
    });
    assert!(asked < 1_000, "{asked}");
    for (one, other) in [(&made_of_changed, &made), (&made, &made_of_changed)] {
        let differing = one.differing(other).count();
        assert!((1..1_000).contains(&differing), "{differing}");
    }
    assert_eq!(
        made_of_changed.lookup(&[0, 0x0f, 0x42, 0x40], 0).map(|e| *e.value),
        Some(1_000_000)
    );
    assert!(made_of_changed.lookup(&[0, 0, 1, 0x90], 0).is_none());
}
