//! Funcs for directives that need a particular program: rings, sinks, outputs in place of inputs, stages that may be skipped; and for
//! loops whose bounds differ from point to point.

use super::{Builder, Callee};
use sumsq_codegen::func::extent_param;
use sumsq_codegen::{Expr, Func, Input, Layout, RDom, ScalarType};

impl Builder<'_> {
    /// The only consumer of a Func, which it reads at a few points that move with its own, forwards, backwards or in leaps.
    pub(super) fn reader_of_ring(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.number_ty();
        let inner = format!("{name}_ring");
        let mut ring = Func::new(&*inner, &vars, vec![self.value(ty, &at, 2)]);
        if self.rng.percent(20) {
            let more = self.value(ty, &at, 1);
            let value = self.plus(ring.at(&at, 0), more);
            ring = ring.update(at.to_vec(), vec![value], RDom::default());
        }
        let ring = self.case.pipeline.func(ring);
        self.case.rings.push(inner.into());
        let mut place = |e: Expr| match self.rng.below(8) {
            0 => e * self.rng.range(2, 3),
            1 => Expr::from(self.rng.range(0, 9) as i32) - e,
            2 => e / 2,
            3 => e.max(self.rng.range(-2, 4) as i32),
            _ => e,
        };
        let places: Vec<Expr> = at.iter().cloned().map(&mut place).collect();
        let mut value = ring.at(&places, 0);
        for _ in 0..self.rng.range(0, 3) {
            let near: Vec<Expr> = places.iter().map(|e| e.clone() + self.rng.range(-2, 2)).collect();
            value = self.plus(value, ring.at(&near, 0));
        }
        Func::new(name, &vars, vec![value])
    }

    /// A producer that is an output, and a consumer that reads it at its own point and, sometimes, near it: a Func of the same
    /// space or a sum over it.
    pub(super) fn consumer_of_sink(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.number_ty();
        let inner = format!("{name}_sink");
        let values = (0..self.rng.range(1, 2)).map(|_| self.value(ty, &at, 2)).collect();
        let producer = self.case.pipeline.func(Func::new(&*inner, &vars, values));
        let layout = self.layout(&producer.types());
        self.output(&producer, layout, vec![0; self.size.len()]);
        self.case.sinks.push(inner.clone().into());
        let k = self.rng.below(producer.values.len());
        if self.rng.percent(40) {
            let dim = |d: usize| {
                (
                    format!("{name}_{}", ["r", "s", "t", "u"][d]),
                    Expr::from(0),
                    extent_param(inner.as_str(), d),
                )
            };
            let r = RDom::new((0..self.size.len()).map(dim));
            let at: Vec<Expr> = (0..self.size.len()).map(|d| r.var(d)).collect();
            let term = self.value(ty, &at, 1);
            let f = Func::sum(name, &[], r, vec![producer.at(&at, k), term]);
            self.output(&f, Layout::Planar, vec![]);
            return f;
        }
        let mut value = producer.at(&at, k);
        for _ in 0..self.rng.range(0, 2) {
            let near: Vec<Expr> = at.iter().map(|e| e.clone() + self.rng.range(-1, 1)).collect();
            value = value + producer.at(&near, k);
        }
        let f = Func::new(name, &vars, vec![value]);
        if self.rng.percent(70) {
            self.output(&f, layout, vec![0; self.size.len()]);
        }
        f
    }

    /// An output that may overwrite an input that only it reads: in its pure definition, or, where that is the input, in
    /// updates of it.
    pub(super) fn overwriting(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.ty();
        let types = vec![ty; self.rng.range(1, 2) as usize];
        let mut input = Input::new(format!("{name}_in"), &types, self.size.len());
        input.layout = self.layout(&types);
        if self.rng.percent(30) {
            input.halo = self.size.iter().map(|_| self.rng.below(3) as u32).collect();
        }
        self.bind(&input);
        let own: Vec<Expr> = (0..types.len()).map(|k| input.at(&at, k)).collect();
        self.case.in_place.insert(name.into(), input.name.clone());
        let f = if self.rng.percent(30) {
            let f = Func::new(name, &vars, own);
            let more = self.value(ty, &at, 1);
            let values = (0..types.len()).map(|k| self.plus(f.at(&at, k), more.clone())).collect();
            f.update(at.to_vec(), values, RDom::default())
        } else {
            let more = self.value(ty, &at, 2);
            let values = own.iter().rev().map(|v| self.plus(v.clone(), more.clone())).collect();
            Func::new(name, &vars, values)
        };
        self.output(&f, input.layout, input.halo);
        f
    }

    /// A Func that is 0 in some rows or columns, or in some runs.
    pub(super) fn gated(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.number_ty();
        let d = self.rng.below(self.size.len());
        let cond = match self.rng.below(3) {
            0 => self.scale().gt(0),
            1 => at[d].modulo(3).ne_(1),
            _ => at[d].lt(self.rng.range(0, 9) as i32).and(self.scale().gt(-2)),
        };
        let value = self.value(ty, &at, 2);
        self.case.gates.insert(name.into(), (vars[d].name().clone(), cond.clone()));
        Func::new(name, &vars, vec![Expr::select(cond, value, Expr::whole(ty, 0))])
    }

    /// A reduction over as many terms as each point says: by its coordinates, a parameter or an input.
    pub(super) fn ragged(&mut self, name: &str) -> Func {
        let (vars, at) = self.space();
        let ty = self.number_ty();
        let extent = match self.rng.below(3) {
            0 => (&at[0] + &at[1]).modulo(self.rng.range(2, 5) as i32),
            1 => self.scale() + 2,
            _ => {
                let input = Callee::Input(self.first_input());
                self.call(&input, &at).cast(ScalarType::U8).cast(ScalarType::I32).min(5)
            }
        };
        let r = RDom::new([(format!("{name}_r"), Expr::from(self.rng.range(-2, 2) as i32), extent)]);
        let place = Self::moved(&at, &[r.var(0)]);
        let term = self.value(ty, &place, 1);
        let f = Func::new(name, &vars, vec![Expr::whole(ty, 0)]);
        let value = self.accumulated(f.at(&at, 0), term);
        f.update(at.to_vec(), vec![value], r)
    }
}
