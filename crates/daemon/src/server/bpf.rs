// SPDX-License-Identifier: Apache-2.0

//! `penstock bpf`: programs and maps of the running dataplane.

use std::io;
use std::sync::{Arc, PoisonError};

use penstock_dataplane::{BpfAttachment, BpfPrograms, Dataplane};
use penstock_ebpfvm::{Counts, Instance, Limits, Program};
use penstock_net::Network;
use penstock_print::bpf;
use penstock_ruleset::link::Linked;

use super::Server;
use crate::bpf::{Place, elements, set_elements};
use crate::control::bpf_call::BpfCall;
use crate::control::protocol::Message;
use crate::control::{Client, PATIENCE};
use crate::requests::Request;

/// A program where it runs, for a listing.
struct Running {
    place: String,
    program: Program,
    counts: Arc<Counts>,
}

/// Programs of hooks, then those of chains.
fn running(programs: &BpfPrograms, rules: &Linked) -> Vec<Running> {
    let attached = programs.iter().map(|attached| Running {
        place: attached.label.to_string(),
        program: attached.program.clone(),
        counts: attached.counts.clone(),
    });
    let chains = rules.bases.iter().filter_map(|base| {
        let loaded = base.program.as_ref()?;
        let chain = rules.image.chain(base.chain)?;
        let table = rules.image.table_of(base.chain)?;
        let (family, table, chain) = (base.family.name(), &table.name, &chain.name);
        Some(Running {
            place: format!("chain {family} {table} {chain}"),
            program: loaded.program.clone(),
            counts: loaded.counts.clone(),
        })
    });
    attached.chain(chains).collect()
}

impl Running {
    fn listed(&self) -> bpf::Program {
        let Running { place, program, counts } = self;
        bpf::Program {
            hook: place.clone(),
            id: program.id(),
            object: program.instance().file().to_owned(),
            program: program.name().to_owned(),
            section: program.section().to_owned(),
            packets: counts.keyed().into_iter().map(|(key, n)| (key.to_owned(), n)).collect(),
        }
    }
}

/// Objects, each once, in the order in which programs of them run.
fn instances(running: &[Running]) -> Vec<Arc<Instance>> {
    let mut all: Vec<Arc<Instance>> = Vec::new();
    for Running { program, .. } in running {
        if !all.iter().any(|known| Arc::ptr_eq(known, program.instance())) {
            all.push(program.instance().clone());
        }
    }
    all
}

/// What is in force: network, programs, rules.
type InForce = (Arc<Network>, BpfPrograms, Arc<Linked>);

impl Server {
    /// Serves a call: the exit status.
    pub(super) fn bpf(&self, client: &Client, call: BpfCall) -> io::Result<u8> {
        // One change after the other.
        let _changing = self.changing_programs.lock().unwrap_or_else(PoisonError::into_inner);
        match self.bpf_call(call) {
            Ok(text) if text.is_empty() => Ok(0),
            Ok(text) => client.say(&Message::Out(text)).map(|()| 0),
            Err(why) => client.say(&Message::Err(format!("Error: {why}\n"))).map(|()| 1),
        }
    }

    fn programs_in_force(&self) -> Result<InForce, String> {
        let look =
            |path: &Dataplane| (path.network().clone(), path.bpf().clone(), path.rules().clone());
        let busy = "the workers do not answer";
        let ask = |to: std::sync::mpsc::Sender<InForce>| {
            Request::Look(Box::new(move |path: &Dataplane| drop(to.send(look(path)))))
        };
        self.workers.ask_one(0, ask, PATIENCE).ok_or_else(|| busy.to_owned())
    }

    fn set_programs(&self, programs: &BpfPrograms) -> Result<(), String> {
        let done = self.workers.ask(|to| Request::Bpf(programs.clone(), to), PATIENCE);
        done.map(drop).ok_or_else(|| "the workers do not answer".into())
    }

    fn bpf_call(&self, call: BpfCall) -> Result<String, String> {
        let (net, programs, rules) = self.programs_in_force()?;
        match call {
            BpfCall::Attach { hook, file, program, object } => {
                let place: Place = hook.parse()?;
                let (_, made) =
                    Instance::load(&file, &object, &[program.as_deref()], Limits::default())
                        .map_err(|e| format!("{file}: {e}"))?;
                let program = made.into_iter().next().ok_or("no program")?;
                let failed = |e: &dyn std::fmt::Display| format!("{place}: {e}");
                let registered = rules.bases.iter().map(|base| base.base.registered).max();
                let hooks = place.hooks(&net, registered.unwrap_or(0)).map_err(|e| failed(&e))?;
                let mut all = programs;
                for (hook, label) in hooks {
                    let attachment = BpfAttachment::new(hook, &label, program.clone());
                    all = all.with(Arc::new(attachment)).map_err(|e| failed(&e))?;
                }
                self.set_programs(&all)?;
                Ok(format!("id {}\n", program.id()))
            }
            BpfCall::Detach { hook } => {
                let place: Place = hook.parse()?;
                let hooks = place.hooks(&net, 0).map_err(|e| format!("{place}: {e}"))?;
                let labels: Vec<String> = hooks.into_iter().map(|(_, label)| label).collect();
                self.detach(&programs, |of| labels.iter().any(|label| **label == *of.label))
            }
            BpfCall::DetachId(id) => self.detach(&programs, |of| of.program.id() == id),
            BpfCall::Show { json } => {
                let programs = running(&programs, &rules).iter().map(Running::listed).collect();
                let listed = bpf::Programs { programs };
                Ok(if json { listed.json() } else { listed.to_string() })
            }
            BpfCall::Dump { map } => {
                let objects = instances(&running(&programs, &rules));
                let known = objects.iter().flat_map(|object| object.maps());
                if let Some(map) = &map
                    && !known.map(|(name, _)| name).any(|name| name == map)
                {
                    return Err(format!("no program has a map {map}"));
                }
                Ok(elements(&objects, map.as_deref()))
            }
            BpfCall::Update(text) => {
                let objects = instances(&running(&programs, &rules));
                set_elements(&text, &objects).map(|()| String::new())
            }
        }
    }

    fn detach(
        &self,
        programs: &BpfPrograms,
        gone: impl Fn(&BpfAttachment) -> bool,
    ) -> Result<String, String> {
        if !programs.iter().any(|attached| gone(attached)) {
            return Err("no such program is attached".into());
        }
        self.set_programs(&programs.without(gone)).map(|()| String::new())
    }
}
