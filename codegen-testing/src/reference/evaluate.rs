//! Demand-driven evaluation of Funcs; see the parent module for the scheme.

use super::tape::{self, Calls, Tape};
use super::{Bindings, Realization, Value};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use sumsq_codegen::error::Error;
use sumsq_codegen::expr::{Expr, Name, Param, Part};
use sumsq_codegen::func::{Func, Input, Pipeline, Update};
use sumsq_codegen::plan::realization_order::realization_order;
use sumsq_codegen::plan::validate::{error, is_var, validate};
use sumsq_codegen::stack::on_large_stack;

/// A coordinate of every dimension.
type Point = Vec<i32>;
/// All tuple elements at one point.
type Values = Rc<[Value]>;
/// Inclusive range of one dimension.
type Range = (i32, i32);

/// The most points of a box that an update sweeps over.
const MAX_BOX: u64 = 1 << 26;

/// Computes every output of `p` over `[0, extents)`, one list of extents per output.
pub fn evaluate(
    p: &Pipeline,
    bindings: &Bindings,
    output_extents: &[Vec<usize>],
) -> Result<Vec<Realization>, Error> {
    let domain = |extents: &Vec<usize>| extents.iter().map(|&n| (0, n)).collect();
    evaluate_over(p, bindings, &output_extents.iter().map(domain).collect::<Vec<_>>())
}

