// SPDX-License-Identifier: Apache-2.0

//! Structures of the running kernel that programs at netfilter hooks read, and its functions that
//! they call.

use std::sync::OnceLock;

use penstock_bpf::{Field, Types};

use super::ct_field::CtField;

/// Offsets in the running kernel, and numbers of its functions.
#[derive(Debug)]
pub(super) struct Kernel {
    /// `bpf_rdonly_cast`: makes any address readable; where nothing is, zeros are read.
    pub(super) cast: u32,
    /// `bpf_dynptr_from_skb`
    pub(super) dynptr: u32,
    /// `bpf_dynptr_from_xdp`, `bpf_dynptr_copy`: for records with bytes of packets (Linux 6.16).
    pub(super) xdp_dynptr: Option<u32>,
    pub(super) dynptr_copy: Option<u32>,
    /// `bpf_cast_to_kern_ctx`: `struct sk_buff` of a program at tcx.
    pub(super) of_context: u32,
    /// `struct sk_buff`
    pub(super) skb: SkBuff,
    /// `struct nf_hook_state`
    pub(super) state_in: i16,
    pub(super) state_out: i16,
    /// `struct net_device`
    pub(super) device: NetDevice,
    /// From `struct sk_buff` to who owns its socket.
    pub(super) owner: Option<Owner>,
    /// `struct sock`: the device that its last packet came from.
    pub(super) socket_device: Option<i16>,
    /// `struct nf_conn`; `None` where the kernel cannot track connections.
    pub(super) conn: Option<Conn>,
    /// From a packet to its route.
    pub(super) route: Option<RoutePath>,
    /// How programs of devices find connections; `None` where the kernel has no functions for it,
    /// or they are those of a module.
    pub(super) lookup: Option<ConnLookup>,
    /// From a packet at a device to its network namespace; `None` where the kernel has none.
    pub(super) net: Option<NetPath>,
    /// What answers of `reject` are made of; `None` where the kernel has no IPv6.
    pub(super) answers: Option<Answers>,
    /// Bridges and their ports; `None` where the kernel has none.
    pub(super) bridge: Option<BridgePath>,
}

/// Offsets in `struct sk_buff`.
#[derive(Debug)]
pub(super) struct SkBuff {
    pub(super) len: i16,
    pub(super) data_len: i16,
    pub(super) data: i16,
    pub(super) head: i16,
    pub(super) network_header: i16,
    pub(super) mac_header: i16,
    pub(super) protocol: i16,
    pub(super) mark: i16,
    pub(super) priority: i16,
    pub(super) dev: i16,
    pub(super) pkt_type: Field,
    pub(super) iif: i16,
    pub(super) vlan_protocol: i16,
    pub(super) vlan_tci: i16,
    pub(super) nfct: Option<i16>,
}

/// Offsets on the way to the owner of a socket.
#[derive(Debug)]
pub(super) struct Owner {
    /// `struct sk_buff`
    pub(super) sock: i16,
    /// `struct sock`
    pub(super) state: i16,
    pub(super) socket: i16,
    /// `struct socket`
    pub(super) file: i16,
    /// `struct file`
    pub(super) cred: i16,
    /// `struct cred`
    pub(super) uid: i16,
    pub(super) gid: i16,
}

/// Offsets in `struct net_device`, and in the `struct rtnl_link_ops` that it points to.
#[derive(Debug)]
pub(super) struct NetDevice {
    pub(super) ifindex: i16,
    pub(super) name: i16,
    pub(super) kind: i16,
    pub(super) group: i16,
    pub(super) link_ops: i16,
    pub(super) link_ops_kind: i16,
}

/// Offsets in `struct nf_conn`.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) status: i16,
    /// `None` where the kernel has no marks of connections.
    pub(super) mark: Option<i16>,
    /// `None` where the kernel has no zones.
    pub(super) zone: Option<i16>,
    /// Of the tuple of each direction.
    pub(super) tuples: [i16; 2],
    /// In a tuple.
    pub(super) src: i16,
    pub(super) src_port: i16,
    pub(super) l3num: i16,
    pub(super) dst: i16,
    pub(super) dst_port: i16,
    pub(super) protonum: i16,
}

