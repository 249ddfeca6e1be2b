//! Gives every produced region its bounds.
//!
//! The region of a Func at a level is the union, over all stages that call it, of the interval of each coordinate
//! while the loops around the level are fixed and all others range over their own bounds. At its compute level it is
//! let-bound as `f.<dim>.min/.max`, at its store level as `f.store.<dim>.min/.max`, at any other level where a
//! producer further out needs it as `f.in.<level>.<dim>.min/.max`. A consumer's coordinates range over *names*
//! of its region, never over what these stand for.
//!
//! Works level by level from outside in, during the walk of [`crate::nests`]: a level's lets come before
//! everything that is stored or computed there, consumers first.

use crate::analysis::algebra::build::{add, mul, offset};
use crate::analysis::algebra::{Interval, build};
use crate::analysis::intervals::Intervals;
use crate::error::Error;
use crate::expr::walk::variables;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::stmt::Stmt;
use crate::nests::Nests;
use crate::plan::plans::{
    Change, FuncPlan, Fuse, Level, MAX_FACTOR, Split, Stage, blocks, illegal, is_joint, own_var, points,
};
use crate::plan::validate::{error, is_var};
use crate::schedule::{StageId, Tail};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

impl Nests<'_> {
    /// The region of `func` at `level`, which is the level being opened or one that was opened before.
    pub fn region(&mut self, func: &Name, level: &Level) -> Result<Vec<Interval>, Error> {
        let key = (func.clone(), level.clone());
        if let Some(r) = self.regions.get(&key) {
            return Ok(r.clone());
        }
        let mut dims = self.required(func, level)?;
        self.regions.insert(key.clone(), dims.clone());
        self.cover_updates(func, level, &mut dims)?;
        self.keep_within(func, level, &mut dims);
        let f = &self.plan.funcs[func];
        let prefix = match level {
            l if *l == f.compute => format!("{func}"),
            l if *l == f.store => format!("{func}.store"),
            Level::Root => format!("{func}.in"),
            Level::At(l) => format!("{func}.in.{}.s{}.{}", l.stage.func, l.stage.stage, l.var),
        };
        let names: Vec<Name> = f.func.vars.iter().map(|v| v.0.clone()).collect();
        for (i, v) in names.iter().enumerate() {
            self.bound(func, level, i, &mut dims[i], &format!("{prefix}.{v}"))?;
            self.round(func, level, i, &mut dims[i], &format!("{prefix}.{v}"));
        }
        for (d, v) in dims.iter_mut().zip(names) {
            if rounded(f, &v) {
                continue;
            }
            d.min = self.name(format!("{prefix}.{v}.min"), &d.min);
            d.max = self.name(format!("{prefix}.{v}.max"), &d.max);
        }
        self.regions.insert(key, dims.clone());
        Ok(dims)
    }

    /// What the callers of `func`, and the output buffer, need.
    pub fn required(&mut self, func: &Name, level: &Level) -> Result<Vec<Interval>, Error> {
        let f = &self.plan.funcs[func];
        let mut dims: Vec<Option<Interval>> = vec![None; f.func.vars.len()];
        if f.output.is_some() && !f.sink {
            dims = (0..dims.len()).map(|d| Some(self.domain(func, d))).collect();
        }
        self.check_readers(func, level)?;
        for (stage, calls) in self.uses.get(func).cloned().unwrap_or_default() {
            if stage.func == *func || self.reads_output(func, &stage) {
                continue;
            }
            let scope = self.ranges(&stage, level)?;
            let mut intervals = Intervals::new(self.plan, &scope);
            for args in &calls {
                for (d, a) in args.iter().enumerate() {
                    let i = intervals.of(a).map_err(|why| self.unbounded(func, &stage, d, &why))?;
                    dims[d] = Some(dims[d].as_ref().map_or(i.clone(), |u| u.union(&i)));
                }
            }
        }
        let empty = || Interval { min: Expr::from(0), max: Expr::from(-1) };
        Ok(dims.into_iter().map(|d| d.unwrap_or_else(empty)).collect())
    }

    /// Everything that updates write and read of the Func itself.
    pub fn cover_updates(&mut self, func: &Name, level: &Level, dims: &mut [Interval]) -> Result<(), Error> {
        let f = &self.plan.funcs[func];
        for s in &f.stages[1..] {
            let own =
                self.uses.get(func).into_iter().flatten().filter(|u| u.0 == s.id).flat_map(|u| u.1.clone());
            let accesses: Vec<Vec<Expr>> = own.chain([s.args.clone()]).collect();
            let scope = self.ranges_inside(s, level)?;
            let mut intervals = Intervals::new(self.plan, &scope);
            for args in accesses {
                for (d, a) in args.iter().enumerate().filter(|(d, a)| !is_var(a, &f.func.vars[*d].0)) {
                    let i = intervals.of(a).map_err(|why| self.unbounded(func, &s.id, d, &why))?;
                    dims[d] = dims[d].union(&i);
                }
            }
        }
        Ok(())
    }

    /// Applies align_bounds, and the RoundUp splits of the pure definition, to dimension `d`. The number of blocks is
    /// let-bound, so that ends remain visible as multiples.
    fn round(&mut self, func: &Name, level: &Level, d: usize, i: &mut Interval, prefix: &str) {
        let f = &self.plan.funcs[func];
        if let Some(m) = f.align[d] {
            let m = Expr::from(m as i32);
            let first = self.name(format!("{prefix}.first"), &build::div(&i.min, &m));
            let last = self.name(format!("{prefix}.last"), &build::div(&i.max, &m));
            i.min = mul(&first, &m);
            i.max = offset(&add(&mul(&last, &m), &m), -1);
        }
        let Some(unit) = round_up_unit(&f.stages[0], &f.func.vars[d].0) else { return };
        if *level != f.compute {
            // Blocks of an inner region start anywhere: the last one may stick out by all but one element.
            i.max = offset(&add(&i.max, &unit), -1);
            return;
        }
        if f.align[d].is_none() {
            i.min = self.name(format!("{prefix}.min"), &i.min);
        }
        let blocks = self.name(format!("{prefix}.blocks"), &blocks(&i.min, &i.max, &unit));
        i.max = offset(&add(&i.min, &mul(&blocks, &unit)), -1);
    }

    fn unbounded(&self, func: &Name, stage: &StageId, dim: usize, why: &str) -> Error {
        let message = format!(
            "{} reads {func} at coordinate {dim}, which has no bounds because of {why}; clamp the coordinate",
            stage
        );
        error(&self.plan.pipeline, message)
    }

    /// Everything that reads `func`, which is computed or stored at `level`, does so inside of it.
    fn check_readers(&self, func: &Name, level: &Level) -> Result<(), Error> {
        let inside = |s: &StageId| match level {
            Level::At(l) if self.plan.stages_at(l).contains(s) => true,
            level => self.is_inside(&s.func, level),
        };
        let readers = self.uses.get(func).into_iter().flatten().map(|u| &u.0);
        let other = readers.filter(|s| s.func != *func && !self.reads_output(func, s));
        let outside: Vec<String> = other.filter(|s| !inside(s)).map(StageId::to_string).collect();
        if outside.is_empty() {
            return Ok(());
        }
        let f = &self.plan.funcs[func];
        let what = if *level == f.compute { "compute_at" } else { "store_at" };
        let rule = format!("it is read outside that loop, by {}", outside.join(", "));
        Err(illegal(&f.stages[0].id, format!("{what}({})", level_text(level)), rule))
    }

    /// Intervals of the local variables of `stage` while the loops around `level` are fixed.
    pub fn ranges(&mut self, stage: &StageId, level: &Level) -> Result<FxHashMap<Name, Interval>, Error> {
        let s = self.version_of(stage);
        self.ranges_inside(s, level)
    }

    /// As [`Nests::ranges`] for a stage at or inside `level`.
    pub fn ranges_inside(&mut self, s: &Stage, level: &Level) -> Result<FxHashMap<Name, Interval>, Error> {
        let at = match level {
            Level::At(l) => self.plan.loop_at(&s.id, l),
            Level::Root => None,
        };
        let place = |v: &str| s.dims.iter().position(|d| *d.name == *v).unwrap_or(0);
        let fixed_from = at.map_or(s.dims.len(), place);
        let pure = self.pure_region(&s.id.func, level)?;
        let mut r = Ranges { nests: self, stage: s, fixed_from, pure, scope: FxHashMap::default() };
        let vars = r.nests.plan.funcs[&s.id.func].func.vars.clone();
        let names = vars.iter().map(|v| &v.0).chain(s.rvars.iter().map(|v| &v.name));
        for n in names.chain(s.dims.iter().map(|d| &d.name)) {
            r.range(n)?;
        }
        Ok(r.scope)
    }

    /// What the pure loops of `func` cover, seen from `level`.
    fn pure_region(&mut self, func: &Name, level: &Level) -> Result<Vec<Interval>, Error> {
        let f = &self.plan.funcs[func];
        let inside_own_nest = match level {
            Level::At(l) => self.plan.stages_at(l).iter().any(|s| s.func == *func),
            Level::Root => false,
        };
        if (inside_own_nest || f.compute == *level)
            && let Some(r) = self.produced.get(func)
        {
            return Ok(r.clone());
        }
        let at = if inside_own_nest { f.compute.clone() } else { level.clone() };
        self.region(func, &at)
    }

    /// Is all of `func` computed inside `level`?
    pub fn is_inside(&self, func: &Name, level: &Level) -> bool {
        let Level::At(target) = level else { return true };
        let mut at = &self.plan.funcs[func].compute;
        while let Level::At(l) = at {
            if let Some(outer) = self.plan.loop_at(&l.stage, target) {
                let dims = &self.version_of(&l.stage).dims;
                let depth = |v: &str| dims.iter().position(|d| *d.name == *v);
                let (inner, outer) = (depth(own_var(l)), depth(outer));
                // What all stages of a loop share is around what each has of its own.
                return inner < outer || inner == outer && (is_joint(target) || !is_joint(l));
            }
            at = &self.plan.funcs[&l.stage.func].compute;
        }
        false
    }

    /// Assertions that what the pipeline reads lies in the bound buffers, and that these are not empty.
    pub fn input_checks(&mut self) -> Result<Vec<Stmt>, Error> {
        let mut checks = vec![];
        let plan = self.plan;
        let mut buffers: Vec<(Name, Vec<u32>)> = vec![];
        for i in plan.pipeline.inputs.values() {
            buffers.push((i.name.clone(), i.halo.clone()));
        }
        for o in &plan.pipeline.outputs {
            buffers.push((o.func.clone(), o.halo.clone()));
        }
        for (name, halo) in buffers {
            for d in 0..halo.len() {
                let extent = plan.pipeline.shape(&name).extent(d);
                checks.push(self.check(
                    &[Expr::from(1).le(&extent)],
                    format!("{name}: extent of dimension {d} must be at least 1, it is"),
                    &[extent],
                ));
            }
            checks.extend(self.region_checks(&name, &halo)?);
        }
        let stages = plan.funcs.values().flat_map(|f| f.stages.iter().map(move |s| (f, s)));
        for (f, s) in stages.flat_map(|(f, s)| s.versions().into_iter().map(move |s| (f, s))) {
            for c in &s.changes {
                match c {
                    Change::Split(t) => checks.extend(self.factor_checks(f, t)),
                    Change::Fuse(t) if f.compute == Level::Root => checks.push(self.points_at_root(s, t)?),
                    // Further in, the points are those of a tile, which is checked there.
                    Change::Fuse(_) | Change::Rename { .. } => {}
                }
            }
        }
        Ok(checks.into_iter().flatten().collect())
    }

    /// A factor that is known at run time is one that a constant may be.
    fn factor_checks(&self, f: &FuncPlan, t: &Split) -> [Option<Stmt>; 2] {
        let (one, most) = (Expr::from(1), Expr::from(MAX_FACTOR as i32));
        let check = |cond: Expr, what: &str| {
            let message = format!("{}: split factor of {} must be at {what}, it is", f.func.name, t.old);
            self.check(&[cond], message, std::slice::from_ref(&t.factor))
        };
        match t.factor.as_int() {
            Some(_) => [None, None],
            None => [check(one.le(&t.factor), "least 1"), check(t.factor.le(&most), "most 2^26")],
        }
    }

    /// The points of two fused loops of a Func at root.
    fn points_at_root(&mut self, s: &Stage, t: &Fuse) -> Result<Option<Stmt>, Error> {
        let scope = self.ranges_inside(s, &Level::Root)?;
        let (Some(inner), Some(outer)) = (scope.get(&t.inner), scope.get(&t.outer)) else { return Ok(None) };
        Ok(self.points_check(&s.id, &[inner.extent(), outer.extent()], &t.fused))
    }

    /// The points of two fused loops are counted by an i32.
    pub(super) fn points_check(&self, id: &StageId, extents: &[Expr; 2], fused: &Name) -> Option<Stmt> {
        let most = extents.each_ref().map(|e| self.facts.upper(e));
        if let [Some(a), Some(b)] = most
            && a.max(0).checked_mul(b.max(0)).is_some_and(|n| n <= i32::MAX as i64)
        {
            return None;
        }
        let [a, b] = extents.each_ref().map(|e| e.cast(ScalarType::I64));
        let message = format!("{id}: fused loop {fused} has more than 2^31 - 1 points: of");
        let cond = build::le(&(a * b), &Expr::int(ScalarType::I64, i32::MAX as i64));
        self.check(&[cond], message, extents)
    }

    /// The reads of one buffer stay in its domain and halo.
    fn region_checks(&mut self, name: &Name, halo: &[u32]) -> Result<Vec<Option<Stmt>>, Error> {
        if self.plan.pipeline.inputs.get(name).is_some_and(|i| i.trusted) {
            return Ok(vec![]);
        }
        let mut dims: Vec<Option<Interval>> = vec![None; halo.len()];
        for (stage, calls) in self.uses.get(name).cloned().unwrap_or_default() {
            if self.plan.funcs.contains_key(name) && !self.reads_output(name, &stage) {
                continue;
            }
            let scope = self.ranges(&stage, &Level::Root)?;
            let mut intervals = Intervals::new(self.plan, &scope);
            for args in &calls {
                for (d, a) in args.iter().enumerate() {
                    let i = intervals.of(a).map_err(|why| self.unbounded(name, &stage, d, &why))?;
                    dims[d] = Some(dims[d].as_ref().map_or(i.clone(), |u| u.union(&i)));
                }
            }
        }
        if self.plan.pipeline.inputs.contains_key(name)
            && let Some(region) = dims.iter().cloned().collect::<Option<Vec<_>>>()
        {
            self.required.push((name.clone(), region));
        }
        let mut checks = vec![];
        for (d, i) in dims.into_iter().enumerate() {
            let Some(i) = i else { continue };
            let domain = self.domain(name, d);
            let (first, last) = (offset(&domain.min, -(halo[d] as i64)), offset(&domain.max, halo[d] as i64));
            let conds = [build::le(&first, &i.min), build::le(&i.max, &last)];
            let message =
                format!("{name} is read beyond dimension {d}: from, to, first readable, last readable");
            checks.push(self.check(&conds, message, &[i.min, i.max, first, last]));
        }
        Ok(checks)
    }

    /// An assertion, unless it is known to hold.
    pub fn check(&self, conds: &[Expr], message: String, args: &[Expr]) -> Option<Stmt> {
        let proved = |c: &Expr| match c.kind() {
            ExprKind::Binary(crate::expr::BinaryOp::Le, a, b) => {
                self.facts.proves_le(a, b) && !matches!(b.kind(), ExprKind::Param(_))
            }
            _ => c.as_int() == Some(1),
        };
        let open: Vec<&Expr> = conds.iter().filter(|c| !proved(c)).collect();
        let cond = open.iter().fold(Expr::bool(true), |a, c| build::and(&a, c));
        let args = args.iter().map(|a| a.cast(ScalarType::I64)).collect();
        (!open.is_empty()).then_some(Stmt::Assert { cond, message, args })
    }
}