/// Computes every output of `p` over a domain: `(min, extent)` per dimension.
pub fn evaluate_over(
    p: &Pipeline,
    bindings: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Result<Vec<Realization>, Error> {
    validate(p)?;
    realization_order(p)?;
    // Evaluation recurses along chains of Funcs.
    on_large_stack(|| evaluate_here(p, bindings, domains))
}

fn evaluate_here(
    p: &Pipeline,
    bindings: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Result<Vec<Realization>, Error> {
    let params = bind(p, bindings, domains)?;
    let plans = p.funcs.values().map(|f| Plan::new(p, f, &params)).collect::<Result<Vec<_>, _>>()?;
    let states = plans.iter().map(|_| State::default()).collect();
    let mut machine = Machine { pipeline: p, bindings, plans: &plans, states };
    for (o, domain) in p.outputs.iter().zip(domains) {
        let f = machine.func_index(&o.func)?;
        machine.states[f].hint = Some(domain.iter().map(|&(min, n)| (min, min + n as i32 - 1)).collect());
    }
    let mut results = vec![];
    for (o, domain) in p.outputs.iter().zip(domains) {
        results.push(machine.realize(machine.func_index(&o.func)?, domain)?);
    }
    Ok(results)
}

/// Checks what is bound and gives every parameter its value, implied extents included.
fn bind(p: &Pipeline, b: &Bindings, domains: &[Vec<(i32, usize)>]) -> Result<FxHashMap<Param, Value>, Error> {
    let refuse =
        |name: &Name, message: String| Error::Bind { pipeline: p.name.clone(), name: name.clone(), message };
    let mut params = FxHashMap::default();
    for name in p.params.keys() {
        let value = b.params.get(name).ok_or_else(|| refuse(name, "parameter has no value".into()))?;
        params.insert(Param::Named(name.clone()), *value);
    }
    let mut sizes_of = |name: &Name, domain: &[(i32, usize)]| {
        for (d, &(min, n)) in domain.iter().enumerate() {
            params.insert(Param::Of(name.clone(), Part::Min(d)), Value::Int(min as i64));
            params.insert(Param::Of(name.clone(), Part::Extent(d)), Value::Int(n as i64));
        }
    };
    for (name, input) in &p.inputs {
        let r = b.inputs.get(name).ok_or_else(|| refuse(name, "input is not bound".into()))?;
        if r.types != input.types || r.extents.len() != input.dims {
            let (want, came) = (&input.types, &r.types);
            let (dims, n) = (input.dims, r.extents.len());
            return Err(refuse(name, format!("expected {want:?} of {dims} dims, came {came:?} of {n}")));
        }
        let domain: Vec<_> = r.min.iter().copied().zip(r.extents.iter().copied()).collect();
        sizes_of(name, &domain);
    }
    if domains.len() != p.outputs.len() {
        let (n, m) = (domains.len(), p.outputs.len());
        return Err(error(p, format!("{n} extents for {m} outputs")));
    }
    for (o, domain) in p.outputs.iter().zip(domains) {
        if domain.len() != p.funcs[&o.func].vars.len() {
            return Err(refuse(&o.func, "an extent per dimension is needed".into()));
        }
        sizes_of(&o.func, domain);
    }
    Ok(params)
}

/// Treatment of one dimension of a Func by its updates.
#[derive(Clone, Copy, PartialEq)]
enum Dimension {
    /// Every update has the pure variable there: slices do not interact.
    Free,
    /// Some have it: they range over the demanded box.
    Boxed,
    /// None has it.
    Open,
}

/// A Func compiled to tapes.
struct Plan {
    pure: Tape,
    updates: Vec<UpdatePlan>,
    dimensions: Vec<Dimension>,
}

/// An update compiled to tapes over its pure variables, then (not for the bounds) its reduction variables.
struct UpdatePlan {
    /// Dimensions with the pure variable in its own place.
    pure_dims: Vec<usize>,
    /// `min, extent` per reduction variable.
    bounds: Tape,
    predicate: Option<Tape>,
    /// Coordinates, then values.
    body: Tape,
}

impl Plan {
    fn new(p: &Pipeline, f: &Func, params: &FxHashMap<Param, Value>) -> Result<Plan, Error> {
        let vars: Vec<Name> = f.vars.iter().map(|v| v.name().clone()).collect();
        let dimensions = (0..vars.len())
            .map(|d| match f.updates.iter().filter(|u| is_var(&u.args[d], f.vars[d].name())).count() {
                n if n == f.updates.len() => Dimension::Free,
                0 => Dimension::Open,
                _ => Dimension::Boxed,
            })
            .collect();
        let pure = tape::compile(&f.values, &vars, params, &p.name)?;
        let updates = f.updates.iter().map(|u| UpdatePlan::new(p, f, u, params)).collect::<Result<_, _>>()?;
        Ok(Plan { pure, updates, dimensions })
    }
}

impl UpdatePlan {
    fn new(
        p: &Pipeline,
        f: &Func,
        u: &Update,
        params: &FxHashMap<Param, Value>,
    ) -> Result<UpdatePlan, Error> {
        let pure_dims: Vec<usize> =
            (0..f.vars.len()).filter(|&d| is_var(&u.args[d], f.vars[d].name())).collect();
        let mut vars: Vec<Name> = pure_dims.iter().map(|&d| f.vars[d].name().clone()).collect();
        let bounds: Vec<Expr> = u.rdom.vars.iter().flat_map(|v| [v.min.clone(), v.extent.clone()]).collect();
        let bounds = tape::compile(&bounds, &vars, params, &p.name)?;
        vars.extend(u.rdom.vars.iter().map(|v| v.name.clone()));
        let compile = |exprs: &[Expr]| tape::compile(exprs, &vars, params, &p.name);
        let predicate = u.rdom.predicate.as_ref().map(|e| compile(std::slice::from_ref(e))).transpose()?;
        let body = compile(&[&u.args[..], &u.values[..]].concat())?;
        Ok(UpdatePlan { pure_dims, bounds, predicate, body })
    }
}

/// Knowledge of a Func so far.
#[derive(Default)]
struct State {
    /// Values of the pure definition.
    pure: FxHashMap<Point, Values>,
    /// Finished slices of a Func with updates, by their coordinates in free dimensions.
    slices: FxHashMap<Point, Slice>,
    /// The slice whose updates run now: calls from these updates read it.
    running: Option<Slice>,
    /// Region that is known to be demanded (an output's domain).
    hint: Option<Vec<Range>>,
}

/// Values after updates, where they differ from the pure ones or were asked for.
struct Slice {
    values: FxHashMap<Point, Values>,
    /// The box over which updates ran; of meaning in boxed dimensions only.
    bounds: Vec<Range>,
    /// `bounds`, extended by the points that the updates read.
    wanted: Vec<Range>,
}

struct Machine<'a> {
    pipeline: &'a Pipeline,
    bindings: &'a Bindings,
    plans: &'a [Plan],
    states: Vec<State>,
}

impl Calls for Machine<'_> {
    fn call(&mut self, name: &Name, coords: &[i32], value: usize) -> Result<Value, Error> {
        match self.pipeline.funcs.get_index_of(name) {
            Some(f) => Ok(self.values(f, coords)?[value]),
            None => self.read_input(&self.pipeline.inputs[name], coords, value),
        }
    }
}

