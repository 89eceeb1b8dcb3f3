// SPDX-License-Identifier: Apache-2.0

//! Running a text against a ruleset: what `nft` does between its options and its output.
//!
//! ```text
//! text -> commands -> changes -> one transaction -> committed, or all refusals with their places
//!                  \-> listings, of the ruleset as it is at that point of the text
//! ```
//!
//! A text is parsed completely before evaluation starts, and has no effect unless all of it is
//! valid. Yet a large ruleset is never held as a tree: of rules and elements only the place is
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
//! | `lines` | things of a ruleset on one line each, as both of them print them |
//! | `step` | commands on their way, and what became of them |
//! | `reset` | what `reset` commands name |

mod answers;
mod echo;
pub mod events;
mod execute;
mod lines;
mod objects;
mod refusals;
mod remarks;
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

use penstock_ruleset::Family;
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
use penstock_syntax::parse::{self, Mode, Reading};
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
    /// `-j`: listings are JSON, and texts may be.
    pub json: bool,
    /// Texts may be JSON, whatever listings are.
    pub json_input: bool,
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
    /// The text is the whole ruleset: it replaces the present one, as after `flush ruleset`.
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
    /// Nothing was done: the text must be run again, on a better copy of the ruleset.
    pub again: Option<Again>,
    /// What commands of the text set to zero, if it must be run again.
    pub resets: Vec<Reset>,
}

/// Why a generation must not be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something in it cannot run: blamed on what put it there.
    Link(LinkError),
    /// A device cannot forward the flows of a flowtable with offload: blamed on the flowtable.
    Offload(CannotOffload),
    /// A change, by its number among those that were noted.
    Change(usize, penstock_ruleset::Error),
    /// A sentence, for a change that is right as such.
    Other(String),
}

/// What is said of a part of a ruleset, as a warning at the place that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The family of its table.
    pub family: Family,
    /// Its table.
    pub table: String,
    /// The part.
    pub part: RemarkOn,
    /// The warning.
    pub text: String,
}

/// What a remark is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemarkOn {
    /// A rule, by its handle.
    Rule(u64),
    /// The policy of a chain, by its name.
    Policy(String),
    /// Nothing that a text makes.
    Nothing,
}

/// Looks at a ruleset that is to be in force, for [`Options::lint`].
pub type Review<'r> = dyn Fn(&Generation) -> Vec<Remark> + 'r;

/// Has the last word on a generation before it is committed.
pub type PreCommit<'g> = dyn FnMut(&Generation) -> Result<(), Refusal> + 'g;

/// A text, and how it is read.
#[derive(Clone)]
struct Source<'a> {
    origin: Origin,
    text: Arc<String>,
    /// Nanoseconds of the packet clock since the epoch.
    now: u64,
    files: &'a dyn Files,
    mode: Mode,
}

/// A run of a text: what its stages have found out.
struct Run {
    inputs: Inputs,
    diags: Diagnostics,
    out: Outcome,
    /// The ruleset before the run.
    generation: Arc<Generation>,
    /// Nanoseconds of the packet clock since the epoch.
    now: u64,
    /// Number of definitions in the scope before the text.
    first_definition: usize,
    /// The text, if it is JSON.
    document: Option<Arc<String>>,
    /// Parts of the text were not read.
    skipped: bool,
}

/// Why a run ends early. Only with `Errors` do names stay that the text has defined.
enum Stop {
    /// Parts were skipped and there is an error: the text must be read again in another mode.
    Reread,
    /// The diagnostics say why.
    Errors,
    /// The sentence for standard error.
    Refused(String),
    /// The copy of the ruleset does not suffice ([`Outcome::again`], [`Outcome::resets`]).
    Again(Option<Again>, Vec<Reset>),
}

impl Stop {
    fn late() -> Self {
        Stop::Refused(LATE.to_owned())
    }

    fn not_permitted() -> Self {
        Stop::Refused(NOT_PERMITTED.to_owned())
    }
}

