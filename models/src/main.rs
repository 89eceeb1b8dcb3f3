// SPDX-License-Identifier: Apache-2.0

//! Runs the models, or those with a word of the command line in their names.
//!
//! loom runs each through the orders of its threads' steps, up to a number of preemptions, and of
//! what each thread sees of the others' memory. It leaves out orders in which it takes a step for
//! independent of those before (it knows one access to a word only, the last). So the same models
//! run by shuttle, too (`--features shuttle`): through many random schedules, in which all threads
//! see one memory.

#[cfg(not(feature = "shuttle"))]
mod loom_sync;
#[cfg(feature = "shuttle")]
mod shuttle_sync;
mod stand_ins;
mod sync;

#[path = "bridges.rs"]
mod bridges;
mod counters;
mod directory;
mod dynamic;
mod rings;

use stand_ins::{cells, event, hash, operand};

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A model: its name, which says what must hold; how many preemptions loom tries; and what is run.
pub struct Model {
    name: &'static str,
    preemptions: usize,
    run: fn(),
}

impl Model {
    const fn new(name: &'static str, preemptions: usize, run: fn()) -> Self {
        Model { name, preemptions, run }
    }
}

#[cfg(not(feature = "shuttle"))]
fn explore(model: &Model, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(model.preemptions);
    builder.max_branches = 100_000;
    builder.check(run);
}

#[cfg(feature = "shuttle")]
fn explore(_model: &Model, run: impl Fn() + Send + Sync + 'static) {
    const SCHEDULES: usize = 5000;
    const PREEMPTIONS: usize = 3;
    let run = std::sync::Arc::new(run);
    let random = run.clone();
    shuttle::check_random(move || random(), SCHEDULES);
    shuttle::check_pct(move || run(), SCHEDULES, PREEMPTIONS);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let all =
        [bridges::MODELS, counters::MODELS, directory::MODELS, dynamic::MODELS, rings::MODELS];
    let begun = Instant::now();
    let mut count = 0;
    for model in all.into_iter().flatten() {
        if !words.is_empty() && !words.iter().any(|word| model.name.contains(word.as_str())) {
            continue;
        }
        static ORDERS: AtomicU64 = AtomicU64::new(0);
        ORDERS.store(0, Relaxed);
        let begun = Instant::now();
        let run = model.run;
        explore(model, move || {
            ORDERS.fetch_add(1, Relaxed);
            run();
        });
        let (orders, seconds) = (ORDERS.load(Relaxed), begun.elapsed().as_secs_f64());
        println!("{orders:>8} orders {seconds:>6.1} s  {}", model.name);
        count += 1;
    }
    println!("{count} models hold ({:.1} s)", begun.elapsed().as_secs_f64());
}
