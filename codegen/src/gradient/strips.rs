//! Large sums into few elements: the gradient of a kernel, a loss, statistics; and sums at coordinates that are data.
//!
//! ```text
//! f.update:        the sum over strips                         serial
//! f_partial, root: each strip's sums, from their lanes         parallel over strips, and over loops outside of them
//! f_sums:          one sum per lane and element, in registers  one sweep over the strip for up to ACCUMULATORS elements
//! ```
//!
//! The elements are cut into blocks as large as they are estimated to be, so that a block is written out; a buffer of another size
//! takes other numbers of blocks.

use crate::analysis::evaluate::evaluate;
use crate::expr::Name;
use crate::expr::walk::variables;
use crate::func::{Func, RVar, Update, Var};
use crate::gradient::schedule::{LONG, Maker, calls_in, lanes, written_out};
use crate::gradient::terms::FEW_ITERATIONS;
use crate::plan::validate::is_var;
use crate::schedule::{LoopLevel, Memory, StageId, Tail};

/// Iterations from which on a loop is worth vectors of partial sums.
const WIDE: i64 = 64;
/// Values of the last of several loops in a strip.
const ROWS: i32 = 16;
/// Values of an only long loop in a strip.
const RUN: i32 = 1 << 12;
/// Strips that are enough tasks.
pub(super) const ENOUGH: i64 = 8;
/// Copies of all elements for sums at coordinates that are data: so many threads may sum at once.
const COPIES: i64 = 4;
/// Sums that one sweep adds to, each a vector.
pub(super) const ACCUMULATORS: i64 = 64;
/// Nodes of all terms of a sweep: each sum has a copy of its term, which shares little with others where it is long.
const NODES: usize = 4096;

/// The Funcs that a sum is cut into: sums of strips, and of lanes.
pub(super) fn parts(f: &str, k: usize) -> [Name; 2] {
    [format!("{f}_partial{k}").into(), format!("{f}_sums{k}").into()]
}