impl Machine<'_> {
    fn func_index(&self, name: &Name) -> Result<usize, Error> {
        let missing = || error(self.pipeline, format!("`{name}` is not a Func"));
        self.pipeline.funcs.get_index_of(name).ok_or_else(missing)
    }

    fn realize(&mut self, f: usize, domain: &[(i32, usize)]) -> Result<Realization, Error> {
        let types = self.pipeline.funcs[f].types();
        let (min, extents): (Vec<_>, Vec<_>) = domain.iter().copied().unzip();
        let mut result = Realization::zeros(&types, &extents).moved_to(&min);
        for (i, point) in result.points().into_iter().enumerate() {
            for (plane, &value) in result.planes.iter_mut().zip(self.values(f, &point)?.iter()) {
                plane[i] = value;
            }
        }
        Ok(result)
    }

    fn read_input(&self, input: &Input, coords: &[i32], value: usize) -> Result<Value, Error> {
        let r = &self.bindings.inputs[&input.name];
        let readable = coords.iter().enumerate().all(|(d, &c)| {
            let halo = input.halo.get(d).copied().unwrap_or(0) as i64;
            (-halo..r.extents[d] as i64 + halo).contains(&(c as i64 - r.min[d] as i64))
        });
        if !readable {
            return Err(Error::Run {
                pipeline: self.pipeline.name.clone(),
                message: format!(
                    "input `{}` is read at {coords:?}, outside its extents {:?} from {:?} with halo {:?}",
                    input.name, r.extents, r.min, input.halo
                ),
            });
        }
        Ok(r.get(coords, value).unwrap_or(Value::zero(input.types[value])))
    }

    /// The final values of Func `f` at a point; within an update of `f`, the present ones.
    fn values(&mut self, f: usize, point: &[i32]) -> Result<Values, Error> {
        if self.plans[f].updates.is_empty() {
            return self.pure_values(f, point);
        }
        if self.states[f].running.is_some() {
            return self.present_values(f, point);
        }
        let dimensions = &self.plans[f].dimensions;
        let key: Point = select_dims(point, dimensions, Dimension::Free);
        let bounds: Vec<Range> = point.iter().map(|&c| (c, c)).collect();
        let bounds = match (self.states[f].slices.get(&key), &self.states[f].hint) {
            (Some(slice), _) if covers(&slice.bounds, point, dimensions) => None,
            (Some(slice), _) => Some(hull(&bounds, &slice.bounds)),
            (None, Some(hint)) => Some(hull(&bounds, hint)),
            (None, None) => Some(bounds),
        };
        if let Some(bounds) = bounds {
            let slice = self.run_updates(f, point, bounds)?;
            self.states[f].slices.insert(key.clone(), slice);
        }
        match self.states[f].slices.get(&key).and_then(|s| s.values.get(point)) {
            Some(v) => Ok(v.clone()),
            None => self.pure_values(f, point),
        }
    }

    fn pure_values(&mut self, f: usize, point: &[i32]) -> Result<Values, Error> {
        if let Some(v) = self.states[f].pure.get(point) {
            return Ok(v.clone());
        }
        let plans = self.plans;
        let vars: Vec<i64> = point.iter().map(|&c| c as i64).collect();
        let values: Values = plans[f].pure.run(&vars, self)?.into();
        self.states[f].pure.insert(point.to_vec(), values.clone());
        Ok(values)
    }

    /// A read of the slice whose updates are running. Reading beyond the box asks for a larger one.
    fn present_values(&mut self, f: usize, point: &[i32]) -> Result<Values, Error> {
        if let Some(slice) = &mut self.states[f].running {
            slice.wanted = hull(&slice.wanted, &point.iter().map(|&c| (c, c)).collect::<Vec<_>>());
            if let Some(v) = slice.values.get(point) {
                return Ok(v.clone());
            }
        }
        self.pure_values(f, point)
    }

    /// Runs all updates on the slice of `point`, over `bounds` and whatever more they turn out to read. (A read
    /// beyond the box sees a value that lacks updates; all that pass is then thrown away, its errors included.)
    fn run_updates(&mut self, f: usize, point: &[i32], mut bounds: Vec<Range>) -> Result<Slice, Error> {
        let plans = self.plans;
        let dimensions = &plans[f].dimensions;
        loop {
            let values = FxHashMap::default();
            self.states[f].running = Some(Slice { values, bounds: bounds.clone(), wanted: bounds.clone() });
            let outcome = plans[f].updates.iter().try_for_each(|u| self.run_update(f, u, point));
            let Some(slice) = self.states[f].running.take() else {
                return Err(error(self.pipeline, "the running slice was lost".into()));
            };
            let grew = (0..point.len())
                .any(|d| dimensions[d] == Dimension::Boxed && slice.wanted[d] != slice.bounds[d]);
            if !grew {
                return outcome.map(|()| slice);
            }
            bounds = slice.wanted;
        }
    }

    /// Runs one update: all its pure points, and for each the reduction domain in lexicographic order.
    fn run_update(&mut self, f: usize, u: &UpdatePlan, point: &[i32]) -> Result<(), Error> {
        let ranges: Vec<Range> = {
            let Some(slice) = &self.states[f].running else { return Ok(()) };
            let range = |&d: &usize| match self.plans[f].dimensions[d] {
                Dimension::Free => (point[d], point[d]),
                _ => slice.bounds[d],
            };
            u.pure_dims.iter().map(range).collect()
        };
        for pure in self.points(&ranges)? {
            let bounds = u.bounds.run(&pure, self)?;
            let bound = |i: usize| bounds[i].as_int().unwrap_or(0);
            let ranges: Vec<Range> = (0..bounds.len() / 2)
                .map(|i| (bound(2 * i) as i32, (bound(2 * i) + bound(2 * i + 1).max(0) - 1) as i32))
                .collect();
            for reduction in self.points(&ranges)? {
                self.store_one(f, u, &[&pure[..], &reduction[..]].concat())?;
            }
        }
        Ok(())
    }

    /// One assignment of an update, if its predicate holds.
    fn store_one(&mut self, f: usize, u: &UpdatePlan, vars: &[i64]) -> Result<(), Error> {
        if let Some(predicate) = &u.predicate
            && predicate.run(vars, self)?[..] == [Value::Int(0)]
        {
            return Ok(());
        }
        let results = u.body.run(vars, self)?;
        let (at, values) = results.split_at(self.plans[f].dimensions.len());
        let at: Point = at.iter().map(|v| v.as_int().unwrap_or(0) as i32).collect();
        if let Some(slice) = &mut self.states[f].running {
            match slice.values.entry(at) {
                Entry::Occupied(mut e) => *e.get_mut() = values.into(),
                Entry::Vacant(e) => {
                    e.insert(values.into());
                }
            }
        }
        Ok(())
    }

    /// All points of a product of ranges, the first fastest; one point if there are none.
    fn points(&self, ranges: &[Range]) -> Result<Vec<Vec<i64>>, Error> {
        let count = |r: &Range| (r.1 as i64 - r.0 as i64 + 1).max(0) as u64;
        let total = ranges.iter().map(count).try_fold(1u64, |n, m| n.checked_mul(m));
        let Some(total) = total.filter(|&n| n <= MAX_BOX) else {
            return Err(error(
                self.pipeline,
                format!("an update ranges over {ranges:?}, too much to evaluate"),
            ));
        };
        Ok((0..total)
            .map(|mut i| {
                let mut digit = |r: &Range| {
                    let c = r.0 as i64 + (i % count(r)) as i64;
                    i /= count(r);
                    c
                };
                ranges.iter().map(&mut digit).collect()
            })
            .collect())
    }
}

/// The coordinates in dimensions of one sort.
fn select_dims(point: &[i32], dimensions: &[Dimension], which: Dimension) -> Point {
    point.iter().zip(dimensions).filter(|(_, d)| **d == which).map(|(c, _)| *c).collect()
}

/// Tells whether the boxed coordinates of `point` lie in `bounds`.
fn covers(bounds: &[Range], point: &[i32], dimensions: &[Dimension]) -> bool {
    point
        .iter()
        .zip(bounds)
        .zip(dimensions)
        .all(|((c, r), d)| *d != Dimension::Boxed || (r.0..=r.1).contains(c))
}

/// The least box that contains both.
fn hull(a: &[Range], b: &[Range]) -> Vec<Range> {
    a.iter().zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect()
}
