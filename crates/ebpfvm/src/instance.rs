// SPDX-License-Identifier: Apache-2.0

//! Objects that are loaded, for several threads and hooks that run their programs.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::context::ProgramKind;
use crate::jit::{self, CompileError};
use crate::machine::{Limits, Machine};
use crate::object::{Loaded, Object, ObjectError};

/// An object in a machine of its own: its programs share its maps, whoever runs them. They run one
/// at a time.
#[derive(Debug)]
pub struct Instance {
    file: String,
    object: Object,
    loaded: Loaded,
    machine: Mutex<Machine>,
    compiled: OnceLock<Result<(), CompileError>>,
}

/// A program of an [`Instance`].
#[derive(Clone)]
pub struct Program {
    instance: Arc<Instance>,
    number: u32,
    at: usize,
    id: u32,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} of {}, id {})", self.name(), self.instance.file, self.id)
    }
}

/// The number of the next program of this process.
static NEXT: AtomicU32 = AtomicU32::new(1);

impl Instance {
    /// Loads the programs of an object that are wanted, each by its section or the name of its
    /// function, or the only one. `file` is what messages call the object. The programs are in the
    /// order in which they are wanted.
    ///
    /// # Errors
    /// It is no object, has no such program, or one of these or a map of theirs is not supported.
    pub fn load(
        file: &str,
        bytes: &[u8],
        wanted: &[Option<&str>],
        limits: Limits,
    ) -> Result<(Arc<Instance>, Vec<Program>), ObjectError> {
        let object = Object::parse(bytes)?;
        let which = wanted.iter().map(|name| object.find(*name)).collect::<Result<Vec<_>, _>>()?;
        let mut machine = Machine::new(limits);
        let loaded = object.load(&mut machine, &which)?;
        let machine = Mutex::new(machine);
        let (file, compiled) = (file.to_owned(), OnceLock::new());
        let instance = Arc::new(Instance { file, object, loaded, machine, compiled });
        let programs = which.into_iter().filter_map(|at| {
            let number = instance.loaded.programs.get(at).copied().flatten()?;
            let id = NEXT.fetch_add(1, Relaxed);
            Some(Program { instance: instance.clone(), number, at, id })
        });
        let programs = programs.collect();
        Ok((instance, programs))
    }

    /// Makes machine code for its programs, as [`Machine::compile`] does, unless that was done
    /// before. They run meanwhile.
    pub fn compile(&self) {
        self.compiled.get_or_init(|| {
            let source = self.lock().source();
            let code = jit::make(&source)?;
            self.lock().take_code(code);
            Ok(())
        });
    }

    /// Why there is no machine code, if it was tried; the interpreter runs the programs.
    pub fn compile_error(&self) -> Option<&CompileError> {
        self.compiled.get()?.as_ref().err()
    }

    /// What messages call the object.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The machine, which nobody else uses meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maps that its programs use: their names, and their numbers in the machine.
    pub fn maps(&self) -> impl Iterator<Item = (&str, u32)> {
        self.object.maps.iter().zip(&self.loaded.maps).filter_map(|(map, number)| {
            let spec = map.spec.as_ref().ok()?;
            Some((spec.name.as_str(), (*number)?))
        })
    }
}

impl Program {
    /// Its object.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Its number in the machine.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A number that no other program of this process has.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The name of its function.
    pub fn name(&self) -> &str {
        self.instance.object.programs.get(self.at).map_or("", |program| &program.name)
    }

    /// The section of the object that it is in.
    pub fn section(&self) -> &str {
        self.instance.object.programs.get(self.at).map_or("", |program| &program.section)
    }

    /// What it is.
    pub fn kind(&self) -> Option<ProgramKind> {
        self.instance.object.programs.get(self.at).and_then(|program| program.kind)
    }
}
