//! Compiling while packets are run by the interpreter.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use penstock_program::Image;

use crate::{CompileError, Compiled, Helpers, List, Options, compile};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that compiles one generation after the other. It ends when this is dropped, once it is done with what it is at.
pub struct Background {
    jobs: Sender<Job>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}

/// Code in the making. If it is dropped before its turn comes, the code is not made.
#[derive(Debug)]
pub struct Pending {
    slot: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    ready: AtomicBool,
    result: Mutex<Option<Result<Arc<Compiled>, CompileError>>>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start() -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        thread::Builder::new()
            .name("compile".into())
            .spawn(move || inbox.into_iter().for_each(|job| job()))?;
        Ok(Background { jobs })
    }

    /// Asks for code, as [`compile`] makes it.
    pub fn compile<I>(
        &self,
        image: Arc<I>,
        lists: Vec<List>,
        helpers: &'static Helpers,
        options: Options,
    ) -> Pending
    where
        I: AsRef<Image> + Any + Send + Sync,
    {
        let slot = Arc::new(Slot::default());
        let weak: Weak<Slot> = Arc::downgrade(&slot);
        // Without the thread nothing ever gets ready, and the interpreter goes on.
        let _ = self.jobs.send(Box::new(move || {
            let wanted = weak.upgrade().is_some();
            if !wanted {
                return;
            }
            let result = compile(image, &lists, helpers, options).map(Arc::new);
            if let Some(slot) = weak.upgrade() {
                *slot.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                slot.ready.store(true, Ordering::Release);
            }
        }));
        Pending { slot }
    }
}

impl Pending {
    /// The code, once. Costs a load as long as it is not ready.
    #[inline]
    pub fn take(&self) -> Option<Result<Arc<Compiled>, CompileError>> {
        if !self.slot.ready.load(Ordering::Acquire) {
            return None;
        }
        self.slot.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
