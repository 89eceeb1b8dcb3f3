// SPDX-License-Identifier: Apache-2.0

//! Programs of classic BPF (`Documentation/networking/filter.rst`, `net/core/filter.c`), as the
//! match `bpf` of x_tables has them.

/// Words of memory (`BPF_MEMWORDS`).
const MEMORY: usize = 16;
/// Longest program that a rule has (`XT_BPF_MAX_NUM_INSTR`).
const LONGEST: usize = 64;
/// Longest program that the kernel takes for a socket (`BPF_MAXINSNS`).
const LONGEST_OF_SOCKET: usize = 4096;

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfOperand {
    /// A constant.
    Constant(u32),
    /// The index register.
    X,
}

/// Arithmetic on the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BpfAlu {
    Add,
    Subtract,
    Multiply,
    Divide,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Modulo,
    Xor,
}

/// Comparisons of the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BpfTest {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

/// What a program may ask of a packet apart from its bytes (`SKF_AD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfAncillary {
    /// The link's protocol number.
    Protocol,
    /// How the packet came (`PACKET_*`).
    PacketType,
    /// Index of its device.
    Device,
    /// Type of its device (`ARPHRD_*`).
    DeviceType,
    /// Its mark.
    Mark,
    /// Number of the worker.
    Worker,
    /// Its VLAN tag, where the link header has none: priority and number.
    VlanTag,
    /// Whether it has such a tag.
    HasVlanTag,
    /// The protocol of such a tag, host order; 0 for none.
    VlanProtocol,
    /// A random number.
    Random,
}

/// One instruction. Jumps count from the next one, and only lead forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfStep {
    /// The accumulator becomes 1, 2 or 4 bytes of the packet, counted from the network header, and
    /// with `indexed` from as many bytes further on as the index register says. The program ends
    /// with 0 where there are none.
    Load {
        /// Bytes.
        size: u8,
        /// Where.
        offset: u32,
        /// Plus the index register.
        indexed: bool,
    },
    /// The accumulator becomes 1, 2 or 4 bytes from the link header on.
    LoadLink {
        /// Bytes.
        size: u8,
        /// Where.
        offset: u32,
    },
    /// The accumulator becomes something that is known of the packet. The program ends with 0 where
    /// the packet has none.
    Ancillary(BpfAncillary),
    /// The accumulator becomes the packet's length from the network header on.
    Length,
    /// The index register becomes that length.
    LengthX,
    /// The accumulator becomes a constant.
    Constant(u32),
    /// The index register becomes a constant.
    ConstantX(u32),
    /// The accumulator becomes a word of memory.
    Recall(u8),
    /// The index register becomes a word of memory.
    RecallX(u8),
    /// A word of memory becomes the accumulator.
    Store(u8),
    /// A word of memory becomes the index register.
    StoreX(u8),
    /// The index register becomes the length of the IPv4 header at an offset.
    HeaderLength(u32),
    /// Arithmetic.
    Alu(BpfAlu, BpfOperand),
    /// The accumulator becomes its negative.
    Negate,
    /// Jumps.
    Jump(u32),
    /// Jumps by the result of a comparison.
    Branch {
        /// Of the accumulator with the operand.
        test: BpfTest,
        /// The operand.
        operand: BpfOperand,
        /// Instructions to leave out if it holds.
        then: u8,
        /// Instructions to leave out if not.
        otherwise: u8,
    },
    /// The index register becomes the accumulator.
    ToX,
    /// The accumulator becomes the index register.
    FromX,
    /// Ends with a constant.
    Return(u32),
    /// Ends with the accumulator.
    ReturnA,
}

/// What a program knows of a packet.
pub trait BpfPacket {
    /// Its link header.
    fn link(&self) -> &[u8];

    /// Its bytes from the network header on.
    fn network(&self) -> &[u8];

    /// Something else; `None` if the packet has none.
    fn ancillary(&mut self, what: BpfAncillary) -> Option<u32>;
}

