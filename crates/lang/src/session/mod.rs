// SPDX-License-Identifier: Apache-2.0

//! Running a text against a ruleset: what `nft` does between its options and its output.
//!
//! ```text
//! text -> commands -> changes -> one transaction -> committed, or all refusals with their places
//!                  \-> listings, of the ruleset as it is at that point of the text
//! ```
//!
//! All of a text is read before anything of it is evaluated, and nothing counts unless all of it is
//! right. Yet a large ruleset is never held as a tree: of rules and elements only the place is
//! kept, and when their turn comes each is read, evaluated, lowered and applied before the next
//! one.
//!
//! Most texts are right. So rules and elements are not even looked at before their turn comes
//! ([`Mode::Skip`]); if anything turns out to be wrong, all is forgotten, and the text is read once
//! more, from end to end before anything else, to say what nft says of it.
//!
//! | file | does |
//! | --- | --- |
//! | `execute` | commands carried out, one after the other, in one transaction |
//! | `answers` | `list`, `get`, `reset`, `describe` |
//! | `refusals` | what the ruleset refuses, in nft's words |
//! | `replay` | texts that are read twice |
//! | [`remote`] | rulesets that are somewhere else |
//! | `echo` | what was added, as `nft -e` prints it |
//! | [`events`] | what came and went from one generation to another, as `nft monitor` prints it |
//! | `step` | commands on their way, and what became of them |
//! | `reset` | what `reset` commands name |

mod answers;
mod echo;
pub mod events;
mod execute;
mod refusals;
pub mod remote;
mod replay;
mod reset;
#[cfg(test)]
mod skip_tests;
mod step;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use penstock_ruleset::Ruleset;
use penstock_ruleset::link::{CannotOffload, LinkError, Linked};
use penstock_ruleset::model::Generation;
use penstock_ruleset::reset::Reset;
use penstock_syntax::ast::{Cmd, CmdKind};
use penstock_syntax::budget::{Budget, LATE, Limits};
use penstock_syntax::datatype::Format;
use penstock_syntax::diag::{Diagnostic, Diagnostics, Message};
use penstock_syntax::json;
use penstock_syntax::names::Names;
use penstock_syntax::parse::{self, Mode};
use penstock_syntax::scope::Scope;
use penstock_syntax::source::{Files, Inputs, Origin, cannot_read};

use crate::eval::Context;
use crate::lint;
use crate::optimize::{Merge, optimize};
use execute::Execution;
use refusals::{blame, refused_change, refused_offload};
use remote::{Again, Changes, Copy};
use replay::Replay;

/// What `--debug` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Debug {
    /// `netlink`: sets, elements and programs as they go to the ruleset.
    pub netlink: bool,
}

/// How texts are run: the options of nft(8).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-c`: everything is checked, nothing is committed.
    pub check: bool,
    /// `-e`: what was added is printed.
    pub echo: bool,
    /// `-o`: neighbouring rules are merged.
    pub optimize: bool,
    /// `--lint`: warnings about what is right, but hardly what was meant.
    pub lint: bool,
    /// `-j`: listings are JSON.
    pub json: bool,
    /// `-a -s -t -n -y -p -T -S -N -u`
    pub format: Format,
    /// `-d`
    pub debug: Debug,
    /// `-D name=value`
    pub defines: Vec<(String, String)>,
    /// `-I`, and `/etc`
    pub include_paths: Vec<String>,
    /// Rules with expressions that no packet of ours could run are refused, with their place.
    pub runnable_only: bool,
    /// Texts that are not evaluated by then are refused.
    pub deadline: Option<Instant>,
    /// What a text may come to.
    pub limits: Limits,
    /// The text is all that there is to be: the ruleset begins anew with it, as after
    /// `flush ruleset`.
    pub anew: bool,
    /// The client may only look: commands that change or reset anything are refused.
    pub read_only: bool,
    /// Where the ruleset is a copy: what has to be known of the ruleset itself. Otherwise the run
    /// ends with [`Outcome::again`].
    pub copy: Copy,
    /// Process and its name that changes are by, where that is another one than this.
    pub process: Option<(u32, String)>,
}

/// What nft says to those who may not change the ruleset.
pub const NOT_PERMITTED: &str = "Operation not permitted (you must be root)";

