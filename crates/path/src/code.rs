//! Machine code of the hook lists: when it is made, and which is in force.

use std::sync::Arc;

use penstock_jit::{Background, CompileError, Compiled, Helpers, Options, Pending, compile};
use penstock_ruleset::link::Linked;

use crate::hooks::Hooks;

/// What runs the chains of a dataplane. Their results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The interpreter.
    #[default]
    Interpreter,
    /// Machine code, which is made on a thread of its own; until it is there, and where none can be made, the interpreter.
    Jit,
    /// The same, but packets wait until the code is there.
    JitAtOnce,
}

/// The code of the generation in force. There is one for each kind of sink that packets are sent to.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    pub(crate) engine: Engine,
    options: Options,
    background: Option<Background>,
    made: Vec<(&'static Helpers, Made)>,
}

#[derive(Debug)]
enum Made {
    Pending(Pending),
    Ready(Arc<Compiled>),
    Failed(CompileError),
}

impl Codes {
    /// More kinds of sinks get no code.
    const KINDS: usize = 4;

    pub(crate) fn set_engine(&mut self, engine: Engine, options: Options) {
        (self.engine, self.options) = (engine, options);
        self.made.clear();
    }

    /// Another generation is in force.
    pub(crate) fn forget(&mut self) {
        self.made.clear();
    }

    /// The code that is in force.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Compiled> {
        self.made.iter().filter_map(|(_, made)| match made {
            Made::Ready(code) => Some(&**code),
            Made::Pending(_) | Made::Failed(_) => None,
        })
    }

    /// Why there is no code.
    pub(crate) fn error(&self) -> Option<&CompileError> {
        self.made.iter().find_map(|(_, made)| match made {
            Made::Failed(error) => Some(error),
            Made::Pending(_) | Made::Ready(_) => None,
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
        let made = &mut self.made.get_mut(at)?.1;
        if let Made::Pending(pending) = made
            && let Some(result) = pending.take()
        {
            *made = result.map_or_else(Made::Failed, Made::Ready);
        }
        match made {
            Made::Ready(code) => Some(code),
            Made::Pending(_) | Made::Failed(_) => None,
        }
    }

    fn make(&mut self, helpers: &'static Helpers, linked: &Arc<Linked>, hooks: &Hooks) -> Made {
        let (lists, options) = (hooks.code_lists(), self.options);
        if self.engine == Engine::Jit {
            if self.background.is_none() {
                self.background = Background::start().ok();
            }
            if let Some(background) = &self.background {
                let pending = background.compile(linked.clone(), lists.to_vec(), helpers, options);
                return Made::Pending(pending);
            }
        }
        match compile(linked.clone(), lists, helpers, options) {
            Ok(code) => Made::Ready(Arc::new(code)),
            Err(error) => Made::Failed(error),
        }
    }
}
