//! "Which region of each input do you need?", asked for given sizes and parameters, before there are any buffers.
//!
//! Bounds inference knows the regions as expressions over extents of buffers, parameters and let-bound names; a query keeps
//! these and evaluates them. The answer is what the compiled code itself checks its buffers against.

use crate::analysis::algebra::Interval;
use crate::error::Error;
use crate::expr::{Expr, ExprKind, Name, Param, Part};
use crate::func::Pipeline;
use crate::reference::{Value, eval_scalar};
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use indexmap::IndexMap;

/// First and last coordinate in each dimension; nothing is read where some first exceeds its last.
pub type Region = Vec<(i64, i64)>;

/// The required regions of a scheduled pipeline, not yet evaluated.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BoundsQuery {
    pub(super) pipeline: String,
    /// Names in the order of their definitions.
    pub(super) lets: Vec<(Name, Expr)>,
    /// Per input that is read, and not trusted to be read inside.
    pub(super) inputs: Vec<(Name, Vec<Interval>)>,
}

impl BoundsQuery {
    /// The query for `p` under `s`.
    pub fn of(p: &Pipeline, s: &Schedule) -> Result<BoundsQuery, Error> {
        on_large_stack(|| Ok(crate::nests::build_nests(&crate::lower::plan(p, s)?)?.query))
    }

    /// Regions of the inputs for buffers of these extents (those of all outputs, and of inputs whose extents the algorithm
    /// mentions) and these parameters. Of a strided buffer, which may start anywhere, the minima matter, too: see
    /// [`BoundsQuery::regions_over`].
    pub fn regions(
        &self,
        extents: &[(&str, &[i32])],
        params: &[(&str, Value)],
    ) -> Result<IndexMap<Name, Region>, Error> {
        let sizes = |(name, n): &(&str, &[i32])| {
            n.iter().enumerate().map(|(d, n)| (Param::Of((*name).into(), Part::Extent(d)), *n)).collect()
        };
        self.regions_of(extents.iter().flat_map::<Vec<_>, _>(sizes), params)
    }

    /// As [`BoundsQuery::regions`] for buffers over these domains, `(min, extent)` per dimension.
    pub fn regions_over(
        &self,
        domains: &[(&str, &[(i32, i32)])],
        params: &[(&str, Value)],
    ) -> Result<IndexMap<Name, Region>, Error> {
        let ends = |(name, dims): &(&str, &[(i32, i32)])| {
            let name = Name::from(*name);
            let of = |part| Param::Of(name.clone(), part);
            let dims = dims.iter().enumerate();
            dims.flat_map(|(d, (min, n))| [(of(Part::Min(d)), *min), (of(Part::Extent(d)), *n)]).collect()
        };
        self.regions_of(domains.iter().flat_map::<Vec<_>, _>(ends), params)
    }

    fn regions_of(
        &self,
        sizes: impl Iterator<Item = (Param, i32)>,
        params: &[(&str, Value)],
    ) -> Result<IndexMap<Name, Region>, Error> {
        let mut known: Vec<(Param, Value)> = params.iter().map(|&(n, v)| (n.into(), v)).collect();
        known.extend(sizes.map(|(p, n)| (p, Value::Int(n as i64))));
        let mut vars: Vec<(Name, i64)> = vec![];
        for (name, value) in &self.lets {
            // What no region needs may be impossible to know, such as a bound that is read from memory.
            if let Ok(v) = self.evaluate(value, &vars, &known) {
                vars.push((name.clone(), v));
            }
        }
        let mut regions = IndexMap::new();
        for (name, dims) in &self.inputs {
            let mut region = vec![];
            for i in dims {
                region.push((self.evaluate(&i.min, &vars, &known)?, self.evaluate(&i.max, &vars, &known)?));
            }
            regions.insert(name.clone(), region);
        }
        Ok(regions)
    }

    fn evaluate(&self, e: &Expr, vars: &[(Name, i64)], params: &[(Param, Value)]) -> Result<i64, Error> {
        let missing = |n: &Expr| match n.kind() {
            ExprKind::Param(p) if !params.iter().any(|k| k.0 == *p) => Some(format!("{p} is not given")),
            ExprKind::Var(v) if !vars.iter().any(|k| k.0 == *v) => {
                Some(format!("{v} cannot be computed from sizes"))
            }
            ExprKind::Call { name, .. } => Some(format!("a value of {name} cannot be known before the run")),
            _ => None,
        };
        if let Some(why) = crate::ir::rewrite::nodes([e]).into_iter().find_map(missing) {
            let message = format!("the required regions depend on what is unknown: {why}");
            return Err(Error::Pipeline { pipeline: self.pipeline.clone(), message });
        }
        Ok(eval_scalar(e, vars, params)?.as_int().unwrap_or(0))
    }
}