/// Intervals of the variables of one stage.
struct Ranges<'n, 'p, 's> {
    nests: &'n mut Nests<'p>,
    stage: &'s Stage,
    /// Loops at this position and further out are fixed.
    fixed_from: usize,
    pure: Vec<Interval>,
    scope: FxHashMap<Name, Interval>,
}

impl Ranges<'_, '_, '_> {
    /// The interval of a local name, recorded in the scope; true if it is fixed.
    fn range(&mut self, name: &Name) -> Result<bool, Error> {
        let s = self.stage;
        let (interval, fixed) = match s.replaced(name) {
            None => {
                let at = s.dims.iter().position(|d| d.name == *name);
                match at.is_some_and(|i| i >= self.fixed_from) {
                    true => (Interval::point(&Expr::var(self.nests.full_name(s, name))), true),
                    false => (self.bounds(name)?, false),
                }
            }
            Some(Change::Split(t)) => {
                let outer_fixed = self.range(&t.outer)?;
                let inner_fixed = self.range(&t.inner)?;
                if outer_fixed && inner_fixed {
                    (Interval::point(&self.nests.local_expr(s, name)), true)
                } else {
                    (self.composed(t.clone(), name, outer_fixed, inner_fixed)?, false)
                }
            }
            Some(Change::Fuse(t)) => match self.range(&t.fused)? {
                true => (Interval::point(&self.nests.local_expr(s, name)), true),
                false => (self.bounds(name)?, false),
            },
            Some(Change::Rename { new, .. }) => {
                let fixed = self.range(new)?;
                (self.scope[new].clone(), fixed)
            }
        };
        self.scope.insert(name.clone(), interval);
        Ok(fixed)
    }

    /// From the origin of the first block that runs to the end of the last one, at most the maximum of the split variable:
    /// what lies beyond is guarded.
    fn composed(
        &mut self,
        t: crate::plan::plans::Split,
        name: &Name,
        outer_fixed: bool,
        inner_fixed: bool,
    ) -> Result<Interval, Error> {
        let bounds = self.bounds(name)?;
        let own = |n: &Name| self.pure_dim(n).is_none();
        if !outer_fixed && !inner_fixed && own(&t.outer) && own(&t.inner) {
            return Ok(bounds);
        }
        let (outer, inner) = (self.scope[&t.outer].clone(), self.scope[&t.inner].clone());
        let nests = &self.nests;
        let (first, last) = match outer_fixed {
            true => (nests.base_expr(self.stage, &t), nests.base_expr(self.stage, &t)),
            // The first of these blocks may be the one that moves back; nothing ends behind where the last one would have.
            false => (
                nests.block_origin(self.stage, &t, &outer.min, &bounds),
                add(&mul(&outer.max, &t.factor), &bounds.min),
            ),
        };
        let (min, max) = (add(&first, &inner.min), add(&last, &inner.max));
        let max = match (
            self.nests.facts.proves_le(&bounds.max, &max),
            self.nests.facts.proves_le(&max, &bounds.max),
        ) {
            (true, _) => bounds.max,
            (_, true) => max,
            _ => build::min(&max, &bounds.max),
        };
        Ok(Interval { min, max })
    }

    fn pure_dim(&self, name: &Name) -> Option<usize> {
        self.nests.plan.funcs[&self.stage.id.func].func.vars.iter().position(|v| v.0 == *name)
    }

    /// The bounds of a name, loop or not.
    fn bounds(&mut self, name: &Name) -> Result<Interval, Error> {
        let s = self.stage;
        if let Some(d) = self.pure_dim(name) {
            return Ok(self.pure[d].clone());
        }
        if let Some(r) = s.rvars.iter().find(|r| r.name == *name) {
            let mut pure = FxHashMap::default();
            for v in variables(&r.min).into_iter().chain(variables(&r.max)) {
                if !self.scope.contains_key(&v) {
                    self.range(&v)?;
                }
                pure.insert(v.clone(), self.scope[&v].clone());
            }
            if let Some((min, max)) = self.nests.rvar_names.get(&(s.id.clone(), name.clone()))
                && pure.values().all(|i| i.min == i.max)
                && self.fixed_from < s.dims.len()
            {
                return Ok(Interval { min: min.clone(), max: max.clone() });
            }
            let mut intervals = Intervals::new(self.nests.plan, &pure);
            let fail = |why: String| {
                error(
                    &self.nests.plan.pipeline,
                    format!("{}: the bounds of {name} have no bounds because of {why}", s.id),
                )
            };
            return Ok(Interval {
                min: intervals.of(&r.min).map_err(fail)?.min,
                max: intervals.of(&r.max).map_err(fail)?.max,
            });
        }
        let zero = Expr::from(0);
        match s.made(name) {
            Some(Change::Split(t)) if t.inner == *name => {
                Ok(Interval { min: zero, max: offset(&t.factor, -1) })
            }
            Some(Change::Split(t)) => {
                let old = self.bounds(&t.old)?;
                Ok(Interval { min: zero, max: offset(&blocks(&old.min, &old.max, &t.factor), -1) })
            }
            Some(Change::Fuse(t)) => {
                let (inner, outer) = (self.bounds(&t.inner)?, self.bounds(&t.outer)?);
                Ok(Interval { min: zero, max: offset(&points(&inner, &outer), -1) })
            }
            Some(Change::Rename { old, .. }) => self.bounds(old),
            None => unreachable!("bounds: {name} is no variable of {}", s.id),
        }
    }
}

/// Are the ends of dimension `var` made of let-bound numbers of blocks?
fn rounded(f: &FuncPlan, var: &Name) -> bool {
    let aligned = f.func.vars.iter().zip(&f.align).any(|(v, a)| v.0 == *var && a.is_some());
    aligned || round_up_unit(&f.stages[0], var).is_some()
}

/// The multiple to which RoundUp splits round the extent of `var`.
pub fn round_up_unit(s: &Stage, var: &Name) -> Option<Expr> {
    match s.replaced(var)? {
        Change::Split(t) if t.tail == Tail::RoundUp => Some(match round_up_unit(s, &t.outer) {
            Some(u) => mul(&u, &t.factor),
            None => t.factor.clone(),
        }),
        Change::Rename { new, .. } => round_up_unit(s, new),
        _ => None,
    }
}

/// `root` or `f.update(k), var`.
pub fn level_text(level: &Level) -> String {
    match level {
        Level::Root => "root".into(),
        Level::At(l) => format!("{}, {}", l.stage, own_var(l)),
    }
}
