// SPDX-License-Identifier: Apache-2.0

//! The connections of the dataplane, which a child asks for.

use penstock_conntrack::{Flow, FlowChange, Statistics};
use penstock_nfnetlink::{ConnectionEvent, Connections, Expected, NewExpected, NewFlow, Wanted};
use penstock_ruleset::Errno;

use super::netfilter::Batch;
use crate::connections::{Answer, Ask};

/// Connections in one question: they are a message of some hundred kilobytes.
const TOGETHER: usize = 512;

impl Batch<'_, '_> {
    /// The connection of an answer, which has one.
    fn flow(&mut self, ask: Ask) -> Result<Flow, Errno> {
        match self.connections_answer(ask)? {
            Answer::Flow(Some(flow)) => Ok(*flow),
            _ => Err(self.wrong_answer()),
        }
    }

    fn done(&mut self, ask: Ask) -> Result<(), Errno> {
        match self.connections_answer(ask)? {
            Answer::Done => Ok(()),
            _ => Err(self.wrong_answer()),
        }
    }
}

impl Connections for Batch<'_, '_> {
    fn each(&mut self, see: &mut dyn FnMut(&Flow)) -> Result<(), Errno> {
        let mut next = Some((0, 0));
        while let Some((worker, from)) = next {
            let Answer::Page(flows, after) = self.connections_answer(Ask::Page(worker, from))?
            else {
                return Err(self.wrong_answer());
            };
            flows.iter().for_each(&mut *see);
            next = after;
        }
        Ok(())
    }

    fn find(&mut self, wanted: &Wanted) -> Result<Option<Flow>, Errno> {
        match self.connections_answer(Ask::Find(*wanted))? {
            Answer::Flow(found) => Ok(found.map(|flow| *flow)),
            _ => Err(self.wrong_answer()),
        }
    }

    fn add(&mut self, new: &NewFlow) -> Result<Flow, Errno> {
        self.flow(Ask::Add(Box::new(new.clone())))
    }

    fn change(&mut self, flow: &Flow, change: &FlowChange) -> Result<Flow, Errno> {
        self.flow(Ask::Change(Box::new(flow.clone()), Box::new(change.clone())))
    }

    fn remove(&mut self, flows: &[Flow]) -> Result<Vec<bool>, Errno> {
        let mut all = Vec::with_capacity(flows.len());
        for some in flows.chunks(TOGETHER) {
            match self.connections_answer(Ask::Remove(some.to_vec()))? {
                Answer::Removed(removed) => all.extend(removed),
                _ => return Err(self.wrong_answer()),
            }
        }
        Ok(all)
    }

    fn zero_counters(&mut self, flows: &[Flow]) -> Result<(), Errno> {
        flows.chunks(TOGETHER).try_for_each(|some| self.done(Ask::ZeroCounters(some.to_vec())))
    }

    fn count(&mut self) -> Result<(u32, u32), Errno> {
        match self.connections_answer(Ask::Count)? {
            Answer::Count(count, most) => Ok((count, most)),
            _ => Err(self.wrong_answer()),
        }
    }

    fn statistics(&mut self) -> Result<Vec<Statistics>, Errno> {
        match self.connections_answer(Ask::Statistics)? {
            Answer::Statistics(all) => Ok(all),
            _ => Err(self.wrong_answer()),
        }
    }

    fn expectations(&mut self) -> Result<Vec<Expected>, Errno> {
        match self.connections_answer(Ask::Expectations)? {
            Answer::Expectations(all) => Ok(all),
            _ => Err(self.wrong_answer()),
        }
    }

    fn expect(&mut self, new: &NewExpected) -> Result<Expected, Errno> {
        match self.connections_answer(Ask::Expect(Box::new(new.clone())))? {
            Answer::Expectations(mut all) if all.len() == 1 => Ok(all.remove(0)),
            _ => Err(self.wrong_answer()),
        }
    }

    fn prolong(&mut self, expected: &Expected, timeout: u64) -> Result<(), Errno> {
        self.done(Ask::Prolong(Box::new(expected.clone()), timeout))
    }

    fn unexpect(&mut self, expected: &Expected) -> Result<bool, Errno> {
        match self.connections_answer(Ask::Unexpect(Box::new(expected.clone())))? {
            Answer::Yes(done) => Ok(done),
            _ => Err(self.wrong_answer()),
        }
    }

    fn usual_timeouts(&mut self, protocol: u8) -> Result<Vec<(u8, u32)>, Errno> {
        match self.connections_answer(Ask::UsualTimeouts(protocol))? {
            Answer::Timeouts(all) => Ok(all),
            _ => Err(self.wrong_answer()),
        }
    }

    fn set_usual_timeouts(&mut self, protocol: u8, values: &[(u8, u32)]) -> Result<(), Errno> {
        self.done(Ask::SetUsualTimeouts(protocol, values.to_vec()))
    }

    fn tells(&self) -> bool {
        true
    }

    fn tell(&mut self, port: u32, events: Vec<ConnectionEvent>) -> Result<(), Errno> {
        events.chunks(TOGETHER).try_for_each(|some| self.done(Ask::Tell(port, some.to_vec())))
    }
}
