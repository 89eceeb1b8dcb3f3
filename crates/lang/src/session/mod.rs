//! Running a text against a ruleset: what `nft` does between its options and its output.
//!
//! ```text
//! text -> commands -> changes -> one transaction -> committed, or all refusals with their places
//!                  \-> listings, of the ruleset as it is at that point of the text
//! ```
//!
//! All of a text is read before anything of it is evaluated, and nothing counts unless all of it is right. Yet a large
//! ruleset is never held as a tree: of rules and elements only the place is kept, and when their turn comes each is read,
//! evaluated, lowered and applied before the next one.
//!
//! Most texts are right. So rules and elements are not even looked at before their turn comes ([`Mode::Skip`]); if anything
//! turns out to be wrong, all is forgotten, and the text is read once more, from end to end before anything else, to say
//! what nft says of it.
//!
//! | file | does |
//! | --- | --- |
//! | `answers` | `list`, `get`, `reset`, `describe` |
//! | `refusals` | what the ruleset refuses, in nft's words |
//! | `replay` | texts that are read twice |
//! | `echo` | what was added, as `nft -e` prints it |
//! | [`events`] | what came and went from one generation to another, as `nft monitor` prints it |
//! | [`state`] | a ruleset as a text that brings it back with its handles |

mod answers;
mod echo;
pub mod events;
mod refusals;
mod replay;
#[cfg(test)]
mod skip_tests;
pub mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use penstock_program::expr::Expr as Op;
use penstock_ruleset::change::{NewRule, Position};
use penstock_ruleset::link::{CannotOffload, LinkError, Linked, OffloadPart, Place};
use penstock_ruleset::model::{ElementValue, Family, Generation};
use penstock_ruleset::{Blame, Change, Errno, Ruleset, Transaction};
use penstock_sets::Element;

use crate::ast::cmd::New;
use crate::ast::{Cmd, CmdKind};
use crate::datatype::Format;
use crate::diag::{Diagnostic, Diagnostics, Severity};
use crate::eval::{Context, evaluate, expand};
use crate::json;
use crate::lint;
use crate::lower::{self, Lowered, Places};
use crate::names::Names;
use crate::optimize::{Merge, optimize};
use crate::parse::{self, MAX_ERRORS, Mode, parse};
use crate::scope::Scope;
use crate::source::{Files, Inputs, Loc, Origin};
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
    /// Texts whose evaluation is not done by then are refused.
    pub deadline: Option<Instant>,
    /// Process and its name that changes are by, where that is another one than this.
    pub process: Option<(u32, String)>,
}

/// What a run printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
    /// What `-o` merged: told before anything else, on both outputs by turns.
    pub merges: Vec<Merge>,
    /// Whether all went well. Otherwise the ruleset is as before.
    pub ok: bool,
    /// Whether the ruleset, or state of something in it, may be another than before.
    pub changed: bool,
}

/// Why a generation is not to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something in it cannot run: blamed on what put it there.
    Link(LinkError),
    /// A device cannot forward the flows of a flowtable that wants it: blamed on the flowtable.
    Offload(CannotOffload),
    /// A sentence, for a change that is right as such.
    Other(String),
}

/// Has the last word on a generation before it is committed.
pub type Gate<'g> = dyn FnMut(&Generation) -> Result<(), Refusal> + 'g;

/// Runs texts, one after the other; names that they define outlive them.
pub struct Session<'a> {
    /// How.
    pub options: Options,
    files: &'a dyn Files,
    names: &'a dyn Names,
    scope: Scope,
}

/// A command, with what it asks of the ruleset.
struct Step {
    cmd: Cmd,
    lowered: Vec<Lowered>,
    /// What `get element` asks for.
    elements: Vec<Element<ElementValue>>,
    /// What `--debug=netlink` shows of it.
    debug: String,
}

/// What was applied, for echo and for refusals that come later.
struct Done {
    change: Change,
    /// Handle that it got.
    handle: Option<u64>,
    /// Final name, where the ruleset chose it.
    name: Option<Arc<str>>,
    places: Places,
}

