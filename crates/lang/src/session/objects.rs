// SPDX-License-Identifier: Apache-2.0

//! Objects of BPF programs that texts name: their files are read when the text was.

use penstock_syntax::ast::cmd::{ChainBlock, Cmd, CmdKind, New};
use penstock_syntax::diag::{Diagnostic, Diagnostics};
use penstock_syntax::source::{Files, cannot_read};

/// Reads the objects of all chains that commands make.
pub(super) fn read(cmds: &mut [Cmd], files: &dyn Files, diags: &mut Diagnostics) {
    for cmd in cmds {
        let (CmdKind::Add(new) | CmdKind::Create(new)) = &mut cmd.kind else { continue };
        match new {
            New::Table(table) => {
                table.chains.iter_mut().for_each(|(_, chain)| read_of(chain, files, diags));
            }
            New::Chain(chain) => read_of(chain, files, diags),
            _ => {}
        }
    }
}

fn read_of(chain: &mut ChainBlock, files: &dyn Files, diags: &mut Diagnostics) {
    let Some(program) = &mut chain.program else { return };
    match files.read_bytes(&program.object) {
        Ok(bytes) => program.bytes = bytes.into(),
        Err(why) => {
            diags.push(Diagnostic::error(program.loc, cannot_read(&program.object, &why)));
        }
    }
}
