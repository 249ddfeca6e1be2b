//! Demand-driven evaluation of Funcs; see the parent module for the scheme.

use super::bind::bind;
use super::number::Number;
use super::plan::{Dimension, Plan, UpdatePlan};
use super::tape::{Calls, Tape};
use super::{Bindings, Realization, Value};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use sumsq_codegen::error::Error;
use sumsq_codegen::expr::Name;
use sumsq_codegen::func::{Func, Input, Output, Pipeline};
use sumsq_codegen::plan::realization_order::realization_order;
use sumsq_codegen::plan::validate::{error, validate};
use sumsq_codegen::stack::on_large_stack;

/// A coordinate of every dimension.
type Point = Vec<i32>;
/// All tuple elements at one point.
type Values<N> = Rc<[N]>;
/// One array per tuple element, over a domain, fastest dimension first.
pub(super) type Planes<N> = Vec<Vec<N>>;
/// Inclusive range of one dimension.
type Range = (i32, i32);

/// Domains of more points than this have their corners looked at first.
const FEW: u64 = 64;

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
    run(p, bindings, &Bindings::default(), domains).map(|outputs| realizations(p, domains, outputs))
}

/// Outputs as realizations of their Funcs' types.
pub(super) fn realizations(
    p: &Pipeline,
    domains: &[Vec<(i32, usize)>],
    outputs: Vec<Planes<Value>>,
) -> Vec<Realization> {
    let realization = |((o, domain), planes): ((&Output, &Vec<_>), _)| Realization {
        planes,
        ..empty(&p.funcs[&o.func], domain)
    };
    p.outputs.iter().zip(domains).zip(outputs).map(realization).collect()
}

/// A realization of `f` over a domain, without values.
fn empty(f: &Func, domain: &[(i32, usize)]) -> Realization {
    let (min, extents): (Vec<_>, Vec<_>) = domain.iter().copied().unzip();
    Realization { types: f.types(), halo: vec![0; min.len()], min, extents, planes: vec![] }
}

