// SPDX-License-Identifier: Apache-2.0

//! Answers to DHCP clients of the host. A client without an address listens on a packet socket,
//! which in the kernel sees frames before any rule, and the address that they are sent to is not
//! assigned yet: so they go to the host whatever their fate in the dataplane.

use penstock_packet::gso::Headers;
use penstock_wire::protocol;

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// `op` of an answer, and where the client's link address is (RFC 2131, section 2).
const REPLY: u8 = 2;
const CLIENT_MAC: usize = 28;

/// For how many nanoseconds answers to a question are watched for.
pub(crate) const WATCHED: u64 = 60_000_000_000;

/// The message in a frame from one port to another.
fn message(frame: &[u8], from: u16, to: u16) -> Option<&[u8]> {
    let headers = Headers::of_frame(frame).filter(|h| !h.v6 && h.protocol == protocol::UDP)?;
    let ports = frame.get(headers.transport..)?.first_chunk::<4>()?;
    let [from, to] = [from.to_be_bytes(), to.to_be_bytes()];
    (ports[..2] == from && ports[2..] == to).then(|| frame.get(headers.payload..headers.end))?
}

/// Whether a frame of the host is from a DHCP client.
pub(crate) fn is_question(frame: &[u8]) -> bool {
    message(frame, CLIENT, SERVER).is_some()
}

/// Whether a frame is an answer to the client with this link address.
pub(crate) fn is_answer(frame: &[u8], client: [u8; 6]) -> bool {
    message(frame, SERVER, CLIENT).is_some_and(|message| {
        message.first() == Some(&REPLY) && message.get(CLIENT_MAC..CLIENT_MAC + 6) == Some(&client)
    })
}

#[cfg(test)]
mod tests {
    use penstock_testkit::build::*;

    use super::*;

    #[test]
    fn a_dhcp_reply_is_identified_by_its_client_address() {
        let frame = |from: u16, to: u16, op: u8, mac: [u8; 6]| {
            let mut message = vec![0; 240];
            message[0] = op;
            message[28..34].copy_from_slice(&mac);
            (Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
                / Ipv4::new("198.18.0.1", "198.18.0.100")
                / Udp::new(from, to)
                / payload(message))
            .build()
        };
        let (ours, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);
        for (from, to, op, mac, question, answer) in [
            (67, 68, 2, ours, false, true),
            (67, 68, 2, other, false, false),
            (67, 68, 1, ours, false, false),
            (68, 67, 1, ours, true, false),
            (67, 67, 1, ours, false, false),
        ] {
            let bytes = frame(from, to, op, mac);
            assert_eq!(
                (is_question(&bytes), is_answer(&bytes, ours)),
                (question, answer),
                "{from} {to} {op}"
            );
            for len in 0..bytes.len() {
                assert!(!is_answer(&bytes[..len], ours) || len > 60, "{len}");
            }
        }
    }
}
