// SPDX-License-Identifier: Apache-2.0

//! The listings of `penstock show`.
//!
//! A listing has its own file: its values, their text and their JSON, and its
//! [`About`]. The table below names all of them; command line, completion and messages are made
//! from it.

pub mod connections;
pub mod flows;
mod most;
pub mod nats;
pub mod own_side;
pub mod peer;
pub mod ports;
pub mod secure_peer;
pub mod stages;
pub mod state;
pub mod status;
pub mod sync;

/// How a listing is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// One line of JSON.
    Json,
    /// OpenMetrics; of the state only.
    Metrics,
    /// As the kernel's file under `/proc/net`; of connections only.
    Proc,
}

impl Form {
    /// In the order of their numbers in messages.
    pub const ALL: [Form; 4] = [Form::Text, Form::Json, Form::Metrics, Form::Proc];
}

/// What the command line says of a listing.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The operand of `penstock show`; empty for the state, which needs none.
    pub word: &'static str,
    /// What it lists, for the usage text.
    pub lists: &'static str,
    /// For how many milliseconds the dataplane counts for it unless `--time` is given; `None` if
    /// it does not count for a time.
    pub milliseconds: Option<u32>,
}

macro_rules! listings {
    ($($(#[$doc:meta])* $name:ident: $module:ident,)*) => {
        /// A listing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Listing {
            $($(#[$doc])* $name,)*
        }

        impl Listing {
            /// All, in the order of their numbers in messages.
            pub const ALL: &'static [Listing] = &[$(Listing::$name,)*];

            /// What the command line says of it.
            pub const fn about(self) -> &'static About {
                match self {
                    $(Listing::$name => &$module::ABOUT,)*
                }
            }
        }
    };
}

listings! {
    /// Ports, packets, drops.
    State: state,
    /// Connections.
    Connections: connections,
    /// Flows in flowtables.
    Flows: flows,
    /// Where processing time is spent.
    Stages: stages,
}

/// Words of the listings after the state, in their order.
pub const WORDS: [&str; Listing::ALL.len() - 1] = {
    let mut words = [""; Listing::ALL.len() - 1];
    let mut at = 0;
    while at < words.len() {
        words[at] = Listing::ALL[at + 1].about().word;
        at += 1;
    }
    words
};
