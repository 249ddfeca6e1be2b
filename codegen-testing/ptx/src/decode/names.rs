//! Names and what they stand for.

use crate::error::{LoadError, Refusal};
use rustc_hash::FxHashMap;

/// A thing with a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symbol {
    /// A register and its bits.
    Register(u32, u32),
    /// Parameters: their byte in the frame and their bytes.
    Param(u32, u32),
    /// Local memory: its byte in the frame.
    Local(u32),
    /// Index and address in shared memory.
    Shared(u32, u64),
    /// Address in global or constant memory.
    Address(u64),
    Function(u32),
}

/// Names of the module.
#[derive(Default)]
pub struct Globals<'a> {
    symbols: FxHashMap<&'a str, Symbol>,
}

impl<'a> Globals<'a> {
    pub fn declare(&mut self, name: &'a str, symbol: Symbol, line: u32) -> Result<(), LoadError> {
        match self.symbols.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(Refusal::Twice(name.into()).at(line)),
        }
    }

    pub fn get(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(name).copied()
    }
}

/// Registers `%r0` to `%r7`, declared at once.
struct Bank<'a> {
    prefix: &'a str,
    first: u32,
    count: u32,
    bits: u32,
}

/// Names of a function: scopes within each other.
#[derive(Default)]
pub struct Scopes<'a> {
    symbols: FxHashMap<&'a str, Vec<Symbol>>,
    /// Names of each open scope, and the banks that were there before.
    open: Vec<(Vec<&'a str>, usize)>,
    banks: Vec<Bank<'a>>,
}

impl<'a> Scopes<'a> {
    pub fn open(&mut self) {
        self.open.push((vec![], self.banks.len()));
    }

    pub fn close(&mut self) {
        let Some((names, banks)) = self.open.pop() else { return };
        for name in names {
            self.symbols.get_mut(name).map(Vec::pop);
        }
        self.banks.truncate(banks);
    }

    pub fn declare(&mut self, name: &'a str, symbol: Symbol) {
        self.symbols.entry(name).or_default().push(symbol);
        if let Some(scope) = self.open.last_mut() {
            scope.0.push(name);
        }
    }

    pub fn bank(&mut self, prefix: &'a str, first: u32, count: u32, bits: u32) {
        self.banks.push(Bank { prefix, first, count, bits });
    }

    pub fn get(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(name).and_then(|all| all.last().copied()).or_else(|| self.of_bank(name))
    }

    fn of_bank(&self, name: &str) -> Option<Symbol> {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(digits);
        let number: u32 = number.parse().ok()?;
        let bank = self.banks.iter().rev().find(|b| b.prefix == prefix && number < b.count)?;
        Some(Symbol::Register(bank.first + number, bank.bits))
    }
}
