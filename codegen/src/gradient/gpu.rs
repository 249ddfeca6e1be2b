//! A first schedule for a GPU, from sizes alone.
//!
//! | Func | gets |
//! |---|---|
//! | cheap with all that is substituted into it, or read at one place by one other | nothing: it is substituted where it is read |
//! | a sum of which one other Func reads each element once | that Func's loop over threads |
//! | others | a kernel for each stage: threads over up to three pure dimensions, the sums of an element all its thread's |
//! | an update without a pure dimension | the host, so that bits do not depend on the run; where atomics are wanted, threads over its own loops |
//!
//! Source: T.-M. Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section 4.4.

use crate::analysis::associative::Reduction;
use crate::error::Error;
use crate::expr::walk::variables;
use crate::func::{Func, Pipeline, RVar, Update};
use crate::gradient::schedule::{Home, Maker, written_out};
use crate::gradient::support::Stage;
use crate::schedule::{LoopLevel, Schedule, Tail};

/// Threads of a block along its first, second and third dimension.
const BLOCK: [i32; 3] = [16, 16, 4];

/// A schedule of `p` for a GPU, as text and all. `estimates` are as for [`schedule`](crate::gradient::schedule). With `atomics` sums at places that
/// data chooses are of all threads at once, in an order that no run has to repeat.
///
/// # Errors
/// A pipeline that is refused anyway.
pub fn gpu_schedule(p: &Pipeline, estimates: &[(&str, &[i32])], atomics: bool) -> Result<Schedule, Error> {
    Maker::over(p, estimates, &[], &[], |m, f, home| {
        if let Some(Home::Vectors { reader, var }) = home {
            _ = m.schedule.func(&f.name).compute_at(LoopLevel::pure(&reader, &inner(&var)));
            m.written_out(f);
        } else {
            m.kernels(f, atomics);
        }
    })
}

impl Maker<'_> {
    /// Few iterations of updates are written out.
    fn written_out(&mut self, f: &Func) {
        for (k, u) in f.updates.iter().enumerate() {
            let handle = self.schedule.update(&f.name, k);
            _ = written_out(u).fold(handle, |handle, r| handle.unroll(&r.name));
        }
    }

    /// A kernel for each stage of a Func that is computed at root.
    fn kernels(&mut self, f: &Func, atomics: bool) {
        let Some(sizes) = self.sizes(f) else { return };
        if !self.is_output(f) {
            _ = self.schedule.func(&f.name).compute_root();
        }
        for (k, stage) in Stage::all(f).iter().enumerate() {
            let update = k.checked_sub(1).map(|k| &f.updates[k]);
            let pure = (0..sizes.len()).filter(|&d| stage.is_pure(f, d));
            let pure: Vec<(String, i64)> = pure.map(|d| (f.vars[d].name().to_string(), sizes[d])).collect();
            let reductions = update.map_or(&[][..], |u| &u.rdom.vars);
            let reductions: Vec<(String, i64)> =
                reductions.iter().map(|r| (r.name.to_string(), self.extent(r))).collect();
            let atomic = atomics && update.is_some_and(|u| scatters(f, u));
            let (threads, inside) =
                if atomic { ([pure, reductions].concat(), vec![]) } else { (pure, reductions) };
            if !threads.is_empty() {
                self.kernel(f, k, threads, &inside, atomic);
            }
        }
    }

    /// Threads over the largest loops of these, with loops inside of each thread.
    fn kernel(
        &mut self,
        f: &Func,
        k: usize,
        loops: Vec<(String, i64)>,
        inside: &[(String, i64)],
        atomic: bool,
    ) {
        let mut handle = match k {
            0 => self.schedule.func(&f.name),
            k => self.schedule.update(&f.name, k - 1),
        };
        // The first one stays, whatever its size: what lies beside each other is for threads beside each other.
        let mut by_size: Vec<usize> = (1..loops.len()).collect();
        by_size.sort_by_key(|&i| std::cmp::Reverse(loops[i].1));
        let mut tiled: Vec<usize> = by_size.into_iter().take(BLOCK.len() - 1).chain([0]).collect();
        tiled.sort_unstable();
        let (inner, outer): (Vec<String>, Vec<String>) =
            tiled.iter().map(|&at| (inner(&loops[at].0), outer(&loops[at].0))).unzip();
        let [inner, outer] =
            [&inner, &outer].map(|all| all.iter().map(|name| &**name).collect::<Vec<&str>>());
        for (((&at, o), i), most) in tiled.iter().zip(&outer).zip(&inner).zip(BLOCK) {
            let threads = loops[at].1.clamp(1, most.into()) as u32;
            let threads = threads.next_power_of_two() as i32;
            handle = handle.split(&loops[at].0, o, i, threads, Tail::GuardWithIf);
        }
        let others = (0..loops.len()).filter(|i| !tiled.contains(i)).map(|i| &*loops[i].0);
        let own = inside.iter().map(|(name, _)| &**name);
        let order: Vec<&str> =
            own.chain(inner.iter().copied()).chain(outer.iter().copied()).chain(others).collect();
        handle = handle.reorder(&order).gpu_blocks(&outer).gpu_threads(&inner);
        if atomic {
            handle = handle.relaxed().atomic();
        }
        let update = k.checked_sub(1).map(|k| &f.updates[k]).filter(|_| !inside.is_empty());
        _ = update.into_iter().flat_map(written_out).fold(handle, |handle, r| handle.unroll(&r.name));
    }
}

/// True for an update whose loops are sums at places that they choose.
fn scatters(f: &Func, u: &Update) -> bool {
    let reduction = Reduction::of(&f.name, &u.args, &u.values, u.rdom.predicate.as_ref());
    let moves = |r: &RVar| u.args.iter().any(|a| variables(a).contains(&r.name));
    reduction.is_some_and(|r| r.commutes()) && u.rdom.vars.iter().any(moves)
}

fn inner(name: &str) -> String {
    format!("{name}i")
}

fn outer(name: &str) -> String {
    format!("{name}o")
}
