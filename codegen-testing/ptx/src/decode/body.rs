//! The body of a function.

use super::names::{Globals, Scopes, Symbol};
use crate::code::{Code, Inst, NONE, Op, Register, Target};
use crate::error::{LoadError, Refusal};
use crate::memory::Strength;
use crate::text::{Function, Operand, Space, Statement, StatementKind, Variable};
use rustc_hash::FxHashMap;

/// Bits of registers before they are written.
const POISON: u64 = 0xfff7_bad1_fff7_bad1;

/// A function while it is decoded.
pub struct Body<'a, 'b> {
    pub code: Code,
    pub scopes: Scopes<'a>,
    pub globals: &'b Globals<'a>,
    pub functions: &'b [&'a Function<'a>],
    /// Lines of the accesses so far.
    pub accesses: &'b mut Vec<u32>,
    pub line: u32,
    literals: FxHashMap<u64, Register>,
    labels: FxHashMap<&'a str, u32>,
    targets: FxHashMap<&'a str, Vec<&'a str>>,
    /// Branches whose target is not known yet, by their place.
    branches: Vec<(usize, &'a str, u32)>,
    /// Comparisons and swaps: place, the register with the value compared, strength.
    pub swaps: Vec<(Target, Register, Strength)>,
    carry: Option<Register>,
    /// End of the parameters in scope.
    params: usize,
    /// Those ends at the start of each open scope.
    outer_params: Vec<usize>,
}

pub type Decoded<T> = Result<T, LoadError>;

impl<'a, 'b> Body<'a, 'b> {
    /// Code of a function.
    pub fn decode(
        f: &'a Function<'a>,
        functions: &'b [&'a Function<'a>],
        globals: &'b Globals<'a>,
        accesses: &'b mut Vec<u32>,
    ) -> Decoded<Code> {
        let mut body = Body {
            code: Code::default(),
            scopes: Scopes::default(),
            globals,
            functions,
            accesses,
            line: f.line,
            literals: FxHashMap::default(),
            labels: FxHashMap::default(),
            targets: FxHashMap::default(),
            branches: vec![],
            swaps: vec![],
            carry: None,
            params: 0,
            outer_params: vec![],
        };
        for p in &f.params {
            let at = body.param(p);
            body.code.own_params.push(at);
        }
        for p in &f.results {
            body.code.result = Some(body.param(p));
        }
        if f.results.len() > 1 {
            return Err(Refusal::Text(format!("`{}` has more than one result", f.name)).at(f.line));
        }
        for statement in f.body.iter().flatten() {
            body.statement(statement)?;
        }
        // Behind the last line nothing may follow.
        body.push(Op::Trap);
        body.link()?;
        body.strengthen();
        Ok(body.code)
    }

