// SPDX-License-Identifier: Apache-2.0

//! Hooks, types of base chains, and which of them may reach an expression.

use serde::{Deserialize, Serialize};

/// Hooks of all families. The kernel's numbers differ per family; the names do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hook {
    /// netdev and inet.
    Ingress,
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// On the way out.
    Postrouting,
    /// netdev.
    Egress,
}

/// `filter`, `nat` or `route`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChainType {
    /// Any hook.
    Filter,
    /// First packets of flows.
    Nat,
    /// Routes again when something relevant changed.
    Route,
}

/// Base chains that may reach an expression, as far as its family leaves a choice (`ops->validate`
/// in the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// A bit for each [`Hook`].
    hooks: u8,
    /// Only chains of type nat.
    nat: bool,
}

impl Hooks {
    /// Any base chain: nothing is checked.
    pub const ANY: Hooks = Hooks { hooks: u8::MAX, nat: false };
    /// No base chain.
    pub const NONE: Hooks = Hooks { hooks: 0, nat: false };

    /// Base chains of these hooks.
    pub const fn of(hooks: &[Hook]) -> Hooks {
        let mut bits = 0;
        let mut i = 0;
        while i < hooks.len() {
            bits |= 1 << hooks[i] as u8;
            i += 1;
        }
        Hooks { hooks: bits, nat: false }
    }

    /// These, and others.
    pub const fn or(self, other: Hooks) -> Hooks {
        Hooks { hooks: self.hooks | other.hooks, nat: self.nat && other.nat }
    }

    /// The hooks of these that have chains of type nat.
    pub const fn of_type_nat(self) -> Hooks {
        Hooks { nat: true, ..self }
    }

    /// Whether a base chain of this type and hook is among them.
    pub const fn allow(self, kind: ChainType, hook: Hook) -> bool {
        self.hooks & 1 << hook as u8 != 0 && (!self.nat || matches!(kind, ChainType::Nat))
    }
}