/// What a run printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
    /// What standard error says of places in the text, for programs.
    pub messages: Vec<Message>,
    /// What `-o` merged: told before anything else, on both outputs by turns.
    pub merges: Vec<Merge>,
    /// Whether all went well. Otherwise the ruleset is as before.
    pub ok: bool,
    /// Whether the ruleset, or state of something in it, may be another than before.
    pub changed: bool,
    /// Nothing was done: the text is to be run again, on a better copy of the ruleset.
    pub again: Option<Again>,
    /// What commands of the text set to zero, if it is to be run again.
    pub resets: Vec<Reset>,
}

/// Why a generation must not be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something in it cannot run: blamed on what put it there.
    Link(LinkError),
    /// A device cannot forward the flows of a flowtable that wants it: blamed on the flowtable.
    Offload(CannotOffload),
    /// A change, by its number among those that were noted.
    Change(usize, penstock_ruleset::Error),
    /// A sentence, for a change that is right as such.
    Other(String),
}

/// Has the last word on a generation before it is committed.
pub type PreCommit<'g> = dyn FnMut(&Generation) -> Result<(), Refusal> + 'g;

/// Runs texts, one after the other; names that they define outlive them.
pub struct Session<'a> {
    /// How.
    pub options: Options,
    files: &'a dyn Files,
    names: &'a dyn Names,
    scope: Scope,
    /// What is left of what the text at hand may take.
    budget: Rc<Budget>,
    changes: Option<&'a dyn Changes>,
}

impl<'a> Session<'a> {
    /// With no names defined.
    pub fn new(options: Options, files: &'a dyn Files, names: &'a dyn Names) -> Self {
        Session {
            options,
            files,
            names,
            scope: Scope::default(),
            changes: None,
            budget: Rc::default(),
        }
    }

    /// Notes all changes of its runs there, too.
    pub fn noting(mut self, changes: &'a dyn Changes) -> Self {
        self.changes = Some(changes);
        self
    }

    /// What texts have defined so far.
    pub fn scope(&self) -> Scope {
        self.scope.clone()
    }

    /// Forgets what was defined since then.
    pub fn go_back(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// Runs a file by its name.
    pub fn run_file(&mut self, name: &str, ruleset: &mut Ruleset, now: u64) -> Outcome {
        match self.files.read(name) {
            Ok(text) => {
                self.run(Origin::File { name: name.to_string(), from: None }, text, ruleset, now)
            }
            Err(reason) => Outcome {
                stderr: format!("internal:0:0-0: Error: {}\n\n\n", cannot_read(name, &reason)),
                ..Outcome::default()
            },
        }
    }

    /// Runs one text. It is one transaction: committed whole, or not at all. `now` is the time of
    /// the packet clock in nanoseconds since the epoch.
    pub fn run(
        &mut self,
        origin: Origin,
        text: String,
        ruleset: &mut Ruleset,
        now: u64,
    ) -> Outcome {
        if !self.options.runnable_only {
            return self.run_gated(origin, text, ruleset, now, &mut |_| Ok(()));
        }
        let mut gate = |generation: &Generation| match Linked::new(generation) {
            Ok(_) => Ok(()),
            Err(e) => Err(Refusal::Link(e)),
        };
        self.run_gated(origin, text, ruleset, now, &mut gate)
    }

    /// Runs a text. A generation that differs from the one before passes a gate before it is
    /// committed: once, with sets as they will be. With [`Options::check`] it passes it, too.
    pub fn run_gated(
        &mut self,
        origin: Origin,
        text: String,
        ruleset: &mut Ruleset,
        now: u64,
        gate: &mut PreCommit<'_>,
    ) -> Outcome {
        // A command line ends as a line of a file does.
        let text = Arc::new(if origin == Origin::CommandLine { text + "\n" } else { text });
        let trees = self.options.optimize || self.options.lint;
        if trees {
            return self
                .run_as(Mode::Trees, self.files, origin, text, ruleset, now, gate)
                .unwrap_or_default();
        }
        let scope = self.scope.clone();
        let mut files = Replay::new(self.files);
        let first =
            self.run_as(Mode::Skip, &files, origin.clone(), text.clone(), ruleset, now, gate);
        first.unwrap_or_else(|read| {
            self.scope = scope;
            files.rewind(read);
            self.run_as(Mode::Places, &files, origin, text, ruleset, now, gate).unwrap_or_default()
        })
    }

    /// Runs one text, read in a mode. If something is wrong and parts of it were skipped, nothing
    /// was done, and the error is all texts that were read.
    #[expect(clippy::too_many_arguments, reason = "those of `run_gated`, and how the text is read")]
    fn run_as(
        &mut self,
        mode: Mode,
        files: &dyn Files,
        origin: Origin,
        text: Arc<String>,
        ruleset: &mut Ruleset,
        now: u64,
        gate: &mut PreCommit<'_>,
    ) -> Result<Outcome, Inputs> {
        self.budget = Rc::new(Budget::new(self.options.limits, self.options.deadline));
        let scope = self.scope.clone();
        let mut inputs = Inputs::default();
        let mut diags = Diagnostics::default();
        let mut out = Outcome::default();
        self.define_variables(&mut inputs, &mut diags);
        let first_definition = self.scope.definitions();
        let most = self.options.limits.bytes;
        if !self.budget.read(text.len()) {
            let stderr = format!("Error: the text is longer than {most} bytes\n");
            return Ok(Outcome { stderr, ..Outcome::default() });
        }
        let input = inputs.add(origin, text.clone());
        let paths = &self.options.include_paths;
        let json = if self.options.json { json::read(&text, input, &mut diags) } else { None };
        let document = json.is_some().then_some(text.as_str());
        let trees = mode == Mode::Trees;
        let (mut cmds, in_one_go, skipped) = match json {
            Some(cmds) => (cmds, false, false),
            None => {
                let read = parse::read(
                    &mut inputs,
                    input,
                    files,
                    paths,
                    &mut self.scope,
                    &mut diags,
                    mode,
                    &self.budget,
                );
                (read.cmds, !read.updates_sets, read.skipped)
            }
        };
        if self.is_late() {
            return Ok(self.too_late(scope));
        }
        if self.options.anew {
            cmds.insert(0, Cmd::flush_ruleset(input));
        }
        // Resetting takes effect at once.
        let resets = cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Reset { .. }));
        out.changed = resets && !self.options.check;
        if skipped && (resets || diags.has_errors()) {
            return Err(inputs);
        }
        let not_permitted =
            || Outcome { stderr: format!("Error: {NOT_PERMITTED}\n"), ..Outcome::default() };
        if resets && self.options.read_only && !diags.has_errors() {
            self.scope = scope;
            return Ok(not_permitted());
        }

