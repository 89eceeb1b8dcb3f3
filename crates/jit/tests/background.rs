// SPDX-License-Identifier: Apache-2.0

//! Compiling on its own thread.

use std::sync::Arc;
use std::thread;

use penstock_jit::{Background, Compiled, Entry, Helpers, List, Options, Pending};
use penstock_packet::Packet;
use penstock_program::WorkerNumber;
use penstock_program::image::{ChainIndex, Image};
use penstock_testkit::program::{MockEnv, Table, parse};

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
        Entry::Chain { chain: ChainIndex(0), family: penstock_program::Family::Ip };
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
fn shared_code_is_compiled_once_and_freed_with_its_last_user() {
    if penstock_jit::supported().is_err() {
        return;
    }
    let (background, image, helpers) =
        (Background::start().expect("a thread"), image(), Helpers::of::<MockEnv>());
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
    if penstock_jit::supported().is_err() {
        return;
    }
    const PACKETS: u32 = 20_000;
    let background = Background::start().expect("a thread");
    let code = wait(&background.compile(
        &image(),
        &lists(1),
        Helpers::of::<MockEnv>(),
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
                        code.run_without_host(0, &mut packet, worker).expect("it asks nobody");
                    assert_eq!(decision.is_pass(), packet.meta.mark != 7);
                }
            });
        }
    });
}
