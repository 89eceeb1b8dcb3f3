// SPDX-License-Identifier: Apache-2.0

//! IPsec as Linux has it (`net/xfrm/`, `net/ipv4/esp4.c`): states, policies, templates, and the ESP
//! transform.
//!
//! - [`Config`] is what `ip xfrm` lines say, with the kernel's refusals; [`Xfrm`] is what packets
//!   meet: the same with keys expanded, numbers counting and lifetimes running.
//! - A packet asks [`Xfrm::output`] by its [`Flow`] which states its policy wants it to go through;
//!   [`Xfrm::seal`] carries one of them out on the bytes of the packet.
//! - A packet that came in names its state by address and SPI ([`Xfrm::find`]); [`Xfrm::open`]
//!   takes it out of ESP; whether what it went through is what policy wants is [`Xfrm::check`]'s to
//!   say.
//!
//! This crate knows bytes. It knows no rules, no devices and no routes, and the clock is an
//! argument: nanoseconds since the epoch. What ends a packet is named as in `/proc/net/xfrm_stat`
//! ([`Stat`]).
//!
//! RFC 4301 (architecture), 4303 (ESP), 4304 (extended sequence numbers), 4106 (AES-GCM), 7634
//! (ChaCha20-Poly1305), 3602 (AES-CBC), 4868 (HMAC-SHA-2), 3948 (UDP encapsulation).
//!
//! ```
//! use penstock_xfrm::{Aead, Encapsulated, Encryption, classify};
//!
//! // Algorithms have the names that `ip xfrm` has, and refuse keys of another length.
//! assert!(Aead::new("rfc4106(gcm(aes))", &[7; 20], 128).is_ok());
//! assert!(Encryption::new("cbc(aes)", &[7; 5]).is_err());
//! // What comes to a port for ESP in UDP.
//! assert_eq!(classify(&[0xff]), Encapsulated::KeepAlive);
//! assert_eq!(classify(&[0, 0, 0, 1, 0, 0, 0, 9, 0]), Encapsulated::Esp);
//! ```

mod algorithm;
mod config;
mod crypto;
mod esp;
mod flow;
mod lifetime;
mod policy;
mod replay;
mod salt;
mod secpath;
mod stat;
mod state;
mod states;
mod tunnel;
mod udp;
mod xfrm;

pub use algorithm::{Aead, AlgorithmError, Algorithms, Authentication, Encryption};
pub use config::{
    Action, Config, DEPTH, Direction, Encapsulation, Level, Mark, Mode, Policy, Selector,
    StateConfig, StateFlags, Template,
};
pub use esp::{Opened, Room};
pub use flow::Flow;
pub use lifetime::{Limits, Usage};
pub use salt::random_salt;
pub use secpath::SecPath;
pub use stat::Stat;
pub use state::{State, StateStats};
pub use states::StateId;
pub use tunnel::Outer;
pub use udp::{Encapsulated, checksum_ok, classify};
pub use xfrm::{Bundle, Xfrm};
