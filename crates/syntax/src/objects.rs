// SPDX-License-Identifier: Apache-2.0

//! Types of stateful objects by name.

use penstock_program::expr::ObjectType;

/// The word for a type of object.
pub fn name(kind: ObjectType) -> &'static str {
    match kind {
        ObjectType::Counter => "counter",
        ObjectType::Quota => "quota",
        ObjectType::CtHelper => "ct helper",
        ObjectType::Limit => "limit",
        ObjectType::Connlimit => "ct count",
        ObjectType::Tunnel => "tunnel",
        ObjectType::CtTimeout => "ct timeout",
        ObjectType::SecMark => "secmark",
        ObjectType::CtExpect => "ct expectation",
        ObjectType::Synproxy => "synproxy",
    }
}
