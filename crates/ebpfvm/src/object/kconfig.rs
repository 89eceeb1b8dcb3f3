// SPDX-License-Identifier: Apache-2.0

//! Variables of section `.kconfig`, which the kernel's version and configuration give values, as
//! libbpf has it (libbpf(7), `bpf_object__init_kconfig_map()`). There is no configuration here; what
//! is known stands in a table.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _, SectionIndex};

use super::Elf;
use super::btf::{Btf, Id, Kind};
use super::maps::Wanted;
use crate::map::{MMAPABLE, MapKind, MapSpec, READ_ONLY};

/// The section, and the name of its map.
const NAME: &str = ".kconfig";

/// The version whose behaviour is that of this crate, as `KERNEL_VERSION()` makes it: 6.18.0.
const VERSION: u64 = 6 << 16 | 18 << 8;

/// What is as if it were built in.
const BUILT_IN: &[&str] = &[
    "CONFIG_BPF",
    "CONFIG_BPF_SYSCALL",
    "CONFIG_BPF_JIT",
    "CONFIG_NET",
    "CONFIG_NET_XGRESS",
    "CONFIG_NET_CLS_ACT",
    "CONFIG_NET_SCH_INGRESS",
    "CONFIG_INET",
    "CONFIG_IPV6",
    "CONFIG_NETFILTER",
    "CONFIG_NETFILTER_BPF_LINK",
    "CONFIG_NF_CONNTRACK",
    "CONFIG_NF_NAT",
    "CONFIG_NF_TABLES",
];

/// Where variables are in the value of their map, or why a program cannot have one.
pub(super) type Places = BTreeMap<String, Result<u32, String>>;

/// The map of the variables, and where each is. Nothing if there are none.
pub(super) fn read(elf: &Elf<'_>, btf: &Btf) -> Option<(Wanted, Places)> {
    let (mut contents, mut places) = (Vec::new(), Places::new());
    for (name, of) in btf.variables(NAME) {
        let mut symbols = elf.symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok(name) && symbol.is_undefined());
        let weak = symbol.is_some_and(|symbol| symbol.is_weak());
        let place = value(btf, name, of, weak).map(|bytes| {
            let at = contents.len() as u32;
            contents.extend(bytes);
            contents.resize(contents.len().next_multiple_of(8), 0);
            at
        });
        places.insert(name.to_owned(), place);
    }
    if places.is_empty() {
        return None;
    }
    contents.resize(contents.len().max(8), 0);
    let spec = MapSpec {
        name: NAME.to_owned(),
        kind: MapKind::Array,
        key: 4,
        value: contents.len() as u32,
        entries: 1,
        flags: MMAPABLE | READ_ONLY,
    };
    // It is in no section, so only names lead to it.
    let (section, contents) = (SectionIndex(0), Some(contents));
    Some((Wanted { spec: Ok(spec), section, at: 0, contents, values: None, inner: None }, places))
}

/// What a variable may be made of.
enum Value {
    Number(u64),
    /// `y`.
    Yes,
}

/// The most bytes of a variable.
const LONGEST: u32 = 4096;

/// The bytes of a variable.
fn value(btf: &Btf, name: &str, of: Id, weak: bool) -> Result<Vec<u8>, String> {
    let wrong = |what: &str| format!("`{name}` {what}");
    let size = btf.size(of).filter(|size| (1..=LONGEST).contains(size));
    let size = size.ok_or_else(|| wrong("has no type with a size"))? as usize;
    let (_, found) = btf.plain(of).ok_or_else(|| wrong("has no type"))?;
    let known = match name {
        "LINUX_KERNEL_VERSION" => Some(Value::Number(VERSION)),
        name if BUILT_IN.contains(&name) => Some(Value::Yes),
        _ => None,
    };
    let number = match (known, &found.kind) {
        // A weak one that nothing is known of is 0, whatever its type.
        (None, _) if weak => 0,
        (None, _) => return Err(wrong("is not among what is known of the kernel's configuration")),
        (Some(Value::Yes), Kind::Int { boolean: true, .. }) => 1,
        (Some(Value::Yes), Kind::Int { .. }) if size == 1 => u64::from(b'y'),
        // TRI_YES
        (Some(Value::Yes), Kind::Enum { .. }) if btf.string(found.name) == "libbpf_tristate" => 1,
        (Some(Value::Number(number)), Kind::Int { boolean: false, .. }) if size >= 4 => number,
        _ => return Err(wrong("is of a type that its value does not have")),
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(size, 0);
    Ok(bytes)
}
