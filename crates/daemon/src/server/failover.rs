// SPDX-License-Identifier: Apache-2.0

//! `penstock failover`.

use std::io;

use penstock_lang::session::NOT_PERMITTED;
use penstock_print::json;
use penstock_print::show::sync::SyncStatus;

use super::Server;
use crate::control::protocol::Message;
use crate::control::{Client, Rights};
use crate::failover::Transition;

/// What those are told who ask for a peer that there is not.
const NO_PEER: &str = "there is no peer: the dataplane was started without --sync";

impl Server {
    /// How the exchange with the peer is, if there is one.
    pub(super) fn peer_status(&self) -> Option<SyncStatus> {
        self.failover().as_ref()?.status()
    }

    /// Does what the words of a client ask for: a transition; or `status`, and `json` for JSON.
    /// Returns the exit status.
    pub(super) fn failover_call(
        &self,
        client: &Client,
        words: &[String],
        rights: Rights,
    ) -> io::Result<u8> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let failover = self.failover();
        let Some(failover) = failover.as_ref() else {
            client.say(&Message::Err(format!("Error: {NO_PEER}\n")))?;
            return Ok(1);
        };
        let said = match *words.as_slice() {
            ["status"] => failover.status().map(|status| status.to_string()),
            ["status", "json"] => failover.status().map(|status| json::line(&status)),
            [word] => {
                let transition = Transition::of(word).ok_or(io::ErrorKind::InvalidData)?;
                if rights == Rights::Look {
                    client.say(&Message::Err(format!("Error: {NOT_PERMITTED}\n")))?;
                    return Ok(1);
                }
                match failover.transition(transition) {
                    Ok(sentence) => Some(sentence + "\n"),
                    Err(e) => {
                        client.say(&Message::Err(format!("Error: {e}\n")))?;
                        return Ok(1);
                    }
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        match said {
            Some(text) => {
                client.say(&Message::Out(text))?;
                Ok(0)
            }
            None => {
                let sentence = "the exchange with the peer does not answer";
                client.say(&Message::Err(format!("Error: {sentence}\n")))?;
                Ok(1)
            }
        }
    }
}
