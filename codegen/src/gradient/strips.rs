//! Large sums into few elements: the gradient of a kernel, a loss, statistics; and sums at coordinates that are data.
//!
//! ```text
//! f.update:        the sum over strips                         serial
//! f_partial, root: each strip's sums, from their lanes         parallel over strips
//! f_sums:          one sum per lane and element, in registers  one sweep over the strip for up to ACCUMULATORS elements
//! ```
//!
//! The elements are cut into blocks as large as they are estimated to be, so that a block is written out; a buffer of another size
//! takes other numbers of blocks.

use crate::analysis::evaluate::evaluate;
use crate::expr::Name;
use crate::expr::walk::variables;
use crate::func::{Func, RVar, Update, Var};
use crate::gradient::schedule::{Maker, calls_in, lanes, written_out};
use crate::gradient::terms::FEW_ITERATIONS;
use crate::schedule::{LoopLevel, Memory, StageId, Tail};

/// Iterations from which on a loop is worth vectors of partial sums.
const WIDE: i64 = 64;
/// Values of the last of several loops in a strip.
const ROWS: i32 = 16;
/// Values of an only long loop in a strip.
const RUN: i32 = 1 << 12;
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
    /// Strips of the last loop, each on a thread, with a copy of all elements for its sums.
    pub(super) fn copies(&mut self, f: &Func, k: usize, u: &Update) {
        // Coordinates without variables are no loops of the sum over copies.
        let moving: Vec<&Var> =
            f.vars.iter().zip(&u.args).filter(|(_, a)| !variables(a).is_empty()).map(|(v, _)| v).collect();
        let (Some(last), Some(&first), Some(&rows)) = (u.rdom.vars.last(), moving.first(), moving.last())
        else {
            return;
        };
        let extent = evaluate(&last.extent, &self.known).unwrap_or(1);
        let strip_size = i32::try_from((extent + COPIES - 1) / COPIES).unwrap_or(i32::MAX).max(1);
        let partial = format!("{}_partial{k}", f.name);
        let (strip, row) = (format!("{}_strip", last.name), format!("{}_row", last.name));
        let (first, rows, lanes) = (&**first.name(), &**rows.name(), lanes(f));
        let update = self.schedule.update(&f.name, k - 1);
        let update = update.split(&last.name, &strip, &row, strip_size, Tail::GuardWithIf);
        let update = update.rfactor(&[(&strip, "copy")], &partial);
        let (outer, inner) = (format!("{first}o"), format!("{first}i"));
        let update = update.vectorize(first, lanes, Tail::Predicate);
        let others: Vec<&str> = moving[1..].iter().map(|v| &**v.name()).collect();
        let order: Vec<&str> = [&*inner, &*strip, &*outer].into_iter().chain(others).collect();
        let update = update.reorder(&order);
        if moving.len() > 1 {
            _ = update.parallel(rows);
        }
        _ = self.schedule.func(&partial).compute_root().vectorize(first, lanes, Tail::Auto).parallel("copy");
        let update = self.schedule.update(&partial, 0).parallel("copy");
        _ = written_out(u).filter(|r| r.name != last.name).fold(update, |s, r| s.unroll(&r.name));
    }

    /// Schedules update `k - 1` of `f`, a sum that commutes, over elements of these sizes. `pure` are the dimensions that run over
    /// their own variables.
    pub(super) fn strips(&mut self, f: &Func, k: usize, u: &Update, pure: &[usize], sizes: &[i64]) {
        let Some(last) = u.rdom.vars.last() else { return };
        let [partial, sums] = parts(&f.name, k);
        let (strip, row) = (format!("{}_strip", last.name), format!("{}_row", last.name));
        let known = |r: &RVar| evaluate(&r.extent, &self.known);
        let is_run = u.rdom.vars.iter().filter(|r| known(r).is_none_or(|n| n > FEW_ITERATIONS)).count() == 1;
        let length = if is_run { RUN } else { ROWS };
        let update = self.schedule.update(&f.name, k - 1);
        _ = update
            .split(&last.name, &strip, &row, length, Tail::GuardWithIf)
            .rfactor(&[(&strip, "strip")], &partial);
        _ = self.schedule.func(&partial).compute_root();
        // Loops of a strip, innermost first.
        let mut loops: Vec<String> = u.rdom.vars.iter().map(|r| r.name.to_string()).collect();
        loops.pop();
        loops.push(row);
        let wide = |r: &RVar| known(r).is_none_or(|n| n >= WIDE);
        let is_placed = |d: usize| pure.contains(&d) || variables(&u.args[d]).is_empty();
        if let Some(swept) = u.rdom.vars.iter().position(wide)
            && (0..f.vars.len()).all(is_placed)
        {
            let vector = format!("{}_vector", loops[swept]);
            let swept = std::mem::replace(&mut loops[swept], vector);
            let most = (NODES / self.nodes(f, k).max(1)).clamp(1, ACCUMULATORS as usize) as i64;
            // Terms of which each reads elements of its own gain nothing by being added in one sweep.
            let reads = calls_in(&u.values);
            let shares =
                |v: &Var| reads.iter().any(|(_, args)| !args.iter().any(|a| variables(a).contains(v.name())));
            let sums_of = |d: usize| if shares(&f.vars[d]) { sizes[d] } else { 1 };
            let elements: Vec<(usize, i64)> = pure.iter().map(|&d| (d, sums_of(d))).collect();
            return self.in_registers(f, [&partial, &sums], &swept, &loops, &elements, most);
        }
        let elements = pure.iter().map(|&d| f.vars[d].name().to_string());
        let order: Vec<String> = loops.into_iter().chain(elements).chain(["strip".into()]).collect();
        let order: Vec<&str> = order.iter().map(|s| &**s).collect();
        let update = self.schedule.update(&partial, 0).reorder(&order).parallel("strip");
        _ = written_out(u).filter(|r| r.name != last.name).fold(update, |s, r| s.unroll(&r.name));
    }

    /// The sums of a strip in registers, at most so many of each dimension and `most` in all in one sweep: in vectors along the loop that is swept,
    /// which `loops` hold as that over vectors.
    fn in_registers(
        &mut self,
        f: &Func,
        parts: [&Name; 2],
        swept: &str,
        loops: &[String],
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
        outside.push("strip".into());
        let elements = inside.iter().map(|(_, e)| &**e);
        let order: Vec<&str> =
            [&*lane].into_iter().chain(elements).chain(outside.iter().map(|s| &**s)).collect();
        _ = update.rfactor(&[(&lane, "lane")], sums).reorder(&order).parallel("strip");
        let stage = StageId { func: partial.clone(), stage: 1 };
        let level = LoopLevel { stage, var: Name::from(&*outside[0]) };
        let storage = ["lane"].into_iter().chain(f.vars.iter().map(|v| &**v.name())).chain(["strip"]);
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
