//! x in the linear solver's precision and the hoisted parts: what applyJTJ reads.
//!
//! Outputs `xl<s>` (where the precisions differ) and `h<s>` (where anything is hoisted), tuples over space s.

use super::fields::{over, vars};
use super::reduce::{map_root, strip_name};
use super::{Scheduled, Skeleton};
use sumsq_codegen::{Expr, Func, Layout, Pipeline, ScalarType, Schedule};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::Domain;

/// The pipeline, if there is anything to do.
pub fn pipeline(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("linearise"), Schedule::new());
    for space in &k.spaces {
        let vars = vars(space.dims);
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let strip = Expr::param(strip_name(Domain::Space(space.id)), ScalarType::I32);
        let mut root = |p: &mut Pipeline, name: String, values: Vec<Expr>| {
            let values = values.into_iter().map(|v| v.cast(k.linear)).collect();
            let f = p.func(Func::new(name, &vars, values));
            map_root(&mut s, &f, &strip);
            p.output_with(&f, Layout::Planar, k.halos[space.id.index()].clone());
        };
        if k.master != k.linear {
            let x = |c| Expr::call(names::unknowns(space.id), k.master, at.clone(), c);
            root(&mut p, over("xl", space.id), (0..space.components).map(x).collect());
        }
        let hoisted = k.hoisted(space.id);
        if !hoisted.is_empty() {
            let none = |_, _: usize, _: &[Expr]| unreachable!("hoisted parts read no direction");
            let h = k.emit(hoisted, k.master, Place::Element(space.id, at.clone()), &none);
            root(&mut p, over("h", space.id), h);
        }
    }
    k.complete(&mut p, &mut s, k.master);
    (!p.outputs.is_empty()).then_some((p, s))
}