/// Offsets on the way to the route of a packet.
#[derive(Debug)]
pub(super) struct RoutePath {
    /// `struct sk_buff`: a pointer, with flags in its low bits.
    pub(super) dst: i16,
    /// `struct dst_entry`: `None` where the kernel has none.
    pub(super) classid: Option<i16>,
    pub(super) xfrm: Option<i16>,
    /// `struct rtable`: a family of one byte, and an address of IPv4.
    pub(super) gateway_family: i16,
    pub(super) gateway: i16,
    /// `None` where the kernel has no IPv6.
    pub(super) v6: Option<Route6>,
}

/// Offsets in `struct rt6_info`.
#[derive(Debug)]
pub(super) struct Route6 {
    pub(super) flags: i16,
    pub(super) gateway: i16,
    /// The destination.
    pub(super) dst: i16,
}

/// Functions that look a connection up, and what is needed to tell what its packet is to it.
#[derive(Debug)]
pub(super) struct ConnLookup {
    /// `bpf_xdp_ct_lookup`, `bpf_skb_ct_lookup`, `bpf_ct_release`
    pub(super) xdp: u32,
    pub(super) skb: u32,
    pub(super) release: u32,
    /// `struct net`: whether a connection may begin in its middle.
    pub(super) net_loose: i16,
    /// `struct ip_ct_tcp` in `struct nf_conn`: state, last packet, and flags of both sides.
    pub(super) state: i16,
    pub(super) last_dir: i16,
    pub(super) last_index: i16,
    pub(super) flags: [i16; 2],
}

/// Offsets on the way from a packet at a device to its network namespace.
#[derive(Debug)]
pub(super) struct NetPath {
    /// `struct xdp_buff`
    pub(super) rxq: i16,
    /// `struct xdp_rxq_info`
    pub(super) rxq_dev: i16,
    /// `struct net_device`
    pub(super) dev_net: i16,
}

/// Offsets on the way from a device to the bridge that it is a port of.
#[derive(Debug)]
pub(super) struct BridgePath {
    /// `struct net_device`: a pointer to the port.
    pub(super) port: i16,
    /// `struct net_bridge_port`: its state, one byte; groups that are forwarded, two bytes; the
    /// bridge.
    pub(super) port_state: i16,
    pub(super) port_groups: i16,
    pub(super) bridge: i16,
    /// `struct net_bridge`: groups that are forwarded, two fields of two bytes; whether there is a
    /// spanning tree.
    pub(super) groups: [i16; 2],
    pub(super) spanning_tree: i16,
}

/// Offsets for answers of `reject`.
#[derive(Debug)]
pub(super) struct Answers {
    /// `struct net`: the TTL of IPv4, one byte; a pointer to `struct ipv6_devconf`.
    pub(super) ttl: i16,
    pub(super) devconf: i16,
    /// `struct ipv6_devconf`
    pub(super) hop_limit: i16,
    /// `struct sk_buff`: what is known of the checksum (`CHECKSUM_*`), and which is unfinished.
    pub(super) ip_summed: Field,
    pub(super) csum_start: i16,
    pub(super) csum_offset: i16,
    /// The unfinished one is a CRC; it is in an inner packet.
    pub(super) csum_not_inet: Option<Field>,
    pub(super) encapsulation: Field,
}

/// Reads the type information of the running kernel, which programs at netfilter hooks need: before
/// the process gives up the right to read files.
///
/// # Errors
/// A sentence: the kernel has none, or lacks what programs call.
pub fn learn_kernel() -> Result<(), String> {
    Kernel::running().map(drop)
}

