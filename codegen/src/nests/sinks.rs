//! Outputs inside a nest, and in-place outputs.
//!
//! An output that is computed inside a nest, or read beyond its domain, has storage of its own; each point of
//! the domain goes to the output buffer once, from the iteration whose own tile holds it: for a sink, the interval of the
//! consumer's coordinates at the store level.

use crate::analysis::algebra::build::offset;
use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::stmt::{Stmt, Target};
use crate::nests::Nests;
use crate::nests::bounds_inference::level_text;
use crate::plan::plans::{FuncPlan, Level, Stage, illegal};
use crate::schedule::{ForKind, StageId, Tail};
use crate::types::ScalarType;

/// Where the values of a stage go.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// To intermediate storage.
    pub intermediate: bool,
    /// To the output buffer.
    pub output: bool,
}

impl Nests<'_> {
    /// Does `stage` read the output buffer of sink `func`, being in a later nest than the sink's consumer?
    pub fn reads_output(&self, func: &Name, stage: &StageId) -> bool {
        let Some(f) = self.plan.funcs.get(func) else { return false };
        if !f.sink || f.store == Level::Root || self.is_inside(&stage.func, &f.compute) {
            return false;
        }
        let at_compute = matches!(&f.compute, Level::At(l) if l.stage == *stage);
        let order = |n: &Name| self.plan.funcs.get_index_of(n);
        !at_compute && order(&self.root_of(&stage.func)) > order(&self.root_of(func))
    }

    /// The Func at root in whose nest `func` is computed.
    fn root_of(&self, func: &Name) -> Name {
        let mut name = func.clone();
        while let Level::At(l) = &self.plan.funcs[&name].compute {
            name = l.stage.func.clone();
        }
        name
    }

    /// Does `f` need storage besides the output buffer?
    pub fn has_storage(&mut self, f: &FuncPlan) -> Result<bool, Error> {
        if f.output.is_none() || f.sink {
            return Ok(true);
        }
        let region = self.region(&f.func.name, &Level::Root)?;
        let inside = |(d, i): (usize, &Interval)| {
            let domain = self.domain(&f.func.name, d);
            self.facts.proves_le(&domain.min, &i.min) && self.facts.proves_le(&i.max, &domain.max)
        };
        Ok(!region.iter().enumerate().all(inside))
    }

    /// Where the values of stage `s` go.
    pub fn destination(&self, f: &FuncPlan, s: &Stage) -> Destination {
        let intermediate = self.storage.contains_key(&f.func.name);
        let whole = f.stages.len() == 1;
        let output = f.output.is_some() && (!intermediate || (whole && s.id.stage == 0));
        Destination { intermediate, output }
    }

    /// Checks the rules of [`crate::schedule::Directive::Sink`] that need no regions: same space, each point visited once.
    pub fn check_sinks(&self) -> Result<(), Error> {
        for f in self.plan.funcs.values().filter(|f| f.sink) {
            let Level::At(l) = &f.compute else { continue };
            let consumer = &self.plan.funcs[&l.stage.func];
            let stage = &consumer.stages[l.stage.stage];
            let fail = |rule: String| {
                Err(illegal(&f.stages[0].id, format!("sink, compute_at({})", level_text(&f.compute)), rule))
            };
            if stage.coords.len() != f.func.vars.len() {
                return fail(format!(
                    "{} iterates over ({}), which is not the space of {}",
                    stage.id,
                    stage.coords.join(", "),
                    f.func.name
                ));
            }
            if stage.splits().any(|t| t.tail == Tail::ShiftInwards) {
                return fail(format!(
                    "each point is stored once, but ShiftInwards makes {} visit some points twice",
                    stage.id
                ));
            }
            if stage.splits().any(|t| t.tail == Tail::RoundUp)
                || stage.id.stage == 0 && consumer.align.iter().any(Option::is_some)
            {
                return fail(format!(
                    "each point is stored once, but the loops of {} cover more than its domain",
                    stage.id
                ));
            }
            if !self.partitions(consumer) {
                return fail(format!(
                    "each point is stored once, but {} is itself computed in a nest, which may visit a point twice",
                    consumer.func.name
                ));
            }
            if f.stages.len() > 1 && f.store != f.compute {
                return fail("a sink with update definitions must be stored where it is computed".into());
            }
        }
        Ok(())
    }

    /// Do the loops around and of `f` visit each point once? At root, or a partial result of such a nest.
    fn partitions(&self, f: &FuncPlan) -> bool {
        match (&f.compute, &f.partial_of) {
            (Level::Root, _) => true,
            (Level::At(l), Some(whole)) if l.stage.func == *whole => self.partitions(&self.plan.funcs[whole]),
            _ => false,
        }
    }

    /// Binds the own tile of `f` at its store level, and checks that what the consumer reads covers it.
    pub fn own_tile(&mut self, f: &FuncPlan) -> Result<(), Error> {
        let name = &f.func.name;
        let own = match (&f.compute, f.sink) {
            (Level::At(l), true) => {
                let consumer = &self.plan.funcs[&l.stage.func].stages[l.stage.stage];
                let ranges = self.ranges(&l.stage, &f.store)?;
                consumer.coords.iter().map(|c| ranges[c].clone()).collect()
            }
            _ if f.output.is_some() && self.has_storage(f)? => {
                (0..f.func.vars.len()).map(|d| self.domain(name, d)).collect()
            }
            _ => return Ok(()),
        };
        let own: Vec<Interval> = own;
        let mut named = vec![];
        for (d, i) in own.iter().enumerate() {
            let v = &f.func.vars[d].0;
            let min = self.name(format!("{name}.own.{v}.min"), &i.min);
            let max = self.name(format!("{name}.own.{v}.max"), &i.max);
            named.push(Interval { min, max });
        }
        if f.sink {
            let footprint = self.region(name, &f.store)?;
            for (d, (foot, own)) in footprint.iter().zip(&named).enumerate() {
                if !self.facts.proves_le(&foot.min, &own.min) || !self.facts.proves_le(&own.max, &foot.max) {
                    let rule = format!(
                        "what the consumer reads may not cover the points it stores, in dimension {}",
                        f.func.vars[d].0
                    );
                    return Err(illegal(&f.stages[0].id, "sink", rule));
                }
            }
        }
        self.own.insert(name.clone(), named);
        Ok(())
    }

    /// Domain of an input or output buffer.
    pub fn domain(&self, name: &Name, d: usize) -> Interval {
        let shape = self.plan.pipeline.shape(name);
        let min = shape.min(d);
        Interval { max: offset(&build::add(&min, &shape.extent(d)), -1), min }
    }

    /// Where a point that also has intermediate storage goes to the output buffer, per dimension.
    pub fn own_intervals(&self, f: &FuncPlan, to: Destination) -> Vec<Interval> {
        if !to.output || !to.intermediate {
            return vec![];
        }
        self.own.get(&f.func.name).cloned().unwrap_or_default()
    }

    /// Copies the own tile of an output with update definitions from its storage to its buffer.
    pub fn copy_to_output(&mut self, f: &FuncPlan) -> Result<Option<Stmt>, Error> {
        let name = &f.func.name;
        if f.output.is_none() || f.stages.len() == 1 || !self.storage.contains_key(name) {
            return Ok(None);
        }
        let own = self.own[name].clone();
        let var = |d: usize| -> Name { format!("{name}.copy.{}", f.func.vars[d].0).into() };
        let args: Vec<Expr> = (0..own.len()).map(|d| Expr::var(var(d))).collect();
        let values = f
            .func
            .types()
            .into_iter()
            .enumerate()
            .map(|(k, t)| Expr::call(name.clone(), t, args.clone(), k))
            .collect();
        let mut body = Stmt::Provide { func: name.clone(), args, values, to: Target::Output };
        for (d, i) in own.iter().enumerate() {
            body = Stmt::For {
                var: var(d),
                min: i.min.clone(),
                extent: i.extent(),
                kind: ForKind::Serial,
                body: Box::new(body),
            };
        }
        Ok(Some(body))
    }

    /// Tests at run time that the consumer's coordinates range over exactly the sink's domain.
    pub fn sink_checks(&mut self) -> Result<Vec<Stmt>, Error> {
        let plan = self.plan;
        let mut checks = vec![];
        for f in plan.funcs.values().filter(|f| f.sink) {
            let Level::At(l) = &f.compute else { continue };
            let name = &f.func.name;
            let consumer = &plan.funcs[&l.stage.func].stages[l.stage.stage];
            let ranges = self.ranges(&l.stage, &Level::Root)?;
            for (d, c) in consumer.coords.iter().enumerate() {
                let (i, domain) = (&ranges[c], self.domain(name, d));
                let equal = |a: &Expr, b: &Expr| [build::le(a, b), build::le(b, a)];
                let conds = [equal(&i.min, &domain.min), equal(&i.max, &domain.max)].concat();
                let message = format!(
                    "sink {name}: {} must range over its domain in dimension {d}: from, to, last of the domain",
                    l.stage
                );
                let args = [i.min.clone(), i.max.clone(), domain.max];
                checks.extend(self.check(&conds, message, &args));
            }
        }
        Ok(checks)
    }

    /// Checks the rules of [`crate::schedule::Directive::InPlaceOf`], once regions are known.
    pub fn check_in_place(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        for f in plan.funcs.values() {
            let Some(input) = &f.in_place_of else { continue };
            let fail = |rule: String| Err(illegal(&f.stages[0].id, format!("in_place_of({input})"), rule));
            let Some(i) = plan.pipeline.inputs.get(input) else {
                return fail("there is no such input".into());
            };
            let shared = plan
                .funcs
                .values()
                .any(|g| g.func.name != f.func.name && g.in_place_of.as_ref() == Some(input));
            if shared {
                return fail("two outputs overwrite the input".into());
            }
            let own: Vec<Expr> = f.func.vars.iter().map(|v| v.expr()).collect();
            for (stage, calls) in self.uses.get(input).into_iter().flatten() {
                if stage.func != f.func.name || stage.stage != 0 {
                    return fail(format!("{stage} reads the input, too"));
                }
                if calls.iter().any(|c| *c != own) {
                    return fail("the input is read at other coordinates than those that are written".into());
                }
            }
            let Some(o) = &f.output else { return fail("it is no output".into()) };
            let types: Vec<ScalarType> = f.func.types();
            if o.layout != i.layout || o.halo != i.halo || types != i.types || own.len() != i.dims {
                return fail("layout, halo, types or dimensions differ from the input's".into());
            }
            let shifted =
                f.stages[0].versions().iter().any(|s| s.splits().any(|t| t.tail == Tail::ShiftInwards));
            if shifted || self.storage.contains_key(&f.func.name) && !self.once.contains(&f.func.name) {
                return fail(
                    "some points are computed more than once, and would read what was overwritten".into(),
                );
            }
        }
        Ok(())
    }

    /// Does stage `s` only store what is there already? The pure definition of an output in place of an input, if it is that input:
    /// such an output has updates only.
    pub fn keeps(&self, f: &FuncPlan, s: &Stage) -> bool {
        let Some(input) = f.in_place_of.as_ref().filter(|_| s.id.stage == 0) else { return false };
        let own: Vec<Expr> = f.func.vars.iter().map(|v| v.expr()).collect();
        let is_input = |(k, v): (usize, &Expr)| matches!(v.kind(), ExprKind::Call { name, args, value } if name == input && *args == own && *value == k);
        !self.storage.contains_key(&f.func.name) && s.values.iter().enumerate().all(is_input)
    }

    /// Records whether every point of `f` is computed once: tiles do not overlap, and within a tile a value is kept.
    pub fn note_once(&mut self, f: &FuncPlan, slid: bool) {
        let (Some(own), Some(foot)) =
            (self.own.get(&f.func.name), self.regions.get(&(f.func.name.clone(), f.store.clone())))
        else {
            return;
        };
        let inside = |(foot, own): (&Interval, &Interval)| {
            self.facts.proves_le(&own.min, &foot.min) && self.facts.proves_le(&foot.max, &own.max)
        };
        if (slid || f.store == f.compute) && foot.iter().zip(own).all(inside) {
            self.once.insert(f.func.name.clone());
        }
    }
}
