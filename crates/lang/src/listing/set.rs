// SPDX-License-Identifier: Apache-2.0

//! Sets and maps to text.

use penstock_ruleset::Set;
use penstock_ruleset::model::{ElementValue, MapData};
use penstock_sets::{ElementRef, Policy};
use penstock_syntax::ast::Expr;
use penstock_syntax::datatype::{DataType, Type};
use penstock_syntax::objects;
use penstock_syntax::print::Printer;
use penstock_syntax::release::Release;

use super::plain::PlainSet;
use super::{plain, tables};
use crate::delinearize::Delinearizer;
use crate::userdata::SetUserData;

/// Between elements on a line, and between lines: they are aligned below the first element.
const SAME_LINE: &str = ", ";
const NEXT_LINE: &str = ",\n\t\t\t     ";

/// How many elements with keys of a type go on a line.
fn elements_per_line(dtype: &Type) -> usize {
    match dtype {
        Type::Concat(_) => 1,
        Type::Base(dtype) => match dtype {
            DataType::NfProto
            | DataType::Integer
            | DataType::RawInteger
            | DataType::MptcpSubtype
            | DataType::ArpOp
            | DataType::InetProtocol
            | DataType::InetService
            | DataType::TcpFlag
            | DataType::DccpPktType
            | DataType::Mark
            | DataType::IfIndex
            | DataType::Classid
            | DataType::Uid
            | DataType::Gid
            | DataType::CtDir => 5,
            DataType::IpAddr | DataType::CtState | DataType::CtStatus | DataType::PktType => 2,
            DataType::Invalid
            | DataType::Verdict
            | DataType::Bitmask
            | DataType::String
            | DataType::LlAddr
            | DataType::Ip6Addr
            | DataType::EtherAddr
            | DataType::EtherType
            | DataType::IcmpType
            | DataType::MhType
            | DataType::Time
            | DataType::ArpHrd
            | DataType::Realm
            | DataType::Icmp6Type
            | DataType::CtLabel
            | DataType::IcmpCode
            | DataType::Icmpv6Code
            | DataType::IcmpxCode
            | DataType::DevGroup
            | DataType::Dscp
            | DataType::Ecn
            | DataType::FibAddr
            | DataType::Boolean
            | DataType::CtEventBit
            | DataType::IfName
            | DataType::IgmpType
            | DataType::TimeDate
            | DataType::TimeHour
            | DataType::TimeDay
            | DataType::Cgroupv2 => 1,
        },
    }
}

/// Writes a set or map, one level deep, with its own elements or those given.
pub(super) fn set(
    p: &mut Printer<'_>,
    delinearizer: &Delinearizer<'_>,
    set: &Set,
    elements: Option<&[Expr]>,
) {
    let userdata = SetUserData::decode(&set.userdata);
    let meter = set.anonymous && set.description.dynamic;
    let word = match (meter, set.data.is_some()) {
        (true, _) => "meter",
        (false, true) => "map",
        (false, false) => "set",
    };
    p.write(format_args!("\t{word} {} {{", set.name));
    tables::handle_after(p, set.handle);
    if p.format.backends {
        let structure = set.structure();
        let (name, lookup, space) =
            (structure.name(), structure.lookup_class(), structure.space_class());
        p.write(format_args!("\n\t\t# backend {name}, lookup {lookup}, space {space}"));
    }
    p.push("\n\t\t");
    set_type(p, set, &userdata);
    p.push("\n");
    if set.description.policy == Policy::Memory {
        p.push("\t\tpolicy memory\n");
    }
    // The size of a constant set is that of its elements.
    if let Some(size) = set.description.size.filter(|size| *size > 0 && !set.description.constant) {
        p.write(format_args!("\t\tsize {size}\n"));
    }
    let flags = set_flags(set);
    if !flags.is_empty() {
        p.write(format_args!("\t\tflags {}\n", flags.join(",")));
    }
    if !set.exprs.is_empty() {
        p.push("\t\t");
        let stmts = delinearizer.stateful(&set.exprs);
        let format = penstock_syntax::datatype::Format { stateless: true, ..p.format };
        p.with_format(format, |p| p.stmts(&stmts));
        p.push("\n");
    }
    if userdata.auto_merge {
        p.push("\t\tauto-merge\n");
    }
    if set.timeout != 0 {
        p.push("\t\ttimeout ");
        p.duration(set.timeout);
        p.push("\n");
    }
    if set.gc_interval != 0 {
        p.push("\t\tgc-interval ");
        p.duration(set.gc_interval.into());
        p.push("\n");
    }
    if let Some(comment) = &userdata.comment {
        p.write(format_args!("\t\tcomment \"{comment}\"\n"));
    }
    if !p.format.terse {
        set_elements(p, delinearizer, set, elements);
    }
    p.push("\t}\n");
}

