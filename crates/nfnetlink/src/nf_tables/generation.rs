// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_GETGEN` and `NFT_MSG_NEWGEN`.

use super::answer::Stamp;
use crate::Process;
use crate::message::Writer;
use crate::uapi::nf_tables::*;

/// Longest name of a process with its end (`TASK_COMM_LEN`).
const COMM: usize = 16;

/// `nf_tables_fill_gen_info()`
pub fn fill(to: &mut Writer, stamp: Stamp, process: &Process) {
    stamp.message(to, NFT_MSG_NEWGEN, 0, None, |to| {
        to.be32(NFTA_GEN_ID, stamp.generation);
        to.be32(NFTA_GEN_PROC_PID, process.id);
        let name = &process.name;
        let mut len = name.len().min(COMM - 1);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        to.string(NFTA_GEN_PROC_NAME, name.get(..len).unwrap_or_default());
    });
}
