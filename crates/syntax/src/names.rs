// SPDX-License-Identifier: Apache-2.0

//! Names that the system knows: interfaces, services, users and the like.

use std::net::IpAddr;

/// Where names of constants come from. The program gives the system's or a network configuration's;
/// tests a table.
pub trait Names {
    /// Names that are asked where this one has none.
    fn rest(&self) -> &dyn Names {
        &NoNames
    }
    /// Index of an interface.
    fn interface_index(&self, name: &str) -> Option<u32> {
        self.rest().interface_index(name)
    }
    /// Name of an interface.
    fn interface_name(&self, index: u32) -> Option<String> {
        self.rest().interface_name(index)
    }
    /// Port (host order) of a service of `/etc/services`; `protocol` is `tcp`, `udp`, … or nothing.
    fn service_port(&self, name: &str, protocol: Option<&str>) -> Option<u16> {
        self.rest().service_port(name, protocol)
    }
    /// Service of a port (host order).
    fn service_name(&self, port: u16, protocol: Option<&str>) -> Option<String> {
        self.rest().service_name(port, protocol)
    }
    /// Number of a protocol of `/etc/protocols`.
    fn protocol_number(&self, name: &str) -> Option<u8> {
        self.rest().protocol_number(name)
    }
    /// Name of a protocol.
    fn protocol_name(&self, number: u8) -> Option<String> {
        self.rest().protocol_name(number)
    }
    /// User id.
    fn user_id(&self, name: &str) -> Option<u32> {
        self.rest().user_id(name)
    }
    /// User name.
    fn user_name(&self, id: u32) -> Option<String> {
        self.rest().user_name(id)
    }
    /// Group id.
    fn group_id(&self, name: &str) -> Option<u32> {
        self.rest().group_id(name)
    }
    /// Group name.
    fn group_name(&self, id: u32) -> Option<String> {
        self.rest().group_name(id)
    }
    /// Addresses of a host.
    fn host_addresses(&self, name: &str) -> Vec<IpAddr> {
        self.rest().host_addresses(name)
    }
    /// Name of an address, for listings with `--reversedns`.
    fn host_name(&self, address: IpAddr) -> Option<String> {
        self.rest().host_name(address)
    }
    /// An entry of one of iproute2's tables (`rt_realms`, `group`, `rt_marks`), or the bit of a
    /// conntrack label (`connlabel.conf`).
    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        self.rest().table_value(table, name)
    }
    /// The name of a value in such a table.
    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        self.rest().table_name(table, value)
    }
    /// Seconds east of UTC of the local time zone at a time (seconds since the epoch); `None` for
    /// now.
    fn local_offset(&self, at: Option<i64>) -> i64 {
        self.rest().local_offset(at)
    }
    /// Number of a control group by its path below `/sys/fs/cgroup`. The error text is the C
    /// library's.
    fn cgroup_id(&self, path: &str) -> Result<u64, String> {
        self.rest().cgroup_id(path)
    }
    /// Path of a control group below `/sys/fs/cgroup`.
    fn cgroup_path(&self, id: u64) -> Option<String> {
        self.rest().cgroup_path(id)
    }
}

/// Knows nothing: numbers stay numbers. It answers everything itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn interface_index(&self, _name: &str) -> Option<u32> {
        None
    }
    fn interface_name(&self, _index: u32) -> Option<String> {
        None
    }
    fn service_port(&self, _name: &str, _protocol: Option<&str>) -> Option<u16> {
        None
    }
    fn service_name(&self, _port: u16, _protocol: Option<&str>) -> Option<String> {
        None
    }
    fn protocol_number(&self, _name: &str) -> Option<u8> {
        None
    }
    fn protocol_name(&self, _number: u8) -> Option<String> {
        None
    }
    fn user_id(&self, _name: &str) -> Option<u32> {
        None
    }
    fn user_name(&self, _id: u32) -> Option<String> {
        None
    }
    fn group_id(&self, _name: &str) -> Option<u32> {
        None
    }
    fn group_name(&self, _id: u32) -> Option<String> {
        None
    }
    fn host_addresses(&self, _name: &str) -> Vec<IpAddr> {
        Vec::new()
    }
    fn host_name(&self, _address: IpAddr) -> Option<String> {
        None
    }
    fn table_value(&self, _table: &str, _name: &str) -> Option<u32> {
        None
    }
    fn table_name(&self, _table: &str, _value: u32) -> Option<String> {
        None
    }
    fn local_offset(&self, _at: Option<i64>) -> i64 {
        0
    }
    fn cgroup_id(&self, _path: &str) -> Result<u64, String> {
        Err("No such file or directory".into())
    }
    fn cgroup_path(&self, _id: u64) -> Option<String> {
        None
    }
}
