// SPDX-License-Identifier: Apache-2.0

//! Elements of maps as text: a line for each, with the name of the map, key and value, both as
//! bytes in hexadecimal. A record of a ring has `-` in place of a key. A value that is a map is the
//! name of one of the same object.

use std::fmt::Write;
use std::sync::Arc;

use penstock_ebpfvm::Instance;
use penstock_ebpfvm::map::Errno;

/// Bytes from hexadecimal digits.
fn bytes(word: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = word.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[a, b]| Some((digit(*a)? << 4 | digit(*b)?) as u8)).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Maps by name: their object, and their number in its machine.
fn named(objects: &[Arc<Instance>]) -> impl Iterator<Item = (&str, &Arc<Instance>, u32)> {
    objects.iter().flat_map(|object| object.maps().map(move |(name, map)| (name, object, map)))
}

/// Sets elements of maps. The error is a sentence without the name of the file.
///
/// # Errors
/// A line that is none of a map, a key and a value, a map that is not there, or an element that it
/// does not take.
pub fn set_elements(text: &str, objects: &[Arc<Instance>]) -> Result<(), String> {
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, key, value] = words[..] else {
            if words.is_empty() {
                continue;
            }
            return Err(format!("line {number}: not a map, a key and a value"));
        };
        let mut found = named(objects).filter(|(map, ..)| *map == name);
        let (object, map) = match (found.next(), found.next()) {
            (Some((_, object, map)), None) => (object, map),
            (None, _) => return Err(format!("line {number}: no program has a map {name}")),
            _ => return Err(format!("line {number}: several objects have a map {name}")),
        };
        let digits =
            |word| bytes(word).ok_or_else(|| format!("line {number}: `{word}` is not hexadecimal"));
        let refused = |errno: Errno| {
            let error = std::io::Error::from_raw_os_error(errno.0);
            format!("line {number}: map {name}: {error}")
        };
        let key = digits(key)?;
        let mut machine = object.lock();
        let Some(outer) = machine.map(map) else { continue };
        if outer.spec().kind.has_maps() {
            let inner = object.maps().find(|(name, _)| *name == value);
            let missing = || format!("line {number}: the object has no map {value} in use");
            let (_, inner) = inner.ok_or_else(missing)?;
            machine.set_map(map, &key, inner).map_err(refused)?;
            continue;
        }
        let value = digits(value)?;
        let Some(map) = machine.map_mut(map) else { continue };
        let (key_len, value_len) = (map.spec().key as usize, map.spec().value as usize);
        if (key.len(), value.len()) != (key_len, value_len) {
            return Err(format!(
                "line {number}: map {name} has keys of {key_len} and values of {value_len} bytes"
            ));
        }
        map.set(&key, &value, 0).map_err(refused)?;
    }
    Ok(())
}

/// All elements of maps, sorted; records of rings are taken out. `only` leaves out maps with other
/// names.
pub fn elements(objects: &[Arc<Instance>], only: Option<&str>) -> String {
    let several = objects.len() > 1 && only.is_none();
    let (mut text, mut last) = (String::new(), None);
    for (name, object, number) in named(objects) {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        if several && last != Some(Arc::as_ptr(object)) {
            let _ = writeln!(text, "# {}", object.file());
            last = Some(Arc::as_ptr(object));
        }
        let mut machine = object.lock();
        let Some(map) = machine.map_mut(number) else { continue };
        let value_text = |value: &[u8]| {
            let inner = map.map_of(value);
            let inner = inner.and_then(|inner| object.maps().find(|(_, map)| *map == inner));
            inner.map_or_else(|| hexadecimal(value), |(name, _)| name.to_owned())
        };
        let mut lines: Vec<String> = map
            .elements()
            .map(|(key, value)| format!("{name} {} {}", hexadecimal(&key), value_text(value)))
            .collect();
        lines.sort();
        while let Some(record) = map.take_record() {
            lines.push(format!("{name} - {}", hexadecimal(&record)));
        }
        drop(machine);
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_hexadecimal_digits() {
        assert_eq!(bytes("00ffA5"), Some(vec![0, 255, 0xa5]));
        assert_eq!(bytes(""), Some(vec![]));
        for wrong in ["0", "0g", "+1", "é"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        assert_eq!(hexadecimal(&[0, 255, 0xa5]), "00ffa5");
    }
}
