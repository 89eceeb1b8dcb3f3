// SPDX-License-Identifier: Apache-2.0

//! NAT statements to VM expressions.

use penstock_program::expr::{Expr as Op, Masq, Nat as NatOp, Redir};
use penstock_syntax::ast::ExprKind;
use penstock_syntax::ast::stmt::{Nat, NatKind};

use crate::eval::RANGE_PROTO_SPECIFIED;
use crate::lower::{Program, register};

impl Program<'_, '_> {
    pub(crate) fn nat(&mut self, nat: &Nat) {
        let base = self.next;
        let (mut addr_min, mut addr_max, mut proto_min, mut proto_max) = (None, None, None, None);
        let mut flags = nat.flags;
        if let Some(addr) = &nat.addr {
            let slot = self.take_wide();
            let words = if nat.family == 10 { 4 } else { 1 };
            if let ExprKind::Range { left, right } = &addr.kind {
                let second = self.take_wide();
                self.load(left, slot);
                self.load(right, second);
                addr_min = Some(register(slot));
                addr_max = Some(register(second));
            } else {
                self.load(addr, slot);
                addr_min = Some(register(slot));
                let mut next = slot + words;
                if nat.concat {
                    proto_min = Some(register(next));
                    next += 1;
                }
                if nat.interval {
                    addr_max = Some(register(next));
                    next += words;
                    if nat.concat {
                        proto_max = Some(register(next));
                    }
                }
            }
        }
        if let Some(port) = &nat.port {
            flags |= RANGE_PROTO_SPECIFIED;
            let slot = self.take_wide();
            if let ExprKind::Range { left, right } = &port.kind {
                let second = self.take_wide();
                self.load(left, slot);
                self.load(right, second);
                proto_max = Some(register(second));
            } else {
                self.load(port, slot);
            }
            proto_min = Some(register(slot));
        }
        self.release(base);
        // Ports alone are for whatever the table is for.
        let family = if nat.family == 0 { self.family as u8 } else { nat.family };
        self.ops.push(match nat.kind {
            NatKind::Nat(kind) => {
                Op::Nat(NatOp { kind, family, addr_min, addr_max, proto_min, proto_max, flags })
            }
            NatKind::Masquerade => Op::Masq(Masq { proto_min, proto_max, flags }),
            NatKind::Redirect => Op::Redir(Redir { proto_min, proto_max, flags }),
        });
    }
}