/// Commands being carried out.
struct Execution {
    transaction: Transaction,
    now: u64,
    /// Commands that ask are answered.
    answers: bool,
    done: Vec<Done>,
    /// What was refused.
    diags: Diagnostics,
    /// Tables that were found wrong as a whole, and why.
    invalid: Vec<(Family, Arc<str>, Errno)>,
    stdout: String,
}

impl Execution {
    fn new(transaction: Transaction, now: u64) -> Self {
        Execution {
            transaction,
            now,
            answers: true,
            done: Vec::new(),
            diags: Diagnostics::default(),
            invalid: Vec::new(),
            stdout: String::new(),
        }
    }
}

impl<'a> Session<'a> {
    /// With no names defined.
    pub fn new(options: Options, files: &'a dyn Files, names: &'a dyn Names) -> Self {
        Session { options, files, names, scope: Scope::default() }
    }

    /// Runs a file by its name.
    pub fn run_file(&mut self, name: &str, ruleset: &mut Ruleset, now: u64) -> Outcome {
        match self.files.read(name) {
            Ok(text) => self.run(Origin::File { name: name.to_string(), from: None }, text, ruleset, now),
            Err(reason) => Outcome {
                stderr: format!("internal:0:0-0: Error: Could not open file \"{name}\": {reason}\n\n\n"),
                ..Outcome::default()
            },
        }
    }

    /// Runs one text. It is one transaction: committed whole, or not at all. `now` is the time of the packet clock
    /// in nanoseconds since the epoch.
    pub fn run(&mut self, origin: Origin, text: String, ruleset: &mut Ruleset, now: u64) -> Outcome {
        if !self.options.runnable_only {
            return self.run_gated(origin, text, ruleset, now, &mut |_| Ok(()));
        }
        let mut gate = |generation: &Generation| match Linked::new(generation) {
            Ok(_) => Ok(()),
            Err(e) => Err(Refusal::Link(e)),
        };
        self.run_gated(origin, text, ruleset, now, &mut gate)
    }

    /// The same, but a generation that differs from the one before passes a gate before it is committed: once, with sets as
    /// they will be. With [`Options::check`] it passes it, too.
    pub fn run_gated(
        &mut self,
        origin: Origin,
        text: String,
        ruleset: &mut Ruleset,
        now: u64,
        gate: &mut Gate<'_>,
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
        let first = self.run_as(Mode::Skip, &files, origin.clone(), text.clone(), ruleset, now, gate);
        first.unwrap_or_else(|read| {
            self.scope = scope;
            files.rewind(read);
            self.run_as(Mode::Places, &files, origin, text, ruleset, now, gate).unwrap_or_default()
        })
    }

