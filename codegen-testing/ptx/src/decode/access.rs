//! Accesses: loads, stores and atomic operations, with their modifiers.

use super::body::{Body, Decoded};
use super::names::Symbol;
use crate::arithmetic::{self, Pure};
use crate::code::{Op, Register, Target};
use crate::error::Refusal;
use crate::memory::Strength;
use crate::text::{Operand, Space};

use Operand::{Name, Vector};

/// Meaning of the modifiers of an access.
struct Modifiers {
    space: Space,
    strength: Strength,
    constant: bool,
    count: u8,
    bytes: u8,
    signed: bool,
    acquires: bool,
    releases: bool,
}

impl Modifiers {
    /// Those of an access of this strength of which nothing else is said.
    fn new(strength: Strength) -> Modifiers {
        Modifiers {
            space: Space::Generic,
            strength,
            constant: false,
            count: 1,
            bytes: 0,
            signed: false,
            acquires: false,
            releases: false,
        }
    }

    /// Notes what a modifier of order says; whatever it says is about accesses that are atomic.
    fn order(&mut self, word: &str) {
        self.acquires |= ["acquire", "acq_rel"].contains(&word);
        self.releases |= ["release", "acq_rel"].contains(&word);
    }
}

impl<'a> Body<'a, '_> {
    fn modifiers(&self, op: &str, words: &[&str]) -> Decoded<Modifiers> {
        let mut m = Modifiers::new(Strength::Plain);
        for word in words {
            match *word {
                "weak" => {}
                "volatile" | "relaxed" | "acquire" | "release" => {
                    m.strength = Strength::Device;
                    m.order(word);
                }
                "cta" => m.strength = Strength::Block,
                "gpu" | "sys" => {}
                "global" => m.space = Space::Global,
                "shared" => m.space = Space::Shared,
                "local" => m.space = Space::Local,
                "const" => m.space = Space::Const,
                "param" => m.space = Space::Param,
                "nc" => m.constant = true,
                "v2" => m.count = 2,
                "v4" => m.count = 4,
                "v8" => m.count = 8,
                t => {
                    let bits = t.get(1..).and_then(|b| b.parse::<u8>().ok());
                    let known = ["b", "u", "s", "f"].contains(&t.get(..1).unwrap_or_default());
                    match bits {
                        Some(bits @ (8 | 16 | 32 | 64)) if known && m.bytes == 0 => m.bytes = bits / 8,
                        _ => return self.unknown(op),
                    }
                    m.signed = t.starts_with('s');
                }
            }
        }
        if m.bytes == 0 { self.unknown(op) } else { Ok(m) }
    }

    fn target(&mut self, m: &Modifiers, base: Option<&'a str>, offset: i64) -> Decoded<Target> {
        let base = match base {
            Some(name) => self.source(&Name(name))?,
            None => self.literal(0),
        };
        let offset = i32::try_from(offset)
            .or_else(|_| self.refuse(Refusal::Text("an offset of more than 32 bits".into())))?;
        let access = self.accesses.len() as u32;
        self.accesses.push(self.line);
        let Modifiers { space, bytes, count, acquires, releases, .. } = *m;
        Ok(Target { base, offset, access, space, bytes, count, acquires, releases })
    }

    /// Registers of one value or of a vector.
    fn elements(&mut self, op: &str, count: u8, operand: &Operand<'a>, written: bool) -> Decoded<(u32, u32)> {
        let single = std::slice::from_ref(operand);
        let parts = if let Vector(parts) = operand { &parts[..] } else { single };
        if parts.len() != usize::from(count) {
            return self.operands(op, "the vector has another length");
        }
        let mut registers = vec![];
        let mut bits = 0;
        for part in parts {
            registers.push(match part {
                Name("_") if written => self.register(64),
                Name(name) if written => {
                    let (register, wide) = self.destination(name)?;
                    bits = wide;
                    register
                }
                part => self.source(part)?,
            });
        }
        let first = if count == 1 { registers[0] } else { self.list(&registers) };
        Ok((first, bits))
    }

    /// The byte of a parameter and an offset.
    fn param_at(&self, op: &str, m: &Modifiers, base: Option<&'a str>, offset: i64) -> Decoded<u32> {
        let Some(Symbol::Param(at, bytes)) = base.map(|b| self.symbol(b)).transpose()? else {
            return self.operands(op, "a parameter is named by its name");
        };
        let end = offset + i64::from(m.bytes) * i64::from(m.count);
        if offset < 0 || end > i64::from(bytes) {
            return self.operands(op, "it runs past the parameter");
        }
        Ok(at + offset as u32)
    }

    pub fn load(
        &mut self,
        op: &str,
        words: &[&str],
        to: &Operand<'a>,
        base: Option<&'a str>,
        offset: i64,
    ) -> Decoded<()> {
        let m = self.modifiers(op, words)?;
        let (to, bits) = self.elements(op, m.count, to, true)?;
        if bits < 8 * u32::from(m.bytes) && bits != 0 {
            return self.operands(op, "the register is too narrow");
        }
        let sign = if m.signed { bits as u8 } else { 0 };
        if m.space == Space::Param {
            let at = self.param_at(op, &m, base, offset)?;
            self.push(Op::LoadParam { to, at, bytes: m.bytes, count: m.count, sign });
            return Ok(());
        }
        let target = self.target(&m, base, offset)?;
        let constant = m.constant || m.space == Space::Const;
        self.push(Op::Load { to, target, sign, strength: m.strength, constant });
        Ok(())
    }

    pub fn store(
        &mut self,
        op: &str,
        words: &[&str],
        from: &Operand<'a>,
        base: Option<&'a str>,
        offset: i64,
    ) -> Decoded<()> {
        let m = self.modifiers(op, words)?;
        let (from, _) = self.elements(op, m.count, from, false)?;
        if m.space == Space::Param {
            let at = self.param_at(op, &m, base, offset)?;
            self.push(Op::StoreParam { from, at, bytes: m.bytes, count: m.count });
            return Ok(());
        }
        let target = self.target(&m, base, offset)?;
        self.push(Op::Store { from, target, strength: m.strength });
        Ok(())
    }

    pub fn atomic(
        &mut self,
        op: &str,
        words: &[&str],
        to: Register,
        (base, offset): (Option<&'a str>, i64),
        values: &[Operand<'a>],
    ) -> Decoded<()> {
        let mut m = Modifiers::new(Strength::Device);
        let mut rest = words;
        while let [word, tail @ ..] = rest {
            match *word {
                "relaxed" | "acquire" | "release" | "acq_rel" => m.order(word),
                "gpu" | "sys" => {}
                "cta" => m.strength = Strength::Block,
                "global" => m.space = Space::Global,
                "shared" => m.space = Space::Shared,
                _ => break,
            }
            rest = tail;
        }
        let (how, t) = match rest {
            ["add", "noftz", "f16"] => ("add", "f16"),
            [how, t] => (*how, *t),
            _ => return self.unknown(op),
        };
        let Some((f, arity)) = atomic_function(how, t) else { return self.unknown(op) };
        let registers = self.sources(values)?;
        if registers.len() != arity {
            return self.operands(op, "their number is another");
        }
        m.bytes = t[1..].parse::<u8>().map_or(0, |bits| bits / 8);
        let strength = m.strength;
        let target = self.target(&m, base, offset)?;
        let (b, c) = (registers[0], registers.get(1).copied().unwrap_or(registers[0]));
        if how == "cas" {
            self.swaps.push((target, b, strength));
        }
        self.push(Op::Atomic { f, to, b, c, target, strength });
        Ok(())
    }
}

/// The new value, from the old one and the operands, of which there is a number.
fn atomic_function(how: &str, t: &str) -> Option<(Pure, usize)> {
    let computed = |op: String| arithmetic::pure(&op).ok().flatten().map(|(f, _)| (f, 1));
    match (how, t) {
        ("add", "f16" | "f32" | "f64") => computed(format!("add.rn.{t}")),
        ("add" | "min" | "max", "u32" | "s32" | "u64" | "s64") => computed(format!("{how}.{t}")),
        ("and" | "or" | "xor", "b32" | "b64") => computed(format!("{how}.{t}")),
        ("exch", "b32" | "b64") => Some((|_, b, _| b, 1)),
        ("cas", "b16" | "b32" | "b64") => Some((|old, b, c| if old == b { c } else { old }, 2)),
        ("inc", "u32") => Some((|old, b, _| if old >= b { 0 } else { old + 1 }, 1)),
        ("dec", "u32") => Some((|old, b, _| if old == 0 || old > b { b } else { old - 1 }, 1)),
        _ => None,
    }
}
