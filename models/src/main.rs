//! Runs the models, or those whose names contain a word of the command line. Each is run through all orders of its threads'
//! steps, up to a number of preemptions, and of what each thread sees of the others' memory.

mod stand_ins;
mod sync;

#[path = "bridges.rs"]
mod bridges;
mod counters;
mod directory;
mod dynamic;
mod rings;

use stand_ins::{cells, event, expr, hash};

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A model: its name, which says what must hold; how many preemptions are tried, where not all; and what is run.
pub struct Model {
    name: &'static str,
    preemptions: Option<usize>,
    run: fn(),
}

impl Model {
    const fn new(name: &'static str, preemptions: usize, run: fn()) -> Self {
        Model { name, preemptions: Some(preemptions), run }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let all = [bridges::MODELS, counters::MODELS, directory::MODELS, dynamic::MODELS, rings::MODELS];
    let begun = Instant::now();
    let mut count = 0;
    for model in all.into_iter().flatten() {
        if !words.is_empty() && !words.iter().any(|word| model.name.contains(word.as_str())) {
            continue;
        }
        static ORDERS: AtomicU64 = AtomicU64::new(0);
        ORDERS.store(0, Relaxed);
        let begun = Instant::now();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = model.preemptions;
        builder.max_branches = 100_000;
        let run = model.run;
        builder.check(move || {
            ORDERS.fetch_add(1, Relaxed);
            run();
        });
        let (orders, seconds) = (ORDERS.load(Relaxed), begun.elapsed().as_secs_f64());
        println!("{orders:>8} orders {seconds:>6.1} s  {}", model.name);
        count += 1;
    }
    println!("{count} models hold ({:.1} s)", begun.elapsed().as_secs_f64());
}