    /// Runs one text, read in a mode. If something is wrong and parts of it were skipped, nothing was done, and the error
    /// is all texts that were read.
    #[expect(clippy::too_many_arguments, reason = "those of `run_gated`, and how the text is read")]
    fn run_as(
        &mut self,
        mode: Mode,
        files: &dyn Files,
        origin: Origin,
        text: Arc<String>,
        ruleset: &mut Ruleset,
        now: u64,
        gate: &mut Gate<'_>,
    ) -> Result<Outcome, Inputs> {
        let scope = self.scope.clone();
        let mut inputs = Inputs::default();
        let mut diags = Diagnostics::default();
        let mut out = Outcome::default();
        self.define_variables(&mut inputs, &mut diags);
        let first_definition = self.scope.definitions();
        let input = inputs.add(origin, text.clone());
        let paths = &self.options.include_paths;
        let json = if self.options.json { json::read(&text, input, &mut diags) } else { None };
        let document = json.is_some().then_some(text.as_str());
        let trees = mode == Mode::Trees;
        let (mut cmds, in_one_go, skipped) = match json {
            Some(cmds) => (cmds, false, false),
            None => {
                let read = parse::read(&mut inputs, input, files, paths, &mut self.scope, &mut diags, mode);
                (read.cmds, !read.updates_sets, read.skipped)
            }
        };
        // Resetting takes effect at once.
        let resets = cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Reset { .. }));
        out.changed = resets && !self.options.check;
        if skipped && (resets || diags.has_errors()) {
            return Err(inputs);
        }

        let generation = ruleset.generation();
        if trees && !diags.has_errors() {
            let Some(mut ctx) = self.rehearse(cmds.clone(), &generation, ruleset, now, &mut diags) else {
                out.stderr.push_str(&self.render(&diags, &inputs));
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
        ctx.inputs = inputs.clone();
        ctx.skipped = skipped;
        let mut execution = Execution::new(ruleset.begin_at(now), now);
        self.process(cmds, &mut ctx, &mut diags, &mut execution, in_one_go);
        if self.is_late() {
            self.scope = scope;
            let stderr = "Error: evaluation takes longer than is allowed; nothing is changed\n".into();
            return Ok(Outcome { stderr, ..Outcome::default() });
        }
        if skipped && (diags.has_errors() || execution.diags.has_errors()) {
            return Err(inputs);
        }
        if !diags.has_errors() {
            let Execution { mut transaction, done, diags: refused, stdout, .. } = execution;
            diags.list.extend(refused.list);
            out.stdout = stdout;
            if !diags.has_errors() && transaction.is_changed() {
                transaction.settle();
                match gate(transaction.working()) {
                    Ok(()) => {}
                    Err(Refusal::Link(e)) => blame(&e, &done, &mut diags),
                    Err(Refusal::Offload(e)) => diags.push(refused_offload(&e, &done)),
                    Err(Refusal::Other(sentence)) => {
                        self.scope = scope;
                        return Ok(Outcome { stderr: format!("Error: {sentence}\n"), ..Outcome::default() });
                    }
                }
            }
            if !diags.has_errors() && !self.options.check {
                let echo = self.options.echo.then(|| self.echo(&transaction, &done, document, now));
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
                                let line = format!("# new generation {id} by process {pid} ({name})\n");
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
        out.stderr.push_str(&self.render(&diags, &inputs));
        Ok(out)
    }

    /// Messages as nft prints them; `--lint` adds a line to errors about words that look misspelt.
    fn render(&self, diags: &Diagnostics, inputs: &Inputs) -> String {
        if !self.options.lint {
            return diags.render(inputs);
        }
        let mut out = String::new();
        for diagnostic in &diags.list {
            out.push_str(&diagnostic.render(inputs));
            if let Some(note) = lint::suggest::note(diagnostic, inputs) {
                out.push_str(&format!("{note}\n"));
            }
        }
        out
    }

    /// Runs commands to see what they define, and whether they are right: what is refused is not to be told in the words
    /// of what `-o` would make of it. Nothing is committed, answered or reset.
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
        let mut execution = Execution { answers: false, ..Execution::new(ruleset.begin_at(now), now) };
        self.process(cmds, &mut ctx, diags, &mut execution, false);
        if !diags.has_errors() {
            diags.list.extend(execution.diags.list);
        }
        (!diags.has_errors()).then_some(ctx)
    }

    /// Whether [`Options::deadline`] is over.
    fn is_late(&self) -> bool {
        self.options.deadline.is_some_and(|deadline| Instant::now() >= deadline)
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
        parse(inputs, input, self.files, &self.options.include_paths, &mut self.scope, diags);
    }

    /// Evaluates commands, turns them into changes, and applies these, until there are too many errors.
    ///
    /// What an execution says counts only if all commands are right. So with `in_one_go` each command is executed as soon
    /// as it is evaluated, and forgotten. That is not to be asked for where a rule may change what the declaration of a
    /// set before it comes to.
    fn process(
        &self,
        cmds: Vec<Cmd>,
        ctx: &mut Context<'_>,
        diags: &mut Diagnostics,
        execution: &mut Execution,
        in_one_go: bool,
    ) {
        // Resetting takes effect at once, which it must not if a later command is wrong.
        let in_one_go = in_one_go && !cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Reset { .. }));
        let mut held: Vec<Step> = Vec::new();
        ctx.has_positions =
            cmds.iter().any(|cmd| cmd.target.position.is_some() || cmd.target.index.is_some());
        let mut errors = 0;
        let mut good = !diags.has_errors();
        ctx.refused = !good;
        let mut refused_set = None;
        for mut cmd in expand(cmds) {
            if self.is_late() {
                return;
            }
            let name = cmd.target.name.as_ref().map(|name| name.loc).filter(|loc| *loc != Loc::default());
            // Nothing is said of the elements of a declaration that was refused.
            if name.is_some() && name == refused_set && matches!(cmd.kind, CmdKind::Add(New::Elements(_))) {
                continue;
            }
            if ctx.is_untyped(&cmd) {
                continue;
            }
            if !evaluate(&mut cmd, ctx, diags) {
                good = false;
                // What the kernel would say does not keep it from being asked.
                ctx.refused |=
                    !diags.list.last().is_some_and(|last| last.message.starts_with("Could not process rule"));
                if let CmdKind::Add(New::Set(_)) | CmdKind::Create(New::Set(_)) = cmd.kind {
                    refused_set = name;
                }
                errors += 1;
                if errors >= MAX_ERRORS {
                    break;
                }
                continue;
            }
            let lowered = lower::lower(&cmd, ctx);
            let elements = lower::elements_of(&cmd, ctx);
            let debug =
                if self.options.debug.netlink { lower::debug::text(&lowered, ctx) } else { String::new() };
            // A declaration depends on what follows it: so the last step is held until the next one is known.
            if let Some(Step { lowered: set, debug, .. }) = held.last_mut()
                && lower::set::fit_to_elements(set, &lowered, ctx)
                && self.options.debug.netlink
            {
                *debug = lower::debug::text(set, ctx);
            }
            // What was lowered is no longer needed as a tree.
            if !lowered.is_empty() {
                cmd.kind = CmdKind::Import;
            }
            let step = Step { cmd, lowered, elements, debug };
            if !good {
                held.clear();
            } else if in_one_go {
                held.drain(..).for_each(|step| self.execute(step, execution));
            }
            held.push(step);
        }
        if !good {
            return;
        }
        for mut step in held {
            if self.is_late() {
                return;
            }
            step.lowered.iter_mut().for_each(|l| lower::finish(&mut l.change, ctx));
            self.execute(step, execution);
        }
    }

    /// Applies the changes of a command, or answers its question. Every refusal is kept, as the kernel does.
    fn execute(&self, step: Step, execution: &mut Execution) {
        // Sets may be large: a change is kept beside what the ruleset takes only for those who ask for it.
        let keep = self.options.echo || self.options.runnable_only;
        let Execution { transaction, now, answers, done, diags, invalid, stdout } = execution;
        if step.lowered.is_empty() {
            if *answers {
                stdout.push_str(&step.debug);
                match self.answer(&step, transaction.working(), *now) {
                    // A listing may be large, and is mostly all there is.
                    Ok(text) if stdout.is_empty() => *stdout = text,
                    Ok(text) => stdout.push_str(&text),
                    Err(diagnostic) => diags.push(*diagnostic),
                }
            }
            return;
        }
        stdout.push_str(&step.debug);
        for Lowered { mut change, places } in step.lowered {
            if let Some(index) = &step.cmd.target.index {
                place_at_index(&mut change, index.value, transaction.working());
            }
            let what = refusals::Subject::of(&change);
            let kept = keep.then(|| if self.options.echo { change.clone() } else { names_of(&change) });
            let place = refusals::place(&change).map(|(family, table)| (family, Arc::<str>::from(table)));
            let found = found_invalid(&change, invalid);
            let applied = match (transaction.apply(change), found) {
                // The kernel looks at the whole table at each change then, and tells each time what it finds.
                (Ok(_), Some(errno)) => Err(penstock_ruleset::Error::new(errno, Blame::Whole)),
                (Err(e), Some(errno)) if is_validation(&e) => {
                    Err(penstock_ruleset::Error::new(errno, Blame::Whole))
                }
                (applied, _) => applied,
            };
            if let (Err(e), Some((family, table))) = (&applied, place)
                && is_validation(e)
            {
                // It looks only if nothing else was refused.
                if diags.has_errors() && invalid.is_empty() {
                    continue;
                }
                if !invalid.iter().any(|(f, t, _)| *f == family && *t == table) {
                    invalid.push((family, table, e.errno));
                }
            }
            match applied {
                Ok(applied) => done.extend(kept.map(|change| Done {
                    change,
                    handle: applied.handle,
                    name: applied.name,
                    places,
                })),
                Err(e) => diags.push(refusals::diagnostic(&e, &what, &places, transaction.working())),
            }
        }
    }
}

