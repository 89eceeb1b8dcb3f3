// SPDX-License-Identifier: Apache-2.0

//! Lists that are printed entry by entry. The entries of a long list are formatted in pages, by
//! another thread than the one that writes the list, and no more than a page is in memory.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

use crate::show::Form;

/// Formatted entries of a list: whole lines of text, or JSON values with commas between them.
#[derive(Debug)]
pub struct Entries {
    form: Form,
    bytes: Vec<u8>,
}

impl Entries {
    /// None yet.
    pub fn new(form: Form) -> Self {
        Entries { form, bytes: Vec::new() }
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: &(impl Display + Serialize)) {
        // Writing to a Vec does not fail, and entries have nothing that JSON lacks.
        let _ = match self.form {
            Form::Json => {
                if !self.bytes.is_empty() {
                    self.bytes.push(b',');
                }
                serde_json::to_writer(&mut self.bytes, entry).map_err(io::Error::from)
            }
            Form::Text | Form::Metrics | Form::Proc => writeln!(self.bytes, "{entry}"),
        };
    }

    /// Bytes of all of them.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A list on its way to a writer. As JSON it is an object, with the list as its first member.
pub struct List<'w> {
    form: Form,
    to: &'w mut dyn Write,
    any: bool,
}

impl<'w> List<'w> {
    /// Begins a list, which JSON calls `key`.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn begin(form: Form, key: &str, to: &'w mut dyn Write) -> io::Result<Self> {
        if form == Form::Json {
            write!(to, "{{\"{key}\":[")?;
        }
        Ok(List { form, to, any: false })
    }

    /// Its form, which its entries need to have.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Writes the next entries, which were formatted in the form of the list.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn entries(&mut self, entries: &Entries) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        if self.any && self.form == Form::Json {
            self.to.write_all(b",")?;
        }
        self.any = true;
        self.to.write_all(&entries.bytes)
    }

    /// Ends the list.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn end(self) -> io::Result<()> {
        if self.form == Form::Json { self.to.write_all(b"]}\n") } else { Ok(()) }
    }

    /// Ends the list with what follows it: more text, or more members of the object. `rest` is an
    /// object of at least one member as JSON.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn end_with(self, rest: &(impl Display + Serialize)) -> io::Result<()> {
        if self.form != Form::Json {
            return write!(self.to, "{rest}");
        }
        let members = serde_json::to_string(rest)?;
        writeln!(self.to, "],{}", members.trim_start_matches('{'))
    }
}
