// SPDX-License-Identifier: Apache-2.0

//! Instructions for a graph. A register that has a value already on all ways to a test is not
//! loaded again.

use std::rc::Rc;

use crate::Instruction;
use crate::condition::{Comparison, Value};
use crate::graph::{Graph, Target};
use crate::tree::Operator;

/// Words of memory.
const MEMORY: u32 = 16;
/// Instructions of the longest program that the kernel takes (`BPF_MAXINSNS`).
const LONGEST: usize = 4096;

const LD_IMM: u16 = 0x00;
const LD_LEN: u16 = 0x80;
const LDX_IMM: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const LDX_LEN: u16 = 0x81;
const LDX_MSH: u16 = 0xb1;
const ST: u16 = 0x02;
const ALU: u16 = 0x04;
const NEG: u16 = 0x84;
const JA: u16 = 0x05;
const RET: u16 = 0x06;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;
const X: u16 = 0x08;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;

/// What a filter that matches returns.
const MATCH: u32 = 65535;

/// Registers whose values are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Registers {
    a: Option<Rc<Value>>,
    x: Option<Rc<Value>>,
}

impl Registers {
    fn meet(&mut self, other: &Registers) {
        if self.a != other.a {
            self.a = None;
        }
        if self.x != other.x {
            self.x = None;
        }
    }
}

pub(crate) fn program(graph: &Graph) -> Result<Vec<Instruction>, String> {
    let mut before: Vec<Option<Registers>> = vec![None; graph.nodes.len()];
    let mut blocks = Vec::with_capacity(graph.nodes.len());
    let enter = |target: Target, registers: &Registers, before: &mut Vec<_>| {
        if let Target::Node(at) = target
            && let Some(place) = before.get_mut(at)
        {
            match place {
                None => *place = Some(registers.clone()),
                Some(there) => Registers::meet(there, registers),
            }
        }
    };
    enter(graph.root(), &Registers::default(), &mut before);
    for (at, node) in graph.nodes.iter().enumerate().rev() {
        let Some(registers) = before.get_mut(at).and_then(Option::take) else {
            blocks.push(None);
            continue;
        };
        let mut block = Block { code: Vec::new(), registers };
        let (value, with) = (&node.test.value, &node.test.with);
        let (operand, k) = match &**with {
            Value::Constant(k) => {
                block.load_a(value, 0)?;
                (0, *k)
            }
            _ => {
                block.both(value, with, 0)?;
                (X, 0)
            }
        };
        let code = operand
            | match node.test.comparison {
                Comparison::Equal => 0x15,
                Comparison::Greater => 0x25,
                Comparison::GreaterOrEqual => 0x35,
                Comparison::AnyBit => 0x45,
            };
        block.push(code, k);
        enter(node.yes, &block.registers, &mut before);
        enter(node.no, &block.registers, &mut before);
        blocks.push(Some(block.code));
    }
    blocks.reverse();
    layout(graph, blocks)
}

/// Puts blocks after each other, from the last instruction to the first.
fn layout(
    graph: &Graph,
    blocks: Vec<Option<Vec<Instruction>>>,
) -> Result<Vec<Instruction>, String> {
    let mut code: Vec<Instruction> = Vec::new();
    let (mut accept, mut reject) = (None, None);
    let mut places: Vec<usize> = Vec::with_capacity(blocks.len());
    let plain = |code, k| Instruction { code, jt: 0, jf: 0, k };
    let targets = || {
        let nodes = graph.nodes.iter().zip(&blocks).filter(|(_, block)| block.is_some());
        nodes.flat_map(|(node, _)| [node.yes, node.no]).chain([graph.root()])
    };
    if targets().any(|target| target == Target::Reject) {
        reject = Some(code.len());
        code.push(plain(RET, 0));
    }
    if targets().any(|target| target == Target::Accept) {
        accept = Some(code.len());
        code.push(plain(RET, MATCH));
    }
    for (node, block) in graph.nodes.iter().zip(blocks) {
        let Some(block) = block else {
            places.push(0);
            continue;
        };
        let place = |target| match target {
            Target::Accept => accept.unwrap_or(0),
            Target::Reject => reject.unwrap_or(0),
            Target::Node(at) => places.get(at).copied().unwrap_or(0),
        };
        let (mut yes, mut no) = (place(node.yes), place(node.no));
        // A comparison jumps over 255 instructions at most, and a jump over any number.
        for target in [&mut yes, &mut no] {
            if code.len() + 1 - *target > 255 {
                code.push(plain(JA, (code.len() - 1 - *target) as u32));
                *target = code.len() - 1;
            }
        }
        let mut branch = true;
        for instruction in block.into_iter().rev() {
            let mut instruction = instruction;
            if std::mem::take(&mut branch) {
                let jump = |target: usize| (code.len() - 1 - target) as u8;
                (instruction.jt, instruction.jf) = (jump(yes), jump(no));
            }
            code.push(instruction);
        }
        places.push(code.len() - 1);
    }
    if code.len() > LONGEST {
        return Err(format!("the filter has {} instructions, of {LONGEST} at most", code.len()));
    }
    code.reverse();
    Ok(code)
}

