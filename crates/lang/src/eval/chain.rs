// SPDX-License-Identifier: Apache-2.0

//! Chains: hooks of the families, named priorities, policies, devices.

use std::sync::Arc;

use penstock_ruleset::model::{Family, Hook};
use penstock_syntax::ast::cmd::{ChainBlock, FlowtableBlock, HookSpec, PrioritySpec};
use penstock_syntax::ast::expr::VerdictExpr;
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::priority;

use crate::eval::{Eval, Result, error};

/// The number of a named priority, where the family and hook know that name (nft's
/// `std_prio_lookup`).
fn priority_number(name: &str, family: Family, hook: Hook) -> Option<i32> {
    // At devices inet tables accept this name only, though listings have more.
    let at_device = matches!(hook, Hook::Ingress | Hook::Egress);
    if at_device && family.is_ip() && name != "filter" {
        return None;
    }
    priority::by_name(name, family, hook)
}

/// Whether the family has the hook.
fn has_hook(family: Family, hook: Hook) -> bool {
    match family {
        Family::Ip | Family::Ip6 | Family::Bridge => !matches!(hook, Hook::Ingress | Hook::Egress),
        Family::Inet => hook != Hook::Egress,
        Family::Arp => matches!(hook, Hook::Input | Hook::Output),
        Family::Netdev => matches!(hook, Hook::Ingress | Hook::Egress),
    }
}

/// The number that a priority stands for.
pub(crate) fn priority(spec: &PrioritySpec, family: Family, hook: Hook) -> Option<i32> {
    let base = match spec.expr.value() {
        Some(value) => value as i32,
        None => {
            let text = spec.expr.text()?;
            text.parse().ok().or_else(|| {
                let (name, offset) = name_and_offset(text);
                Some(priority_number(name, family, hook)?.wrapping_add(offset))
            })?
        }
    };
    Some(base.wrapping_add(spec.offset))
}

/// A name with an offset, as a variable may hold them (`"filter + 1"`): a word, a sign, a number.
/// Text of another form is a name.
fn name_and_offset(text: &str) -> (&str, i32) {
    let parts = || {
        let (name, rest) = text.split_once(' ')?;
        let rest = rest.trim_start();
        let number: i32 = rest.get(1..)?.trim().parse().ok()?;
        match rest.as_bytes()[0] {
            b'+' => Some((name, number)),
            b'-' => Some((name, number.checked_neg()?)),
            _ => None,
        }
    };
    parts().unwrap_or((text, 0))
}

/// Names of devices in a list or a set.
pub(crate) fn device_names(
    e: &Expr,
    out: &mut Vec<(Arc<str>, penstock_syntax::source::Loc)>,
) -> Result {
    if let Some(text) = e.text() {
        if text.len() > 15 {
            return error(e.loc, "device name is too long");
        }
        if text.is_empty() {
            return error(e.loc, "Could not process rule: Invalid argument");
        }
        out.push((text.clone(), e.loc));
        Ok(())
    } else if let ExprKind::Set { elements, .. } | ExprKind::List(elements) = &e.kind {
        elements.iter().try_for_each(|e| device_names(e, out))
    } else if let Some(elem) = e.elem() {
        device_names(&elem.key, out)
    } else {
        error(e.loc, "invalid device name")
    }
}

impl Eval<'_, '_> {
    pub(crate) fn chain(&mut self, chain: &mut ChainBlock) -> Result {
        if let Some(spec) = &chain.hook {
            self.hook(spec, chain.devices.is_some())?;
        }
        if let Some(policy) = &mut chain.policy {
            if let ExprKind::Symbol { text, .. } = &policy.kind {
                match &**text {
                    "accept" => policy.kind = ExprKind::Verdict(VerdictExpr::Accept),
                    "drop" => policy.kind = ExprKind::Verdict(VerdictExpr::Drop),
                    _ => {}
                }
            }
            if !matches!(policy.kind, ExprKind::Verdict(VerdictExpr::Accept | VerdictExpr::Drop)) {
                return error(policy.loc, format!("invalid policy expression ({})", policy.word()));
            }
        }
        if let Some(devices) = &chain.devices {
            device_names(devices, &mut Vec::new())?;
        }
        Ok(())
    }

    fn hook(&mut self, spec: &HookSpec, devices: bool) -> Result {
        if !has_hook(self.family, spec.hook) {
            return error(
                spec.hook_loc,
                format!("The {} family does not support this hook", self.family.name()),
            );
        }
        if priority(&spec.priority, self.family, spec.hook).is_none() {
            return error(
                spec.priority.loc,
                format!(
                    "invalid priority expression {} in this context.",
                    priority_word(&spec.priority)
                ),
            );
        }
        if let Some(devices) = &spec.devices {
            device_names(devices, &mut Vec::new())?;
            if !matches!(spec.hook, Hook::Ingress | Hook::Egress) {
                return error(devices.loc, "This chain type cannot be bound to device");
            }
        } else if !devices && matches!(spec.hook, Hook::Ingress | Hook::Egress) {
            return error(spec.loc, "Missing `device' in this chain definition");
        }
        Ok(())
    }

    pub(crate) fn flowtable(&mut self, flowtable: &mut FlowtableBlock) -> Result {
        if let (Some(hook), Some(spec)) = (flowtable.hook, &flowtable.priority) {
            if hook != Hook::Ingress {
                return error(
                    spec.loc,
                    format!("The {} family does not support this hook", self.family.name()),
                );
            }
            if priority(spec, Family::Netdev, Hook::Ingress).is_none() {
                return error(
                    spec.loc,
                    format!("invalid priority expression {}.", priority_word(spec)),
                );
            }
        }
        if let Some(devices) = &flowtable.devices {
            device_names(devices, &mut Vec::new())?;
        }
        Ok(())
    }
}

fn priority_word(spec: &PrioritySpec) -> &'static str {
    if spec.expr.text().is_some() { "value" } else { spec.expr.word() }
}
