// SPDX-License-Identifier: Apache-2.0

//! Programs that link libnftables.so.1 make the same calls of this library, with a state file, and
//! of the distribution's, in a network namespace of its own, where the kernel answers. Both have to
//! give the same. Where a program, the other library, or the right to make a namespace is missing,
//! the test is skipped and says so.

mod calls;
mod dataplane;
mod library;
mod python;
