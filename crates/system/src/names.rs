// SPDX-License-Identifier: Apache-2.0

//! Names that this machine knows: `/etc/services`, `/etc/protocols`, users and groups, iproute2's
//! tables, interfaces of the network namespace, hosts, the time zone.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use penstock_syntax::names::Names;

/// Where iproute2 keeps its tables: the administrator's files first, then the package's.
const IPROUTE2: [&str; 2] = ["/etc/iproute2", "/usr/share/iproute2"];
const CGROUPS: &str = "/sys/fs/cgroup";

/// The system's names. Each table is read when it is first asked for and kept.
#[derive(Debug, Default)]
pub struct SystemNames {
    coming: Vec<String>,
    services: OnceLock<Vec<Service>>,
    protocols: OnceLock<Vec<(String, u8)>>,
    users: OnceLock<Vec<(String, u32)>>,
    groups: OnceLock<Vec<(String, u32)>>,
    tables: [OnceLock<Vec<(String, u32)>>; TABLES.len()],
    cgroups: OnceLock<HashMap<u64, String>>,
}

/// Tables that [`Names::table_value`] is asked for.
const TABLES: [&str; 4] = ["rt_realms", "group", "rt_marks", "connlabel.conf"];

#[derive(Debug)]
struct Service {
    names: Vec<String>,
    port: u16,
    protocol: String,
}

/// Lines of a file of the `/etc` kind, in words, without comments. A file that is not there is
/// empty.
fn words_of(path: impl AsRef<Path>) -> Vec<Vec<String>> {
    let text = fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
        .collect()
}

fn read_services() -> Vec<Service> {
    let mut services = Vec::new();
    for mut words in words_of("/etc/services") {
        if words.len() < 2 {
            continue;
        }
        let place = words.remove(1);
        let Some((port, protocol)) = place.split_once('/') else { continue };
        let Ok(port) = port.parse() else { continue };
        services.push(Service { names: words, port, protocol: protocol.to_owned() });
    }
    services
}

fn read_protocols() -> Vec<(String, u8)> {
    let mut protocols = Vec::new();
    for mut words in words_of("/etc/protocols") {
        if words.len() < 2 {
            continue;
        }
        let Ok(number) = words.remove(1).parse() else { continue };
        protocols.extend(words.into_iter().map(|name| (name, number)));
    }
    protocols
}

/// Names and ids of `/etc/passwd` or `/etc/group`.
fn read_ids(path: &str) -> Vec<(String, u32)> {
    let text = fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((name, fields.nth(1)?.parse().ok()?))
        })
        .collect()
}

/// `VALUE NAME` lines, values decimal or hexadecimal.
fn read_table(name: &str) -> Vec<(String, u32)> {
    let places: Vec<PathBuf> = if name == "connlabel.conf" {
        ["/etc/connlabel.conf", "/etc/xtables/connlabel.conf"].iter().map(PathBuf::from).collect()
    } else {
        IPROUTE2.iter().map(|dir| Path::new(dir).join(name)).collect()
    };
    let mut table = Vec::new();
    for words in places.into_iter().find(|p| p.exists()).map(words_of).unwrap_or_default() {
        let [value, name, ..] = words.as_slice() else { continue };
        let value = match value.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => value.parse(),
        };
        if let Ok(value) = value {
            table.push((name.clone(), value));
        }
    }
    table
}

fn read_cgroups() -> HashMap<u64, String> {
    let mut found = HashMap::new();
    let mut todo = vec![PathBuf::from(CGROUPS)];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                let path = entry.path();
                if let Ok(below) = path.strip_prefix(CGROUPS) {
                    found.insert(meta.ino(), below.to_string_lossy().into_owned());
                }
                todo.push(path);
            }
        }
    }
    found
}

impl SystemNames {
    fn services(&self) -> &[Service] {
        self.services.get_or_init(read_services)
    }

    fn protocols(&self) -> &[(String, u8)] {
        self.protocols.get_or_init(read_protocols)
    }

    fn users(&self) -> &[(String, u32)] {
        self.users.get_or_init(|| read_ids("/etc/passwd"))
    }

    fn groups(&self) -> &[(String, u32)] {
        self.groups.get_or_init(|| read_ids("/etc/group"))
    }

    fn table(&self, name: &str) -> &[(String, u32)] {
        match TABLES.iter().position(|t| *t == name) {
            Some(i) => self.tables[i].get_or_init(|| read_table(name)),
            None => &[],
        }
    }
}

fn value_of<T: Copy>(list: &[(String, T)], name: &str) -> Option<T> {
    list.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
}

