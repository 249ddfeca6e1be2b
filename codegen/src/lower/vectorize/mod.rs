//! Turns vector loops into vector expressions.
//!
//! Before: flat statements (`Load`, `Store`, `Allocate`), unrolled; `Vectorized` loops of constant extent. After: no
//! `Vectorized` loop; vectors in expressions, `Let`s and predicates; conditions of `If` are scalar.
//! It runs after flattening because there an access has one index instead of one per dimension.
//!
//! In the body of `vectorized for v in [m, m + n)`:
//! - `v` is `ramp(m, 1, n)`; what depends on it has n lanes, what does not stays scalar and is broadcast where it meets a
//!   vector. A load or store at a ramp of stride 1 is dense, at other vectors a gather or scatter.
//! - `if c` with c differing between lanes: c becomes the predicate of the loads and stores inside, all under a scalar test
//!   that some lane needs them.
//! - a serial loop whose bounds differ between lanes runs to the largest extent, its body under `r < extent` (ragged sums).
//! - `f[i] = f[i] op e` at an index that is the same in all lanes is a reduction over the lanes: `f[i] op reduce_op(e)`, inactive
//!   lanes replaced by the identity by a select.
//! - storage allocated inside has one slot per lane, lanes fastest.
//! - `vectorized for w in [k, k + l)` inside makes vectors of `n l` lanes: `w` is `k + ramp(0, 1, n l) % l`. What depends on `v` alone has n lanes, and
//!   each of them is repeated l times where it meets more; coordinates then are functions of `ramp(0, 1, n l) / l`, of which
//!   `residues.rs` makes rows. Where `i` depends on `v` alone, `f[i] = f[i] op e` is a reduction of each l neighbours: `f[i] op reduce_op(e, n)`.
//!
//! Finally dense stores whose first element is provably a multiple of the lanes are marked `aligned`, from the promise on
//! strides in `flatten`.

pub(super) mod aligned;
mod lanes;
mod masks;
mod reduction;
mod spread;

use super::simplify::simplify_index;
use crate::error::Error;
use crate::expr::walk::uses_var;
use crate::expr::{Expr, Flat, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::schedule::{Directive, ForKind};
use lanes::Lanes;
use rustc_hash::FxHashSet;

/// See the module's description.
pub fn vectorize(s: &Stmt) -> Result<Stmt, Error> {
    vectorize_with(s, &FxHashSet::default())
}

/// As [`vectorize`], where nothing is promised of the buffers in `unaligned`.
pub fn vectorize_with(s: &Stmt, unaligned: &FxHashSet<Flat>) -> Result<Stmt, Error> {
    let mut error = None;
    let out = walk(s, &mut error);
    match error {
        Some(e) => Err(e),
        None => Ok(aligned::mark_aligned(&out, unaligned)),
    }
}

fn walk(s: &Stmt, error: &mut Option<Error>) -> Stmt {
    let Stmt::For { var, min, extent, kind: kind @ (ForKind::Vectorized | ForKind::GpuLane), body } = s
    else {
        return map_children(s, &mut Expr::clone, &mut |s| {
            if error.is_some() { s.clone() } else { walk(s, error) }
        });
    };
    let rule = match simplify_index(extent).as_int() {
        Some(n) if *kind == ForKind::GpuLane && n != 32 => {
            format!("a warp has 32 lanes, not {n}: split by 32 first")
        }
        // A vector of one lane is the scalar.
        Some(1) => {
            let (value, body) = (min.clone(), Box::new(walk(body, error)));
            return Stmt::Let { name: var.clone(), value, body };
        }
        Some(n) => match in_some_order(s, n) {
            Ok(s) => return s,
            Err(rule) => rule,
        },
        None => format!("the extent {extent} is no constant: split by a constant first"),
    };
    *error = Some(Error::Schedule {
        func: var.to_string(),
        directive: Directive::Kind { var: var.clone(), kind: *kind }.to_string(),
        rule,
    });
    Stmt::Block(vec![])
}

/// The loop `s` of `n` iterations as vectors. Loops directly inside of each other may change places, which moves lanes and no value: lanes that
/// meet at an element must be neighbours. Of several faults it is the one in the order of the schedule.
fn in_some_order(s: &Stmt, n: i64) -> Result<Stmt, String> {
    let vectors = |s: &Stmt, n| match s {
        Stmt::For { var, min, kind, body, .. } => Lanes::new(*kind).vector(var, min, n, body),
        s => Ok(s.clone()),
    };
    let first = vectors(s, n);
    let (mut at, mut loops) = (s, vec![]);
    while let Stmt::For { var, min, extent, kind: ForKind::Vectorized, body } = at {
        loops.push((var, min, extent));
        at = body;
    }
    let fixed = |e: &Expr| !loops.iter().any(|(var, ..)| uses_var(e, var));
    if first.is_ok() || !loops.iter().all(|(_, min, extent)| fixed(min) && fixed(extent)) {
        return first;
    }
    for _ in 1..loops.len() {
        loops.rotate_left(1);
        let around = |body, (var, min, extent): &(&Name, &Expr, &Expr)| Stmt::For {
            var: (*var).clone(),
            min: (*min).clone(),
            extent: (*extent).clone(),
            kind: ForKind::Vectorized,
            body: Box::new(body),
        };
        let Some(n) = simplify_index(loops[0].2).as_int() else { continue };
        let other = vectors(&loops.iter().rev().fold(at.clone(), around), n);
        if other.is_ok() {
            return other;
        }
    }
    first
}

#[cfg(test)]
mod tests;