/// Whether this is what the kernel says of a ruleset that is wrong as a whole: of its jumps, or of expressions where a hook
/// does not take them.
fn is_validation(e: &penstock_ruleset::Error) -> bool {
    e.blame == Blame::Whole && matches!(e.errno, Errno::Eopnotsupp | Errno::Emlink)
}

/// A change without what may be large in it: enough to know what is blamed.
fn names_of(change: &Change) -> Change {
    match change {
        Change::AddRule { family, table, chain, position, rule: _ } => Change::AddRule {
            family: *family,
            table: table.clone(),
            chain: chain.clone(),
            position: *position,
            rule: NewRule { exprs: Vec::new(), userdata: Default::default() },
        },
        Change::AddElements { family, table, set, mode, elements: _ } => Change::AddElements {
            family: *family,
            table: table.clone(),
            set: set.clone(),
            mode: *mode,
            elements: Default::default(),
        },
        other => other.clone(),
    }
}

/// What was found wrong before with the table that a rule or elements go to.
fn found_invalid(change: &Change, invalid: &[(Family, Arc<str>, Errno)]) -> Option<Errno> {
    let (Change::AddRule { family, table, .. } | Change::AddElements { family, table, .. }) = change else {
        return None;
    };
    invalid.iter().find(|(f, t, _)| f == family && t == table).map(|(_, _, errno)| *errno)
}

