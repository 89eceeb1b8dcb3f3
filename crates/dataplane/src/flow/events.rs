// SPDX-License-Identifier: Apache-2.0

//! Tells an observer what happens to flows. Costs nothing without one.

use std::fmt;

use crate::flow::listed::ListedFlow;

/// What happens to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// It was added to its flowtable.
    Added,
    /// A device forwards it from now on.
    ToDevice,
    /// The device no longer does.
    FromDevice,
    /// It is no longer in its flowtable.
    Removed(FlowEnd),
}

/// Why a flow is no longer in its flowtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// No packets for as long as its timeout.
    Expired,
    /// A packet, a command, or a change of routes, devices or rules.
    TornDown,
    /// Its connection ended.
    WithConnection,
}

/// Who listens.
pub trait FlowObserver: Send {
    /// Told when it happens. Packets that a device has forwarded since it was last asked are not
    /// among those of the flow.
    fn event(&mut self, event: FlowEvent, flow: &ListedFlow<'_>);
}

/// Who listens, if anybody does.
#[derive(Default)]
pub(crate) struct Watch(Option<Box<dyn FlowObserver>>);

impl Watch {
    pub(crate) fn set(&mut self, observer: Option<Box<dyn FlowObserver>>) {
        self.0 = observer;
    }

    /// Tells of an event of a flow, if there is one.
    pub(crate) fn tell<'a>(
        &mut self,
        event: FlowEvent,
        flow: impl FnOnce() -> Option<ListedFlow<'a>>,
    ) {
        if let Some(observer) = &mut self.0
            && let Some(flow) = flow()
        {
            observer.event(event, &flow);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.0.is_some()).finish()
    }
}
