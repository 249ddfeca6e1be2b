//! Kinds of Funcs. The reduction variables of a Func `f` are called `f_r`, `f_s`, `f_t`.

use super::{Builder, Callee, SIBLING};
use sumsq_codegen::{Expr, Func, RDom, ScalarType, Var, boundary};

impl Builder<'_> {
    /// Adds a Func called `name`, with those that it is made of.
    pub(super) fn func(&mut self, name: &str) {
        let f = match self.rng.below(30) {
            0..3 => self.pointwise(name),
            3..5 => self.stencil(name),
            5..7 => self.pyramid(name),
            7 => self.boundary(name),
            8..10 => self.window(name),
            10..12 => self.histogram(name),
            12 => self.scatter(name),
            13..15 => self.total(name),
            15..17 => self.scan(name),
            17 => self.inline_reduction(name),
            18 => self.extreme(name),
            19 => self.tuple_steps(name),
            20 => self.columns(name),
            21 => self.nearest(name),
            22 => self.consumer_of_sink(name),
            23 => self.overwriting(name),
            24 => self.gated(name),
            25 => self.ragged(name),
            26..29 => self.reader_of_ring(name),
            _ => self.updated(name),
        };
        self.add(f);
    }

    /// Outputs, smaller ones among them, that read one Func: their nests may run together.
    pub(super) fn siblings(&mut self) {
        let plane = |c: &&Callee| matches!(c, Callee::Func(f) if f.vars.len() > 1);
        let planes: Vec<Callee> = self.callees.iter().filter(plane).cloned().collect();
        if planes.is_empty() {
            return;
        }
        let of = self.rng.pick(&planes);
        for i in 0..self.rng.range(2, 3) {
            let (vars, at) = self.space();
            let mut near = || {
                let shifted: Vec<Expr> = at.iter().map(|e| e.clone() + self.rng.range(-2, 2)).collect();
                self.call(&of, &shifted).cast(of.ty())
            };
            let (a, b) = (near(), near());
            let value = self.plus(a, b);
            let name = self.name(&format!("{SIBLING}{i}"));
            self.add(Func::new(name, &vars, vec![value]));
        }
    }

    fn pointwise(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.ty();
        let mixed = self.rng.percent(30);
        let mut values = vec![self.value(ty, &at, 3)];
        if self.rng.percent(25) {
            let ty = if mixed { self.ty() } else { ty };
            values.push(self.value(ty, &at, 3));
        }
        Func::new(name, &vars, values)
    }

    fn stencil(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let callee = self.callee();
        let mut terms = vec![];
        for _ in 0..self.rng.range(2, 4) {
            let shifted: Vec<Expr> = at.iter().map(|e| e.clone() + self.rng.range(-2, 2)).collect();
            terms.push(self.call(&callee, &shifted).cast(callee.ty()));
        }
        let sum = terms.into_iter().reduce(|a, b| self.plus(a, b)).unwrap_or_else(|| Expr::bool(true));
        Func::new(name, &vars, vec![sum])
    }

    /// One level down or up from a Func.
    fn pyramid(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let callee = self.callee();
        let d = self.rng.below(self.size.len());
        let down = self.rng.percent(50);
        let mut near = |k: i64| {
            let mut to = at.to_vec();
            to[d] = if down { at[d].clone() * 2 + k } else { (at[d].clone() + k) / 2 };
            self.call(&callee, &to).cast(callee.ty())
        };
        let (a, b) = (near(0), near(1));
        let value = match a.ty().scalar {
            ScalarType::Bool => a.and(b),
            ty if ty.is_float() => (a + b) * 0.5,
            _ => a.rounding_halving_add(b),
        };
        Func::new(name, &vars, vec![value])
    }

    /// Every second or third column, or row, is another Func's.
    fn columns(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let (ty, k) = (self.ty(), self.rng.range(2, 3));
        let d = self.rng.below(self.size.len());
        let mut to = at.to_vec();
        to[d] = at[d].clone() / k;
        let [a, b] = [0, 1].map(|_| self.value(ty, &to, 1));
        let value = Expr::select((&at[d] % k).eq_(Expr::from(self.rng.range(0, k - 1) as i32)), a, b);
        Func::new(name, &vars, vec![value])
    }

    /// Returns what lies where something is least in a small window.
    fn nearest(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let (inner, r, term) = self.inline_term(name, &at);
        let found = self.case.pipeline.argmin(inner, &r, term);
        let callee = self.callee();
        let value = self.call(&callee, &Self::moved(&at, &found[..2]));
        Func::new(name, &vars, vec![value])
    }

    /// An input beyond its domain.
    fn boundary(&mut self, name: &str) -> Func {
        let of = match self.rng.pick(&self.callees.clone()) {
            Callee::Input(i) => i,
            Callee::Func(_) => self.first_input(),
        };
        let mut domain = of.domain();
        // Part of it, from one dimension's second element on.
        if self.rng.percent(30) {
            domain[0] = Some((of.min(0) + (of.extent(0) - 1).min(1), (of.extent(0) - 1).max(1)));
        }
        match self.rng.below(5) {
            0 => {
                let beyond = self.rng.range(0, 9) as f64;
                let beyond: Vec<Expr> = of.types.iter().map(|&ty| Expr::constant(ty, beyond)).collect();
                boundary::constant_exterior(name, &of, &domain, &beyond)
            }
            1 => boundary::repeat_edge(name, &of, &domain),
            2 => boundary::repeat_image(name, &of, &domain),
            3 => boundary::mirror_image(name, &of, &domain),
            _ => boundary::mirror_interior(name, &of, &domain),
        }
    }

    /// A small window around a point, of which sometimes not all points count.
    fn window_domain(&mut self, name: &str) -> RDom {
        let (nx, ny) = (self.rng.range(1, 4), self.rng.range(1, 3));
        let from = Expr::from(self.rng.range(-2, 0) as i32);
        let mut dims = vec![
            (format!("{name}_r"), from, Expr::from(nx as i32)),
            (format!("{name}_s"), Expr::from(0), Expr::from(ny as i32)),
        ];
        if self.rng.percent(15) {
            dims.push((format!("{name}_t"), Expr::from(1), Expr::from(2)));
        }
        let r = RDom::new(dims);
        match self.rng.below(10) {
            0..2 => {
                let odd = (r.var(0) + &r.var(1)).modulo(2).ne_(0);
                r.filter(odd)
            }
            2 => {
                let triangle = r.var(0).le(r.var(1));
                r.filter(triangle)
            }
            _ => r,
        }
    }

    /// Returns what a reduction written in place in `name` needs: its own name, a small window around `at`, and a term.
    fn inline_term(&mut self, name: &str, at: &[Expr]) -> (String, RDom, Expr) {
        let inner = format!("{name}_of");
        let r = self.window_domain(&inner);
        let ty = self.number_ty();
        let term = self.value(ty, &Self::moved(at, &[r.var(0), r.var(1)]), 1);
        (inner, r, term)
    }

    /// A sum, product, minimum or maximum over a small window around each point.
    fn window(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let r = self.window_domain(name);
        let ty = self.ty();
        let inner = Self::moved(&at, &[r.var(0), r.var(1)]);
        let term = self.value(ty, &inner, 1);
        let f = Func::new(name, &vars, vec![Expr::whole(ty, 0)]);
        let own = f.at(&at, 0);
        let value = self.accumulated(own, term);
        f.update(at.to_vec(), vec![value], r)
    }

    /// `own` with one more term.
    pub(super) fn accumulated(&mut self, own: Expr, term: Expr) -> Expr {
        let ty = own.ty().scalar;
        match self.rng.below(7) {
            0 => own.max(term),
            1 => own.min(term),
            2 if ty.is_int() => own.or(term),
            3 if ty.is_int() => own.xor(term),
            4 if ty != ScalarType::Bool => (own + 1) * term,
            5 if ty.is_int() => own.saturating_add(term),
            _ => self.plus(own, term),
        }
    }

    /// The domain of the first input.
    fn everything(&mut self, name: &str) -> RDom {
        let i = self.first_input();
        let dim = |d: usize| (format!("{name}_{}", ["r", "s", "t", "u"][d]), i.min(d), i.extent(d));
        let r = RDom::new((0..self.size.len()).map(dim));
        match self.rng.below(10) {
            0 | 1 => {
                let some = (r.var(0) + &(r.var(1) * 2)).modulo(3).ne_(1);
                r.filter(some)
            }
            2 => {
                let by_data = self.condition(&self.point(&r), 1);
                r.filter(by_data)
            }
            _ => r,
        }
    }

    /// The point of a domain of all dims.
    fn point(&self, r: &RDom) -> Vec<Expr> {
        (0..self.size.len()).map(|d| r.var(d)).collect()
    }

    /// Counts or sums by a bin that the data chooses.
    fn histogram(&mut self, name: &str) -> Func {
        if self.rng.percent(40) {
            return self.histograms(name);
        }
        let r = self.everything(name);
        let at = self.point(&r);
        let bin = self.bin(&at);
        let ty = self.ty_of(&[
            ScalarType::I32,
            ScalarType::U8,
            ScalarType::U16,
            ScalarType::I64,
            ScalarType::F32,
            ScalarType::I8,
            ScalarType::F16,
            ScalarType::Bool,
        ]);
        let f = Func::new(name, &[Var::new(self.name("b"))], vec![Expr::whole(ty, 0)]);
        let more = if self.rng.percent(50) { Expr::whole(ty, 1) } else { self.value(ty, &at, 1) };
        let own = f.at(std::slice::from_ref(&bin), 0);
        let value = if self.rng.percent(60) { self.plus(own, more) } else { self.accumulated(own, more) };
        f.update(vec![bin], vec![value], r)
    }

    /// A histogram for each row, or column: the bins lie along one dimension, and may move with the row.
    fn histograms(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let i = self.first_input();
        let d = self.rng.below(self.size.len());
        let r = RDom::new([(format!("{name}_r"), i.min(d), i.extent(d))]);
        let mut from = at.to_vec();
        from[d] = r.var(0);
        let row = at[(d + 1) % self.size.len()].clone();
        let bin = match self.rng.below(4) {
            0 => self.bin(&from) + row.modulo(3),
            1 => row / 2 + r.var(0),
            _ => self.bin(&from),
        };
        let mut to = at.to_vec();
        to[d] = bin;
        let ty = self.ty();
        let more = self.value(ty, &from, 1);
        let f = Func::new(name, &vars, vec![Expr::whole(ty, 0)]);
        let own = f.at(&to, 0);
        let value = if self.rng.percent(60) { self.plus(own, more) } else { self.accumulated(own, more) };
        f.update(to, vec![value], r)
    }

    /// Stores to places that the data chooses, of which the last counts: a row of bins per column, or bins.
    fn scatter(&mut self, name: &str) -> Func {
        let r = self.everything(name);
        let from = self.point(&r);
        let ty = self.ty();
        let term = self.value(ty, &from, 2);
        let bin = self.bin(&from);
        if self.rng.percent(50) {
            let f = Func::new(name, &[Var::new(self.name("b"))], vec![Expr::whole(ty, 0)]);
            return f.update(vec![bin], vec![term], r);
        }
        let (vars, at) = self.space();
        let start = self.value(ty, &at, 1);
        let mut to = from;
        to[1] = bin;
        Func::new(name, &vars, vec![start]).update(to, vec![term], r)
    }

    /// A sum over the whole domain, in one or two tuple elements. Half of those in floats may be reordered.
    fn total(&mut self, name: &str) -> Func {
        let r = self.everything(name);
        let ty = self.ty_of(&[
            ScalarType::I32,
            ScalarType::U8,
            ScalarType::I64,
            ScalarType::F32,
            ScalarType::F64,
            ScalarType::U16,
            ScalarType::F16,
        ]);
        let at = self.point(&r);
        let mut terms = vec![];
        for _ in 0..self.rng.range(1, 2) {
            terms.push(self.value(ty, &at, 2));
        }
        let free = matches!(ty, ScalarType::F32 | ScalarType::F64);
        if free && self.rng.percent(50) {
            let magnitudes = terms.iter().map(|t| t.abs().cast(ScalarType::F64)).collect();
            let bound = Func::sum(format!("{name}_magnitude"), &[], r.clone(), magnitudes);
            self.case.free_sums.insert(name.into(), (bound, self.size.iter().product()));
        }
        Func::sum(name, &[], r, terms)
    }

    /// A recurrence along one dimension over a fixed range, forwards or backwards, over one or two steps.
    fn scan(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.ty();
        let start = self.value(ty, &at, 2);
        let f = Func::new(name, &vars, vec![start]);
        let length = self.rng.range(1, 8) as i32;
        let r = RDom::new([(format!("{name}_r"), Expr::from(1), Expr::from(length))]);
        let d = self.rng.below(self.size.len());
        let backwards = self.rng.percent(40);
        let place = |back: i64| {
            let mut to = at.to_vec();
            to[d] = if backwards { Expr::from(length) - &r.var(0) + back } else { r.var(0) - back };
            to
        };
        let (here, before) = (f.at(&place(0), 0), f.at(&place(1), 0));
        let mut value = self.plus(here, before);
        if self.rng.percent(25) {
            value = self.accumulated(value, f.at(&place(2), 0));
        }
        let args = place(0);
        f.update(args, vec![value], r)
    }

    /// A pointwise Func of reductions written in place.
    fn inline_reduction(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let (inner, r, term) = self.inline_term(name, &at);
        let p = &mut self.case.pipeline;
        let values = match self.rng.below(6) {
            0 => vec![p.sum(inner, &r, term)],
            1 => vec![p.product(inner, &r, term)],
            2 => vec![p.minimum(inner, &r, term)],
            3 => vec![p.maximum(inner, &r, term)],
            4 => p.argmin(inner, &r, term),
            _ => p.argmax(inner, &r, term),
        };
        Func::new(name, &vars, values)
    }

    /// Returns where some value is least or greatest in the domain of the first input, with the value.
    fn extreme(&mut self, name: &str) -> Func {
        let r = self.everything(name);
        let ty =
            self.ty_of(&[ScalarType::U8, ScalarType::I32, ScalarType::I16, ScalarType::F32, ScalarType::F16]);
        let term = self.value(ty, &self.point(&r), 1);
        let least = self.rng.percent(50);
        let start = if least { Expr::greatest(ty) } else { Expr::least(ty) };
        let f = Func::new(name, &[], vec![Expr::from(0), Expr::from(0), start]);
        let better = self.compare(least, &term, &f.at(&[], 2));
        let values = [r.var(0), r.var(1), term].into_iter().enumerate();
        let values = values.map(|(k, v)| Expr::select(&better, v, f.at(&[], k))).collect();
        f.update(vec![], values, r)
    }

    /// A tuple whose elements follow from one another, some times.
    fn tuple_steps(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let types = [self.ty(), self.ty()];
        let start = types.map(|ty| self.value(ty, &at, 1)).to_vec();
        let f = Func::new(name, &vars, start);
        let r = RDom::new([(format!("{name}_r"), Expr::from(0), Expr::from(self.rng.range(1, 5) as i32))]);
        let [a, b] = [0, 1].map(|k| f.at(&at, k));
        let mut place = at.clone();
        place[1] = r.var(0);
        let more = self.value(types[0], &place, 1);
        let next = vec![self.accumulated(b.cast(types[0]), more), a.cast(types[1])];
        f.update(at.to_vec(), next, r)
    }

    /// One or two updates of every point, or of a row.
    fn updated(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.ty();
        let start = self.value(ty, &at, 2);
        let mut f = Func::new(name, &vars, vec![start]);
        for _ in 0..self.rng.range(1, 2) {
            let row = Expr::from(self.rng.range(0, 3) as i32);
            let mut place = at.clone();
            if self.rng.percent(30) {
                place[1] = row;
            }
            let own = f.at(&place, 0);
            let twice = self.plus(own.clone(), own);
            let more = self.value(ty, &place, 1);
            let value = self.plus(twice, more);
            f = f.update(place, vec![value], RDom::default());
        }
        f
    }
}
