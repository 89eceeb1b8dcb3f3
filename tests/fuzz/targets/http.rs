// SPDX-License-Identifier: Apache-2.0

//! Requests for metrics.

use penstock_daemon::requested_path;

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "http",
    bytes: "the head of an HTTP request for metrics",
    holds: "what is asked for is a part of the first line of a GET, without its query",
    longest: 1024,
    seeds: || {
        [
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /metrics?a=b HTTP/1.0\r\n\r\n",
            "POST / HTTP/1.0\r\n\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
    make: mutate::bytes,
    run,
};

fn run(data: &[u8]) {
    let Some(path) = requested_path(data) else { return };
    assert!(data.starts_with(b"GET ") || data.starts_with(b"HEAD "), "a request that does not get");
    assert!(!path.contains([' ', '?', '\r']), "{path}");
    let line = data.split(|b| *b == b'\r').next().unwrap_or_default();
    assert!(line.windows(path.len().max(1)).any(|w| w == path.as_bytes()) || path.is_empty(), "{path}");
}
