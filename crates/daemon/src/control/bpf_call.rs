// SPDX-License-Identifier: Apache-2.0

//! What `penstock bpf` asks of the dataplane.

use serde::{Deserialize, Serialize};

/// A question or command about BPF programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BpfCall {
    /// Attaches a program.
    Attach {
        /// The hook, as [`Place`](crate::bpf::Place) reads it.
        hook: String,
        /// What messages call the object.
        file: String,
        /// The section or function.
        program: Option<String>,
        /// The object (ELF).
        object: Vec<u8>,
    },
    /// Detaches the programs at a hook.
    Detach {
        /// The hook.
        hook: String,
    },
    /// Detaches the program with this number.
    DetachId(u32),
    /// Lists programs.
    Show {
        /// As JSON.
        json: bool,
    },
    /// The elements of maps.
    Dump {
        /// Only of maps with this name.
        map: Option<String>,
    },
    /// Sets elements of maps: lines as of `--bpf-elements`.
    Update(String),
}

impl BpfCall {
    /// As bytes of a message.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // Writing into memory fails for nothing that is in a call.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// From bytes of a message.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
