//! x in the linear solver's precision and the hoisted parts: what applyJTJ reads.
//!
//! Outputs `xl<s>` (where the precisions differ) and `h<s>` (where anything is hoisted), tuples over space s.

use super::fields::{over, vars};
use super::reduce::{map_root, strip_name};
use super::{Scheduled, Skeleton};
use sumsq_codegen::{Expr, Func, Layout, Pipeline, ScalarType, Schedule};
use sumsq_energy::emit::{Place, component_count, names};
use sumsq_energy::model::{Domain, SpaceId};

/// The pipeline, if there is anything to do.
pub fn pipeline(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("linearise"), Schedule::new());
    let spaces = (0..k.energy.spaces.len() as u32).map(SpaceId);
    for space in spaces {
        let vars = vars(k.energy.spaces[space.index()].len());
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let strip = Expr::param(strip_name(Domain::Space(space)), ScalarType::I32);
        let mut root = |p: &mut Pipeline, name: String, values: Vec<Expr>| {
            let values = values.into_iter().map(|v| v.cast(k.linear)).collect();
            let f = p.func(Func::new(name, &vars, values));
            map_root(&mut s, &f, &strip);
            p.output_with(&f, Layout::Planar, k.halos[space.index()].clone());
        };
        let components = component_count(k.energy, space);
        if k.master != k.linear && components > 0 {
            let x = |c| Expr::call(names::unknowns(space), k.master, at.clone(), c);
            root(&mut p, over("xl", space), (0..components).map(x).collect());
        }
        // Also where no unknown lives: a factor of the edges, an array computed from globals.
        let hoisted = k.hoisted(space);
        if !hoisted.is_empty() {
            let none = |_, _: usize, _: &[Expr]| unreachable!("hoisted parts read no direction");
            let h = k.emit(hoisted, k.master, Place::Element(space, at.clone()), &none);
            root(&mut p, over("h", space), h);
        }
    }
    k.complete(&mut p, &mut s, k.master);
    (!p.outputs.is_empty()).then_some((p, s))
}
