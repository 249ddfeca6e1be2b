//! `free<s>`: 1 where an element is not excluded, u8 over space s; run once when arrays or params are bound.

use super::fields::vars;
use super::reduce::{map_root, strip_name};
use super::{Scheduled, Skeleton};
use sumsq_codegen::{Expr, Func, Layout, Pipeline, ScalarType, Schedule};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::Domain;

/// The pipeline, if anything is excluded at all; elsewhere the mask is 1 throughout the domain.
pub fn pipeline(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("mask"), Schedule::new());
    for space in &k.spaces {
        let Some(excluded) = k.excluded(space.id) else { continue };
        let vars = vars(space.dims);
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let none = |_, _: usize, _: &[Expr]| unreachable!("Exclude reads no direction");
        let e = k.emit(&[excluded], k.master, Place::Element(space.id, at), &none).remove(0);
        let held = e.ne_(Expr::float(k.master, 0.0));
        let byte = |v| Expr::int(ScalarType::U8, v);
        let f = p.func(Func::new(names::free(space.id), &vars, vec![Expr::select(held, byte(0), byte(1))]));
        map_root(&mut s, &f, &Expr::param(strip_name(Domain::Space(space.id)), ScalarType::I32));
        p.output_with(&f, Layout::Planar, k.halos[space.id.index()].clone());
    }
    k.declare_inputs(&mut p, &s, k.master);
    (!p.outputs.is_empty()).then_some((p, s))
}