        let generation = ruleset.generation();
        if trees && !diags.has_errors() {
            let Some(mut ctx) = self.rehearse(cmds.clone(), &generation, ruleset, now, &mut diags)
            else {
                if self.is_late() {
                    return Ok(self.too_late(scope));
                }
                self.tell(&diags, &inputs, &mut out);
                return Ok(out);
            };
            diags.list.clear();
            if self.options.lint {
                let unused: Vec<_> = self.scope.unused(first_definition).cloned().collect();
                diags.list = lint::lint(&cmds, &generation, &unused, &mut ctx, &inputs);
            }
            if self.options.optimize {
                out.merges = optimize(&mut cmds, &generation, &mut ctx, &inputs);
            }
        }
        let mut ctx = Context::new(&generation, self.names);
        ctx.now = now;
        ctx.budget = self.budget.clone();
        ctx.inputs = inputs.clone();
        ctx.skipped = skipped;
        if let Some(changes) = self.changes {
            changes.begin(&generation, now);
        }
        let mut execution = Execution::new(ruleset.begin_at(now), now);
        self.process(cmds, &mut ctx, &mut diags, &mut execution, in_one_go);
        if self.is_late() {
            return Ok(self.too_late(scope));
        }
        if execution.again.is_some() && !diags.has_errors() && !execution.diags.has_errors() {
            self.scope = scope;
            let Execution { again, resets, .. } = execution;
            return Ok(Outcome { again, resets, ..Outcome::default() });
        }
        if skipped && (diags.has_errors() || execution.diags.has_errors()) {
            return Err(inputs);
        }
        if !diags.has_errors() {
            let Execution { mut transaction, mut done, diags: refused, stdout, noted, .. } =
                execution;
            diags.append(refused);
            out.stdout = stdout;
            if !diags.has_errors() && (transaction.is_changed() || noted > 0) {
                if self.options.read_only {
                    self.scope = scope;
                    return Ok(not_permitted());
                }
                transaction.settle();
                match gate(transaction.working()) {
                    Ok(()) => {}
                    Err(Refusal::Link(e)) => blame(&e, &done, &mut diags),
                    Err(Refusal::Offload(e)) => diags.push(refused_offload(&e, &done)),
                    Err(Refusal::Change(number, e)) => {
                        diags.push(refused_change(number, &e, &done))
                    }
                    Err(Refusal::Other(sentence)) => {
                        self.scope = scope;
                        return Ok(Outcome {
                            stderr: format!("Error: {sentence}\n"),
                            ..Outcome::default()
                        });
                    }
                }
            }
            if !diags.has_errors()
                && !self.options.check
                && !self.options.copy.is_checked_elsewhere()
            {
                let echo = self.options.echo.then(|| {
                    echo::only_new(&mut done, &generation, now);
                    self.echo(&transaction, &done, document, now)
                });
                let before = ruleset.generation().id;
                match ruleset.commit(transaction) {
                    Ok(()) => {
                        let id = ruleset.generation().id;
                        out.changed |= id != before;
                        if let Some(echo) = echo.filter(|text| id != before && !text.is_empty()) {
                            out.stdout.push_str(&echo);
                            if !self.options.json {
                                let own = || (std::process::id(), "nft".to_owned());
                                let (pid, name) = self.options.process.clone().unwrap_or_else(own);
                                let line =
                                    format!("# new generation {id} by process {pid} ({name})\n");
                                out.stdout.push_str(&line);
                            }
                        }
                    }
                    Err(e) => {
                        let whole = done.first().map(|d| d.places.whole).unwrap_or_default();
                        let message = format!("Could not process rule: {}", e.errno.text());
                        diags.push(Diagnostic::error(whole, message));
                    }
                }
            }
        }
        if skipped && diags.has_errors() {
            return Err(inputs);
        }
        out.ok = !diags.has_errors();
        self.tell(&diags, &inputs, &mut out);
        Ok(out)
    }

    /// Adds messages to what a run has said.
    fn tell(&self, diags: &Diagnostics, inputs: &Inputs, out: &mut Outcome) {
        out.stderr.push_str(&self.render(diags, inputs));
        out.messages.extend(diags.list.iter().map(|diagnostic| diagnostic.message(inputs)));
    }

    /// Messages as nft prints them; `--lint` adds a line to errors about words that look misspelt.
    fn render(&self, diags: &Diagnostics, inputs: &Inputs) -> String {
        if !self.options.lint {
            return diags.render(inputs);
        }
        diags.render_with(inputs, |diagnostic| lint::suggest::note(diagnostic, inputs))
    }

    /// Runs commands to see what they define, and whether they are right: what is refused is not to
    /// be told in the words of what `-o` would make of it. Nothing is committed, answered or reset.
    fn rehearse(
        &self,
        cmds: Vec<Cmd>,
        generation: &Arc<Generation>,
        ruleset: &Ruleset,
        now: u64,
        diags: &mut Diagnostics,
    ) -> Option<Context<'a>> {
        let mut ctx = Context::new(generation, self.names);
        ctx.now = now;
        ctx.budget = self.budget.clone();
        let mut execution =
            Execution { answers: false, ..Execution::new(ruleset.begin_at(now), now) };
        self.process(cmds, &mut ctx, diags, &mut execution, false);
        if !diags.has_errors() {
            diags.append(execution.diags);
        }
        (!diags.has_errors()).then_some(ctx)
    }

    /// Whether [`Options::deadline`] is over.
    fn is_late(&self) -> bool {
        self.budget.is_late()
    }

    /// What comes of a text that took too long: nothing, and names stand for what they did before.
    fn too_late(&mut self, scope: Scope) -> Outcome {
        self.scope = scope;
        Outcome { stderr: format!("Error: {LATE}\n"), ..Outcome::default() }
    }

    fn define_variables(&mut self, inputs: &mut Inputs, diags: &mut Diagnostics) {
        if self.options.defines.is_empty() {
            return;
        }
        let mut text = String::new();
        for (name, value) in &self.options.defines {
            text.push_str(&format!("define {name}={value};\n"));
        }
        let input = inputs.add(Origin::CommandLine, text);
        let (files, paths) = (self.files, &self.options.include_paths);
        parse::read(inputs, input, files, paths, &mut self.scope, diags, Mode::Trees, &self.budget);
    }
}
