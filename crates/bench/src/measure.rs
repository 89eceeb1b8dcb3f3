// SPDX-License-Identifier: Apache-2.0

//! Variants by turns, medians, ratios.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

/// One thing to measure.
pub struct Variant {
    /// Its name within the benchmark.
    pub name: String,
    /// The reference variant: its rate counts as 1.
    pub against: Option<&'static str>,
    /// Operations of a call of `run`: packets, lookups, or rules compiled.
    pub operations: u64,
    /// Does that many operations.
    pub run: Box<dyn FnMut()>,
    /// What it measures in place of time: bytes per flow.
    pub memory: Option<Box<dyn Fn() -> f64>>,
    /// Time that others have spent on a processor for it; it counts too.
    pub others: Option<Box<dyn Fn() -> Duration>>,
    /// Whether the time of the caller of `run` counts.
    pub caller: bool,
    /// Measures by itself, for about this long: nanoseconds per operation.
    pub itself: Option<Measuring>,
    /// What the reader of the figure has to know, in a sentence.
    pub note: Option<Box<dyn Fn() -> String>>,
    /// What others have published for it.
    pub published: Option<Published>,
}

/// A figure that others have published, from another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// As it was printed, with its unit.
    pub figure: &'static str,
    /// Bits of an operation, where the unit is bits a second.
    pub bits: Option<u64>,
}

/// A measurement of about this long: nanoseconds per operation.
pub type Measuring = Box<dyn FnMut(Duration) -> f64>;

impl Variant {
    /// A variant without comparison.
    pub fn new(name: impl Into<String>, operations: u64, run: impl FnMut() + 'static) -> Self {
        Variant {
            name: name.into(),
            against: None,
            operations,
            run: Box::new(run),
            memory: None,
            others: None,
            caller: true,
            itself: None,
            note: None,
            published: None,
        }
    }

    /// A variant whose tables are made when it runs for the first time, which is not measured.
    pub fn made<R: FnMut() + 'static>(
        name: impl Into<String>,
        operations: u64,
        make: impl FnOnce() -> R + 'static,
    ) -> Self {
        let (mut make, mut run) = (Some(make), None);
        Variant::new(name, operations, move || {
            if let Some(make) = make.take() {
                run = Some(make());
            }
            run.iter_mut().for_each(|run| run());
        })
    }

    /// A variant that measures itself: nanoseconds per operation, in a time of about that length.
    pub fn measuring(
        name: impl Into<String>,
        measure: impl FnMut(Duration) -> f64 + 'static,
    ) -> Self {
        Variant { itself: Some(Box::new(measure)), ..Variant::new(name, 1, || {}) }
    }

    /// A variant that measures memory, once.
    pub fn memory(name: impl Into<String>, bytes: impl Fn() -> f64 + 'static) -> Self {
        Variant { memory: Some(Box::new(bytes)), ..Variant::new(name, 0, || {}) }
    }

    /// Counts time that others have spent on a processor for it.
    pub fn with_others(mut self, others: impl Fn() -> Duration + 'static) -> Self {
        self.others = Some(Box::new(others));
        self
    }

    /// Counts the time that others have spent on a processor, and not that of the caller.
    pub fn by_others(self, others: impl Fn() -> Duration + 'static) -> Self {
        Variant { caller: false, ..self.with_others(others) }
    }

    /// With what the reader of the figure has to know, in a sentence, which is asked for after the
    /// variant has run.
    pub fn noting(self, note: impl Fn() -> String + 'static) -> Self {
        Variant { note: Some(Box::new(note)), ..self }
    }

    /// With what others have published for it.
    pub fn published(self, published: Published) -> Self {
        Variant { published: Some(published), ..self }
    }

    /// Compared with the rate of another variant of the same benchmark.
    pub fn against(mut self, other: &'static str) -> Self {
        self.against = Some(other);
        self
    }
}