/// A checked program: it ends, and stays within its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfProgram(Box<[BpfStep]>);

impl BpfProgram {
    /// A program of instructions as `struct sock_filter` has them: code, two jumps, and constant.
    ///
    /// # Errors
    /// What the kernel refuses (`bpf_check_classic()`), and what is not known here of a packet.
    pub fn new(filter: &[(u16, u8, u8, u32)]) -> Result<Self, &'static str> {
        Self::checked(filter, LONGEST)
    }

    /// A program as long as one of a socket may be, which is longer than one of a rule.
    ///
    /// # Errors
    /// As [`BpfProgram::new`].
    pub fn of_socket(filter: &[(u16, u8, u8, u32)]) -> Result<Self, &'static str> {
        Self::checked(filter, LONGEST_OF_SOCKET)
    }

    fn checked(filter: &[(u16, u8, u8, u32)], longest: usize) -> Result<Self, &'static str> {
        if filter.is_empty() || filter.len() > longest {
            return Err("its program is empty or too long");
        }
        let steps: Box<[BpfStep]> = filter.iter().map(step).collect::<Result<_, _>>()?;
        for (at, step) in steps.iter().enumerate() {
            let inside = |jump: usize| at + 1 + jump < steps.len();
            let fine = match *step {
                BpfStep::Jump(to) => usize::try_from(to).is_ok_and(inside),
                BpfStep::Branch { then, otherwise, .. } => {
                    inside(then.into()) && inside(otherwise.into())
                }
                _ => true,
            };
            if !fine {
                return Err("its program jumps beyond its end");
            }
        }
        match steps.last() {
            Some(BpfStep::Return(_) | BpfStep::ReturnA) => {}
            _ => return Err("its program has no end"),
        }
        match remembers(&steps) {
            true => Ok(BpfProgram(steps)),
            false => Err("its program reads memory that it has not written"),
        }
    }

    /// What it returns for a packet.
    pub fn run(&self, packet: &mut impl BpfPacket) -> u32 {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
        let len = packet.network().len() as u32;
        let mut at = 0;
        while let Some(step) = self.0.get(at) {
            at += 1;
            let cell = |n: u8| usize::from(n) % MEMORY;
            match *step {
                BpfStep::Load { size, offset, indexed } => {
                    let found = match indexed {
                        true => anywhere(packet, x.wrapping_add(offset), size),
                        false => bytes(packet.network(), offset.into(), size),
                    };
                    match found {
                        Some(value) => a = value,
                        None => return 0,
                    }
                }
                BpfStep::LoadLink { size, offset } => {
                    match from_link(packet.link(), packet.network(), offset, size) {
                        Some(value) => a = value,
                        None => return 0,
                    }
                }
                BpfStep::Ancillary(what) => match packet.ancillary(what) {
                    Some(value) => a = value,
                    None => return 0,
                },
                BpfStep::Length => a = len,
                BpfStep::LengthX => x = len,
                BpfStep::Constant(k) => a = k,
                BpfStep::ConstantX(k) => x = k,
                BpfStep::Recall(n) => a = memory[cell(n)],
                BpfStep::RecallX(n) => x = memory[cell(n)],
                BpfStep::Store(n) => memory[cell(n)] = a,
                BpfStep::StoreX(n) => memory[cell(n)] = x,
                BpfStep::HeaderLength(offset) => match anywhere(packet, offset, 1) {
                    Some(byte) => x = (byte & 15) << 2,
                    None => return 0,
                },
                BpfStep::Alu(op, operand) => match alu(op, a, value(operand, x)) {
                    Some(result) => a = result,
                    None => return 0,
                },
                BpfStep::Negate => a = a.wrapping_neg(),
                BpfStep::Jump(to) => at += to as usize,
                BpfStep::Branch { test, operand, then, otherwise } => {
                    let holds = holds(test, a, value(operand, x));
                    at += usize::from(if holds { then } else { otherwise });
                }
                BpfStep::ToX => x = a,
                BpfStep::FromX => a = x,
                BpfStep::Return(k) => return k,
                BpfStep::ReturnA => return a,
            }
        }
        0
    }
}