/// Gives `index N` the handle that the rule there has after the changes before this one. Where there is no rule the
/// handle stays one that no rule has.
fn place_at_index(change: &mut Change, index: u64, working: &Generation) {
    let Change::AddRule { family, table, chain, position, .. } = change else { return };
    let (Position::After(Some(beside)) | Position::Before(Some(beside))) = position else { return };
    let table = working.tables.iter().find(|t| t.family == *family && t.name == *table);
    let chain = table.and_then(|t| t.chains.iter().find(|c| c.name == *chain));
    if let Some(rule) = chain.and_then(|c| c.rules.get(usize::try_from(index).ok()?)) {
        *beside = rule.handle;
    }
}

/// Blames the statement whose expression the packet path cannot run.
fn blame(e: &LinkError, done: &[Done], diags: &mut Diagnostics) {
    let loc = match &e.place {
        Place::Chain(name) => done
            .iter()
            .find(|d| matches!(&d.change, Change::AddChain { chain, .. } if chain.name == *name))
            .map(|d| d.places.chain.unwrap_or(d.places.whole)),
        Place::Rule { handle, expression, .. } => done
            .iter()
            .find(|d| matches!(d.change, Change::AddRule { .. }) && d.handle == Some(*handle))
            .map(|d| d.places.expressions.get(*expression).copied().unwrap_or(d.places.whole)),
    };
    diags.push(Diagnostic {
        severity: Severity::Error,
        loc: loc.unwrap_or_default(),
        others: Vec::new(),
        message: e.to_string(),
    });
}

/// The latest change of the flowtable or the chain is to blame, or the rule.
fn refused_offload(e: &CannotOffload, done: &[Done]) -> Diagnostic {
    let place = done.iter().rev().find_map(|d| match (&d.change, &e.part) {
        (Change::AddFlowtable { family, table, flowtable, .. }, OffloadPart::Flowtable(name))
            if (*family, table, &flowtable.name) == (e.family, &e.table, name) =>
        {
            Some(d.places.loc(&Blame::Flowtable))
        }
        (
            Change::AddChain { family, table, chain, .. },
            OffloadPart::Chain { chain: name, rule: None, .. },
        ) if (*family, table, &chain.name) == (e.family, &e.table, name) => Some(d.places.loc(&Blame::Chain)),
        (Change::AddRule { family, table, .. }, OffloadPart::Chain { rule: Some(rule), .. })
            if (*family, table, d.handle) == (e.family, &e.table, Some(*rule)) =>
        {
            Some(d.places.whole)
        }
        _ => None,
    });
    Diagnostic::error(place.unwrap_or_default(), format!("Could not process rule: {e}"))
}

/// Whether a program changes what it is asked of: such state is what `reset` zeroes.
fn has_state(ops: &[Op]) -> bool {
    ops.iter().any(|op| matches!(op, Op::Counter(_) | Op::Quota(_)))
}