impl Kernel {
    /// The running kernel, looked at once. The error is why it has no such programs.
    pub(super) fn running() -> Result<&'static Kernel, String> {
        static KERNEL: OnceLock<Result<Kernel, String>> = OnceLock::new();
        KERNEL.get_or_init(Kernel::look).as_ref().map_err(Clone::clone)
    }

    fn look() -> Result<Kernel, String> {
        let types = Types::of_kernel().map_err(|e| format!("types of the running kernel: {e}"))?;
        let function = |name: &str| {
            types.function(name).ok_or_else(|| format!("the running kernel has no {name}()"))
        };
        let field = |structure: &str, path: &str| {
            let found = types.field(structure, path);
            found.ok_or_else(|| format!("{structure}.{path} is not in the running kernel"))
        };
        let at = |structure: &str, path: &str| Ok::<_, String>(place(field(structure, path)?));
        let skb = |path: &str| at("sk_buff", path);
        let skb = SkBuff {
            len: skb("len")?,
            data_len: skb("data_len")?,
            data: skb("data")?,
            head: skb("head")?,
            network_header: skb("network_header")?,
            mac_header: skb("mac_header")?,
            protocol: skb("protocol")?,
            mark: skb("mark")?,
            priority: skb("priority")?,
            dev: skb("dev")?,
            pkt_type: field("sk_buff", "pkt_type")?,
            iif: skb("skb_iif")?,
            vlan_protocol: skb("vlan_proto")?,
            vlan_tci: skb("vlan_tci")?,
            nfct: skb("_nfct").ok(),
        };
        let device = NetDevice {
            ifindex: at("net_device", "ifindex")?,
            name: at("net_device", "name")?,
            kind: at("net_device", "type")?,
            group: at("net_device", "group")?,
            link_ops: at("net_device", "rtnl_link_ops")?,
            link_ops_kind: at("rtnl_link_ops", "kind")?,
        };
        let owner = || {
            Ok::<_, String>(Owner {
                sock: at("sk_buff", "sk")?,
                state: at("sock", "__sk_common.skc_state")?,
                socket: at("sock", "sk_socket")?,
                file: at("socket", "file")?,
                cred: at("file", "f_cred")?,
                uid: at("cred", "fsuid")?,
                gid: at("cred", "fsgid")?,
            })
        };
        Ok(Kernel {
            cast: function("bpf_rdonly_cast")?,
            dynptr: function("bpf_dynptr_from_skb")?,
            xdp_dynptr: types.function("bpf_dynptr_from_xdp"),
            dynptr_copy: types.function("bpf_dynptr_copy"),
            owner: owner().ok(),
            socket_device: at("sock", "sk_rx_dst_ifindex").ok(),
            of_context: function("bpf_cast_to_kern_ctx")?,
            skb,
            state_in: at("nf_hook_state", "in")?,
            state_out: at("nf_hook_state", "out")?,
            device,
            route: RoutePath::in_types(&types),
            lookup: ConnLookup::in_types(&types),
            net: NetPath::in_types(&types),
            answers: Answers::in_types(&types),
            // It may be a module.
            bridge: BridgePath::in_types(&types).or_else(|| {
                let of_module = Types::of_kernel().ok()?.of_module("bridge").ok()?;
                BridgePath::in_types(&of_module)
            }),
            // It may be a module.
            conn: Conn::in_types(&types)
                .or_else(|| Conn::in_types(&types.of_module("nf_conntrack").ok()?)),
        })
    }
}

/// Whole structures are smaller than 32 KiB.
fn place(field: Field) -> i16 {
    field.offset as i16
}

impl Conn {
    /// Where a field of the connection is; `None` if the kernel has none, or where it depends on the
    /// packet.
    pub(super) fn place_of(&self, field: CtField) -> Option<i16> {
        let [original, reply] = self.tuples;
        let tuple = |of_reply| if of_reply { reply } else { original };
        match field {
            CtField::State | CtField::Direction => None,
            CtField::Status => Some(self.status),
            CtField::Mark => self.mark,
            CtField::Zone => self.zone,
            CtField::L3Protocol => Some(original + self.l3num),
            CtField::Protocol => Some(original + self.protonum),
            CtField::Address { source: true, reply, .. } => Some(tuple(reply) + self.src),
            CtField::Address { source: false, reply, .. } => Some(tuple(reply) + self.dst),
            CtField::Port { source: true, reply } => Some(tuple(reply) + self.src_port),
            CtField::Port { source: false, reply } => Some(tuple(reply) + self.dst_port),
        }
    }