fn bytes(network: &[u8], start: u64, size: u8) -> Option<u32> {
    let start = usize::try_from(start).ok()?;
    let bytes = network.get(start..start.checked_add(size.into())?)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// `SKF_LL_OFF`, `SKF_NET_OFF`, `SKF_AD_OFF`
const LINK: u32 = 0xffe0_0000;
const NETWORK: u32 = 0xfff0_0000;
const ANCILLARY: u32 = 0xffff_f000;

/// Bytes at an offset that may be negative: from the link header on, or from the network header on
/// (`bpf_skb_load_helper_32()`, `bpf_internal_load_pointer_neg_helper()`).
fn anywhere(packet: &impl BpfPacket, at: u32, size: u8) -> Option<u32> {
    match at {
        NETWORK.. => bytes(packet.network(), (at - NETWORK).into(), size),
        LINK..NETWORK => from_link(packet.link(), packet.network(), at - LINK, size),
        0x8000_0000..LINK => None,
        _ => bytes(packet.network(), at.into(), size),
    }
}

/// Bytes from the link header on, of which some may be in the network header.
fn from_link(link: &[u8], network: &[u8], offset: u32, size: u8) -> Option<u32> {
    let byte = |at: u64| match at.checked_sub(link.len() as u64) {
        None => bytes(link, at, 1),
        Some(at) => bytes(network, at, 1),
    };
    let first = u64::from(offset);
    (first..first + u64::from(size)).try_fold(0, |value, at| Some(value << 8 | byte(at)?))
}

fn value(operand: BpfOperand, x: u32) -> u32 {
    match operand {
        BpfOperand::Constant(k) => k,
        BpfOperand::X => x,
    }
}

/// `None` where a program that divides by zero ends.
fn alu(op: BpfAlu, a: u32, by: u32) -> Option<u32> {
    Some(match op {
        BpfAlu::Add => a.wrapping_add(by),
        BpfAlu::Subtract => a.wrapping_sub(by),
        BpfAlu::Multiply => a.wrapping_mul(by),
        BpfAlu::Divide => a.checked_div(by)?,
        BpfAlu::Modulo => a.checked_rem(by)?,
        BpfAlu::Or => a | by,
        BpfAlu::And => a & by,
        BpfAlu::Xor => a ^ by,
        // As processors shift, and eBPF is defined.
        BpfAlu::ShiftLeft => a.wrapping_shl(by),
        BpfAlu::ShiftRight => a.wrapping_shr(by),
    })
}

fn holds(test: BpfTest, a: u32, by: u32) -> bool {
    match test {
        BpfTest::Equal => a == by,
        BpfTest::Greater => a > by,
        BpfTest::GreaterOrEqual => a >= by,
        BpfTest::AnyBit => a & by != 0,
    }
}

/// Instruction classes, modes and operations of `linux/bpf_common.h`.
fn step(&(code, jt, jf, k): &(u16, u8, u8, u32)) -> Result<BpfStep, &'static str> {
    const UNKNOWN: &str = "its program has an unknown instruction";
    let cell = || match u8::try_from(k) {
        Ok(n) if usize::from(n) < MEMORY => Ok(n),
        _ => Err("its program has no such memory"),
    };
    let operand = if code & 8 == 0 { BpfOperand::Constant(k) } else { BpfOperand::X };
    let size = match code & 0x18 {
        0 => 4,
        8 => 2,
        _ => 1,
    };
    Ok(match code {
        0x20 | 0x28 | 0x30 => match i32::try_from(k) {
            Ok(_) => BpfStep::Load { size, offset: k, indexed: false },
            Err(_) => from_header(size, k)?,
        },
        0x40 | 0x48 | 0x50 => BpfStep::Load { size, offset: k, indexed: true },
        0x80 => BpfStep::Length,
        0x81 => BpfStep::LengthX,
        0x00 => BpfStep::Constant(k),
        0x01 => BpfStep::ConstantX(k),
        0x60 => BpfStep::Recall(cell()?),
        0x61 => BpfStep::RecallX(cell()?),
        0x02 => BpfStep::Store(cell()?),
        0x03 => BpfStep::StoreX(cell()?),
        0xb1 => BpfStep::HeaderLength(k),
        0x84 => BpfStep::Negate,
        0x05 => BpfStep::Jump(k),
        0x07 => BpfStep::ToX,
        0x87 => BpfStep::FromX,
        0x06 => BpfStep::Return(k),
        0x16 => BpfStep::ReturnA,
        _ if code & 7 == 4 && code <= 0xac => {
            let op = match code & 0xf0 {
                0x00 => BpfAlu::Add,
                0x10 => BpfAlu::Subtract,
                0x20 => BpfAlu::Multiply,
                0x30 => BpfAlu::Divide,
                0x40 => BpfAlu::Or,
                0x50 => BpfAlu::And,
                0x60 => BpfAlu::ShiftLeft,
                0x70 => BpfAlu::ShiftRight,
                0x90 => BpfAlu::Modulo,
                0xa0 => BpfAlu::Xor,
                _ => return Err(UNKNOWN),
            };
            match (op, operand) {
                (BpfAlu::Divide | BpfAlu::Modulo, BpfOperand::Constant(0)) => {
                    return Err("its program divides by zero");
                }
                (BpfAlu::ShiftLeft | BpfAlu::ShiftRight, BpfOperand::Constant(32..)) => {
                    return Err("its program shifts by more than 31 bits");
                }
                _ => BpfStep::Alu(op, operand),
            }
        }
        _ if code & 7 == 5 && (0x15..=0x4d).contains(&code) => {
            let test = match code & 0xf0 {
                0x10 => BpfTest::Equal,
                0x20 => BpfTest::Greater,
                0x30 => BpfTest::GreaterOrEqual,
                0x40 => BpfTest::AnyBit,
                _ => return Err(UNKNOWN),
            };
            BpfStep::Branch { test, operand, then: jt, otherwise: jf }
        }
        _ => return Err(UNKNOWN),
    })
}