/// `elements = { … }`: those of the set, or those given. Nothing if there are none.
fn set_elements(
    p: &mut Printer<'_>,
    delinearizer: &Delinearizer<'_>,
    set: &Set,
    elements: Option<&[Expr]>,
) {
    let key = delinearizer.key_type(set);
    let per_line = match p.format.release {
        Release::V1_1 if has_extras(set) => 1,
        _ => elements_per_line(&key.as_ref().map(|k| k.dtype.clone()).unwrap_or_default()),
    };
    let mut count = 0;
    let mut before = |p: &mut Printer<'_>| {
        p.push(match count {
            0 => "\t\telements = { ",
            n if n % per_line == 0 => NEXT_LINE,
            _ => SAME_LINE,
        });
        count += 1;
    };
    match (elements, &key) {
        (Some(elements), _) => elements.iter().for_each(|element| {
            before(p);
            p.expr(element);
        }),
        (None, Some(key)) => {
            let data = delinearizer.data_type(set);
            let plain = PlainSet::of(set, key, data.as_ref());
            delinearizer.each_in_order(set, key, &mut |element| match plain
                .as_ref()
                .filter(|plain| plain.suits(&element))
            {
                Some(plain) => {
                    before(p);
                    plain::plain_element(p, plain, element);
                }
                None => {
                    for expr in delinearizer.listed_as(set, key, data.as_ref(), element) {
                        before(p);
                        p.expr(&expr);
                    }
                }
            });
        }
        (None, None) => {}
    }
    if count > 0 {
        p.push(" }\n");
    }
}

/// Whether elements may have more than a key: nft 1.1 begins a line with each of them then.
fn has_extras(set: &Set) -> bool {
    let more = |element: ElementRef<'_, ElementValue>| {
        let value = element.value;
        !value.exprs().is_empty() || value.timeout().is_some() || value.userdata().is_some()
    };
    set.data.is_some()
        || set.description.timeout
        || !set.exprs.is_empty()
        || set.elements().iter().any(more)
}

fn set_type(p: &mut Printer<'_>, set: &Set, userdata: &SetUserData) {
    match &userdata.key_typeof {
        Some(text) => p.write(format_args!("typeof {text}")),
        None => {
            let name = Type::from_id(set.key_type).unwrap_or_default().name();
            p.write(format_args!("type {name}"));
        }
    }
    let interval = if userdata.data_interval { "interval " } else { "" };
    match (set.data, &userdata.data_typeof) {
        (None, _) => {}
        (Some(MapData::Verdict), _) => p.push(" : verdict"),
        (Some(MapData::Object(kind)), _) => p.write(format_args!(" : {}", objects::name(kind))),
        (Some(MapData::Value { .. }), Some(text)) => p.write(format_args!(" : {interval}{text}")),
        (Some(MapData::Value { .. }), None) => {
            let name = Type::from_id(set.data_type).unwrap_or_default().name();
            p.write(format_args!(" : {interval}{name}"));
        }
    }
}

fn set_flags(set: &Set) -> Vec<&'static str> {
    let description = &set.description;
    let mut flags = Vec::new();
    if description.constant {
        flags.push("constant");
    }
    if description.dynamic {
        flags.push("dynamic");
    }
    if description.interval {
        flags.push("interval");
    }
    // A default timeout alone says it already.
    if description.timeout && (set.timeout == 0 || !flags.is_empty()) {
        flags.push("timeout");
    }
    flags
}
