// SPDX-License-Identifier: Apache-2.0

//! A service for tests: it answers `NFT_MSG_GETGEN` as the kernel does, sends a notification to
//! group 1 for each message of type 0x0aff, answers as many datagrams as a message of type 0x0afe
//! asks for, and refuses everything else.

use std::collections::HashMap;

use penstock_launcher::{Answers, Notification, Request, Service, SocketId};

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN`, and its answer.
const GETGEN: u16 = 0x0a10;
const NEWGEN: u16 = 0x0a0f;
/// Messages of the test.
const TELL: u16 = 0x0aff;
const MANY: u16 = 0x0afe;

/// See above.
#[derive(Default)]
pub struct Canned {
    ports: HashMap<SocketId, u32>,
    requests: u32,
}

fn message(kind: u16, sequence: u32, port: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((16 + payload.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(port.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

fn attribute(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + data.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

impl Service for Canned {
    fn open(&mut self, socket: SocketId, _: bool) {
        self.ports.insert(socket, 0);
    }

    fn bind(&mut self, socket: SocketId, port: u32) {
        self.ports.insert(socket, port);
    }

    fn set_option(&mut self, _: SocketId, _: i32, _: bool) {}

    fn receives_into(&mut self, _: SocketId, _: usize) {}

    fn receive(&mut self, socket: SocketId, request: &Request<'_>) -> Answers {
        let from = request.sender;
        let port = self.ports[&socket];
        let mut answers = Answers::default();
        let mut rest = request.datagram;
        while let Some((header, _)) = rest.split_at_checked(16) {
            let len = u32::from_ne_bytes(header[..4].try_into().unwrap()) as usize;
            let kind = u16::from_ne_bytes(header[4..6].try_into().unwrap());
            let sequence = u32::from_ne_bytes(header[8..12].try_into().unwrap());
            let Some((own, after)) = rest.split_at_checked(len.max(16)) else { break };
            self.requests += 1;
            match kind {
                GETGEN => {
                    let mut payload = vec![0, 0, 0, self.requests as u8];
                    payload.extend(attribute(1, &self.requests.to_be_bytes()));
                    payload.extend(attribute(2, &from.thread.to_be_bytes()));
                    payload.extend(attribute(3, format!("{}\0", from.name).as_bytes()));
                    answers.datagrams.push(message(NEWGEN, sequence, port, &payload));
                }
                TELL => answers
                    .notifications
                    .push(Notification { group: 1, datagram: message(TELL, sequence, 0, &[]) }),
                MANY => {
                    let many = u32::from_ne_bytes(own[16..20].try_into().unwrap());
                    for number in 0..many {
                        let mut payload = number.to_ne_bytes().to_vec();
                        payload.resize(8192, 7);
                        answers.datagrams.push(message(MANY, sequence, port, &payload));
                    }
                }
                _ => {
                    let mut payload = (-libc::EOPNOTSUPP).to_ne_bytes().to_vec();
                    payload.extend(own);
                    answers.datagrams.push(message(2, sequence, port, &payload));
                }
            }
            rest = after;
        }
        answers
    }

    fn close(&mut self, socket: SocketId) -> Answers {
        self.ports.remove(&socket);
        let notifications = vec![Notification { group: 2, datagram: message(TELL, 0, 0, &[]) }];
        Answers { notifications, ..Answers::default() }
    }
}