/// What is loaded from a negative offset: from the link header on (`SKF_LL_OFF`), from the network
/// header on (`SKF_NET_OFF`), or something else that is known of the packet (`SKF_AD_OFF`).
fn from_header(size: u8, k: u32) -> Result<BpfStep, &'static str> {
    if k < LINK {
        return Err("its program reads before the link header");
    }
    if k < NETWORK {
        return Ok(BpfStep::LoadLink { size, offset: k - LINK });
    }
    if k < ANCILLARY {
        return Ok(BpfStep::Load { size, offset: k - NETWORK, indexed: false });
    }
    Ok(BpfStep::Ancillary(match k - ANCILLARY {
        0 => BpfAncillary::Protocol,
        4 => BpfAncillary::PacketType,
        8 => BpfAncillary::Device,
        20 => BpfAncillary::Mark,
        28 => BpfAncillary::DeviceType,
        36 => BpfAncillary::Worker,
        44 => BpfAncillary::VlanTag,
        48 => BpfAncillary::HasVlanTag,
        56 => BpfAncillary::Random,
        60 => BpfAncillary::VlanProtocol,
        _ => return Err("its program asks for something that is not known of packets"),
    }))
}

/// Whether no way through the program reads memory before it is written
/// (`check_load_and_stores()`).
fn remembers(steps: &[BpfStep]) -> bool {
    let mut written = vec![u16::MAX; steps.len()];
    let mut now = 0u16;
    for (at, step) in steps.iter().enumerate() {
        now &= written[at];
        let mut carry = |to: usize, now: u16| {
            if let Some(there) = written.get_mut(to) {
                *there &= now;
            }
        };
        match *step {
            BpfStep::Store(n) | BpfStep::StoreX(n) => now |= 1 << n,
            BpfStep::Recall(n) | BpfStep::RecallX(n) if now & 1 << n == 0 => return false,
            BpfStep::Jump(to) => {
                carry(at + 1 + to as usize, now);
                now = u16::MAX;
            }
            BpfStep::Branch { then, otherwise, .. } => {
                carry(at + 1 + usize::from(then), now);
                carry(at + 1 + usize::from(otherwise), now);
                now = u16::MAX;
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes<'a>(&'a [u8]);

    impl BpfPacket for Bytes<'_> {
        fn link(&self) -> &[u8] {
            &[1, 2, 3]
        }

        fn network(&self) -> &[u8] {
            self.0
        }

        fn ancillary(&mut self, what: BpfAncillary) -> Option<u32> {
            match what {
                BpfAncillary::Protocol => Some(0x800),
                _ => None,
            }
        }
    }

    fn run(filter: &[(u16, u8, u8, u32)], network: &[u8]) -> Result<u32, &'static str> {
        Ok(BpfProgram::new(filter)?.run(&mut Bytes(network)))
    }

    #[test]
    fn programs_return_what_they_work_out() {
        let packet = [0x46, 1, 2, 3, 4, 5, 6, 7];
        for (filter, expected) in [
            (&[(0x30, 0, 0, 1), (0x16, 0, 0, 0)][..], Ok(1)),
            (&[(0x20, 0, 0, 4), (0x16, 0, 0, 0)], Ok(0x0405_0607)),
            (&[(0x20, 0, 0, 5), (0x06, 0, 0, 9)], Ok(0)),
            (&[(0xb1, 0, 0, 0), (0x87, 0, 0, 0), (0x16, 0, 0, 0)], Ok(24)),
            (&[(0x28, 0, 0, 0xffff_f000), (0x16, 0, 0, 0)], Ok(0x800)),
            (&[(0x28, 0, 0, 0xffe0_0002), (0x16, 0, 0, 0)], Ok(0x346)),
            (&[(0x20, 0, 0, 0xffe0_0008), (0x06, 0, 0, 9)], Ok(0)),
            (&[(0x30, 0, 0, 0xfff0_0003), (0x16, 0, 0, 0)], Ok(3)),
            (&[(0x20, 0, 0, 0xffff_f008), (0x06, 0, 0, 9)], Ok(0)),
            (
                &[(0x30, 0, 0, 0xffdf_ffff), (0x16, 0, 0, 0)],
                Err("its program reads before the link header"),
            ),
            (&[(0x80, 0, 0, 0), (0x15, 0, 1, 8), (0x06, 0, 0, 5), (0x06, 0, 0, 6)], Ok(5)),
            (
                &[
                    (0x00, 0, 0, 7),
                    (0x02, 0, 0, 3),
                    (0x61, 0, 0, 3),
                    (0x0c, 0, 0, 0),
                    (0x16, 0, 0, 0),
                ],
                Ok(14),
            ),
            (&[(0x01, 0, 0, 0), (0x3c, 0, 0, 0), (0x06, 0, 0, 1)], Ok(0)),
            (
                &[(0x60, 0, 0, 3), (0x16, 0, 0, 0)],
                Err("its program reads memory that it has not written"),
            ),
            (&[(0x00, 0, 0, 7)], Err("its program has no end")),
            (&[(0x05, 0, 0, 1), (0x06, 0, 0, 0)], Err("its program jumps beyond its end")),
            (&[(0x34, 0, 0, 0), (0x06, 0, 0, 0)], Err("its program divides by zero")),
            (&[(0xff, 0, 0, 0), (0x06, 0, 0, 0)], Err("its program has an unknown instruction")),
        ] {
            assert_eq!(run(filter, &packet), expected, "{filter:x?}");
        }
    }
}
