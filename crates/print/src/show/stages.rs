// SPDX-License-Identifier: Apache-2.0

//! Where processing time is spent: rules, stages of hooks, and what a worker does besides.

use std::fmt;

use serde::Serialize;

use super::About;
use crate::rules::{Named, Written, WrittenRules};

/// On the command line. Packets have to come while it counts; it is short, since they cost more
/// meanwhile.
pub const ABOUT: About = About {
    word: "stages",
    lists: "where processing time is spent, by rules and stages",
    milliseconds: Some(2000),
};

/// A rule, or a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// How often it began.
    pub times: u64,
    /// Ticks of the processor's clock.
    pub ticks: u64,
    /// What is written of it, if it is a rule.
    #[serde(flatten)]
    pub rule: Option<Written>,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stages {
    stages: Vec<Stage>,
}

impl Stages {
    /// In the order of their ticks, the most first.
    pub fn new(mut stages: Vec<Stage>) -> Self {
        stages.sort_by_key(|stage| std::cmp::Reverse(stage.ticks));
        Stages { stages }
    }

    /// With what is written of the rules among them.
    pub fn written(mut self, rules: &WrittenRules) -> Self {
        for stage in &mut self.stages {
            stage.rule = rules.profiled(&stage.name).cloned();
        }
        self
    }
}

impl fmt::Display for Stages {
    /// A table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.stages.iter().map(|stage| stage.ticks).sum();
        writeln!(f, "{:>14} {:>6} {:>12} {:>9}  rule or stage", "ticks", "share", "times", "each")?;
        for Stage { name, times, ticks, rule } in &self.stages {
            let share = 100.0 * *ticks as f64 / all.max(1) as f64;
            let each = ticks / times.max(&1);
            write!(f, "{ticks:>14} {share:>5.1}% {times:>12} {each:>9}  {name}")?;
            match rule {
                Some(rule) => writeln!(f, "{}", Named(rule))?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl From<(String, u64, u64)> for Stage {
    /// Name, times, ticks.
    fn from((name, times, ticks): (String, u64, u64)) -> Self {
        Stage { name, times, ticks, rule: None }
    }
}
