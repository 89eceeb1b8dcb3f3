// SPDX-License-Identifier: Apache-2.0

//! The `penstock` command: the packet path of nftables as a program.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod agent;
mod ask;
mod attach;
mod bench;
mod bpf;
mod capture;
mod check;
mod command;
mod commands;
mod completion;
mod confirm;
mod cover;
mod dataplane;
mod detach;
mod diff;
mod down;
mod draw;
mod exec;
mod failover;
mod feed;
mod fleet;
mod input;
mod learn;
mod log;
mod memory;
mod monitor;
mod net;
mod nft;
mod options;
mod port;
mod prove;
mod published;
mod recognise;
mod rules;
mod run;
mod setup;
mod show;
mod sockets;
mod symbolic;
mod table;
mod test;
mod top;
mod trace;
mod tracer;
mod translate;
mod up;
mod web;

use std::process::ExitCode;

use penstock_daemon::{err, out};

#[global_allocator]
static ALLOCATOR: memory::LargePages = memory::LargePages;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next();
    if name
        .as_ref()
        .is_some_and(|n| std::path::Path::new(n).file_name().is_some_and(|n| n == "nft"))
    {
        return nft::main(args);
    }
    let word = args.next();
    if let Some(command) =
        commands::COMMANDS.iter().find(|c| word.as_ref().is_some_and(|w| w == c.name))
    {
        return (command.main)(&mut args);
    }
    match word.as_ref().and_then(|a| a.to_str()) {
        Some("-h" | "--help") => {
            out!("{}", commands::usage());
            ExitCode::SUCCESS
        }
        Some("-V" | "--version") => {
            out!("penstock {}\n", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(other) => {
            err!("penstock: unknown command `{other}`\n\n{}", commands::usage());
            ExitCode::from(2)
        }
        None => {
            err!("{}", commands::usage());
            ExitCode::from(2)
        }
    }
}