impl Maker<'_> {
    /// Strips of dimension `d`, so long, each on a thread that goes through what reaches it. A term is tested once for the loops inside of all that
    /// move it along `d`.
    pub(super) fn gathers(&mut self, f: &Func, k: usize, u: &Update, d: usize, length: i32) {
        let own = |d: usize| &**f.vars[d].name();
        let [strip, row] = ["strip", "row"].map(|end| format!("{}_{end}", own(d)));
        let pure = (0..f.vars.len()).filter(|&e| is_var(&u.args[e], f.vars[e].name())).map(own);
        let moving = variables(&u.args[d]);
        let still = u.rdom.vars.iter().take_while(|r| !moving.contains(&r.name)).count();
        let mut order: Vec<&str> =
            u.rdom.vars.iter().map(|r| &*r.name).chain(pure).chain([&*strip]).collect();
        order.insert(still, &row);
        let update = self.schedule.update(&f.name, k - 1).gather(own(d));
        let update = update.split(own(d), &strip, &row, length, Tail::GuardWithIf).reorder(&order);
        _ = written_out(u).fold(update, |s, r| s.unroll(&r.name)).parallel(&strip);
    }

    /// Strips of the last loop, each on a thread, with a copy of all elements for its sums.
    pub(super) fn copies(&mut self, f: &Func, k: usize, u: &Update) {
        // Coordinates without variables are no loops of the sum over copies.
        let moving: Vec<&Var> =
            f.vars.iter().zip(&u.args).filter(|(_, a)| !variables(a).is_empty()).map(|(v, _)| v).collect();
        let (Some(last), Some(&first)) = (u.rdom.vars.last(), moving.first()) else { return };
        let extent = evaluate(&last.extent, &self.known).unwrap_or(1);
        let strip_size = i32::try_from((extent + COPIES - 1) / COPIES).unwrap_or(i32::MAX).max(1);
        let partial = format!("{}_partial{k}", f.name);
        let (strip, row) = (format!("{}_strip", last.name), format!("{}_row", last.name));
        let (first, lanes) = (&**first.name(), lanes(f));
        let update = self.schedule.update(&f.name, k - 1);
        let update = update.split(&last.name, &strip, &row, strip_size, Tail::GuardWithIf);
        let update = update.rfactor(&[(&strip, "copy")], &partial);
        let (outer, inner) = (format!("{first}o"), format!("{first}i"));
        let update = update.vectorize(first, lanes, Tail::Predicate);
        let others: Vec<&str> = moving[1..].iter().map(|v| &**v.name()).collect();
        let order: Vec<&str> = [&*inner, &*strip, &*outer].into_iter().chain(others).collect();
        let update = update.reorder(&order);
        _ = moving[1..].iter().rev().fold(update, |update, v| update.parallel(v.name()));
        _ = self.schedule.func(&partial).compute_root().vectorize(first, lanes, Tail::Auto).parallel("copy");
        let update = self.schedule.update(&partial, 0).parallel("copy");
        _ = written_out(u).filter(|r| r.name != last.name).fold(update, |s, r| s.unroll(&r.name));
    }

    /// Schedules update `k - 1` of `f`, a sum that commutes, over elements of these sizes. `pure` are the dimensions that run over
    /// their own variables.
    pub(super) fn strips(&mut self, f: &Func, k: usize, u: &Update, pure: &[usize], sizes: &[i64]) {
        let Some((last, inner, outer, length)) = self.cut(u) else { return };
        let [partial, sums] = parts(&f.name, k);
        let (strip, row) = (format!("{}_strip", last.name), format!("{}_row", last.name));
        let known = |r: &RVar| evaluate(&r.extent, &self.known);
        let shared: Vec<(&str, String)> = std::iter::once((&*strip, "strip".to_string()))
            .chain(outer.iter().map(|r| (&*r.name, format!("strip_{}", r.name))))
            .collect();
        let pairs: Vec<(&str, &str)> = shared.iter().map(|(r, v)| (*r, v.as_str())).collect();
        let strips: Vec<&str> = shared.iter().map(|(_, v)| v.as_str()).collect();
        let update = self.schedule.update(&f.name, k - 1);
        _ = update.split(&last.name, &strip, &row, length, Tail::GuardWithIf).rfactor(&pairs, &partial);
        _ = self.schedule.func(&partial).compute_root();
        // Loops of a strip, innermost first.
        let mut loops: Vec<String> = inner.iter().map(|r| r.name.to_string()).collect();
        loops.push(row);
        let wide = |r: &RVar| known(r).is_none_or(|n| n >= WIDE);
        let is_placed = |d: usize| pure.contains(&d) || variables(&u.args[d]).is_empty();
        if let Some(swept) = u.rdom.vars[..loops.len()].iter().position(wide)
            && (0..f.vars.len()).all(is_placed)
        {
            let vector = format!("{}_vector", loops[swept]);
            let swept = std::mem::replace(&mut loops[swept], vector);
            let registers = (ACCUMULATORS / f.types().len() as i64).max(1);
            let most = ((NODES / self.nodes(f, k).max(1)) as i64).clamp(1, registers);
            // Terms of which each reads elements of its own gain nothing by being added in one sweep.
            let reads = calls_in(&u.values);
            let shares =
                |v: &Var| reads.iter().any(|(_, args)| !args.iter().any(|a| variables(a).contains(v.name())));
            let sums_of = |d: usize| if shares(&f.vars[d]) { sizes[d] } else { 1 };
            let elements: Vec<(usize, i64)> = pure.iter().map(|&d| (d, sums_of(d))).collect();
            return self.in_registers(f, [&partial, &sums], &swept, (&loops, &strips), &elements, most);
        }
        let elements = pure.iter().map(|&d| &**f.vars[d].name());
        let order: Vec<&str> =
            loops.iter().map(|s| &**s).chain(elements).chain(strips.iter().copied()).collect();
        let update = self.schedule.update(&partial, 0).reorder(&order);
        let update = strips.iter().rev().fold(update, |update, v| update.parallel(v));
        _ = written_out(u).filter(|r| inner.contains(r)).fold(update, |s, r| s.unroll(&r.name));
    }

    /// The loop of a sum that is cut into strips, the loops inside and outside of it, and the length of a strip. It is the last one, unless this
    /// has too few iterations for tasks, each of which sums many terms.
    fn cut<'u>(&self, u: &'u Update) -> Option<(&'u RVar, &'u [RVar], &'u [RVar], i32)> {
        let known = |r: &RVar| evaluate(&r.extent, &self.known);
        let is_long = |r: &&RVar| known(r).is_none_or(|n| n > FEW_ITERATIONS);
        let (mut inner, mut tasks) = (&u.rdom.vars[..], 1i64);
        loop {
            let length = if inner.iter().filter(is_long).count() <= 1 { RUN } else { ROWS };
            let (last, rest) = inner.split_last()?;
            let extent = known(last).unwrap_or(i64::MAX);
            let strips = (extent - 1) / i64::from(length) + 1;
            let terms = rest.iter().fold(1i64, |n, r| n.saturating_mul(known(r).unwrap_or(i64::MAX)));
            if tasks.saturating_mul(strips) >= ENOUGH || rest.is_empty() || terms < LONG {
                return Some((last, rest, &u.rdom.vars[inner.len()..], length));
            }
            tasks = tasks.saturating_mul(extent);
            inner = rest;
        }
    }

    /// The sums of a strip in registers, at most so many of each dimension and `most` in all in one sweep: in vectors along the loop that is swept,
    /// which `loops` hold as that over vectors.
    fn in_registers(
        &mut self,
        f: &Func,
        parts: [&Name; 2],
        swept: &str,
        (loops, strips): (&[String], &[&str]),
        elements: &[(usize, i64)],
        most: i64,
    ) {
        let [partial, sums] = parts;
        let (vector, lane) = (format!("{swept}_vector"), format!("{swept}_lane"));
        let mut update = self.schedule.update(partial, 0);
        update = update.split(swept, &vector, &lane, lanes(f), Tail::Predicate);
        let (mut left, mut inside, mut outside) = (most, vec![], vec![]);
        for (v, size) in elements.iter().map(|&(d, size)| (&f.vars[d], size)) {
            let n = size.clamp(1, left);
            left /= n;
            if n == 1 {
                outside.push(v.name().to_string());
                continue;
            }
            let (block, element) = (format!("{}_block", v.name()), format!("{}_element", v.name()));
            update = update.split(v.name(), &block, &element, n as i32, Tail::GuardWithIf);
            inside.push((v.name().to_string(), element));
            outside.push(block);
        }
        outside.extend(strips.iter().map(|s| s.to_string()));
        let elements = inside.iter().map(|(_, e)| &**e);
        let order: Vec<&str> =
            [&*lane].into_iter().chain(elements).chain(outside.iter().map(|s| &**s)).collect();
        let update = update.rfactor(&[(&lane, "lane")], sums).reorder(&order);
        _ = strips.iter().rev().fold(update, |update, v| update.parallel(v));
        let stage = StageId { func: partial.clone(), stage: 1 };
        let level = LoopLevel { stage, var: Name::from(&*outside[0]) };
        let storage =
            ["lane"].into_iter().chain(f.vars.iter().map(|v| &**v.name())).chain(strips.iter().copied());
        let storage: Vec<&str> = storage.collect();
        let start = self.schedule.func(sums).compute_at(level).store_in(Memory::Register);
        let start = start.reorder_storage(&storage).vectorize_loop("lane");
        _ = inside.iter().fold(start, |s, (v, _)| s.unroll(v));
        let own = inside.iter().map(|(v, _)| &**v);
        let order: Vec<&str> = ["lane"].into_iter().chain(own).chain(loops.iter().map(|s| &**s)).collect();
        let update = self.schedule.update(sums, 0).reorder(&order).vectorize_loop("lane");
        _ = inside.iter().fold(update, |s, (v, _)| s.unroll(v));
    }
}
