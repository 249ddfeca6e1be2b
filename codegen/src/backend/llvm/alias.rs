//! Buffers that may share memory, told to LLVM as `alias.scope` and `noalias` metadata.
//!
//! Every flat buffer (argument or allocation) is its own group, except that declared in-place pairs share one. An
//! access to group g is in scope g and aliases no other scope. The same groups tell the emitter which memoised loads
//! a store makes stale.

use super::ir::{Ir, Meta, Val};
use crate::analysis::algebra::forms::gcd;
use crate::expr::{Expr, Flat};
use crate::ir::args::Arg;
use crate::ir::rewrite::visit_stmts;
use crate::ir::stmt::{LoweredFunction, Stmt};
use crate::schedule::Memory;
use rustc_hash::FxHashMap;

/// Index of a group of buffers that may share memory. Those that the function stores to come first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Group(pub u32);

/// Groups of all buffers of a function.
#[derive(Default)]
pub(super) struct Aliasing {
    groups: FxHashMap<Flat, Group>,
    /// Per group: the scope list and the no-alias list. Empty where there is only one group.
    scopes: Vec<(Meta, Meta)>,
    /// Groups that some store of the function writes to.
    written: Vec<bool>,
    /// Elements of every buffer that is kept in registers.
    registers: FxHashMap<Flat, i64>,
    /// Slots of the buffers of records.
    records: FxHashMap<Flat, u8>,
    /// Numbers that divide the elements of all allocations of a buffer of the function's own, outside of registers.
    units: FxHashMap<Flat, i64>,
    /// Elements of all allocations of a buffer, where this is one constant.
    sizes: FxHashMap<Flat, Option<i64>>,
}

impl Aliasing {
    /// Groups the buffers of `f`.
    pub(super) fn new(ir: &Ir, f: &LoweredFunction) -> Aliasing {
        let mut buffers: Vec<Flat> = f.args.iter().filter_map(Arg::flat).cloned().collect();
        let (mut stored, mut registers, mut units) = (vec![], FxHashMap::default(), FxHashMap::default());
        let mut sizes = FxHashMap::default();
        visit_stmts(&f.body, &mut |s| match s {
            Stmt::Allocate { buffer, memory, extent, .. } => {
                buffers.push(buffer.clone());
                let size = sizes.entry(buffer.clone()).or_insert(extent.as_int());
                *size = size.filter(|n| extent.as_int() == Some(*n));
                if let (Memory::Register, Some(n)) = (memory, extent.as_int()) {
                    let least = registers.entry(buffer.clone()).or_insert(n);
                    *least = n.min(*least);
                } else {
                    let unit = units.entry(buffer.clone()).or_insert(0);
                    *unit = gcd(*unit, extent.as_int().unwrap_or(1));
                }
            }
            Stmt::Store { buffer, .. } | Stmt::Accumulate { buffer, .. } => stored.push(buffer.clone()),
            _ => {}
        });
        let mut groups: FxHashMap<Flat, Group> = FxHashMap::default();
        let mut n = 0;
        for buffer in buffers {
            groups.entry(buffer).or_insert_with(|| {
                n += 1;
                Group(n - 1)
            });
        }
        for (a, b) in &f.aliases {
            if let (Some(&a), Some(&b)) = (groups.get(a), groups.get(b)) {
                groups.values_mut().filter(|g| **g == b).for_each(|g| *g = a);
            }
        }
        let mut is_written = vec![false; n as usize];
        for s in &stored {
            if let Some(g) = groups.get(s) {
                is_written[g.0 as usize] = true;
            }
        }
        let mut order: Vec<usize> = (0..n as usize).collect();
        order.sort_by_key(|&old| !is_written[old]);
        let mut place = vec![0; n as usize];
        order.iter().zip(0..).for_each(|(&old, new)| place[old] = new);
        groups.values_mut().for_each(|g| *g = Group(place[g.0 as usize]));
        let written = order.iter().map(|&old| is_written[old]).collect();
        let scopes = scopes(ir, n);
        let records = f.records.iter().cloned().collect();
        Aliasing { groups, scopes, written, registers, records, units, sizes }
    }

    /// The group of a buffer; `None` if the function has no such buffer.
    pub(super) fn group(&self, buffer: &Flat) -> Option<Group> {
        self.groups.get(buffer).copied()
    }

    /// Marks a load or store of group `g`.
    pub(super) fn annotate(&self, ir: &Ir, access: Val, g: Group) {
        if let Some((scope, others)) = self.scopes.get(g.0 as usize) {
            ir.annotate(access, "alias.scope", *scope);
            ir.annotate(access, "noalias", *others);
        }
    }

    /// True if `lanes` elements from `first` are in a buffer that is kept in registers.
    pub(super) fn in_registers(&self, buffer: &Flat, first: &Expr, lanes: u16) -> bool {
        match (self.registers.get(buffer), first.as_int()) {
            (Some(n), Some(first)) => first >= 0 && first + lanes as i64 <= *n,
            _ => false,
        }
    }

    /// Slots of the records of a buffer, if it holds records.
    pub(super) fn record(&self, buffer: &Flat) -> Option<u8> {
        self.records.get(buffer).copied()
    }

    /// Elements of a buffer of the function's own, if they are always as many.
    pub(super) fn size(&self, buffer: &Flat) -> Option<i64> {
        self.sizes.get(buffer).copied().flatten()
    }

    /// May all `n` elements from a multiple of `n` on be read, wherever one of them may?
    pub(super) fn has_rows_of(&self, buffer: &Flat, n: u16) -> bool {
        self.units.get(buffer).is_some_and(|unit| unit % i64::from(n) == 0)
    }

    /// True if nothing in the function writes to `g`: its loads may move anywhere.
    pub(super) fn is_read_only(&self, g: Group) -> bool {
        !self.written[g.0 as usize]
    }
}

/// Scope and no-alias list for each of `n` groups, none if there are fewer than two.
fn scopes(ir: &Ir, n: u32) -> Vec<(Meta, Meta)> {
    if n < 2 {
        return vec![];
    }
    let domain = ir.meta(&[ir.meta_string("sumsq")]);
    let all: Vec<Meta> = (0..n).map(|i| ir.meta(&[ir.meta_string(&format!("sumsq.{i}")), domain])).collect();
    (0..n as usize)
        .map(|i| {
            let others: Vec<Meta> = (0..n as usize).filter(|&j| j != i).map(|j| all[j]).collect();
            (ir.meta(&[all[i]]), ir.meta(&others))
        })
        .collect()
}
