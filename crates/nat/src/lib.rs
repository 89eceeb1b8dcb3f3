//! Network address translation (`net/netfilter/nf_nat_*.c`): which tuple a connection gets, and headers that follow it.
