// SPDX-License-Identifier: Apache-2.0

//! `log`: report the packet (`NFTA_LOG_*`, `net/netfilter/nft_log.c`).

use std::fmt;
use std::sync::Arc;

use super::{Expression, Use};
use crate::Family;
use crate::check::{self, Reason};
use crate::linking::{LinkReason, Linking};
use crate::op::Op;
use crate::operand::{LOG_IPOPT, LOG_MACDECODE, LOG_TCPOPT, LOG_TCPSEQ, LOG_UID, Log};

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("log")?;
        if let Some(prefix) = &self.prefix {
            write!(f, " prefix {prefix}")?;
        }
        if let Some(group) = self.group {
            let (snaplen, threshold) =
                (self.snaplen.unwrap_or(0), self.queue_threshold.unwrap_or(0));
            return write!(f, " group {group} snaplen {snaplen} qthreshold {threshold}");
        }
        if let Some(level) = self.level {
            write!(f, " level {level}")?;
        }
        let flags = self.flags.unwrap_or(0);
        for (bit, word) in [
            (LOG_TCPSEQ, " tcpseq"),
            (LOG_TCPOPT, " tcpopt"),
            (LOG_IPOPT, " ipopt"),
            (LOG_UID, " uid"),
            (LOG_MACDECODE, " macdecode"),
        ] {
            if flags & bit != 0 {
                f.write_str(word)?;
            }
        }
        Ok(())
    }
}

impl Expression for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn verify(&self) -> Result<(), Reason> {
        let both = self.group.is_some() && (self.level.is_some() || self.flags.is_some());
        check::refuse(both, Reason::Operand("a log has a level or a group"))?;
        let unknown = self.level.is_some_and(|level| level > 8);
        check::refuse(unknown, Reason::Operand("the log level is unknown"))?;
        check::refuse(self.prefix.as_ref().is_some_and(|p| p.len() > 127), Reason::TooLarge)
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Log(Arc::new(self.clone())))
    }
}
