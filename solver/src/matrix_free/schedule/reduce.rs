//! Reductions over a domain, the same for any number of threads.
//!
//! The domain is cut along its last dim into strips, whose height comes from sizes alone; strips run in parallel, each with one
//! accumulator per vector lane; lanes, then strips, are summed in a fixed order. All accumulators are float64.

use crate::matrix_free::draft::{Draft, all};
use crate::matrix_free::schedule::nest::{Kind, Strip};
use crate::matrix_free::skeleton::Skeleton;
use sumsq_codegen::{Expr, Func, RDom, ScalarType};
use sumsq_energy::model::Domain;

/// Operator of one element of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Sum from 0.
    Add,
    /// Maximum from 0.
    Max,
}

/// The points of a domain to reduce over.
pub struct Points {
    /// The reduction domain.
    pub rdom: RDom,
    /// Its variables as expressions: the coordinates of a point.
    pub coordinates: Vec<Expr>,
    /// The share of a domain that one thread takes at a time.
    pub strip: Strip,
}

impl Skeleton {
    /// All points of a domain.
    pub fn points(&self, domain: Domain) -> Points {
        let (vars, extents) = self.domain_vars(domain);
        let vars = vars.into_iter().zip(extents).map(|(v, n)| (format!("r{v}"), Expr::from(0), n));
        let rdom = RDom::new(vars);
        let coordinates = (0..rdom.vars.len()).map(|d| rdom.var(d)).collect();
        Points { rdom, coordinates, strip: Strip::Of(domain) }
    }
}

impl Draft<'_> {
    /// Adds the scalar tuple Func `name` that reduces `terms` (float64 each) over `points`, in a nest of its own.
    pub fn reduce(&mut self, name: &str, points: &Points, terms: Vec<(Op, Expr)>) -> Func {
        let init = terms.iter().map(|_| Expr::float(ScalarType::F64, 0.0)).collect();
        let f = Func::new(name, &[], init);
        let values = all(&f, &[]).into_iter().zip(terms).map(|(old, (op, t))| match op {
            Op::Add => old + t,
            Op::Max => old.max(t),
        });
        let values = values.collect();
        let f = self.p.func(f.update(vec![], values, points.rdom.clone()));
        let over = points.rdom.vars.iter().map(|v| v.name.clone()).collect();
        self.nest(&f, Kind::Reduction(over, points.strip));
        f
    }
}
