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
        // Without the thread nothing ever gets ready, and the interpreter goes on.
        let _ = self.jobs.send(Box::new(move || {
            let wanted = weak.strong_count() > 0;
            if !wanted {
                return;
            }
            let result = compile(image, &lists, helpers, options).map(Arc::new);
            if let Some(slot) = weak.upgrade() {
                // Nobody else sets it.
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

#[cfg(test)]
mod tests {
    use penstock_packet::Packet;
    use penstock_program::image::ChainIndex;
    use penstock_program::testing::{Outside, Table};
    use penstock_program::{WorkerNumber, parse};

    use super::*;
    use crate::Entry;

    fn image() -> Arc<Image> {
        let rule = parse::program(
            "[ meta load mark => reg 1 ]\n[ cmp eq reg 1 0x00000007 ]\n[ immediate reg 0 drop ]",
        );
        Arc::new(
            Table::of(vec![rule.expect("a rule")])
                .link(penstock_program::Family::Ip)
                .expect("a chain")
                .0,
        )
    }

    fn lists(times: usize) -> Vec<List> {
        vec![List::of(vec![
            Entry::Chain {
                chain: ChainIndex(0),
                family: penstock_program::Family::Ip
            };
            times
        ])]
    }

    fn wait(pending: &Pending) -> Arc<Compiled> {
        loop {
            match pending.get() {
                Some(made) => return made.clone().expect("code"),
                None => thread::yield_now(),
            }
        }
    }

    #[test]
    fn what_several_ask_for_is_made_once_and_goes_with_the_last_of_them() {
        if crate::supported().is_err() {
            return;
        }
        let (background, image, helpers) =
            (Background::start().expect("a thread"), image(), Helpers::of::<Outside>());
        let plain = Options::default();
        let ask = |image: &Arc<Image>, times, options| {
            background.compile(image, &lists(times), helpers, options)
        };
        let pending = ask(&image, 1, plain);
        let code = wait(&pending);
        assert!(Arc::ptr_eq(&code, &wait(&ask(&image, 1, plain))));
        for other in [
            ask(&image, 2, plain),
            ask(&image, 1, Options { profile: true, ..plain }),
            ask(&self::image(), 1, plain),
        ] {
            assert!(!Arc::ptr_eq(&code, &wait(&other)));
        }
        drop(pending);
        let weak = Arc::downgrade(&code);
        drop(code);
        assert!(weak.upgrade().is_none(), "nobody has it any more");
        wait(&ask(&image, 1, plain));
    }

    #[test]
    fn several_workers_run_the_same_code_at_the_same_time() {
        if crate::supported().is_err() {
            return;
        }
        const PACKETS: u32 = 20_000;
        let background = Background::start().expect("a thread");
        let code = wait(&background.compile(
            &image(),
            &lists(1),
            Helpers::of::<Outside>(),
            Options::default(),
        ));
        thread::scope(|scope| {
            for number in 0..3usize {
                let code = &code;
                scope.spawn(move || {
                    let worker = WorkerNumber::new(number).expect("a worker");
                    for n in 0..PACKETS {
                        let mut packet = Packet::new();
                        packet.meta.mark = n % 11;
                        let decision =
                            code.run_alone(0, &mut packet, worker).expect("it asks nobody");
                        assert_eq!(decision.is_pass(), packet.meta.mark != 7);
                    }
                });
            }
        });
    }
}
