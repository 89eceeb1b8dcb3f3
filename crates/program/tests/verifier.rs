// SPDX-License-Identifier: Apache-2.0

//! Programs that are refused, and why.

use penstock_program::Family;
use penstock_program::expr::{
    Bitwise, BitwiseOp, Cmp, CmpOp, Expr, Immediate, ImmediateData, Payload, PayloadBase,
};
use penstock_program::verify::{Reason, Sets, VerifyError, verify};
use penstock_program::{Data, Register, Verdict};
use penstock_testkit::program::parse;

/// `s` holds ports, `m` maps ports to six bytes, `v` maps ports to verdicts.
struct ThreeSets;

impl Sets for ThreeSets {
    fn key_len(&self, set: &str) -> Option<u32> {
        matches!(set, "s" | "m" | "v").then_some(2)
    }

    fn value_len(&self, set: &str) -> Option<u32> {
        (set == "m").then_some(6)
    }

    fn is_verdict_map(&self, set: &str) -> bool {
        set == "v"
    }
}

const LOAD: &str = "[ payload load 2b @ transport header + 2 => reg 1 ]\n";

#[test]
fn programs_of_the_language_pass() {
    for text in [
        "[ meta load l4proto => reg 1 ]\n[ cmp eq reg 1 0x00000011 ]\n[ immediate reg 0 jump -> c ]",
        "[ payload load 4b @ network header + 12 => reg 1 ]\n[ payload load 4b @ network header + 16 => reg 9 ]\n\
         [ hash reg 1 = jhash(reg 1, 8, 0x0) % mod 3 ]",
        "[ payload load 2b @ transport header + 2 => reg 1 ]\n[ lookup reg 1 set m dreg 2 ]\n\
         [ bitwise reg 2 = ( reg 13 & 0x000000ff ) ^ 0x00000000 ]",
        "[ payload load 2b @ transport header + 2 => reg 1 ]\n[ lookup reg 1 set v dreg 0 ]",
        "[ payload load 64b @ network header + 0 => reg 1 ]",
    ] {
        assert_eq!(
            verify(&parse::program(text).unwrap(), Family::Ip, &ThreeSets),
            Ok(()),
            "{text}"
        );
    }
}

#[test]
fn unsafe_programs_are_refused_at_the_faulty_expression() {
    let r = Register;
    let unwritten = |n| Reason::Uninitialized(r(n));
    let operand =
        |text: &str, expression, reason| (parse::program(text).unwrap(), expression, reason);
    let cmp =
        |reg, len| Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: r(reg), data: Data::new(&vec![0; len]) });
    let load = |dreg, len| {
        Expr::Payload(Payload { base: PayloadBase::Network, offset: 0, len, dreg: r(dreg) })
    };
    let verdict = |dreg| {
        Expr::Immediate(Immediate { dreg: r(dreg), data: ImmediateData::Verdict(Verdict::Drop) })
    };
    let value = |dreg| {
        Expr::Immediate(Immediate { dreg: r(dreg), data: ImmediateData::Value(Data::new(&[1])) })
    };
    let mask = Expr::Bitwise(Bitwise {
        sreg: r(1),
        dreg: r(1),
        len: 4,
        op: BitwiseOp::MaskXor { mask: Data::new(&[1; 2]), xor: Data::new(&[0; 4]) },
    });
    for (program, expression, reason, errno) in [
        (vec![cmp(1, 2)], 0, unwritten(1), 61),
        (vec![load(1, 2), cmp(2, 2)], 1, unwritten(2), 61),
        (vec![load(1, 4), cmp(1, 8)], 1, unwritten(1), 61),
        (vec![load(1, 4), load(9, 4), cmp(1, 8)], 3, unwritten(0), 0),
        (vec![load(5, 4)], 0, Reason::NoSuchRegister(r(5)), 34),
        (vec![load(24, 4)], 0, Reason::NoSuchRegister(r(24)), 34),
        (vec![load(0, 4)], 0, Reason::VerdictRegister, 22),
        (vec![load(1, 0)], 0, Reason::Empty, 22),
        (vec![load(1, 65)], 0, Reason::OutOfBounds(r(1)), 34),
        (vec![load(23, 5)], 0, Reason::OutOfBounds(r(23)), 34),
        (vec![load(1, 300)], 0, Reason::TooLarge, 34),
        (vec![load(1, 20), cmp(1, 17)], 1, Reason::Constant, 22),
        (vec![load(1, 20), cmp(1, 0)], 1, Reason::Constant, 22),
        (vec![verdict(1)], 0, Reason::VerdictElsewhere(r(1)), 22),
        (vec![value(0)], 0, Reason::VerdictRegister, 22),
        (
            vec![load(1, 4), mask],
            1,
            Reason::Operand("mask and xor are as long as the register"),
            22,
        ),
    ] {
        let expected = match errno {
            0 => Ok(()),
            _ => Err(VerifyError { expression, reason }),
        };
        assert_eq!(verify(&program, Family::Ip, &ThreeSets), expected, "{program:?}");
        if errno != 0 {
            assert_eq!(reason.errno() as i32, errno, "{reason}");
        }
    }
    for (program, expression, reason) in [
        operand(&format!("{LOAD}[ lookup reg 1 set none ]"), 1, Reason::NoSuchSet),
        operand(&format!("{LOAD}[ lookup reg 1 set s dreg 1 ]"), 1, Reason::NotSuchAMap),
        operand(&format!("{LOAD}[ lookup reg 1 set m dreg 0 ]"), 1, Reason::NotSuchAMap),
        operand(&format!("{LOAD}[ lookup reg 2 set s ]"), 1, unwritten(2)),
        operand(
            &format!("{LOAD}[ bitwise reg 1 = ( reg 1 << 0x00000020 ) ]"),
            1,
            Reason::Operand("a shift is by 1 to 31 bits"),
        ),
        operand(
            &format!("{LOAD}[ bitwise reg 1 = ( reg 1 >> 0x00000000 ) ]"),
            1,
            Reason::Operand("a shift is by 1 to 31 bits"),
        ),
        operand(
            &format!("{LOAD}[ byteorder reg 1 = hton(reg 1, 3, 2) ]"),
            1,
            Reason::Operand("numbers have 2, 4 or 8 bytes"),
        ),
        operand("[ numgen reg 1 = inc mod 0 ]", 0, Reason::TooLarge),
        operand("[ numgen reg 1 = inc mod 2 offset 4294967295 ]", 0, Reason::Overflow),
        operand(
            "[ limit rate 0/second burst 5 type packets flags 0x0 ]",
            0,
            Reason::Operand("the rate is not zero"),
        ),
        operand(
            "[ limit rate 1/week burst 4294967295 type packets flags 0x0 ]",
            0,
            Reason::Overflow,
        ),
        operand("[ meta load nftrace => reg 1 ]", 0, Reason::Key),
        operand("[ immediate reg 1 0x00000001 ]\n[ meta set iif with reg 1 ]", 1, Reason::Key),
        operand(
            "[ immediate reg 1 0x00000001 ]\n[ exthdr write tcpopt reg 1 => 1b @ 2 + 2 ]",
            1,
            Reason::Operand("2 or 4 bytes of an option can be written"),
        ),
        operand(
            "[ fib saddr . daddr oif => reg 1 ]",
            0,
            Reason::Operand("fib looks up the source or the destination"),
        ),
        operand("[ reject type 2 code 4 ]", 0, Reason::Operand("the code is unknown")),
    ] {
        assert_eq!(
            verify(&program, Family::Ip, &ThreeSets),
            Err(VerifyError { expression, reason }),
            "{program:?}"
        );
    }
}
