//! Knowledge at the point being emitted: values of symbols, and values of expressions already emitted.
//!
//! Scopes follow the control flow: a loop body, a branch or a parallel body is a scope, and what was emitted in it is
//! forgotten behind it, as it does not dominate what follows.
//!
//! **Staleness rule.** Every memoised value remembers the groups of buffers that it was (transitively) loaded from and
//! when. It is used again only if no store to any of these groups was emitted since. A loop counts as storing to
//! everything that its body stores to at its entry, since the stores of one iteration come before the loads of the
//! next; a branch may not have run, which errs on the safe side. A parallel body is emitted in a function of its own,
//! whose memo starts empty, and its stores count for the code behind the loop as well.

use super::alias::Group;
use super::ir::Val;
use crate::expr::{Expr, Flat, Name, Param};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Groups that a set tells apart. A block of 9 scalars and its inverse, with the copies in registers, are some 200; where a store to one made
/// values of all stale, each plane of the inverse would be computed from the start.
const GROUPS: usize = 512;

/// A set of groups; those beyond share the last bit. Groups that the function stores to come first (see [`super::alias`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct GroupSet([u64; GROUPS / 64]);

impl GroupSet {
    /// The set of `g` alone.
    pub(super) fn of(g: Group) -> GroupSet {
        let (mut set, bit) = (GroupSet::default(), (g.0 as usize).min(GROUPS - 1));
        set.0[bit / 64] = 1 << (bit % 64);
        set
    }

    /// Union.
    pub(super) fn union(mut self, o: GroupSet) -> GroupSet {
        self.0.iter_mut().zip(o.0).for_each(|(a, b)| *a |= b);
        self
    }

    /// Members, as bit numbers.
    fn bits(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(word, mut rest)| {
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                let found = (rest != 0).then_some(64 * word + bit);
                rest &= rest.wrapping_sub(1);
                found
            })
        })
    }
}

/// A thing that has a value in a function: an argument, or one that its body binds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Symbol {
    /// A loop or `Let`.
    Var(Name),
    /// A scalar argument.
    Param(Param),
    /// The address of an argument or allocation.
    Buffer(Flat),
}

impl std::fmt::Display for Symbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Symbol::Var(name) => f.write_str(name),
            Symbol::Param(param) => write!(f, "{param}"),
            Symbol::Buffer(flat) => write!(f, "buffer {flat}"),
        }
    }
}

/// An emitted expression.
#[derive(Clone, Copy)]
pub(super) struct Memo {
    /// Its value.
    pub value: Val,
    /// Groups that it depends on.
    pub loads: GroupSet,
    time: u64,
}

/// Records that were read and transposed.
struct Columns {
    values: Rc<[Val]>,
    loads: GroupSet,
    time: u64,
}

#[derive(Default)]
struct Scope {
    symbols: FxHashMap<Symbol, Val>,
    memo: FxHashMap<usize, Memo>,
    /// Columns of transposed records, by what was read; see [`super::record`].
    records: FxHashMap<String, Columns>,
    /// True if memoised values of enclosing scopes must not be used: a name of theirs has another meaning here.
    shadows: bool,
}

/// The stack of scopes of one LLVM function, and the clock of its stores.
pub(super) struct Scopes {
    stack: Vec<Scope>,
    now: u64,
    last_store: [u64; GROUPS],
}

impl Scopes {
    /// One empty scope.
    pub(super) fn new() -> Scopes {
        Scopes { stack: vec![Scope::default()], now: 1, last_store: [0; GROUPS] }
    }

    /// Enters a scope.
    pub(super) fn push(&mut self) {
        self.stack.push(Scope::default());
    }

    /// Leaves it.
    pub(super) fn pop(&mut self) {
        self.stack.pop();
    }

    /// Gives `symbol` a value in the current scope.
    pub(super) fn bind(&mut self, symbol: Symbol, value: Val) {
        let shadows = self.value(&symbol).is_some();
        if let Some(top) = self.stack.last_mut() {
            if shadows {
                top.shadows = true;
                top.memo.clear();
                top.records.clear();
            }
            top.symbols.insert(symbol, value);
        }
    }