fn name_of<T: PartialEq>(list: &[(String, T)], value: T) -> Option<String> {
    list.iter().find(|(_, v)| *v == value).map(|(n, _)| n.clone())
}

impl SystemNames {
    /// With interfaces that do not exist yet, but that rules may name.
    pub fn expecting(coming: &[String]) -> Self {
        SystemNames { coming: coming.to_vec(), ..SystemNames::default() }
    }

    /// With all that is read from files but control groups read already, for threads that may open
    /// none.
    pub fn loaded() -> Self {
        let names = SystemNames::default();
        let _ = (names.services(), names.protocols(), names.users(), names.groups());
        for table in TABLES {
            names.table(table);
        }
        names
    }
}

impl Names for SystemNames {
    fn interface_index(&self, name: &str) -> Option<u32> {
        // No interface has so high an index.
        let coming =
            || Some(u32::MAX - self.coming.iter().position(|coming| coming == name)? as u32);
        let name = CString::new(name).ok()?;
        // SAFETY: `name` is a string with its terminating zero and lives through the call.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => coming(),
            index => Some(index),
        }
    }

    fn interface_name(&self, index: u32) -> Option<String> {
        let mut buffer = [0 as libc::c_char; libc::IF_NAMESIZE];
        // SAFETY: the buffer has the IF_NAMESIZE bytes that the function may write.
        let found = unsafe { libc::if_indextoname(index, buffer.as_mut_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: on success the buffer holds a string with its terminating zero.
        Some(unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned())
    }

    fn service_port(&self, name: &str, protocol: Option<&str>) -> Option<u16> {
        self.services()
            .iter()
            .find(|s| s.names.iter().any(|n| n == name) && protocol.is_none_or(|p| s.protocol == p))
            .map(|s| s.port)
    }

    fn service_name(&self, port: u16, protocol: Option<&str>) -> Option<String> {
        self.services()
            .iter()
            .find(|s| s.port == port && protocol.is_none_or(|p| s.protocol == p))
            .and_then(|s| s.names.first().cloned())
    }

    fn protocol_number(&self, name: &str) -> Option<u8> {
        value_of(self.protocols(), name)
    }

    fn protocol_name(&self, number: u8) -> Option<String> {
        name_of(self.protocols(), number)
    }

    fn user_id(&self, name: &str) -> Option<u32> {
        value_of(self.users(), name)
    }

    fn user_name(&self, id: u32) -> Option<String> {
        name_of(self.users(), id)
    }

    fn group_id(&self, name: &str) -> Option<u32> {
        value_of(self.groups(), name)
    }

    fn group_name(&self, id: u32) -> Option<String> {
        name_of(self.groups(), id)
    }

    fn host_addresses(&self, name: &str) -> Vec<IpAddr> {
        (name, 0u16)
            .to_socket_addrs()
            .map(|found| found.map(|a| a.ip()).collect())
            .unwrap_or_default()
    }

    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        value_of(self.table(table), name)
    }

    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        name_of(self.table(table), value)
    }

    fn local_offset(&self, at: Option<i64>) -> i64 {
        let at = at.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map(|d| d.as_secs() as i64).unwrap_or(0)
        });
        let mut local = std::mem::MaybeUninit::<libc::tm>::uninit();
        // SAFETY: both pointers are valid for the call; it writes a whole `tm` unless it returns
        // null.
        let found = unsafe { libc::localtime_r(&at, local.as_mut_ptr()) };
        if found.is_null() {
            return 0;
        }
        // SAFETY: the call above succeeded and has filled it.
        unsafe { local.assume_init() }.tm_gmtoff
    }

    fn cgroup_id(&self, path: &str) -> Result<u64, String> {
        match fs::metadata(Path::new(CGROUPS).join(path.trim_start_matches('/'))) {
            Ok(meta) => Ok(meta.ino()),
            Err(error) => Err(match error.kind() {
                std::io::ErrorKind::NotFound => "No such file or directory".into(),
                std::io::ErrorKind::PermissionDenied => "Permission denied".into(),
                _ => error.to_string(),
            }),
        }
    }

    fn cgroup_path(&self, id: u64) -> Option<String> {
        self.cgroups.get_or_init(read_cgroups).get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_and_its_index_are_known_to_each_other() {
        let names = SystemNames::default();
        if let Some(index) = names.interface_index("lo") {
            assert_eq!(names.interface_name(index).as_deref(), Some("lo"));
        }
        assert_eq!(names.interface_index("no-such-device"), None);
        assert_eq!(names.table_value("no-such-table", "x"), None);
    }
}
