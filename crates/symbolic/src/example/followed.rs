// SPDX-License-Identifier: Apache-2.0

//! How frames of an example go on the link layer, for those who send them.

/// How a frame goes between the wire and a device of its way, as links of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The device by which the frame arrives, the lowest one.
    pub arrival: Option<u32>,
    /// Protocol and control information of the tags that it arrives with, the outermost first.
    pub arrival_tags: Vec<(u16, u16)>,
    /// The device by which the frame leaves, the lowest one.
    pub leaving: Option<u32>,
    /// Protocol and control information of the tags that it leaves with, the outermost first.
    pub leaving_tags: Vec<(u16, u16)>,
    /// The bridge that hands it up, or sends it on.
    pub bridge: Option<u32>,
    /// The port of that bridge by which it arrives.
    pub from: Option<u32>,
    /// The port of that bridge by which it leaves.
    pub to: Option<u32>,
}
