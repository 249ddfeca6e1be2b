//! "Which region of each input do you need?", asked for given sizes and parameters, before there are any buffers.
//!
//! Bounds inference knows the regions as expressions over extents of buffers, parameters and let-bound names; a query keeps
//! these and evaluates them. The answer is what the compiled code itself checks its buffers against.

use crate::analysis::evaluate::{Known, evaluate};
use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name, Param, Part};
use crate::func::Pipeline;
use crate::ir::stmt::Required;
use crate::runtime::Scalar;
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use indexmap::IndexMap;

/// First and last coordinate in each dimension; nothing is read where some first exceeds its last.
pub type Region = Vec<(i64, i64)>;

/// The required regions of a scheduled pipeline, not yet evaluated.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BoundsQuery {
    pipeline: String,
    required: Required,
}

impl BoundsQuery {
    /// The query for what a pipeline of this name requires.
    pub fn new(pipeline: impl Into<String>, required: Required) -> BoundsQuery {
        BoundsQuery { pipeline: pipeline.into(), required }
    }

    /// The query for `p` under `s`.
    pub fn of(p: &Pipeline, s: &Schedule) -> Result<BoundsQuery, Error> {
        let required = on_large_stack(|| Ok(crate::nests::build_nests(&crate::plan::plan(p, s)?)?.required))?;
        Ok(BoundsQuery::new(&p.name, required))
    }

    /// Regions of the inputs for buffers of these extents (those of all outputs, and of inputs whose extents the algorithm
    /// mentions) and these parameters. Of a strided buffer, which may start anywhere, the minima matter, too: see
    /// [`BoundsQuery::regions_over`].
    pub fn regions(
        &self,
        extents: &[(&str, &[i32])],
        params: &[(&str, Scalar)],
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
        params: &[(&str, Scalar)],
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
        params: &[(&str, Scalar)],
    ) -> Result<IndexMap<Name, Region>, Error> {
        let mut known = Known::default();
        known.params.extend(params.iter().map(|&(n, v)| (n.into(), v.constant())));
        known.params.extend(sizes.map(|(p, n)| (p, n.into())));
        for (name, value) in &self.required.lets {
            // What no region needs may be impossible to know, such as a bound that is read from memory.
            if let Some(v) = evaluate(value, &known) {
                known.vars.insert(name.clone(), Expr::int(value.ty(), v));
            }
        }
        let mut regions = IndexMap::new();
        for (name, dims) in &self.required.inputs {
            let ends = |(min, max)| Ok((self.evaluate(min, &known)?, self.evaluate(max, &known)?));
            let region: Result<Region, Error> = dims.iter().map(|(min, max)| ends((min, max))).collect();
            regions.insert(name.clone(), region?);
        }
        Ok(regions)
    }

    fn evaluate(&self, e: &Expr, known: &Known) -> Result<i64, Error> {
        let missing = |n: &Expr| match n.kind() {
            ExprKind::Param(p) if !known.params.contains_key(p) => Some(format!("{p} is not given")),
            ExprKind::Var(v) if !known.vars.contains_key(v) => {
                Some(format!("{v} cannot be computed from sizes"))
            }
            ExprKind::Call { name, .. } => Some(format!("a value of {name} cannot be known before the run")),
            _ => None,
        };
        evaluate(e, known).ok_or_else(|| {
            let why = nodes([e]).into_iter().find_map(missing);
            let why = why.unwrap_or_else(|| format!("{e} has no exact value"));
            let message = format!("the required regions depend on what is unknown: {why}");
            Error::Pipeline { pipeline: self.pipeline.clone(), message }
        })
    }
}
