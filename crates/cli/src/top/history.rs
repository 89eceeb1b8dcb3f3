// SPDX-License-Identifier: Apache-2.0

//! Rates of the last minutes.

use std::collections::{HashMap, VecDeque};

use super::snapshot::{Snapshot, View};

/// Moments that are kept.
const MOMENTS: usize = 240;
/// Rows of a view whose rates are kept: those with the highest.
const ROWS: usize = 200;

/// Rates, the last one at the end.
#[derive(Default)]
pub struct History {
    /// Packets received and dropped.
    pace: [VecDeque<u64>; 2],
    /// By view and name: rates by column.
    rows: HashMap<(View, String), VecDeque<Vec<f64>>>,
    moments: usize,
}

impl History {
    /// What passed between two moments.
    pub fn add(&mut self, before: &Snapshot, now: &Snapshot) {
        self.moments = (self.moments + 1).min(MOMENTS);
        for (line, rate) in self.pace.iter_mut().zip(now.pace(before)) {
            line.push_back(rate as u64);
            line.keep_last(MOMENTS);
        }
        for view in View::ALL {
            for row in now.rows(before, view, 0).into_iter().take(ROWS) {
                let line = self.rows.entry((view, row.name)).or_default();
                // What came later began with nothing.
                while line.len() + 1 < self.moments {
                    line.push_back(vec![0.0; row.rates.len()]);
                }
                line.push_back(row.rates);
            }
        }
        // What was not among them had nothing to say this time, and goes once it says nothing.
        let moments = self.moments;
        self.rows.retain(|_, line| {
            if line.len() < moments {
                let columns = line.back().map_or(0, Vec::len);
                line.push_back(vec![0.0; columns]);
            }
            line.keep_last(MOMENTS);
            line.iter().any(|rates| rates.iter().any(|rate| *rate > 0.0))
        });
    }

    /// Packets received (0) or dropped (1) per second, the last `most` of them.
    pub fn pace(&self, which: usize, most: usize) -> Vec<u64> {
        let line = &self.pace[which];
        line.iter().skip(line.len().saturating_sub(most)).copied().collect()
    }

    /// A column of a row, the last `most` of its rates.
    pub fn row(&self, view: View, name: &str, column: usize, most: usize) -> Vec<u64> {
        let Some(line) = self.rows.get(&(view, name.to_owned())) else { return Vec::new() };
        let rates = line.iter().skip(line.len().saturating_sub(most));
        rates.map(|rates| rates.get(column).map_or(0, |rate| *rate as u64)).collect()
    }
}

/// Leaves the last elements only.
trait KeepLast {
    fn keep_last(&mut self, most: usize);
}

impl<T> KeepLast for VecDeque<T> {
    fn keep_last(&mut self, most: usize) {
        while self.len() > most {
            self.pop_front();
        }
    }
}
