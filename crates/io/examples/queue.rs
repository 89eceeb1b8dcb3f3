// SPDX-License-Identifier: Apache-2.0

//! A listener to a queue, as small as it can be: accepts packets with some text in them and drops
//! all others.
//!
//! ```text
//! cargo run -p penstock-io --example queue -- /run/q.sock GET &
//! penstock run --queue 0=/run/q.sock …
//! ```

use std::os::unix::net::UnixListener;

use penstock_io::queue::{Answer, Message, Open, Verdict, read, write};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(socket), Some(text)) = (args.next(), args.next()) else {
        eprintln!("Usage: queue SOCKET TEXT");
        std::process::exit(2);
    };
    let listener = UnixListener::bind(&socket)?;
    let (mut stream, _) = listener.accept()?;
    std::fs::remove_file(&socket)?;
    let mut buffer = Vec::new();
    write(&mut stream, &Message::Open(Open::default()), &mut buffer)?;
    while let Some(message) = read(&mut stream, &mut buffer)? {
        let Message::Packet(packet) = message else { break };
        let found = packet.payload.windows(text.len().max(1)).any(|w| w == text.as_bytes());
        let verdict = if found { Verdict::Accept } else { Verdict::Drop };
        eprintln!("{} > {}: {} bytes: {verdict:?}", packet.input.1, packet.output.1, packet.len);
        write(&mut stream, &Message::Answer(Answer::new(packet.id, verdict)), &mut buffer)?;
    }
    Ok(())
}
