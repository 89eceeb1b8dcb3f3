// SPDX-License-Identifier: Apache-2.0

//! What may stand in every block: definitions of variables, and other files.

use std::sync::Arc;

use super::{Bad, MAX_HEIGHT, MAX_INCLUDES, Parsed, Parser, TOO_DEEP};
use crate::ast::{Expr, walk};
use crate::diag::Diagnostic;
use crate::lex::{Lexer, Tok};
use crate::source::{Loc, Origin, cannot_read};

/// What is said where definitions come to more than a run may take.
const TOO_LARGE: &str = "the definitions of this text expand to too many expressions";

impl Parser<'_> {
    /// `include`, `define`, `redefine`, `undefine`: what may stand in every block.
    pub(super) fn common(&mut self) -> Parsed<bool> {
        match self.word() {
            "include" => self.include()?,
            "define" => self.define(false)?,
            "redefine" => self.define(true)?,
            "undefine" => {
                self.take();
                let name = self.identifier()?;
                self.separator()?;
                // A name that stands for nothing is no error to nft.
                self.scope.undefine(&name.text);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn define(&mut self, again: bool) -> Parsed<()> {
        self.take();
        let name = self.identifier()?;
        self.need_tok(Tok::Assign)?;
        let value = match self.at("exec") && self.peek_second().tok == Tok::LeftParen {
            true => self.exec()?,
            false => {
                let value = self.initializer()?;
                self.separator()?;
                value
            }
        };
        if !again && self.scope.has(&name.text) {
            return self.error(name.loc, format!("redefinition of symbol '{}'", name.text));
        }
        if walk::measure(&value).1 > MAX_HEIGHT {
            return self.error(value.loc, TOO_DEEP);
        }
        self.scope.define(name, value);
        Ok(())
    }

    pub(super) fn include(&mut self) -> Parsed<()> {
        let start = self.take().loc;
        let token = self.peek();
        if token.tok != Tok::Quoted {
            return self.unexpected(&["quoted string"]);
        }
        self.take();
        let pattern = self.text(token).to_string();
        self.separator()?;
        let loc = self.since(start);
        let paths = self.include_files(&pattern, loc)?;
        if paths.is_empty() {
            return Ok(());
        }
        if self.frames.len() > MAX_INCLUDES {
            self.diags.push(Diagnostic::error(
                loc,
                format!("Include nested too deeply, max {MAX_INCLUDES} levels"),
            ));
            return Err(Bad::Item);
        }
        let mut frames = Vec::new();
        // nft passes over directories.
        for path in paths.into_iter().filter(|path| !path.ends_with('/')) {
            if self.budget.is_late() {
                break;
            }
            if !self.budget.include() {
                let most = self.budget.limits().files;
                return self.error(loc, format!("Too many files are included, max {most}"));
            }
            match self.files.include(&path) {
                Ok(text) => {
                    if !self.budget.read(text.len()) {
                        let most = self.budget.limits().bytes;
                        return self.error(loc, format!("Could not read file \"{path}\": all texts together are longer than {most} bytes"));
                    }
                    let origin = Origin::File { name: path, from: Some(loc) };
                    frames.push(Lexer::new(self.inputs.add(origin, text)));
                }
                Err(text) => {
                    return self.error(loc, cannot_read(&path, &text));
                }
            }
        }
        // The first file is read first, so it comes to lie on top.
        self.frames.extend(frames.into_iter().rev());
        Ok(())
    }

    /// Names of the files that an include statement speaks of.
    pub(super) fn include_files(&mut self, pattern: &str, loc: Loc) -> Parsed<Vec<String>> {
        let wild = pattern.contains(['*', '?', '[']);
        let own =
            pattern.starts_with('/') || pattern.starts_with("./") || pattern.starts_with("../");
        let candidates: Vec<String> = if own {
            vec![pattern.to_string()]
        } else {
            self.include_paths
                .iter()
                .map(|dir| format!("{}/{pattern}", dir.trim_end_matches('/')))
                .collect()
        };
        for candidate in &candidates {
            let found = self.files.glob(candidate);
            if !found.is_empty() {
                return Ok(found);
            }
        }
        if wild { Ok(Vec::new()) } else { self.error(loc, format!("File not found: {pattern}")) }
    }

    /// `$name`: what it stands for, placed where it was defined.
    pub(super) fn variable(&mut self) -> Parsed<Expr> {
        self.need_tok(Tok::Dollar)?;
        self.variables += 1;
        let name = self.identifier()?;
        match self.scope.get(&name.text).cloned() {
            Some(value) if self.budget.expand(value.size) => Ok(value.expr.clone()),
            Some(_) => self.error(name.loc, TOO_LARGE),
            None => {
                let message = match self.similar(&name.text) {
                    Some(similar) => {
                        format!(
                            "unknown identifier '{}'; did you mean identifier ‘{similar}’?",
                            name.text
                        )
                    }
                    None => format!("unknown identifier '{}'", name.text),
                };
                self.error(name.loc, message)
            }
        }
    }

    /// A defined name that looks like this one.
    pub(super) fn similar(&self, name: &str) -> Option<Arc<str>> {
        crate::diag::most_similar(name, self.scope.names().map(|n| &**n)).map(Arc::from)
    }
}
