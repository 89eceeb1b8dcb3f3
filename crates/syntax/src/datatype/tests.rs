// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::names::{Names, NoNames};

/// Two hours east of Greenwich, without names.
struct East;

impl Names for East {
    fn interface_index(&self, name: &str) -> Option<u32> {
        (name == "lo").then_some(1)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        (index == 1).then(|| "lo".into())
    }
    fn service_port(&self, name: &str, _: Option<&str>) -> Option<u16> {
        (name == "ssh").then_some(22)
    }
    fn service_name(&self, port: u16, _: Option<&str>) -> Option<String> {
        (port == 22).then(|| "ssh".into())
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        (name == "tcp").then_some(6)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        (number == 6).then(|| "tcp".into())
    }
    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        (table == "group" && name == "default").then_some(0)
    }
    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        (table == "group" && value == 0).then(|| "default".into())
    }
    fn local_offset(&self, _: Option<i64>) -> i64 {
        7200
    }
}

#[test]
fn datatype_numbers_equal_those_of_nft() {
    assert_eq!(DataType::Cgroupv2.id(), 46);
    assert_eq!(DataType::CtState.id(), 26);
    for (i, dtype) in DataType::ALL.into_iter().enumerate() {
        assert_eq!(dtype.id() as usize, i);
    }
    let concat = Type::Concat([DataType::IpAddr, DataType::InetService].into());
    assert_eq!(concat.id(), 7 << 6 | 13);
    assert_eq!(Type::from_id(concat.id()), Some(concat));
}

#[test]
fn values_are_listed_in_canonical_form() {
    use DataType::*;
    for (dtype, written, listed) in [
        (IpAddr, "1.2.3.4", "1.2.3.4"),
        (IpAddr, "1", "0.0.0.1"),
        (Ip6Addr, "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        (Ip6Addr, "::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        (Ip6Addr, "::1.2.3.4", "::1.2.3.4"),
        (Ip6Addr, "::1", "::1"),
        (EtherAddr, "0:11:22:33:44:5F", "00:11:22:33:44:5f"),
        (EtherType, "0x4d", "0x004d"),
        (EtherType, "vlan", "8021q"),
        (InetProtocol, "6", "tcp"),
        (InetService, "ssh", "22"),
        (Mark, "5", "0x00000005"),
        (Classid, "1:2", "1:2"),
        (Classid, "0x20003", "2:3"),
        (Classid, "root", "root"),
        (Classid, "foo", "none"),
        (Time, "3601", "1h1s"),
        (Time, "1h100ms", "1h100ms"),
        (Time, "90061", "1d1h1m1s"),
        (TimeDate, "12341234", "\"1970-05-23 22:07:14\""),
        (TimeDate, "2019-06-21 17:00", "\"2019-06-21 17:00:00\""),
        (TimeHour, "7260", "\"04:01\""),
        (TimeHour, "00:00:01", "\"00:00:01\""),
        (TimeDay, "6", "\"Saturday\""),
        (Dscp, "2", "0x02"),
        (Dscp, "be", "cs0"),
        (Ecn, "3", "ce"),
        (TcpFlag, "syn", "syn"),
        (TcpFlag, "0", "0x0"),
        (CtLabel, "5", "5"),
        (IfName, "eth0", "\"eth0\""),
        (IfIndex, "lo", "\"lo\""),
        (IfIndex, "77", "77"),
        (DevGroup, "0", "\"default\""),
        (Boolean, "1", "exists"),
        (ArpHrd, "77", "77"),
        (IcmpType, "echo-request", "echo-request"),
        (Icmp6Type, "mld-listener-reduction", "mld-listener-done"),
    ] {
        let constant = parse(dtype, written, &East).unwrap_or_else(|e| panic!("{written}: {e}"));
        let mut text = std::string::String::new();
        print(dtype, constant.value, constant.len, &Format::default(), &East, &mut text);
        assert_eq!(text, listed, "{dtype:?} {written}");
    }
}

#[test]
fn invalid_values_are_refused_with_the_messages_of_nft() {
    use DataType::*;
    for (dtype, written, error) in [
        (InetService, "99999", "Service out of range"),
        (InetService, "foo", "Could not resolve service: Servname not supported for ai_socktype"),
        (InetProtocol, "300", "Protocol out of range"),
        (InetProtocol, "foo", "Could not resolve protocol name"),
        (IfIndex, "foo", "Interface does not exist"),
        (CtState, "foo", "Could not parse conntrack state"),
        (Mark, "foo", "Could not parse packet mark"),
        (Integer, "foo", "Could not parse integer"),
        (Uid, "foo", "User does not exist"),
        (TimeDate, "foo", "Cannot parse date"),
        (TimeHour, "24:00", "wrong time format"),
        (TimeDay, "Satturday", "Could not parse Day of week of packet reception"),
        (Time, "2d3d", "wrong time format"),
        (CtLabel, "128", "128: bit 128 out of range (128 max)"),
        (CtLabel, "foo", "/etc/connlabel.conf: could not parse conntrack label \"foo\""),
        (IpAddr, "::1", "Could not resolve hostname: Address family for hostname not supported"),
        (IfName, "abcdefghijklmnop", "String exceeds maximum length of 16"),
        (Cgroupv2, "foo", "cgroupv2 path fails: No such file or directory"),
    ] {
        assert_eq!(parse(dtype, written, &East), Err(error.to_string()), "{written}");
    }
}

/// As the standard library writes them, which agrees with inet_ntop(3) outside of `::/96`.
#[test]
fn addresses_are_written_in_their_shortest_form() {
    let mut rng = fastrand::Rng::with_seed(11);
    let text = |dtype, value, len| {
        let mut out = String::new();
        print(dtype, value, len, &Format::default(), &NoNames, &mut out);
        out
    };
    for _ in 0..20_000 {
        let group =
            |r: &mut fastrand::Rng| [0, 0, 0, 1, 0xf, 0x10, 0xfff, 0x1000, r.u16(..)][r.usize(..9)];
        let groups: [u16; 8] = std::array::from_fn(|_| group(&mut rng));
        if groups[..6] != [0; 6] {
            let address = std::net::Ipv6Addr::from(groups);
            assert_eq!(text(DataType::Ip6Addr, address.into(), 128), address.to_string());
        }
        let word = rng.u32(..) >> rng.u32(..32);
        assert_eq!(
            text(DataType::IpAddr, word.into(), 32),
            std::net::Ipv4Addr::from(word).to_string()
        );
        assert_eq!(text(DataType::Integer, word.into(), 32), word.to_string());
    }
}