/// How large the tables of a benchmark are: rules, set elements, flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As the names of the variants say.
    #[default]
    Full,
    /// At most [`Scale::REDUCED`] of each, for tests that all variants run. Names stay, so figures
    /// must not be reported under them.
    Reduced,
}

impl Scale {
    /// Most rules, set elements or flows of a variant in reduced scale.
    pub const REDUCED: u32 = 500;

    /// The count that a variant uses in place of `full`, the one that its name says.
    pub fn count(self, full: u32) -> u32 {
        match self {
            Scale::Full => full,
            Scale::Reduced => full.min(Self::REDUCED),
        }
    }
}

/// How much to measure, and for how long.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// Least time of a variant in a round, on the processor.
    pub slice: Duration,
    /// Size of the tables.
    pub scale: Scale,
    /// The VPP that ours is measured beside: a name to look for in `PATH`, or a path.
    pub vpp: PathBuf,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            rounds: 15,
            slice: Duration::from_millis(20),
            scale: Scale::Full,
            vpp: "vpp".into(),
        }
    }
}

/// What came out for a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub variant: String,
    /// Median nanoseconds per operation.
    pub ns: f64,
    /// Least nanoseconds per operation.
    pub least_ns: f64,
    /// Name of what it is compared with, and the median of its rate divided by that one's.
    pub ratio: Option<(&'static str, f64)>,
    /// Bytes per flow, of a variant that measures memory; its times mean nothing then.
    pub bytes: Option<f64>,
    /// What others have published for it.
    pub published: Option<Published>,
}

impl Figure {
    /// Median of millions of operations per second.
    pub fn mops(&self) -> f64 {
        1e3 / self.ns
    }
}

/// What came out for the variants of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// A figure of each variant.
    pub figures: Vec<Figure>,
    /// What has to be known about them, a sentence each.
    pub notes: Vec<String>,
}

/// How far the clock of the processor may move between rounds without a word about it.
const CLOCK: f64 = 0.05;

/// Measures variants by turns.
pub fn by_turns(variants: Vec<Variant>, effort: &Effort) -> Outcome {
    let (memory, mut variants): (Vec<_>, Vec<_>) =
        variants.into_iter().partition(|v| v.memory.is_some());
    // First, while nothing has been freed that would be used again.
    let memory: Vec<_> = memory
        .into_iter()
        .map(|variant| Figure {
            variant: variant.name,
            ns: f64::NAN,
            least_ns: f64::NAN,
            ratio: None,
            bytes: variant.memory.map(|measure| measure()),
            published: None,
        })
        .collect();
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); variants.len()];
    let calls: Vec<u64> = variants.iter_mut().map(|v| calls(v, effort.slice)).collect();
    let mut clock = Vec::new();
    for round in 0..effort.rounds {
        clock.push(cycle());
        // Every other round goes backwards, so that no variant always follows the same one.
        let order: Vec<usize> = if round % 2 == 0 {
            (0..variants.len()).collect()
        } else {
            (0..variants.len()).rev().collect()
        };
        for i in order {
            let variant = &mut variants[i];
            let ns = match &mut variant.itself {
                Some(measure) => measure(effort.slice),
                None => time(variant, calls[i]),
            };
            rounds[i].push(ns);
        }
    }
    let of = |name: &str| variants.iter().position(|v| v.name == name);
    let figures = variants
        .iter()
        .zip(&rounds)
        .map(|(variant, times)| {
            let ratio = variant.against.and_then(|name| {
                let base = &rounds[of(name)?];
                Some((name, median(base.iter().zip(times).map(|(base, own)| base / own).collect())))
            });
            Figure {
                variant: variant.name.clone(),
                ns: median(times.clone()),
                least_ns: times.iter().copied().fold(f64::INFINITY, f64::min),
                ratio,
                bytes: None,
                published: variant.published,
            }
        })
        .collect::<Vec<_>>();
    let notes = variants.iter().filter_map(|v| Some(format!("{}: {}", v.name, v.note.as_ref()?())));
    Outcome {
        notes: notes.chain(moved(&clock)).collect(),
        figures: figures.into_iter().chain(memory).collect(),
    }
}