/// Runs texts, one after the other; names that they define outlive them.
pub struct Session<'a> {
    /// How.
    pub options: Options,
    files: &'a dyn Files,
    names: &'a dyn Names,
    scope: Scope,
    /// The remaining budget of the current text.
    budget: Rc<Budget>,
    changes: Option<&'a dyn Changes>,
    review: Option<&'a Review<'a>>,
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
            review: None,
            budget: Rc::default(),
        }
    }

    /// Notes all changes of its runs there, too.
    pub fn noting(mut self, changes: &'a dyn Changes) -> Self {
        self.changes = Some(changes);
        self
    }

    /// Has rulesets looked at, with [`Options::lint`].
    pub fn reviewed_by(mut self, review: &'a Review<'a>) -> Self {
        self.review = Some(review);
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

    /// Runs a file by its name; `-` is standard input.
    pub fn run_file(&mut self, name: &str, ruleset: &mut Ruleset, now: u64) -> Outcome {
        match self.read_file(name) {
            Ok((origin, text)) => self.run(origin, text, ruleset, now),
            Err(stderr) => Outcome { stderr, ..Outcome::default() },
        }
    }

    /// Reads a file by its name; `-` is standard input. The error is for standard error.
    pub fn read_file(&self, name: &str) -> Result<(Origin, String), String> {
        match self.files.read(name) {
            Ok(text) => {
                let name = if name == "-" { "/dev/stdin" } else { name };
                Ok((Origin::File { name: name.to_string(), from: None }, text))
            }
            Err(reason) => {
                Err(format!("internal:0:0-0: Error: {}\n\n\n", cannot_read(name, &reason)))
            }
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
        let source = Source { origin, text, now, files: self.files, mode: Mode::Trees };
        if self.options.optimize || self.options.lint {
            return self.run_as(&source, ruleset, gate).unwrap_or_default();
        }
        let scope = self.scope.clone();
        let mut files = Replay::new(self.files);
        let first = Source { files: &files, mode: Mode::Skip, ..source.clone() };
        self.run_as(&first, ruleset, gate).unwrap_or_else(|read| {
            self.scope = scope;
            files.rewind(read);
            let again = Source { files: &files, mode: Mode::Places, ..source };
            self.run_as(&again, ruleset, gate).unwrap_or_default()
        })
    }

    /// Runs one text, read in a mode. If something is wrong and parts of it were skipped, nothing
    /// was done, and the error is all texts that were read.
    fn run_as(
        &mut self,
        source: &Source<'_>,
        ruleset: &mut Ruleset,
        gate: &mut PreCommit<'_>,
    ) -> Result<Outcome, Inputs> {
        self.budget = Rc::new(Budget::new(self.options.limits, self.options.deadline));
        let scope = self.scope.clone();
        let mut run = Run {
            inputs: Inputs::default(),
            diags: Diagnostics::default(),
            out: Outcome::default(),
            generation: ruleset.generation(),
            now: source.now,
            first_definition: 0,
            document: None,
            skipped: false,
        };
        self.define_variables(&mut run.inputs, &mut run.diags);
        run.first_definition = self.scope.definitions();
        let most = self.options.limits.bytes;
        if !self.budget.read(source.text.len()) {
            let stderr = format!("Error: the text is longer than {most} bytes\n");
            return Ok(Outcome { stderr, ..Outcome::default() });
        }
        let outcome = match self.carry_out(&mut run, source, ruleset, gate) {
            Ok(()) | Err(Stop::Errors) => {
                run.out.ok = !run.diags.has_errors();
                self.tell(&run.diags, &run.inputs, &mut run.out);
                return Ok(run.out);
            }
            Err(Stop::Reread) => return Err(run.inputs),
            Err(Stop::Refused(why)) => {
                Outcome { stderr: format!("Error: {why}\n"), ..Outcome::default() }
            }
            Err(Stop::Again(again, resets)) => Outcome { again, resets, ..Outcome::default() },
        };
        // Nothing was done: names stand for what they did before.
        self.scope = scope;
        Ok(outcome)
    }

    /// The stages of a run, from the text to the commit.
    fn carry_out(
        &mut self,
        run: &mut Run,
        source: &Source<'_>,
        ruleset: &mut Ruleset,
        gate: &mut PreCommit<'_>,
    ) -> Result<(), Stop> {
        let (mut cmds, in_one_go) = self.read(run, source)?;
        if source.mode == Mode::Trees && !run.diags.has_errors() {
            self.lint_and_optimize(run, &mut cmds, ruleset)?;
        }
        let mut execution = self.run_commands(run, cmds, in_one_go, ruleset)?;
        if !run.diags.has_errors() {
            run.diags.append(std::mem::take(&mut execution.diags));
            run.out.stdout = std::mem::take(&mut execution.stdout);
            if !run.diags.has_errors() {
                self.ask_gate(run, &mut execution, gate)?;
            }
            let commits = !self.options.check && !self.options.copy.is_checked_elsewhere();
            if !run.diags.has_errors() && commits {
                self.commit(run, execution, ruleset);
            }
        }
        if run.skipped && run.diags.has_errors() { Err(Stop::Reread) } else { Ok(()) }
    }

    /// Reads the commands of a text, and says whether each may be executed before the next one is
    /// evaluated.
    fn read(&mut self, run: &mut Run, source: &Source<'_>) -> Result<(Vec<Cmd>, bool), Stop> {
        let input = run.inputs.add(source.origin.clone(), source.text.clone());
        let may_be_json = self.options.json || self.options.json_input;
        let json = if may_be_json { json::read(&source.text, input, &mut run.diags) } else { None };
        let (mut cmds, in_one_go) = match json {
            Some(cmds) => {
                run.document = self.options.json.then(|| source.text.clone());
                (cmds, false)
            }
            None => {
                let reading = Reading {
                    files: source.files,
                    include_paths: &self.options.include_paths,
                    mode: source.mode,
                    budget: &self.budget,
                };
                let (scope, diags) = (&mut self.scope, &mut run.diags);
                let read = parse::read(&mut run.inputs, input, &reading, scope, diags);
                run.skipped = read.skipped;
                (read.cmds, !read.updates_sets)
            }
        };
        objects::read(&mut cmds, source.files, &mut run.diags);
        if self.is_late() {
            return Err(Stop::late());
        }
        if self.options.anew {
            cmds.insert(0, Cmd::flush_ruleset(input));
        }
        // Resetting takes effect at once.
        let resets = cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Reset { .. }));
        run.out.changed = resets && !self.options.check;
        if run.skipped && (resets || run.diags.has_errors()) {
            return Err(Stop::Reread);
        }
        if resets && self.options.read_only && !run.diags.has_errors() {
            return Err(Stop::not_permitted());
        }
        Ok((cmds, in_one_go))
    }

    /// Lints commands and merges their rules, where the options ask for it and the commands are
    /// right as they were written.
    fn lint_and_optimize(
        &self,
        run: &mut Run,
        cmds: &mut [Cmd],
        ruleset: &Ruleset,
    ) -> Result<(), Stop> {
        let rehearsed =
            self.rehearse(cmds.to_vec(), &run.generation, ruleset, run.now, &mut run.diags);
        let Some(mut ctx) = rehearsed else {
            return Err(if self.is_late() { Stop::late() } else { Stop::Errors });
        };
        run.diags.list.clear();
        if self.options.lint {
            let unused: Vec<_> = self.scope.unused(run.first_definition).cloned().collect();
            run.diags.list = lint::lint(cmds, &run.generation, &unused, &mut ctx, &run.inputs);
        }
        if self.options.optimize {
            run.out.merges = optimize(cmds, &run.generation, &mut ctx, &run.inputs);
        }
        Ok(())
    }

    /// Evaluates commands and executes them in a transaction.
    fn run_commands(
        &self,
        run: &mut Run,
        cmds: Vec<Cmd>,
        in_one_go: bool,
        ruleset: &Ruleset,
    ) -> Result<Execution, Stop> {
        let mut ctx = Context::new(&run.generation, self.names);
        ctx.now = run.now;
        ctx.budget = self.budget.clone();
        ctx.inputs = run.inputs.clone();
        ctx.skipped = run.skipped;
        if let Some(changes) = self.changes {
            changes.begin(&run.generation, run.now);
        }
        let mut execution = Execution::new(ruleset.begin_at(run.now), run.now);
        self.process(cmds, &mut ctx, &mut run.diags, &mut execution, in_one_go);
        if self.is_late() {
            return Err(Stop::late());
        }
        let wrong = run.diags.has_errors() || execution.diags.has_errors();
        if execution.again.is_some() && !wrong {
            return Err(Stop::Again(execution.again, execution.resets));
        }
        if run.skipped && wrong {
            return Err(Stop::Reread);
        }
        Ok(execution)
    }

    /// Has the gate look at a generation that differs from the one before.
    fn ask_gate(
        &self,
        run: &mut Run,
        execution: &mut Execution,
        gate: &mut PreCommit<'_>,
    ) -> Result<(), Stop> {
        let Execution { transaction, done, noted, .. } = execution;
        if !transaction.is_changed() && *noted == 0 {
            return Ok(());
        }
        if self.options.read_only {
            return Err(Stop::not_permitted());
        }
        transaction.settle();
        match gate(transaction.working()) {
            Ok(()) => {
                if let Some(review) = self.review.filter(|_| self.options.lint) {
                    for remark in review(transaction.working()) {
                        remarks::add(&remark, done, &mut run.diags);
                    }
                    run.diags.list.sort_by_key(|d| (d.loc.input, d.loc.start));
                }
            }
            Err(Refusal::Link(e)) => blame(&e, done, &mut run.diags),
            Err(Refusal::Offload(e)) => run.diags.push(refused_offload(&e, done)),
            Err(Refusal::Change(number, e)) => run.diags.push(refused_change(number, &e, done)),
            Err(Refusal::Other(sentence)) => return Err(Stop::Refused(sentence)),
        }
        Ok(())
    }

    /// Commits a transaction, and echoes what it added if the options ask for it.
    fn commit(&self, run: &mut Run, execution: Execution, ruleset: &mut Ruleset) {
        let Execution { transaction, mut done, .. } = execution;
        let echo = self.options.echo.then(|| {
            echo::only_new(&mut done, &run.generation, run.now);
            let document = run.document.as_ref().map(|text| text.as_str());
            self.echo(&transaction, &done, document, run.now)
        });
        let before = ruleset.generation().id;
        if let Err(e) = ruleset.commit(transaction) {
            let whole = done.first().map(|d| d.places.whole).unwrap_or_default();
            let message = format!("Could not process rule: {}", e.errno.text());
            run.diags.push(Diagnostic::error(whole, message));
            return;
        }
        let id = ruleset.generation().id;
        run.out.changed |= id != before;
        if let Some(echo) = echo.filter(|text| id != before && !text.is_empty()) {
            run.out.stdout.push_str(&echo);
            if !self.options.json {
                let own = || (std::process::id(), "nft".to_owned());
                let (pid, name) = self.options.process.clone().unwrap_or_else(own);
                let line = format!("# new generation {id} by process {pid} ({name})\n");
                run.out.stdout.push_str(&line);
            }
        }
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

    /// Runs commands to see what they define, and whether they are valid: errors must refer to the
    /// text as written, not as merged by `-o`. Nothing is committed, answered or reset.
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

    fn define_variables(&mut self, inputs: &mut Inputs, diags: &mut Diagnostics) {
        if self.options.defines.is_empty() {
            return;
        }
        let mut text = String::new();
        for (name, value) in &self.options.defines {
            text.push_str(&format!("define {name}={value};\n"));
        }
        let input = inputs.add(Origin::CommandLine, text);
        let reading = Reading {
            files: self.files,
            include_paths: &self.options.include_paths,
            mode: Mode::Trees,
            budget: &self.budget,
        };
        parse::read(inputs, input, &reading, &mut self.scope, diags);
    }
}
