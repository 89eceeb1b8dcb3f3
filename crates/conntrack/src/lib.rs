//! Connection tracking (`net/netfilter/nf_conntrack_*.c`): flows and their states.
//!
//! A [`Tuple`] names one direction of a flow. The clock is the time of the packets. This crate knows neither rules nor
//! devices.

pub mod tuple;

pub use tuple::{Direction, Tuple};