/// What to say about the clock of the processor, if it moved from round to round: figures of
/// different rounds are not of the same processor then.
fn moved(clock: &[f64]) -> Option<String> {
    let least = clock.iter().copied().fold(f64::INFINITY, f64::min);
    let most = clock.iter().copied().fold(0.0, f64::max);
    let moved = most / least - 1.0;
    (moved > CLOCK && moved.is_finite())
        .then(|| format!("the clock of the processor moved by {:.0} %", moved * 100.0))
}

/// Nanoseconds of a step of a loop whose steps depend on each other: a fixed number of cycles. The
/// least of several short runs, since interrupts take time, too.
fn cycle() -> f64 {
    const STEPS: u32 = 20_000;
    let run = || {
        let start = cpu_time();
        black_box((0..STEPS).fold(black_box(1u64), |x, _| {
            black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ x >> 7)
        }));
        (cpu_time() - start).as_nanos() as f64 / f64::from(STEPS)
    };
    (0..5).map(|_| run()).fold(f64::INFINITY, f64::min)
}

/// How many calls take at least `slice`.
fn calls(variant: &mut Variant, slice: Duration) -> u64 {
    if variant.itself.is_some() {
        return 1;
    }
    (variant.run)();
    let mut calls = 1;
    loop {
        let ns = time(variant, calls) * (calls * variant.operations) as f64;
        if ns >= slice.as_nanos() as f64 {
            return calls;
        }
        calls *= 2;
    }
}

/// Nanoseconds per operation over so many calls.
fn time(variant: &mut Variant, calls: u64) -> f64 {
    let now = |v: &Variant| {
        let caller = if v.caller { cpu_time() } else { Duration::ZERO };
        caller + v.others.as_ref().map_or(Duration::ZERO, |others| others())
    };
    let start = now(variant);
    for _ in 0..calls {
        (variant.run)();
    }
    (now(variant) - start).as_nanos() as f64 / (calls * variant.operations) as f64
}

/// Processor time of this thread, without that of others.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call fills in; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_odd_and_an_even_count() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_clock_that_moves_is_told() {
        assert_eq!(moved(&[1.0, 1.04, 1.02]), None);
        let said = moved(&[1.0, 1.2, 1.1]).unwrap();
        assert_eq!(said, "the clock of the processor moved by 20 %");
    }

    #[test]
    fn a_variant_makes_its_tables_once_and_unmeasured() {
        let effort = Effort { rounds: 3, slice: Duration::ZERO, ..Effort::default() };
        let made = Variant::made("made", 1, || {
            std::thread::sleep(Duration::from_millis(1));
            || _ = black_box(0)
        });
        let itself = Variant::measuring("itself", |_| 7.0).noting(|| "seven".into());
        let Outcome { figures, notes } = by_turns(vec![made, itself], &effort);
        assert!(notes.contains(&"itself: seven".to_owned()), "{notes:?}");
        assert!(figures[0].ns > 0.0 && figures[0].ns < 1e6, "{figures:?}");
        assert_eq!((figures[1].ns, figures[1].least_ns), (7.0, 7.0));
    }

    #[test]
    fn a_variant_that_does_less_work_is_compared_with_the_other() {
        let work = |n: u64| move || (0..n).for_each(|i| _ = std::hint::black_box(i));
        let effort = Effort { rounds: 3, slice: Duration::from_micros(200), ..Effort::default() };
        let variants = vec![
            Variant::new("all", 1, work(4000)),
            Variant::new("part", 1, work(40)).against("all"),
        ];
        let figures = by_turns(variants, &effort).figures;
        assert_eq!(figures.len(), 2);
        assert_eq!(figures[0].ratio, None);
        assert!(matches!(figures[1].ratio, Some(("all", ratio)) if ratio > 1.0), "{figures:?}");
    }
}
