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
    /// An entry of one of iproute2's tables (`rt_realms`, `group`, `rt_marks`) or of `nftables/osf`, `connlabel.conf`.
    fn table_value(&self, table: &str, name: &str) -> Option<u32>;
    /// The name of a value in such a table.
    fn table_name(&self, table: &str, value: u32) -> Option<String>;
}
