// SPDX-License-Identifier: Apache-2.0

//! Compiling while packets are run by the interpreter.

use std::any::Any;
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;

use penstock_program::Image;

use crate::{CompileError, Compiled, Helpers, List, Options, compile};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that compiles one generation after the other, for all workers that run them: what
/// several ask for is made once. It ends when this is dropped, once it is done with what it is at.
pub struct Background {
    jobs: Sender<Job>,
    asked: Mutex<Vec<Asked>>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}

/// Code in the making, or made. When all who have asked for it have dropped it, it goes; if its
/// turn has not come by then, it is not made.
#[derive(Clone, Debug)]
pub struct Pending {
    slot: Arc<Slot>,
}

type Slot = OnceLock<Result<Arc<Compiled>, CompileError>>;

/// What code was asked for.
struct Asked {
    image: Weak<dyn Any + Send + Sync>,
    lists: Vec<List>,
    helpers: &'static Helpers,
    options: Options,
    slot: Weak<Slot>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start() -> std::io::Result<Self> {
        Self::start_with(|| {})
    }

    /// Starts the thread, which does `first` before anything else.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start_with(first: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        thread::Builder::new().name("compile".into()).spawn(move || {
            first();
            inbox.into_iter().for_each(|job| job());
        })?;
        Ok(Background { jobs, asked: Mutex::default() })
    }

    /// Does other work of this kind on the thread, in its turn.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        // Without the thread it is never done.
        let _ = self.jobs.send(Box::new(job));
    }

    /// Asks for code, as [`compile`] makes it. Code that is still in use is shared with callers
    /// that ask for equal code.
    pub fn compile<I>(
        &self,
        image: &Arc<I>,
        lists: &[List],
        helpers: &'static Helpers,
        options: Options,
    ) -> Pending
    where
        I: AsRef<Image> + Any + Send + Sync,
    {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|asked| asked.slot.strong_count() > 0);
        let any: Arc<dyn Any + Send + Sync> = image.clone();
        let same = |asked: &&Asked| {
            std::ptr::addr_eq(asked.image.as_ptr(), Arc::as_ptr(&any))
                && (asked.helpers, asked.options) == (helpers, options)
                && asked.lists == lists
        };
        if let Some(slot) = asked.iter().find(same).and_then(|asked| asked.slot.upgrade()) {
            return Pending { slot };
        }
        let slot = Arc::new(Slot::new());
        let (image, lists) = (image.clone(), lists.to_vec());
        asked.push(Asked {
            image: Arc::downgrade(&any),
            lists: lists.clone(),
            helpers,
            options,
            slot: Arc::downgrade(&slot),
        });
        drop(asked);
        let weak = Arc::downgrade(&slot);
        // Without the thread nothing ever gets ready, and the interpreter continues.
        let _ = self.jobs.send(Box::new(move || {
            let wanted = weak.strong_count() > 0;
            if !wanted {
                return;
            }
            let result = compile(image, &lists, helpers, options).map(Arc::new);
            if let Some(slot) = weak.upgrade() {
                // This is the only writer.
                let _ = slot.set(result);
            }
        }));
        Pending { slot }
    }
}

impl Pending {
    /// The code, or why there is none; `None` as long as it is in the making. Costs a load.
    #[inline]
    pub fn get(&self) -> Option<&Result<Arc<Compiled>, CompileError>> {
        self.slot.get()
    }
}
