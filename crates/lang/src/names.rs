//! Names that the system knows: interfaces, services, users and the like.

use std::net::IpAddr;

/// Where names of constants come from. The program gives the system's or a network configuration's; tests a table.
pub trait Names {
    /// Index of an interface.
    fn interface_index(&self, name: &str) -> Option<u32>;
    /// Name of an interface.
    fn interface_name(&self, index: u32) -> Option<String>;
    /// Port (host order) of a service of `/etc/services`; `protocol` is `tcp`, `udp`, … or nothing.
    fn service_port(&self, name: &str, protocol: Option<&str>) -> Option<u16>;
    /// Service of a port (host order).
    fn service_name(&self, port: u16, protocol: Option<&str>) -> Option<String>;
    /// Number of a protocol of `/etc/protocols`.
    fn protocol_number(&self, name: &str) -> Option<u8>;
    /// Name of a protocol.
    fn protocol_name(&self, number: u8) -> Option<String>;
    /// User id.
    fn user_id(&self, name: &str) -> Option<u32>;
    /// User name.
    fn user_name(&self, id: u32) -> Option<String>;
    /// Group id.
    fn group_id(&self, name: &str) -> Option<u32>;
    /// Group name.
    fn group_name(&self, id: u32) -> Option<String>;
    /// Addresses of a host.
    fn host_addresses(&self, name: &str) -> Vec<IpAddr>;
    /// Name of an address, for listings with `--reversedns`.
    fn host_name(&self, _address: IpAddr) -> Option<String> {
        None
    }
    /// An entry of one of iproute2's tables (`rt_realms`, `group`, `rt_marks`), or the bit of a conntrack label
    /// (`connlabel.conf`).
    fn table_value(&self, table: &str, name: &str) -> Option<u32>;
    /// The name of a value in such a table.
    fn table_name(&self, table: &str, value: u32) -> Option<String>;
    /// Seconds east of UTC of the local time zone at a time (seconds since the epoch); `None` for now.
    fn local_offset(&self, _at: Option<i64>) -> i64 {
        0
    }
    /// Number of a control group by its path below `/sys/fs/cgroup`. The error text is the C library's.
    fn cgroup_id(&self, _path: &str) -> Result<u64, String> {
        Err("No such file or directory".into())
    }
    /// Path of a control group below `/sys/fs/cgroup`.
    fn cgroup_path(&self, _id: u64) -> Option<String> {
        None
    }
}

/// Knows nothing: numbers stay numbers.
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
    fn table_value(&self, _table: &str, _name: &str) -> Option<u32> {
        None
    }
    fn table_name(&self, _table: &str, _value: u32) -> Option<String> {
        None
    }
}
