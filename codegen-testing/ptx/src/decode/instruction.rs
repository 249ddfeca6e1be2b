//! Instructions, each understood with all its modifiers or refused.

use super::body::{Body, Decoded};
use super::names::Symbol;
use crate::arithmetic::{self, Pure};
use crate::code::{NONE, Op, Register, Shuffle, Special, Vote};
use crate::error::Refusal;
use crate::text::{Instruction, Operand, Space};

use Operand::{Address, Group, Literal, Name, Not, Pair, Vector};

impl<'a> Body<'a, '_> {
    /// Decodes an instruction, which may become several.
    pub fn instruction(&mut self, i: &'a Instruction<'a>) -> Decoded<()> {
        let first = self.code.insts.len();
        let parts: Vec<&str> = i.op.split('.').collect();
        match (&parts[..], &i.operands[..]) {
            (["bra"] | ["bra", "uni"], [Name(label)]) => self.push_branch(Op::Branch { to: 0 }, label),
            (["brx", "idx"] | ["brx", "idx", "uni"], [index, Name(targets)]) => {
                let index = self.source(index)?;
                self.push_branch(Op::BranchIndexed { index, list: 0, count: 0 }, targets);
            }
            (["call"] | ["call", "uni"], operands) => self.call(i.op, operands)?,
            (["ret"] | ["ret", "uni"], []) => self.push(Op::Return),
            (["exit"], []) => self.push(Op::Exit),
            (["trap"], []) => self.push(Op::Trap),
            (
                ["bar", "sync"] | ["barrier", "sync", "aligned"] | ["barrier", "cta", "sync", "aligned"],
                [Literal(0)],
            ) => {
                self.push(Op::Barrier);
            }
            (["bar", "warp", "sync"], [mask]) => {
                let mask = self.source(mask)?;
                self.push(Op::WarpBarrier { mask });
            }
            (["membar", "gl" | "sys"], []) | (["fence", "sc" | "acq_rel", "gpu" | "sys"], []) => {
                self.push(Op::Fence)
            }
            // Between the threads of a block a barrier is asked for all the same; halves of a fence are not told apart.
            (["membar", "cta"], [])
            | (["fence", "sc" | "acq_rel" | "acquire" | "release", "cta" | "gpu" | "sys"], []) => {
                self.push(Op::Nothing)
            }
            (["shfl", "sync", mode, "b32"], [to, a, b, c, mask]) => {
                self.shuffle(i.op, mode, [to, a, b, c, mask])?
            }
            (["vote", "sync", mode, "pred" | "b32"], [Name(to), a, mask]) => {
                self.vote(i.op, mode, to, a, mask)?
            }
            (["activemask", "b32"], [Name(to)]) => {
                let (to, _) = self.destination(to)?;
                self.push(Op::ActiveMask { to });
            }
            (["ld", modifiers @ ..], [to, Address(base, offset)]) => {
                self.load(i.op, modifiers, to, *base, *offset)?
            }
            (["st", modifiers @ ..], [Address(base, offset), from]) => {
                self.store(i.op, modifiers, from, *base, *offset)?
            }
            (["atom", modifiers @ ..], [Name(to), Address(base, offset), values @ ..]) => {
                let (to, _) = self.destination(to)?;
                self.atomic(i.op, modifiers, to, (*base, *offset), values)?;
            }
            (["red", modifiers @ ..], [Address(base, offset), values @ ..]) => {
                self.atomic(i.op, modifiers, NONE, (*base, *offset), values)?;
            }
            (["cvta", "to", space, "u64"], [Name(to), from]) => self.convert(i.op, space, to, from, false)?,
            (["cvta", space, "u64"], [Name(to), from]) => self.convert(i.op, space, to, from, true)?,
            (["isspacep", space], [Name(to), from]) => {
                let space = self.space(i.op, space)?;
                let (to, _) = self.destination(to)?;
                let from = self.source(from)?;
                self.push(Op::IsSpace { to, from, space });
            }
            (["mov", t], [to, from]) => self.mov(i.op, t, to, from)?,
            (["setp", ..], [Pair(p, q), a, b]) => self.compare(i.op, p, q, [a, b])?,
            (["add" | "addc" | "sub" | "subc", .., "u32" | "s32" | "u64" | "s64"], [Name(to), a, b])
                if parts[0].ends_with('c') || parts[1] == "cc" =>
            {
                self.carry(i.op, &parts, to, [a, b])?;
            }
            (_, [Name(to), sources @ ..]) => self.pure(i.op, to, sources)?,
            _ => return self.refuse(Refusal::Unknown(i.op.into())),
        }
        if let Some((name, negated)) = i.guard {
            let (register, _) = self.destination(name)?;
            self.code.insts[first..]
                .iter_mut()
                .for_each(|inst| inst.guard = register << 1 | u32::from(negated));
        }
        Ok(())
    }

    pub fn operands<T>(&self, op: &str, reason: &'static str) -> Decoded<T> {
        self.refuse(Refusal::Operands { op: op.into(), reason })
    }

    pub fn unknown<T>(&self, op: &str) -> Decoded<T> {
        self.refuse(Refusal::Unknown(op.into()))
    }

    pub fn sources(&mut self, operands: &[Operand<'a>]) -> Decoded<Vec<Register>> {
        operands.iter().map(|o| self.source(o)).collect()
    }

    /// Instructions that compute.
    fn pure(&mut self, op: &'a str, to: &str, sources: &[Operand<'a>]) -> Decoded<()> {
        let (to, bits) = self.destination(to)?;
        if let Some(f) = arithmetic::quad(op) {
            let registers = self.sources(sources)?;
            if registers.len() != 4 {
                return self.operands(op, "it takes four");
            }
            let list = self.list(&registers);
            self.push(Op::Quad { f, to, list });
            return Ok(());
        }
        let found = arithmetic::pure(op).or_else(|refusal| self.refuse(refusal))?;
        let Some((f, arity)) = found else { return self.unknown(op) };
        self.push_pure(op, (f, arity), to, sources)?;
        // A narrow signed result would have to be extended to the register.
        if op.starts_with("cvt.s16.") && bits != 16 {
            return self.operands(op, "its result has fewer bits than its register");
        }
        Ok(())
    }

    fn push_pure(
        &mut self,
        op: &str,
        (f, arity): (Pure, usize),
        to: Register,
        sources: &[Operand<'a>],
    ) -> Decoded<()> {
        if sources.len() != arity {
            return self.operands(op, "their number is another");
        }
        let registers = self.sources(sources)?;
        let at = |k: usize| registers.get(k).copied().unwrap_or(to);
        let (a, b, c) = (at(0), at(1), at(2));
        self.push(match arithmetic::divides(op) {
            Some(bits) => Op::Divide { f, to, a, b, bits: bits as u8 },
            None => Op::Pure { f, to, a, b, c },
        });
        Ok(())
    }

    /// Sums and differences of words longer than registers: with a carry in, a carry out (`cc`) or both.
    fn carry(&mut self, op: &str, parts: &[&str], to: &str, [a, b]: [&Operand<'a>; 2]) -> Decoded<()> {
        let (to, bits) = self.destination(to)?;
        let (a, b) = (self.source(a)?, self.source(b)?);
        let (sum, out) = match (&parts[..1], bits) {
            (["add" | "addc"], 32) => arithmetic::ADD_32,
            (["add" | "addc"], 64) => arithmetic::ADD_64,
            (_, 32) => arithmetic::SUB_32,
            (_, 64) => arithmetic::SUB_64,
            _ => return self.operands(op, "the register has other bits"),
        };
        let flag = self.carry_flag();
        let c = if parts[0].ends_with('c') { flag } else { self.literal(0) };
        let new = self.register(1);
        self.push(Op::Pure { f: out, to: new, a, b, c });
        self.push(Op::Pure { f: sum, to, a, b, c });
        if parts[1] == "cc" {
            self.push(Op::Pure { f: |a, _, _| a, to: flag, a: new, b: new, c: new });
        }
        Ok(())
    }

    /// A comparison with two results: of both halves, or the second the opposite of the first.
    fn compare(&mut self, op: &str, p: &str, q: &str, sources: [&Operand<'a>; 2]) -> Decoded<()> {
        let (p, q) = (self.destination(p)?.0, self.destination(q)?.0);
        let sources = sources.map(Clone::clone);
        if let Some([low, high]) = arithmetic::halves(op) {
            self.push_pure(op, low, p, &sources)?;
            return self.push_pure(op, high, q, &sources);
        }
        let found = arithmetic::pure(op).or_else(|refusal| self.refuse(refusal))?;
        let Some(f) = found else { return self.unknown(op) };
        self.push_pure(op, f, p, &sources)?;
        self.push(Op::Pure { f: |a, _, _| a ^ 1, to: q, a: p, b: p, c: p });
        Ok(())
    }

    fn mov(&mut self, op: &'a str, t: &str, to: &Operand<'a>, from: &Operand<'a>) -> Decoded<()> {
        match (to, from) {
            (Vector(parts), from) => self.split(op, t, parts, from),
            (Name(to), Vector(parts)) => self.join(op, t, to, parts),
            (Name(to), Name(from)) if special(from).is_some() => {
                let (to, _) = self.destination(to)?;
                let which = special(from).map_or_else(|| self.unknown(op), Ok)?;
                self.push(Op::Special { to, which });
                Ok(())
            }
            (Name(to), from) => self.pure(op, to, std::slice::from_ref(from)),
            _ => self.operands(op, "it moves one value"),
        }
    }

    fn split(&mut self, op: &str, t: &str, parts: &[Operand<'a>], from: &Operand<'a>) -> Decoded<()> {
        let from = self.source(from)?;
        let fs: &[Pure] = match (t, parts.len()) {
            ("b32", 2) => &[|a, _, _| a & 0xffff, |a, _, _| a >> 16 & 0xffff],
            ("b64", 2) => &[|a, _, _| a & 0xffff_ffff, |a, _, _| a >> 32],
            ("b64", 4) => &[
                |a, _, _| a & 0xffff,
                |a, _, _| a >> 16 & 0xffff,
                |a, _, _| a >> 32 & 0xffff,
                |a, _, _| a >> 48,
            ],
            _ => return self.operands(op, "it splits into two, or 64 bits into four"),
        };
        for (part, f) in parts.iter().zip(fs) {
            match part {
                Name("_") => {}
                Name(to) => {
                    let (to, _) = self.destination(to)?;
                    self.push(Op::Pure { f: *f, to, a: from, b: from, c: from });
                }
                _ => return self.operands(op, "it splits into registers"),
            }
        }
        Ok(())
    }

    fn join(&mut self, op: &str, t: &str, to: &str, parts: &[Operand<'a>]) -> Decoded<()> {
        let (to, _) = self.destination(to)?;
        let registers = self.sources(parts)?;
        let fs: &[Pure] = match (t, parts.len()) {
            ("b32", 2) => &[|a, b, _| a & 0xffff | (b & 0xffff) << 16],
            ("b64", 2) => &[|a, b, _| a & 0xffff_ffff | b << 32],
            ("b64", 4) => &[
                |a, b, _| a & 0xffff | (b & 0xffff) << 16,
                |a, b, _| a | (b & 0xffff) << 32,
                |a, b, _| a | b << 48,
            ],
            _ => return self.operands(op, "it joins two, or four to 64 bits"),
        };
        let mut joined = registers[0];
        for (f, next) in fs.iter().zip(&registers[1..]) {
            self.push(Op::Pure { f: *f, to, a: joined, b: *next, c: *next });
            joined = to;
        }
        Ok(())
    }

    fn space(&self, op: &str, name: &str) -> Decoded<Space> {
        match name {
            "global" => Ok(Space::Global),
            "shared" => Ok(Space::Shared),
            "local" => Ok(Space::Local),
            "const" => Ok(Space::Const),
            _ => self.unknown(op),
        }
    }

    fn convert(
        &mut self,
        op: &str,
        space: &str,
        to: &str,
        from: &Operand<'a>,
        to_generic: bool,
    ) -> Decoded<()> {
        let space = self.space(op, space)?;
        let (to, _) = self.destination(to)?;
        let from = self.source(from)?;
        self.push(Op::Convert { to, from, space, to_generic });
        Ok(())
    }

    fn shuffle(&mut self, op: &str, mode: &str, [to, a, b, c, mask]: [&Operand<'a>; 5]) -> Decoded<()> {
        let (to, valid) = match to {
            Name(to) => (self.destination(to)?.0, NONE),
            Pair(to, valid) => (self.destination(to)?.0, self.destination(valid)?.0),
            _ => return self.operands(op, "it gives a register"),
        };
        let mode = match mode {
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            "bfly" => Shuffle::Butterfly,
            "idx" => Shuffle::Index,
            _ => return self.unknown(op),
        };
        let (a, b) = (self.source(a)?, self.source(b)?);
        let (c, mask) = (self.source(c)?, self.source(mask)?);
        self.push(Op::Shuffle { mode, to, valid, a, b, c, mask });
        Ok(())
    }

    fn vote(&mut self, op: &str, mode: &str, to: &str, a: &Operand<'a>, mask: &Operand<'a>) -> Decoded<()> {
        let (to, _) = self.destination(to)?;
        let mode = match mode {
            "all" => Vote::All,
            "any" => Vote::Any,
            "uni" => Vote::Uniform,
            "ballot" => Vote::Ballot,
            _ => return self.unknown(op),
        };
        let (a, negate) = match a {
            Not(name) => (self.source(&Name(name))?, true),
            a => (self.source(a)?, false),
        };
        let mask = self.source(mask)?;
        self.push(Op::Vote { mode, to, a, negate, mask });
        Ok(())
    }

    fn call(&mut self, op: &str, operands: &[Operand<'a>]) -> Decoded<()> {
        let none: &[Operand<'a>] = &[];
        let (results, name, args) = match operands {
            [Group(results), Name(name), Group(args)] => (&results[..], name, &args[..]),
            [Group(results), Name(name)] => (&results[..], name, none),
            [Name(name), Group(args)] => (none, name, &args[..]),
            [Name(name)] => (none, name, none),
            _ => return self.operands(op, "it names a function"),
        };
        let Symbol::Function(function) = self.symbol(name)? else {
            return self.operands(op, "only functions known by name are called");
        };
        let callee = self.functions[function as usize];
        let args = self.params(op, args)?;
        let results = self.params(op, results)?;
        if callee.kernel || args.len() != callee.params.len() || results.len() != callee.results.len() {
            return self.operands(op, "the function has another signature");
        }
        if callee.body.is_none() {
            return match (*name, &args[..]) {
                ("cudaGraphSetConditional", [(handle, 8), (value, 4)]) => {
                    self.push(Op::SetConditional { handle: *handle, value: *value });
                    Ok(())
                }
                _ => self.refuse(Refusal::Undeclared((*name).into())),
            };
        }
        // Parameters of a function are laid out as its body does it.
        let mut end = 0;
        let mut copies = vec![];
        for ((at, bytes), p) in args.iter().zip(&callee.params) {
            let to = usize::next_multiple_of(end, p.align);
            end = to + p.size;
            if *bytes as usize != p.size {
                return self.operands(op, "a parameter has another size");
            }
            copies.extend([*at, to as u32, *bytes]);
        }
        if results.iter().zip(&callee.results).any(|(r, p)| r.1 as usize != p.size) {
            return self.operands(op, "the result has another size");
        }
        let result = results.first().map_or(NONE, |r| r.0);
        let copies = self.list(&copies);
        if !self.code.calls.contains(&function) {
            self.code.calls.push(function);
        }
        self.push(Op::Call { function, copies, count: args.len() as u32, result });
        Ok(())
    }

    fn params(&self, op: &str, names: &[Operand<'a>]) -> Decoded<Vec<(u32, u32)>> {
        let place = |o: &Operand<'a>| match o {
            Name(name) => match self.symbol(name)? {
                Symbol::Param(at, bytes) => Ok((at, bytes)),
                _ => self.operands(op, "arguments are parameters"),
            },
            _ => self.operands(op, "arguments are parameters"),
        };
        names.iter().map(place).collect()
    }
}

fn special(name: &str) -> Option<Special> {
    if let Some((name, axis)) = name.split_once('.') {
        let axis = ["x", "y", "z"].iter().position(|a| *a == axis)? as u8;
        return Some(match name {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            "%ctaid" => Special::Ctaid(axis),
            "%nctaid" => Special::Nctaid(axis),
            _ => return None,
        });
    }
    Some(match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%lanemask_eq" => Special::LanesEqual,
        "%lanemask_lt" => Special::LanesBelow,
        "%lanemask_le" => Special::LanesUpTo,
        "%lanemask_gt" => Special::LanesAbove,
        "%lanemask_ge" => Special::LanesFrom,
        _ => return None,
    })
}