/// Computes every output over its domain, in numbers that may move along `directions`.
pub(super) fn run<N: Number>(
    p: &Pipeline,
    bindings: &Bindings,
    directions: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Result<Vec<Planes<N>>, Error> {
    validate(p)?;
    realization_order(p)?;
    // Evaluation recurses along chains of Funcs.
    on_large_stack(|| run_here(p, bindings, directions, domains))
}

fn run_here<N: Number>(
    p: &Pipeline,
    bindings: &Bindings,
    directions: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Result<Vec<Planes<N>>, Error> {
    let params = bind(p, bindings, directions, domains)?;
    let plans = p.funcs.values().map(|f| Plan::new(p, f, &params)).collect::<Result<Vec<_>, _>>()?;
    let states = plans.iter().map(|_| State::default()).collect();
    let mut machine = Machine { pipeline: p, bindings, directions, plans: &plans, states };
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

/// Knowledge of a Func so far.
struct State<N> {
    /// Values of the pure definition.
    pure: FxHashMap<Point, Values<N>>,
    /// Finished slices of a Func with updates, by their coordinates in free dimensions.
    slices: FxHashMap<Point, Slice<N>>,
    /// The slice whose updates run now: calls from these updates read it.
    running: Option<Slice<N>>,
    /// Region that is known to be demanded (an output's domain).
    hint: Option<Vec<Range>>,
}

impl<N> Default for State<N> {
    fn default() -> Self {
        State { pure: FxHashMap::default(), slices: FxHashMap::default(), running: None, hint: None }
    }
}

/// Values after updates, where they differ from the pure ones or were asked for.
struct Slice<N> {
    values: FxHashMap<Point, Values<N>>,
    /// The box over which updates ran; of meaning in boxed dimensions only.
    bounds: Vec<Range>,
    /// `bounds`, extended by the points that the updates read.
    wanted: Vec<Range>,
}

struct Machine<'a, N> {
    pipeline: &'a Pipeline,
    bindings: &'a Bindings,
    directions: &'a Bindings,
    plans: &'a [Plan<N>],
    states: Vec<State<N>>,
}

impl<N: Number> Calls<N> for Machine<'_, N> {
    fn call(&mut self, name: &Name, coords: &[i32], value: usize) -> Result<N, Error> {
        match self.pipeline.funcs.get_index_of(name) {
            Some(f) => Ok(self.values(f, coords)?[value]),
            None => self.read_input(&self.pipeline.inputs[name], coords, value),
        }
    }
}

impl<N: Number> Machine<'_, N> {
    fn func_index(&self, name: &Name) -> Result<usize, Error> {
        let missing = || error(self.pipeline, format!("`{name}` is not a Func"));
        self.pipeline.funcs.get_index_of(name).ok_or_else(missing)
    }

    fn realize(&mut self, f: usize, domain: &[(i32, usize)]) -> Result<Planes<N>, Error> {
        let domain = empty(&self.pipeline.funcs[f], domain);
        let mut planes = vec![vec![]; domain.types.len()];
        for point in domain.points() {
            for (plane, &number) in planes.iter_mut().zip(self.values(f, &point)?.iter()) {
                plane.push(number);
            }
        }
        Ok(planes)
    }

    fn read_input(&self, input: &Input, coords: &[i32], value: usize) -> Result<N, Error> {
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
        let direction = || self.directions.inputs.get(&input.name)?.get(coords, value);
        let stored = r.get(coords, value).unwrap_or(Value::zero(input.types[value]));
        Ok(N::new(stored, || direction().map_or(0.0, Value::as_f64)))
    }

    /// The final values of Func `f` at a point; within an update of `f`, the present ones.
    fn values(&mut self, f: usize, point: &[i32]) -> Result<Values<N>, Error> {
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

    fn pure_values(&mut self, f: usize, point: &[i32]) -> Result<Values<N>, Error> {
        if let Some(v) = self.states[f].pure.get(point) {
            return Ok(v.clone());
        }
        let plans = self.plans;
        let vars: Vec<i64> = point.iter().map(|&c| c as i64).collect();
        let values: Values<N> = plans[f].pure.run(&vars, self)?.into();
        self.states[f].pure.insert(point.to_vec(), values.clone());
        Ok(values)
    }

    /// A read of the slice whose updates are running. Reading beyond the box asks for a larger one.
    fn present_values(&mut self, f: usize, point: &[i32]) -> Result<Values<N>, Error> {
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
    fn run_updates(&mut self, f: usize, point: &[i32], mut bounds: Vec<Range>) -> Result<Slice<N>, Error> {
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
    fn run_update(&mut self, f: usize, u: &UpdatePlan<N>, point: &[i32]) -> Result<(), Error> {
        let ranges: Vec<Range> = {
            let Some(slice) = &self.states[f].running else { return Ok(()) };
            let range = |&d: &usize| match self.plans[f].dimensions[d] {
                Dimension::Free => (point[d], point[d]),
                _ => slice.bounds[d],
            };
            u.pure_dims.iter().map(range).collect()
        };
        self.look_ahead(f, u, &ranges);
        for pure in self.points(&ranges)? {
            let domain = domain(&u.bounds.run(&pure, self)?);
            for reduction in self.points(&domain)? {
                self.store_one(f, u, &[&pure[..], &reduction[..]].concat())?;
            }
        }
        Ok(())
    }

    /// Asks at the corners of an update's domain for what it reads there of other Funcs. What is read of one with updates is read far apart
    /// then, and its box has to grow no more: from point to point, all its updates would run again for each.
    ///
    /// It never refuses, and changes no value. Values are dropped, and failures are left to the pass; and nothing is asked for that a pass
    /// which succeeds does not ask for itself, since no value of `f` is known here, neither its present nor its pure ones, and what hangs on
    /// one is left out. So no box gets larger than it would: it might contain points that nobody reads, where nothing can be computed.
    fn look_ahead(&mut self, f: usize, u: &UpdatePlan<N>, ranges: &[Range]) {
        let is_large = |domain: &[Range]| (FEW..=MAX_BOX).contains(&volume(&[ranges, domain].concat()));
        for pure in corners(ranges) {
            let Some(bounds) = self.glance(f, &u.bounds, &pure) else { continue };
            let domain = domain(&bounds);
            for reduction in corners(&domain).into_iter().filter(|_| is_large(&domain)) {
                let vars = [&pure[..], &reduction[..]].concat();
                let predicate = u.predicate.as_ref().map_or(Some(vec![]), |p| self.glance(f, p, &vars));
                if predicate.is_some_and(|all| all.iter().all(|holds| holds.value() != Value::Int(0))) {
                    self.glance(f, &u.body, &vars);
                }
            }
        }
    }

    /// The results of a tape, if values of `f` play no part in them.
    fn glance(&mut self, f: usize, tape: &Tape<N>, vars: &[i64]) -> Option<Vec<N>> {
        let pipeline = self.pipeline;
        tape.run_without(vars, &mut |name: &Name, coords: &[i32], value| {
            let is_own = pipeline.funcs.get_index_of(name) == Some(f);
            if is_own { None } else { self.call(name, coords, value).ok() }
        })
    }

    /// One assignment of an update, if its predicate holds.
    fn store_one(&mut self, f: usize, u: &UpdatePlan<N>, vars: &[i64]) -> Result<(), Error> {
        if let Some(predicate) = &u.predicate
            && predicate.run(vars, self)?.iter().any(|holds| holds.value() == Value::Int(0))
        {
            return Ok(());
        }
        let results = u.body.run(vars, self)?;
        let (at, values) = results.split_at(self.plans[f].dimensions.len());
        let at: Point = at.iter().map(|v| v.value().as_int().unwrap_or(0) as i32).collect();
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

/// The reduction domain of these bounds.
fn domain<N: Number>(bounds: &[N]) -> Vec<Range> {
    let bound = |i: usize| bounds[i].value().as_int().unwrap_or(0);
    let range = |i: usize| (bound(2 * i) as i32, (bound(2 * i) + bound(2 * i + 1).max(0) - 1) as i32);
    (0..bounds.len() / 2).map(range).collect()
}

/// The number of points in a product of ranges.
fn volume(ranges: &[Range]) -> u64 {
    let count = |r: &Range| (i64::from(r.1) - i64::from(r.0) + 1).max(0) as u64;
    ranges.iter().map(count).fold(1, u64::saturating_mul)
}

/// The first and last coordinates of ranges that are not empty, in every combination.
fn corners(ranges: &[Range]) -> Vec<Vec<i64>> {
    let both = |at: &Vec<i64>, r: &Range| [r.0, r.1].map(|c| [&at[..], &[c.into()]].concat());
    ranges.iter().fold(vec![vec![]], |all, r| all.iter().flat_map(|at| both(at, r)).collect())
}

/// The least box that contains both.
fn hull(a: &[Range], b: &[Range]) -> Vec<Range> {
    a.iter().zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect()
}
