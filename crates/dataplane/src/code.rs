// SPDX-License-Identifier: Apache-2.0

//! Machine code of the hook lists: when it is made, and which is in force.

use std::sync::{Arc, OnceLock};

use penstock_ebpfvm::Instance;
use penstock_jit::{Background, CompileError, Compiled, Helpers, Options, Pending, compile};
use penstock_ruleset::link::Linked;

use crate::bpf::BpfPrograms;
use crate::hooks::Hooks;

/// What runs the chains of a dataplane. Their results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The interpreter.
    #[default]
    Interpreter,
    /// Machine code, which is made on its own thread; until it is there, and where none can be
    /// made, the interpreter.
    Jit,
    /// Machine code; packets wait until it is there.
    JitAtOnce,
}

/// The thread that makes code for all workers of a path, from the first time on that one wants
/// some; none if the system has no thread to give.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiler(Arc<OnceLock<Option<Background>>>);

impl Compiler {
    fn background(&self) -> Option<&Background> {
        self.0.get_or_init(|| Background::start().ok()).as_ref()
    }

    /// Starts the thread now, unless it is there; it does `first` before anything else.
    pub(crate) fn start(&self, first: impl FnOnce() + Send + 'static) {
        self.0.get_or_init(|| Background::start_with(first).ok());
    }
}

/// The code of the generation in force. There is one for each kind of sink that packets are sent
/// to.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    pub(crate) engine: Engine,
    options: Options,
    compiler: Compiler,
    made: Vec<(&'static Helpers, Made)>,
    /// The BPF objects in force, once code of them was asked for.
    instances: Option<Vec<Arc<Instance>>>,
}

#[derive(Debug)]
enum Made {
    InBackground(Pending),
    AtOnce(Result<Box<Compiled>, CompileError>),
}

impl Made {
    #[inline]
    fn result(&self) -> Option<Result<&Compiled, &CompileError>> {
        match self {
            Made::InBackground(pending) => {
                pending.get().map(|made| made.as_ref().map(|code| &**code))
            }
            Made::AtOnce(made) => Some(made.as_deref()),
        }
    }
}

impl Codes {
    /// More kinds of sinks get no code.
    const KINDS: usize = 4;

    /// Code that this thread makes, if it is made in the background.
    pub(crate) fn by(compiler: Compiler) -> Self {
        Codes { compiler, ..Codes::default() }
    }

    /// Starts the thread that makes code, unless it is there; it does `first` before anything else.
    pub(crate) fn start_compiler(&self, first: impl FnOnce() + Send + 'static) {
        self.compiler.start(first);
    }

    pub(crate) fn set_engine(&mut self, engine: Engine, options: Options) {
        (self.engine, self.options) = (engine, options);
        self.forget();
    }

    /// Another generation is in force.
    pub(crate) fn forget(&mut self) {
        self.made.clear();
        self.instances = None;
    }

    /// Other BPF programs are in force.
    pub(crate) fn forget_programs(&mut self) {
        self.instances = None;
    }

    /// The code that is in force.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Compiled> {
        self.made.iter().filter_map(|(_, made)| made.result()?.ok())
    }

    /// Why there is no code, of rules or of BPF programs.
    pub(crate) fn error(&self) -> Option<String> {
        let rules = self.made.iter().find_map(|(_, made)| made.result()?.err());
        rules.map(CompileError::to_string).or_else(|| {
            self.instances.iter().flatten().find_map(|instance| {
                Some(format!("{}: {}", instance.file(), instance.compile_error()?))
            })
        })
    }

    /// The code for a kind of sink; asks for it the first time.
    pub(crate) fn get(
        &mut self,
        helpers: &'static Helpers,
        linked: &Arc<Linked>,
        hooks: &Hooks,
    ) -> Option<&Compiled> {
        if self.engine == Engine::Interpreter || hooks.code_lists().is_empty() {
            return None;
        }
        let known = self.made.iter().position(|(h, _)| std::ptr::eq(*h, helpers) || *h == helpers);
        let at = match known {
            Some(at) => at,
            None if self.made.len() < Self::KINDS => {
                let made = self.make(helpers, linked, hooks);
                self.made.push((helpers, made));
                self.made.len() - 1
            }
            None => return None,
        };
        self.made.get(at)?.1.result()?.ok()
    }

    /// Asks for code of the BPF programs in force, the first time. They are few, and all workers
    /// have the same.
    #[inline]
    pub(crate) fn ask_for_programs(&mut self, programs: &BpfPrograms, hooks: &Hooks) {
        if self.instances.is_none() && self.engine != Engine::Interpreter {
            self.ask_for_each_program(programs, hooks);
        }
    }

    #[cold]
    fn ask_for_each_program(&mut self, programs: &BpfPrograms, hooks: &Hooks) {
        let attached = programs.iter().map(|attachment| attachment.program.instance());
        let all = attached.chain(hooks.programs().map(|of| of.program.instance()));
        let instances: Vec<Arc<Instance>> = all.cloned().collect();
        for instance in &instances {
            if self.engine == Engine::JitAtOnce {
                instance.compile();
            } else if let Some(background) = self.compiler.background() {
                let instance = instance.clone();
                background.run(move || instance.compile());
            }
        }
        self.instances = Some(instances);
    }

    fn make(&self, helpers: &'static Helpers, linked: &Arc<Linked>, hooks: &Hooks) -> Made {
        let (lists, options) = (hooks.code_lists(), self.options);
        if self.engine == Engine::Jit
            && let Some(background) = self.compiler.background()
        {
            return Made::InBackground(background.compile(linked, lists, helpers, options));
        }
        Made::AtOnce(compile(linked.clone(), lists, helpers, options).map(Box::new))
    }
}
