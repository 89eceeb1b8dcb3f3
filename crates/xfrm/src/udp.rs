// SPDX-License-Identifier: Apache-2.0

//! ESP within UDP (RFC 3948): what a datagram to such a port is (`xfrm4_udp_encap_rcv()`).

/// What a datagram holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulated {
    /// One byte 0xff that keeps a mapping alive; it is discarded.
    KeepAlive,
    /// ESP, which begins with an SPI that is not zero.
    Esp,
    /// After a marker of four zero bytes, or too short for ESP: for the key daemon.
    Other,
}

/// Tells by what follows the UDP header.
pub fn classify(payload: &[u8]) -> Encapsulated {
    match payload {
        [0xff] => Encapsulated::KeepAlive,
        [a, b, c, d, _, _, _, _, _, ..] if [*a, *b, *c, *d] != [0; 4] => Encapsulated::Esp,
        _ => Encapsulated::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalives_esp_and_the_rest_are_told_apart() {
        for (payload, what) in [
            (&[0xff][..], Encapsulated::KeepAlive),
            (&[0xfe], Encapsulated::Other),
            (&[], Encapsulated::Other),
            (&[0xff; 8], Encapsulated::Other),
            (&[0xff; 9], Encapsulated::Esp),
            (&[0, 0, 0, 0, 1, 2, 3, 4, 5], Encapsulated::Other),
            (&[0, 0, 0, 1, 1, 2, 3, 4, 5], Encapsulated::Esp),
        ] {
            assert_eq!(classify(payload), what, "{payload:?}");
        }
    }
}