    /// The value of a symbol.
    pub(super) fn value(&self, symbol: &Symbol) -> Option<Val> {
        self.stack.iter().rev().find_map(|s| s.symbols.get(symbol).copied())
    }

    /// A value of `e` emitted earlier that is still good here.
    pub(super) fn recall(&self, e: &Expr) -> Option<Memo> {
        self.visible().find_map(|s| s.memo.get(&e.id()).filter(|m| self.is_fresh(m.loads, m.time)).copied())
    }

    /// Remembers the value of `e`, which must live as long as these scopes (its address is the key).
    pub(super) fn remember(&mut self, e: &Expr, value: Val, loads: GroupSet) {
        let memo = Memo { value, loads, time: self.now };
        if let Some(top) = self.stack.last_mut() {
            top.memo.insert(e.id(), memo);
        }
    }

    /// Columns of records that were read earlier and are still good here.
    pub(super) fn recall_record(&self, key: &str) -> Option<Rc<[Val]>> {
        let fresh = |s: &Scope| {
            s.records.get(key).filter(|c| self.is_fresh(c.loads, c.time)).map(|c| c.values.clone())
        };
        self.visible().find_map(fresh)
    }

    /// Remembers columns that depend on `loads`.
    pub(super) fn remember_record(&mut self, key: String, columns: Vec<Val>, loads: GroupSet) -> Rc<[Val]> {
        let values: Rc<[Val]> = columns.into();
        let time = self.now;
        if let Some(top) = self.stack.last_mut() {
            top.records.insert(key, Columns { values: values.clone(), loads, time });
        }
        values
    }

    /// The scopes whose memos may be used here, innermost first.
    fn visible(&self) -> impl Iterator<Item = &Scope> {
        let shadowed = self.stack.iter().rev().position(|s| s.shadows);
        self.stack.iter().rev().take(shadowed.map_or(usize::MAX, |n| n + 1))
    }

    /// A store to `groups` was, or may have been, executed.
    pub(super) fn stored(&mut self, groups: GroupSet) {
        for i in groups.bits() {
            self.last_store[i] = self.now;
        }
        self.now += 1;
    }

    fn is_fresh(&self, loads: GroupSet, time: u64) -> bool {
        loads.bits().all(|i| self.last_store[i] < time)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ir::Ir;
    use super::*;
    use crate::types::Type;

    #[test]
    fn memo_ends_with_its_scope_and_with_stores() {
        let ir = Ir::new("t");
        let (v, a, b) = (ir.int(Type::I32, 1), GroupSet::of(Group(0)), GroupSet::of(Group(200)));
        let (e, f) = (Expr::var("e"), Expr::var("f"));
        let mut s = Scopes::new();
        s.remember(&e, v, a);
        s.push();
        s.remember(&f, v, a.union(b));
        assert!(s.recall(&e).is_some() && s.recall(&f).is_some());
        s.stored(GroupSet::of(Group(300)));
        assert!(s.recall(&f).is_some(), "another group");
        s.stored(b);
        assert!(s.recall(&e).is_some() && s.recall(&f).is_none());
        s.remember(&f, v, b);
        assert!(s.recall(&f).is_some());
        s.pop();
        assert!(s.recall(&f).is_none());
        s.stored(a);
        assert!(s.recall(&e).is_none());
    }

    #[test]
    fn shadowing_hides_values_of_the_outer_name() {
        let ir = Ir::new("t");
        let (one, two) = (ir.int(Type::I32, 1), ir.int(Type::I32, 2));
        let (x, e) = (Symbol::Var("x".into()), Expr::var("x"));
        let mut s = Scopes::new();
        s.bind(x.clone(), one);
        s.remember(&e, one, GroupSet::default());
        s.push();
        s.bind(x.clone(), two);
        assert!(s.recall(&e).is_none());
        assert_eq!(s.value(&x), Some(two));
        s.pop();
        assert!(s.recall(&e).is_some());
        assert_eq!(s.value(&x), Some(one));
    }
}
