// SPDX-License-Identifier: Apache-2.0

//! What a dataplane shows, as values, and how the values are printed.
//!
//! | module | prints |
//! | --- | --- |
//! | [`show`] | the listings of `penstock show`, a file each: values, their text and their JSON |
//! | [`fleet`] | the head of a fleet and its nodes |
//! | [`metrics`] | the state as OpenMetrics |
//! | [`open_metrics`] | the text of OpenMetrics, whatever it says |
//! | [`list`] | lists that are printed entry by entry, since they may be long |
//! | [`log`] | records of `log` statements: lines of the kernel's log, and nfnetlink_log |
//! | [`trace`] | the lines of `nft monitor trace` |
//! | [`drops`] | why a packet was dropped, and where |
//! | [`rules`] | what rules are called: where they were written, and their text |
//!
//! A value is a plain struct. Its text is its [`Display`], its JSON its [`Serialize`], so both say
//! the same.
//!
//! ```
//! use penstock_print::show::Form;
//! use penstock_print::show::stages::{Stage, Stages};
//!
//! let stages = Stages::new(vec![Stage::from(("timeouts".into(), 1, 7))]);
//! let mut json = Vec::new();
//! penstock_print::write(&stages, Form::Json, &mut json)?;
//! assert_eq!(json, b"{\"stages\":[{\"name\":\"timeouts\",\"times\":1,\"ticks\":7}]}\n");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

pub mod bpf;
pub mod drops;
pub mod fleet;
pub mod json;
pub mod list;
pub mod log;
pub mod metrics;
pub mod open_metrics;
pub mod rules;
pub mod show;
pub mod trace;

use show::Form;
use show::state::State;

/// Writes a value as text or as a line of JSON.
///
/// # Errors
/// The error of the writer. `InvalidInput`: the form is [`Form::Metrics`], which only
/// [`metrics::write`] makes, or [`Form::Proc`], which connections alone have.
pub fn write(
    value: &(impl Display + Serialize + ?Sized),
    form: Form,
    to: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Form::Text => write!(to, "{value}"),
        Form::Json => {
            serde_json::to_writer(&mut *to, value)?;
            to.write_all(b"\n")
        }
        Form::Metrics | Form::Proc => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Writes the state in any form.
///
/// # Errors
/// The error of the writer. `InvalidInput`: the form is [`Form::Proc`].
pub fn write_state(state: &State<'_>, form: Form, to: &mut dyn Write) -> io::Result<()> {
    match form {
        Form::Text | Form::Json | Form::Proc => write(state, form, to),
        Form::Metrics => metrics::write(state, to),
    }
}
