// SPDX-License-Identifier: Apache-2.0

//! A web server of files, with tags.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use penstock_fleet::Digest;

/// Serves a directory; gives the port.
pub fn serve(directory: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let Some(first) = head.first() else { continue };
            let mut words = first.split(' ');
            let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
            let file = std::fs::read(directory.join(&path[1..]));
            let etag = file.as_ref().map(|bytes| format!("\"{}\"", Digest::of(bytes).short()));
            let known = |tag: &String| head.iter().any(|line| line.ends_with(tag.as_str()));
            let (status, body) = match (method, &file) {
                ("GET", Ok(_)) if etag.as_ref().is_ok_and(known) => ("304 Not Modified", &[][..]),
                ("GET", Ok(bytes)) => ("200 OK", bytes.as_slice()),
                ("GET", Err(_)) => ("404 Not Found", &[][..]),
                _ => ("405 Method Not Allowed", &[][..]),
            };
            let etag = etag.map(|tag| format!("etag: {tag}\r\n")).unwrap_or_default();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\n{etag}content-length: {length}\r\n\r\n"
            );
            let _ = (&stream).write_all(&[head.as_bytes(), body].concat());
        }
    });
    port
}
