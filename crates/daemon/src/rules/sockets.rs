// SPDX-License-Identifier: Apache-2.0

//! Rules that ask for the socket of a packet. What the host sends comes by a TAP, which carries
//! frames and not their sockets, and no socket is sought for what comes in: such rules match no
//! packet here.

use penstock_program::Image;

/// What is to be said of them, if there are any.
pub(super) fn notice(image: &Image) -> Option<String> {
    let mut asking = image.rules_about_sockets();
    let (family, table, chain, handle) = image.place(asking.next()?)?;
    let others = match asking.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "rule {} {table} {chain} handle {handle}{others} asks for the socket of a packet, which is \
         not known here: it matches nothing",
        family.name()
    ))
}
