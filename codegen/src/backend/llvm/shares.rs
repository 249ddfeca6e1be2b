//! A large module compiled on several threads.
//!
//! Passes and code generation look at one function at a time. So a module's functions are shared out: each thread reads the module into a context of
//! its own, drops the bodies of the functions that are others', and makes an object of what is left. The instructions of a function are the same
//! whichever share it is in; the linker joins the objects. The bodies of loops, which are hidden in a module that is compiled whole, are called
//! after its entry point there, as other objects refer to them.

use super::ir::Ir;
use super::optimize::Machine;
use super::stmt::Module;
use crate::error::Error;
use crate::jobs::in_parallel;
use crate::limits::Limits;
use crate::stack::STACK_BYTES;
use crate::target::Target;
use std::collections::BTreeSet;

/// Instructions of a share: below, reading the module costs as much as a second thread saves.
const LEAST_INSTRUCTIONS: u64 = 1500;
/// Most shares.
const MOST_SHARES: u64 = 16;

/// Functions that one thread compiles, by their places in [`Module::functions`].
type Share = BTreeSet<usize>;

/// The functions of a module in shares of about as many instructions, one for each core; a single one where the module is small.
pub(super) fn shares(module: &Module, cores: usize) -> Vec<Share> {
    let mut all: Vec<(u64, usize)> =
        module.functions().map(|f| module.ir.instructions_of(f)).zip(0..).collect();
    let total: u64 = all.iter().map(|(n, _)| n).sum();
    let count = (cores as u64).min(MOST_SHARES).min(total / LEAST_INSTRUCTIONS).min(all.len() as u64).max(1);
    let mut shares: Vec<(u64, Share)> = vec![(0, Share::new()); count as usize];
    all.sort_by(|a, b| b.cmp(a));
    for (instructions, place) in all {
        let Some(least) = shares.iter_mut().min_by_key(|(n, _)| *n) else { break };
        least.0 += instructions;
        least.1.insert(place);
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// The objects of the shares of a module.
pub(super) fn objects(
    module: &Module,
    name: &str,
    target: &Target,
    limits: &Limits,
    shares: Vec<Share>,
) -> Result<Vec<Vec<u8>>, Error> {
    let bitcode = module.ir.bitcode();
    let names: Vec<String> = module.functions().map(|f| module.ir.name(f)).collect();
    in_parallel(shares, STACK_BYTES, |own: Share| {
        let fail = |message| Error::Backend { pipeline: name.into(), message };
        let ir = Ir::of_bitcode(&bitcode).map_err(fail)?;
        let others = names.iter().zip(0..).filter(|(_, place)| !own.contains(place));
        others.for_each(|(other, _)| ir.lend(other));
        let machine = Machine::new(target, limits.effort).map_err(fail)?;
        machine.drop_lent(&ir).map_err(fail)?;
        machine.optimize(&ir).map_err(fail)?;
        limits.in_time(name)?;
        Ok(machine.object(&ir).map_err(fail)?.bytes().to_vec())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::emit;
    use super::super::jit::Code;
    use super::super::optimize::Object;
    use super::*;
    use crate::func::{Pipeline, Source, Var};
    use crate::lower::{LowerOptions, lower};
    use crate::schedule::Schedule;

    /// Funcs in a chain, all at root: each adds 60 values of the one before, where `f0(x) = x`.
    pub(crate) fn chain() -> (Pipeline, Schedule) {
        let (x, mut p) = (Var::new("x"), Pipeline::new("chain"));
        let (mut last, mut schedule) = (p.define("f0", [x], x.expr()), String::new());
        for k in 1..=6 {
            let sum = (0..60).map(|j| last.of(x + j * j)).reduce(|a, b| a + b).unwrap();
            schedule.push_str(&format!(
                "{}: compute_root split(x, strip, x, 16, auto) vectorize(x, 4) parallel(strip)\n",
                last.name
            ));
            last = p.define(format!("f{k}"), [x], sum);
        }
        p.output(&last);
        (p, Schedule::parse(&schedule).unwrap())
    }

    #[test]
    fn objects_of_shares_are_one_program() {
        let (p, schedule) = chain();
        let lowered = lower(&p, &schedule, &LowerOptions::default()).unwrap();
        let (target, limits) = (Target::host(), Limits::default());
        let machine = Machine::new(&target, limits.effort).unwrap();
        let module = emit(&lowered, &target, &machine).unwrap();
        let count = module.functions().count();
        assert!(count > 5 && shares(&module, 1).len() == 1);
        let all = shares(&module, 3);
        assert_eq!(all.len(), 3);
        // Each function has one place.
        let places: Vec<usize> = all.iter().flatten().copied().collect();
        assert_eq!((places.len(), places.into_iter().collect::<Share>()), (count, (0..count).collect()));
        let of = |share: &Share| -> u64 {
            let own = module.functions().zip(0..).filter(|(_, place)| share.contains(place));
            own.map(|(f, _)| module.ir.instructions_of(f)).sum()
        };
        let total = of(&(0..count).collect());
        assert!(
            all.iter().all(|share| of(share) < total / 2),
            "{:?}",
            all.iter().map(of).collect::<Vec<_>>()
        );
        module.name_after("tests.shares");
        let objects = objects(&module, "chain", &target, &limits, all).unwrap();
        let load = |objects: &[Vec<u8>]| {
            Code::load(objects.iter().map(|o| Object::from_bytes(o)).collect(), "tests.shares")
        };
        assert!(load(&objects[..2]).is_err(), "an object refers to nothing in others");
        load(&objects).unwrap();
    }
}
