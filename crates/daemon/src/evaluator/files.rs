// SPDX-License-Identifier: Apache-2.0

//! Files of the client, which says the same when a text is run again: what a pipe gave is gone, and
//! commands are not to run twice.

use std::cell::{Cell, RefCell};

use penstock_lang::source::Files;

use crate::control::ClientFiles;

#[derive(Clone, PartialEq)]
enum Question {
    Read(String),
    ReadBytes(String),
    Glob(String),
    Exec(String),
}

#[derive(Clone)]
enum Said {
    Text(Result<String, String>),
    Bytes(Result<Vec<u8>, String>),
    Names(Vec<String>),
}

/// The files.
pub(super) struct Remembered<'c> {
    files: ClientFiles<'c>,
    said: RefCell<Vec<(Question, Said)>>,
    /// How much of it was asked again.
    at: Cell<usize>,
}

impl<'c> Remembered<'c> {
    pub(super) fn new(files: ClientFiles<'c>) -> Self {
        Remembered { files, said: RefCell::default(), at: Cell::new(0) }
    }

    /// The text is run again.
    pub(super) fn rewind(&self) {
        self.at.set(0);
    }

    /// Another text comes.
    pub(super) fn forget(&self) {
        self.rewind();
        self.said.borrow_mut().clear();
    }

    fn ask(&self, question: Question) -> Said {
        let mut said = self.said.borrow_mut();
        let at = self.at.get();
        match said.get(at) {
            Some((known, answer)) if *known == question => {
                self.at.set(at + 1);
                return answer.clone();
            }
            // The text goes another way from here on.
            Some(_) => said.truncate(at),
            None => {}
        }
        let answer = match &question {
            Question::Read(path) => Said::Text(self.files.read(path)),
            Question::ReadBytes(path) => Said::Bytes(self.files.read_bytes(path)),
            Question::Glob(pattern) => Said::Names(self.files.glob(pattern)),
            Question::Exec(command) => Said::Text(self.files.exec(command)),
        };
        said.push((question, answer.clone()));
        self.at.set(at + 1);
        answer
    }

    fn text(&self, question: Question) -> Result<String, String> {
        match self.ask(question) {
            Said::Text(text) => text,
            Said::Bytes(_) | Said::Names(_) => Err("not an answer".into()),
        }
    }
}

impl Files for Remembered<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        self.text(Question::Read(path.to_owned()))
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        match self.ask(Question::ReadBytes(path.to_owned())) {
            Said::Bytes(bytes) => bytes,
            Said::Text(_) | Said::Names(_) => Err("not an answer".into()),
        }
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        match self.ask(Question::Glob(pattern.to_owned())) {
            Said::Names(names) => names,
            Said::Text(_) | Said::Bytes(_) => Vec::new(),
        }
    }

    fn exec(&self, command: &str) -> Result<String, String> {
        self.text(Question::Exec(command.to_owned()))
    }
}