struct Block {
    code: Vec<Instruction>,
    registers: Registers,
}

impl Block {
    fn push(&mut self, code: u16, k: u32) {
        self.code.push(Instruction { code, jt: 0, jf: 0, k });
    }

    fn load_a(&mut self, value: &Rc<Value>, memory: u32) -> Result<(), String> {
        if self.registers.a.as_ref() == Some(value) {
            return Ok(());
        }
        match &**value {
            Value::Constant(k) => self.push(LD_IMM, *k),
            Value::Length => self.push(LD_LEN, 0),
            Value::Load { size, offset } => self.push(ABS | width(*size), *offset),
            Value::LoadAt { size, index, offset } => {
                self.load_x(index, memory)?;
                self.push(IND | width(*size), *offset);
            }
            Value::HeaderLength(_) => {
                self.load_x(value, memory)?;
                self.push(TXA, 0);
            }
            Value::Negative(inner) => {
                self.load_a(inner, memory)?;
                self.push(NEG, 0);
            }
            Value::Operation(operator, left, right) => {
                let code = ALU | operation(*operator);
                if let Value::Constant(k) = **right {
                    self.load_a(left, memory)?;
                    self.push(code, k);
                } else {
                    self.both(left, right, memory)?;
                    self.push(code | X, 0);
                }
            }
        }
        self.registers.a = Some(value.clone());
        Ok(())
    }

    fn load_x(&mut self, value: &Rc<Value>, memory: u32) -> Result<(), String> {
        if self.registers.x.as_ref() == Some(value) {
            return Ok(());
        }
        match &**value {
            Value::Constant(k) => self.push(LDX_IMM, *k),
            Value::Length => self.push(LDX_LEN, 0),
            Value::HeaderLength(offset) => self.push(LDX_MSH, *offset),
            _ => {
                self.load_a(value, memory)?;
                self.push(TAX, 0);
            }
        }
        self.registers.x = Some(value.clone());
        Ok(())
    }

    /// One value in the accumulator, another one in the index register.
    fn both(&mut self, a: &Rc<Value>, x: &Rc<Value>, memory: u32) -> Result<(), String> {
        if matches!(**x, Value::Constant(_) | Value::Length | Value::HeaderLength(_)) {
            self.load_a(a, memory)?;
            return self.load_x(x, memory);
        }
        if memory == MEMORY {
            return Err("an expression of the filter needs more than 16 words of memory".into());
        }
        self.load_a(x, memory)?;
        self.push(ST, memory);
        self.load_a(a, memory + 1)?;
        self.push(LDX_MEM, memory);
        self.registers.x = Some(x.clone());
        Ok(())
    }
}

fn width(size: u8) -> u16 {
    match size {
        4 => 0x00,
        2 => 0x08,
        _ => 0x10,
    }
}

fn operation(operator: Operator) -> u16 {
    match operator {
        Operator::Add => 0x00,
        Operator::Subtract => 0x10,
        Operator::Multiply => 0x20,
        Operator::Divide => 0x30,
        Operator::Or => 0x40,
        Operator::And => 0x50,
        Operator::ShiftLeft => 0x60,
        Operator::ShiftRight => 0x70,
        Operator::Modulo => 0x90,
        Operator::Xor => 0xa0,
    }
}
