//! The pipelines that a solve runs, from the one that it is given.
//!
//! | pipeline | outputs |
//! |---|---|
//! | energy | `energy_f`, a float64 scalar for each residual Func f: sum of rho(&#124;r&#124;^2) |
//! | gradient | for each unknown u, J^T (rho' r) |
//! | diagonal | for each unknown, what stands for diag(J^T rho' J): the adjoint of rho' with squared partials |
//! | product | for each unknown, J^T W J p, from the directions p of all unknowns: the adjoint of W times the tangent |
//!
//! W = rho' (I - b (2 - b q) r r^T) per element, b = 0 to first order: (I - b r r^T)^2 = I - b (2 - b q) r r^T, see
//! `energy/src/derive/robust.rs`. Energy and gradient are in one type of floats, diagonal and product in another or the same.

use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::{Loss, PipelineEnergy, Residual};
use sumsq_codegen::gradient::{Tangents, propagate_adjoints, propagate_squares, propagate_tangents};
use sumsq_codegen::{Constraint, Expr, Func, Name, Pipeline, RDom, ScalarType, Var, in_floats};
use sumsq_energy::emit::{LossAt, formula_loss, scaled_loss};

/// The name of the direction p of an unknown in the product.
pub(super) fn direction_of(unknown: &str) -> String {
    format!("{unknown}_direction")
}

/// The name of the energy of a residual Func.
pub(super) fn energy_of(func: &str) -> String {
    format!("energy_{func}")
}

/// The name of the residuals of a Func with their weights.
pub(super) fn parts_of(func: &str) -> String {
    format!("parts_{func}")
}

/// A pipeline whose outputs are Funcs over the unknowns, in their order; none where an unknown has no effect.
#[derive(Clone, Debug)]
pub(super) struct OverUnknowns {
    pub pipeline: Pipeline,
    pub outputs: Vec<Option<Name>>,
}

/// The derived pipelines.
#[derive(Clone, Debug)]
pub(super) struct Derived {
    pub energy: Pipeline,
    pub gradient: OverUnknowns,
    pub diagonal: OverUnknowns,
    pub product: OverUnknowns,
}

impl Derived {
    /// Of `e`, which is sound: energy and gradient in `wide` floats, diagonal and product in `narrow` ones.
    pub(super) fn new(
        e: &PipelineEnergy,
        wide: ScalarType,
        narrow: ScalarType,
    ) -> Result<Derived, PipelineEnergyError> {
        Ok(Derived {
            energy: Base::new(e, wide)?.energy(),
            gradient: Base::new(e, wide)?.gradient()?,
            diagonal: Base::new(e, narrow)?.diagonal()?,
            product: Base::new(e, narrow)?.product()?,
        })
    }
}

/// The pipeline in one type of floats, with an output for each residual Func, over its domain.
pub(super) struct Base<'e> {
    e: &'e PipelineEnergy,
    pub p: Pipeline,
}

