// SPDX-License-Identifier: Apache-2.0

//! Addresses: `bind(2)`, `connect(2)`, `getsockname(2)`, `getpeername(2)`.

use super::Trapped;
use crate::address::Address;
use crate::context::Result;

/// `netlink_bind()`
pub(super) fn bind(this: &mut Trapped<'_>) -> Result {
    let call = this.call;
    let address = Address::read(&mut this.task, call.arguments[1], call.int(2))?;
    let port = this.context.socket(this.inode, |socket| socket.port)?;
    if port != 0 {
        if address.port != port {
            return Err(libc::EINVAL);
        }
    } else if address.port != 0 {
        this.context.sockets().bind(this.inode, address.port)?;
    } else {
        this.bind_if_unbound()?;
    }
    this.context.sockets().set_groups(this.inode, address.groups)?;
    Ok(0.into())
}

/// `netlink_connect()`
pub(super) fn connect(this: &mut Trapped<'_>) -> Result {
    let call = this.call;
    let (at, len) = (call.arguments[1], call.int(2));
    let mut family = [0; 2];
    if len < family.len() as i32 {
        return Err(libc::EINVAL);
    }
    this.task.read(at, &mut family)?;
    let mut peer = Address::default();
    if u16::from_ne_bytes(family) != libc::AF_UNSPEC as u16 {
        peer = Address::read(&mut this.task, at, len)?;
        this.bind_if_unbound()?;
    }
    this.context.socket(this.inode, |socket| socket.peer = peer)?;
    Ok(0.into())
}

/// `netlink_getname()`
pub(super) fn getsockname(this: &mut Trapped<'_>) -> Result {
    let own = this
        .context
        .socket(this.inode, |socket| Address { port: socket.port, groups: socket.groups })?;
    own.write_with_len(&mut this.task, this.call.arguments[1], this.call.arguments[2])?;
    Ok(0.into())
}

/// `netlink_getname()`
pub(super) fn getpeername(this: &mut Trapped<'_>) -> Result {
    let peer = this.context.socket(this.inode, |socket| socket.peer)?;
    peer.write_with_len(&mut this.task, this.call.arguments[1], this.call.arguments[2])?;
    Ok(0.into())
}