    /// Space for a parameter.
    fn param(&mut self, v: &Variable<'a>) -> (u32, u32) {
        let at = self.params.next_multiple_of(v.align);
        self.params = at + v.size;
        self.code.params = self.code.params.max(self.params);
        let place = (at as u32, v.size as u32);
        self.scopes.declare(v.name, Symbol::Param(place.0, place.1));
        place
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Decoded<()> {
        self.line = statement.line;
        match &statement.kind {
            StatementKind::Open => {
                self.scopes.open();
                self.outer_params.push(self.params);
            }
            StatementKind::Close => {
                self.scopes.close();
                self.params = self.outer_params.pop().unwrap_or(self.params);
            }
            StatementKind::Label(name) => {
                if self.labels.insert(name, self.code.insts.len() as u32).is_some() {
                    return self.refuse(Refusal::Twice((*name).into()));
                }
            }
            StatementKind::Targets(name, targets) => {
                self.targets.insert(name, targets.clone());
            }
            StatementKind::Registers { bits, name, count: None } => {
                let register = self.register(*bits);
                self.scopes.declare(name, Symbol::Register(register, *bits));
            }
            StatementKind::Registers { bits, name, count: Some(count) } => {
                let first = self.code.registers.len() as u32;
                (0..*count).for_each(|_| {
                    self.register(*bits);
                });
                self.scopes.bank(name, first, *count, *bits);
            }
            StatementKind::Variable(v) => self.variable(v)?,
            StatementKind::Instruction(i) => self.instruction(i)?,
        }
        Ok(())
    }

    fn variable(&mut self, v: &Variable<'a>) -> Decoded<()> {
        match v.space {
            Space::Param => {
                self.param(v);
            }
            Space::Local => {
                let (end, align) = self.code.local;
                let at = end.next_multiple_of(v.align);
                self.code.local = (at + v.size, align.max(v.align));
                self.scopes.declare(v.name, Symbol::Local(at as u32));
            }
            // Placed with the module's.
            Space::Shared => {}
            _ => return self.refuse(Refusal::Text(format!("`{}` stands inside a function", v.name))),
        }
        Ok(())
    }

    pub fn refuse<T>(&self, refusal: Refusal) -> Decoded<T> {
        Err(refusal.at(self.line))
    }

    /// A fresh register of some bits.
    pub fn register(&mut self, bits: u32) -> Register {
        self.code.registers.push(POISON & mask(bits));
        self.code.registers.len() as u32 - 1
    }

    /// The register that holds a literal.
    pub fn literal(&mut self, value: u64) -> Register {
        if let Some(register) = self.literals.get(&value) {
            return *register;
        }
        self.code.registers.push(value);
        let register = self.code.registers.len() as u32 - 1;
        self.literals.insert(value, register);
        register
    }

    pub fn symbol(&self, name: &str) -> Decoded<Symbol> {
        let found = self.scopes.get(name).or_else(|| self.globals.get(name));
        found.ok_or_else(|| Refusal::Undeclared(name.into()).at(self.line))
    }

    /// A register that is written, and its bits.
    pub fn destination(&self, name: &str) -> Decoded<(Register, u32)> {
        match self.symbol(name)? {
            Symbol::Register(register, bits) => Ok((register, bits)),
            _ => self.refuse(Refusal::Undeclared(format!("register {name}"))),
        }
    }

    /// The register that holds an operand.
    pub fn source(&mut self, operand: &Operand<'a>) -> Decoded<Register> {
        match operand {
            Operand::Literal(value) => Ok(self.literal(*value)),
            Operand::Name(name) => match self.symbol(name)? {
                Symbol::Register(register, _) => Ok(register),
                Symbol::Address(address) => Ok(self.literal(address)),
                Symbol::Shared(index, address) => {
                    self.names_shared(index);
                    Ok(self.literal(address))
                }
                Symbol::Local(at) => {
                    let to = self.register(64);
                    self.push(Op::Special { to, which: crate::code::Special::Local(at) });
                    Ok(to)
                }
                _ => self.refuse(Refusal::Undeclared(format!("register {name}"))),
            },
            _ => self.refuse(Refusal::Text("an operand that is no register and no number".into())),
        }
    }

    fn names_shared(&mut self, index: u32) {
        if !self.code.shared.contains(&index) {
            self.code.shared.push(index);
        }
    }

    pub fn push(&mut self, op: Op) {
        self.code.insts.push(Inst { op, guard: NONE, line: self.line });
    }

    /// An instruction that goes to a label, now or once it is known.
    pub fn push_branch(&mut self, op: Op, label: &'a str) {
        self.branches.push((self.code.insts.len(), label, self.line));
        self.push(op);
    }

    /// Index of the list in the code.
    pub fn list(&mut self, registers: &[u32]) -> u32 {
        let at = self.code.lists.len() as u32;
        self.code.lists.extend(registers);
        at
    }

    /// The register that carries from one sum to the next.
    pub fn carry_flag(&mut self) -> Register {
        match self.carry {
            Some(flag) => flag,
            None => {
                let flag = self.register(1);
                *self.carry.insert(flag)
            }
        }
    }

    /// Makes loads that feed a loop of comparison and swap as strong as the swap. LLVM writes such loops for atomic operations that PTX
    /// lacks, with a plain load before them; a value that is not the last one makes the swap fail and nothing worse.
    fn strengthen(&mut self) {
        for inst in &mut self.code.insts {
            if let Op::Load { to, target, strength, .. } = &mut inst.op {
                let feeds = |(t, compared, _): &&(Target, Register, Strength)| {
                    target.count == 1
                        && *to == *compared
                        && (t.base, t.offset, t.space, t.bytes)
                            == (target.base, target.offset, target.space, target.bytes)
                };
                if let Some((_, _, swap)) = self.swaps.iter().find(feeds) {
                    *strength = *swap;
                }
            }
        }
    }

    /// Writes the targets of all branches.
    fn link(&mut self) -> Decoded<()> {
        for (at, label, line) in std::mem::take(&mut self.branches) {
            self.line = line;
            let place = |name: &str| {
                self.labels.get(name).copied().ok_or_else(|| Refusal::Undeclared(name.into()).at(line))
            };
            if let Op::Branch { .. } = self.code.insts[at].op {
                self.code.insts[at].op = Op::Branch { to: place(label)? };
                continue;
            }
            let names = self.targets.get(label).ok_or_else(|| Refusal::Undeclared(label.into()).at(line))?;
            let places = names.iter().map(|n| place(n)).collect::<Decoded<Vec<u32>>>()?;
            let first = self.list(&places);
            if let Op::BranchIndexed { list, count, .. } = &mut self.code.insts[at].op {
                (*list, *count) = (first, places.len() as u32);
            }
        }
        Ok(())
    }
}

/// Ones in the low bits.
pub fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}