impl<'e> Base<'e> {
    pub(super) fn new(e: &'e PipelineEnergy, ty: ScalarType) -> Result<Base<'e>, PipelineEnergyError> {
        let mut p = in_floats(&e.pipeline, ty, &e.names());
        p.outputs.clear();
        for r in &e.residuals {
            let fixed = |(min, extent): (Expr, Expr)| Constraint::new().min(min).extent(extent);
            let constraints = e.domain(r)?.into_iter().map(fixed).collect();
            p.output_strided(&p.funcs[&r.func].clone(), constraints);
        }
        Ok(Base { e, p })
    }

    fn energy(mut self) -> Pipeline {
        let outputs = std::mem::take(&mut self.p.outputs);
        for (r, output) in self.e.residuals.iter().zip(outputs) {
            let loops: Vec<String> = (0..output.constraints.len()).map(|d| format!("along{d}")).collect();
            let part = |e: &Option<Expr>| e.clone().unwrap_or_else(|| Expr::from(0));
            let ranges = output.constraints.iter().map(|c| (part(&c.min), part(&c.extent)));
            let domain =
                RDom::new(loops.iter().zip(ranges).map(|(n, (min, extent))| (n.as_str(), min, extent)));
            let at: Vec<Expr> = loops.iter().map(|name| Expr::var(name.as_str())).collect();
            let term = Weighted::new(r, &self.p.funcs[&r.func], &at).energy.cast(ScalarType::F64);
            let sum = self.p.func(Func::sum(energy_of(&r.func), &[], domain, vec![term]));
            self.p.output(&sum);
        }
        reachable(self.p)
    }

    /// The adjoints of the unknowns, from the seeds that `seed` gives for the elements of each residual Func.
    fn adjoints(
        mut self,
        squared: bool,
        seed: impl Fn(&Residual, &Func, &[Expr]) -> Vec<Expr>,
    ) -> Result<OverUnknowns, PipelineEnergyError> {
        let mut seeds = vec![];
        for r in &self.e.residuals {
            let f = self.p.funcs[&r.func].clone();
            let at: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
            let name = format!("seed_{}", r.func);
            let values = seed(r, &f, &at);
            self.p.func(Func::new(name.as_str(), &f.vars, values));
            seeds.push((r.func.to_string(), name));
        }
        let seeds: Vec<(&str, &str)> = seeds.iter().map(|(f, s)| (f.as_str(), s.as_str())).collect();
        let propagate = if squared { propagate_squares } else { propagate_adjoints };
        let adjoints = propagate(&mut self.p, &seeds, &self.e.names())?;
        self.p.outputs.clear();
        let mut outputs = vec![];
        for name in self.e.names() {
            let d = adjoints.of(name).cloned();
            if let Some(d) = &d {
                self.p.output_strided(d, Constraint::defaults(d.vars.len()));
            }
            outputs.push(d.map(|d| d.name));
        }
        Ok(OverUnknowns { pipeline: reachable(self.p), outputs })
    }

    pub(super) fn gradient(self) -> Result<OverUnknowns, PipelineEnergyError> {
        self.adjoints(false, |r, f, at| {
            let w = Weighted::new(r, f, at);
            w.residuals.iter().map(|r| w.by_weight(r)).collect()
        })
    }

    /// Products with the Hessian of E/2: the tangents of the gradient.
    pub(super) fn hessian(self) -> Result<OverUnknowns, PipelineEnergyError> {
        let e = self.e;
        let OverUnknowns { mut pipeline, outputs } = self.gradient()?;
        let tangents = along_directions(e, &mut pipeline)?;
        pipeline.outputs.clear();
        let mut found = vec![];
        for name in outputs {
            let t = name.and_then(|name| tangents.of(&name).cloned());
            if let Some(t) = &t {
                pipeline.output_strided(t, Constraint::defaults(t.vars.len()));
            }
            found.push(t.map(|t| t.name));
        }
        Ok(OverUnknowns { pipeline: reachable(pipeline), outputs: found })
    }

    /// -(dg/d theta)^T p for each input and parameter theta in `wrt`, from the directions p of all unknowns.
    pub(super) fn mixed(self, wrt: &[&str]) -> Result<OverUnknowns, PipelineEnergyError> {
        let e = self.e;
        let OverUnknowns { pipeline: mut p, outputs } = self.gradient()?;
        add_directions(e, &mut p);
        p.outputs.clear();
        let mut seeds = vec![];
        for (name, d) in e.names().into_iter().zip(outputs) {
            let Some(f) = d.map(|d| p.funcs[&d].clone()) else { continue };
            let at: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
            let direction = direction_of(name);
            let (constraints, values) = match p.inputs.get(name) {
                Some(input) => {
                    let fixed = |d| Constraint::new().min(input.min(d)).extent(input.extent(d));
                    let of =
                        |(k, ty): (usize, &ScalarType)| Expr::call(direction.as_str(), *ty, at.clone(), k);
                    let values = input.types.iter().enumerate().map(of).collect();
                    ((0..input.dims).map(fixed).collect(), values)
                }
                None => (vec![], vec![Expr::param(direction.as_str(), p.params[name])]),
            };
            let seed = format!("seed_{name}");
            p.func(Func::new(seed.as_str(), &f.vars, values.into_iter().map(|v: Expr| -v).collect()));
            p.output_strided(&f, constraints);
            seeds.push((f.name.to_string(), seed));
        }
        let seeds: Vec<(&str, &str)> = seeds.iter().map(|(f, s)| (f.as_str(), s.as_str())).collect();
        let adjoints = propagate_adjoints(&mut p, &seeds, wrt)?;
        p.outputs.clear();
        let mut found = vec![];
        for name in wrt {
            let d = adjoints.of(name).cloned();
            if let Some(d) = &d {
                p.output_strided(d, Constraint::defaults(d.vars.len()));
            }
            found.push(d.map(|d| d.name));
        }
        Ok(OverUnknowns { pipeline: reachable(p), outputs: found })
    }

    /// Residuals as they are, each with its rho' and b (2 - b q) behind: for each residual Func f a Func `parts_f`.
    pub(super) fn parts(mut self) -> Pipeline {
        let outputs = std::mem::take(&mut self.p.outputs);
        for (r, output) in self.e.residuals.iter().zip(outputs) {
            let f = self.p.funcs[&r.func].clone();
            let at: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
            let Weighted { residuals, energy, weight, bend } = Weighted::new(r, &f, &at);
            let constant = |v| Expr::constant(energy.ty(), v);
            let more = [weight.unwrap_or(constant(1.0)), bend.unwrap_or(constant(0.0))];
            let values = residuals.into_iter().chain(more).collect();
            let parts = self.p.func(Func::new(parts_of(&r.func), &f.vars, values));
            self.p.output_strided(&parts, output.constraints);
        }
        reachable(self.p)
    }

    fn diagonal(self) -> Result<OverUnknowns, PipelineEnergyError> {
        self.adjoints(true, |r, f, at| {
            let w = Weighted::new(r, f, at);
            w.residuals.iter().map(|r| w.by_weight(&Expr::constant(r.ty(), 1.0))).collect()
        })
    }

    pub(super) fn product(mut self) -> Result<OverUnknowns, PipelineEnergyError> {
        let tangents = along_directions(self.e, &mut self.p)?;
        self.adjoints(false, |r, f, at| {
            let w = Weighted::new(r, f, at);
            match tangents.of(&r.func) {
                Some(t) => w.curved(&(0..w.residuals.len()).map(|k| t.at(at, k)).collect::<Vec<Expr>>()),
                None => w.residuals.iter().map(|r| Expr::constant(r.ty(), 0.0)).collect(),
            }
        })
    }
}

/// Adds an input or parameter for the direction of each unknown.
fn add_directions(e: &PipelineEnergy, p: &mut Pipeline) {
    for name in e.names() {
        let direction = direction_of(name);
        match p.inputs.get(name).cloned() {
            Some(mut input) => {
                input.name = direction.as_str().into();
                p.input(input);
            }
            None => _ = p.param(direction.as_str(), p.params[name]),
        }
    }
}

/// Adds directions, and the tangents along them.
fn along_directions(e: &PipelineEnergy, p: &mut Pipeline) -> Result<Tangents, PipelineEnergyError> {
    add_directions(e, p);
    let directions: Vec<String> = e.names().into_iter().map(direction_of).collect();
    let pairs: Vec<(&str, &str)> = e.names().into_iter().zip(directions.iter().map(String::as_str)).collect();
    Ok(propagate_tangents(p, &pairs)?)
}

/// An element of a residual Func and what its loss makes of it.
struct Weighted {
    /// The floats of the tuple.
    residuals: Vec<Expr>,
    energy: Expr,
    /// rho'; none where it is 1.
    weight: Option<Expr>,
    /// b (2 - b q), if the loss bends.
    bend: Option<Expr>,
}

impl Weighted {
    fn new(of: &Residual, f: &Func, at: &[Expr]) -> Weighted {
        let floats = f.types().into_iter().enumerate().filter(|(_, t)| t.is_float());
        let residuals: Vec<Expr> = floats.map(|(k, _)| f.at(at, k)).collect();
        let square = residuals.iter().map(|r| r * r).reduce(|a, b| a + b);
        let q = square.unwrap_or_else(|| Expr::constant(ScalarType::F64, 0.0));
        let loss = match of.loss {
            Loss::Squares => return Weighted { residuals, energy: q, weight: None, bend: None },
            Loss::Robust { kind, scale, second_order } => scaled_loss(kind, scale, second_order, &q),
            Loss::Formula { rho, second_order } => formula_loss(rho, second_order, &q),
        };
        let LossAt { energy, weight, bend } = loss;
        let bend = bend.map(|b| &b * (Expr::constant(q.ty(), 2.0) - &b * &q));
        Weighted { residuals, energy, weight: Some(weight), bend }
    }

    fn by_weight(&self, e: &Expr) -> Expr {
        self.weight.as_ref().map_or_else(|| e.clone(), |w| w * e)
    }

    /// W t.
    fn curved(&self, t: &[Expr]) -> Vec<Expr> {
        let along = self.residuals.iter().zip(t).map(|(r, t)| r * t).reduce(|a, b| a + b);
        let bent = |(r, t): (&Expr, &Expr)| match self.bend.as_ref().zip(along.as_ref()) {
            Some((bend, along)) => t - bend * along * r,
            None => t.clone(),
        };
        self.residuals.iter().zip(t).map(|pair| self.by_weight(&bent(pair))).collect()
    }
}

/// `p` without Funcs that no output needs.
pub(super) fn reachable(mut p: Pipeline) -> Pipeline {
    let mut needed: Vec<Name> = p.outputs.iter().map(|o| o.func.clone()).collect();
    let mut next = 0;
    while next < needed.len() {
        for name in p.funcs[&needed[next]].callees(&p) {
            if !needed.contains(&name) {
                needed.push(name);
            }
        }
        next += 1;
    }
    p.funcs.retain(|name, _| needed.contains(name));
    p.stored.retain(|name| needed.contains(name));
    p
}