    fn in_types(types: &Types) -> Option<Conn> {
        let at = |structure: &str, path: &str| types.field(structure, path).map(place);
        let tuple = |path: &str| at("nf_conntrack_tuple", path);
        let first =
            at("nf_conn", "tuplehash")?.checked_add(at("nf_conntrack_tuple_hash", "tuple")?)?;
        let step = i16::try_from(types.size("nf_conntrack_tuple_hash")?).ok()?;
        Some(Conn {
            status: at("nf_conn", "status")?,
            mark: at("nf_conn", "mark"),
            zone: at("nf_conn", "zone.id"),
            tuples: [first, first.checked_add(step)?],
            src: tuple("src.u3")?,
            src_port: tuple("src.u")?,
            l3num: tuple("src.l3num")?,
            dst: tuple("dst.u3")?,
            dst_port: tuple("dst.u")?,
            protonum: tuple("dst.protonum")?,
        })
    }
}

impl RoutePath {
    fn in_types(types: &Types) -> Option<RoutePath> {
        let at = |structure: &str, path: &str| types.field(structure, path).map(place);
        let v6 = || {
            Some(Route6 {
                flags: at("rt6_info", "rt6i_flags")?,
                gateway: at("rt6_info", "rt6i_gateway")?,
                dst: at("rt6_info", "rt6i_dst.addr")?,
            })
        };
        Some(RoutePath {
            dst: at("sk_buff", "_skb_refdst")?,
            classid: at("dst_entry", "tclassid"),
            xfrm: at("dst_entry", "xfrm"),
            gateway_family: at("rtable", "rt_gw_family")?,
            gateway: at("rtable", "rt_gw4")?,
            v6: v6(),
        })
    }
}

impl ConnLookup {
    fn in_types(types: &Types) -> Option<ConnLookup> {
        let at = |structure: &str, path: &str| types.field(structure, path).map(place);
        let seen = at("nf_conn", "proto.tcp.seen")?.checked_add(at("ip_ct_tcp_state", "flags")?)?;
        let step = i16::try_from(types.size("ip_ct_tcp_state")?).ok()?;
        Some(ConnLookup {
            xdp: types.function("bpf_xdp_ct_lookup")?,
            skb: types.function("bpf_skb_ct_lookup")?,
            release: types.function("bpf_ct_release")?,
            net_loose: at("net", "ct.nf_ct_proto.tcp.tcp_loose")?,
            state: at("nf_conn", "proto.tcp.state")?,
            last_dir: at("nf_conn", "proto.tcp.last_dir")?,
            last_index: at("nf_conn", "proto.tcp.last_index")?,
            flags: [seen, seen.checked_add(step)?],
        })
    }
}

impl NetPath {
    fn in_types(types: &Types) -> Option<NetPath> {
        let at = |structure: &str, path: &str| types.field(structure, path).map(place);
        Some(NetPath {
            rxq: at("xdp_buff", "rxq")?,
            rxq_dev: at("xdp_rxq_info", "dev")?,
            dev_net: at("net_device", "nd_net.net")?,
        })
    }
}

impl BridgePath {
    fn in_types(types: &Types) -> Option<BridgePath> {
        let port = |path: &str| types.field("net_bridge_port", path).map(place);
        let bridge = |path: &str| types.field("net_bridge", path).map(place);
        Some(BridgePath {
            port: types.field("net_device", "rx_handler_data").map(place)?,
            port_state: port("state")?,
            port_groups: port("group_fwd_mask")?,
            bridge: port("br")?,
            groups: [bridge("group_fwd_mask")?, bridge("group_fwd_mask_required")?],
            spanning_tree: bridge("stp_enabled")?,
        })
    }
}

impl Answers {
    fn in_types(types: &Types) -> Option<Answers> {
        let at = |structure: &str, path: &str| types.field(structure, path).map(place);
        Some(Answers {
            ttl: at("net", "ipv4.sysctl_ip_default_ttl")?,
            devconf: at("net", "ipv6.devconf_all")?,
            hop_limit: at("ipv6_devconf", "hop_limit")?,
            ip_summed: types.field("sk_buff", "ip_summed")?,
            csum_start: at("sk_buff", "csum_start")?,
            csum_offset: at("sk_buff", "csum_offset")?,
            csum_not_inet: types.field("sk_buff", "csum_not_inet"),
            encapsulation: types.field("sk_buff", "encapsulation")?,
        })
    }
}
