// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects.

use penstock_syntax::ast::ExprKind;
use penstock_syntax::ast::cmd::{TunnelSpec, TunnelSpecOptions};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use super::context::Expected;
use super::{Eval, Result, error};

impl Eval<'_, '_> {
    /// Evaluates the addresses, which must be of one family.
    pub(super) fn tunnel_object(&mut self, tunnel: &mut TunnelSpec, loc: Loc) -> Result {
        if let (Some((one, _)), Some((other, _))) = (&tunnel.source, &tunnel.destination)
            && one != other
        {
            return error(loc, "specify either ip or ip6 for address");
        }
        for (v6, address) in [&mut tunnel.source, &mut tunnel.destination].into_iter().flatten() {
            let (dtype, bits) = if *v6 { (DataType::Ip6Addr, 128) } else { (DataType::IpAddr, 32) };
            self.expected = Expected::new(Type::Base(dtype), ByteOrder::Big, bits);
            self.expr(address)?;
            if !matches!(address.kind, ExprKind::Value(_)) {
                return error(address.loc, "an end of a tunnel has one address");
            }
        }
        if let TunnelSpecOptions::Erspan { version, .. } = tunnel.options
            && !matches!(version, 1 | 2)
        {
            return error(loc, format!("there is no version {version} of ERSPAN"));
        }
        Ok(())
    }
}
