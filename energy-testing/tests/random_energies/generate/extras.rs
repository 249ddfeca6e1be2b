//! Losses that are formulas, scales and weights read from arrays, near-null displacements. They have random numbers of their own, so that
//! without them the case of a seed is the one that it was before them.

use super::{Context, Generator, TRIES};
use crate::alive::is_alive;
use sumsq_codegen_testing::rng::Rng;
use sumsq_energy_testing::case::{At, Expr, Kind, Loss, LossKind, Op, Rho, Source};

fn call(op: Op, operands: Vec<Expr>) -> Expr {
    Expr::Call(op, operands)
}

impl Generator {
    pub(super) fn extras(&mut self, seed: u64) {
        self.rng = Rng::new(seed ^ 0x6c6f_7373_6573);
        for g in 0..self.case.groups.len() {
            let Some(context) = self.context_of(g) else { continue };
            if self.rng.percent(20) {
                self.weight(g, context);
            }
            if self.rng.percent(50) {
                let rho = match self.rng.below(4) {
                    0 => Rho::Power(self.positive(), self.positive()),
                    1 => Rho::Formula(self.formula()),
                    _ => Rho::Scaled(self.kind(), self.scale(context)),
                };
                let second_order = self.rng.percent(40);
                self.case.groups[g].loss = Some(Loss { rho, second_order });
            }
        }
        for f in 0..self.case.fields.len() {
            if self.case.is_unknown(f) && self.rng.percent(25) {
                self.near_null(f);
            }
        }
    }

    pub(super) fn kind(&mut self) -> LossKind {
        use LossKind::*;
        self.rng.pick(&[Huber, Cauchy, Tukey, SoftL1, Arctan, GemanMcClure])
    }

    /// A positive number, or a param that is one.
    pub(super) fn positive(&mut self) -> Expr {
        let positive = (0..self.case.params.len()).find(|&p| self.case.params[p][0] > 0.0);
        match positive {
            Some(p) if self.rng.percent(50) => Expr::Param(p, Some(0)),
            _ => Expr::Number(self.rng.range(200, 3000) as f64 / 1024.0),
        }
    }

    /// The place of a group's residuals, where it is one.
    fn context_of(&self, group: usize) -> Option<Context> {
        let mut found = None;
        for value in &self.case.groups[group].values {
            let channels = self.case.reads(value);
            let placed = channels.iter().flat_map(|r| &r.all).find_map(|a| match a.at {
                At::Offset(_) => Some(Context::Stencil { space: self.case.space(a.source), unknowns: false }),
                At::Vertex(g, _) => Some(Context::Graph(g)),
                At::Global => None,
            });
            // Globals alone: an instance of no place, to which all that is placed gives one.
            let here = placed.unwrap_or(Context::Stencil { space: 1, unknowns: false });
            if found.is_some_and(|f| f != here) {
                return None;
            }
            found = Some(here);
        }
        found
    }

    /// A number per element or hyperedge before a value of a group.
    fn weight(&mut self, group: usize, context: Context) {
        let v = self.rng.below(self.case.groups[group].values.len());
        let value = self.case.groups[group].values[v].clone();
        let weighted = call(Op::Mul, vec![self.of_arrays(context, 0), value]);
        if is_alive(&self.case, &weighted, &mut self.rng) {
            self.case.groups[group].values[v] = weighted;
        }
    }

    /// An expression of one channel without unknowns whose reads all count.
    fn of_arrays(&mut self, context: Context, depth: usize) -> Expr {
        for _ in 0..TRIES {
            let e = self.expression(context, 1, depth);
            let reads = self.case.reads(&e).swap_remove(0);
            let placed = reads.all.iter().any(|a| a.at != At::Global);
            let constant = self.case.unknown_reads(&reads).is_empty();
            if placed && constant && is_alive(&self.case, &e, &mut self.rng) {
                return e;
            }
        }
        self.positive()
    }

    /// A positive scale that differs from place to place.
    fn scale(&mut self, context: Context) -> Expr {
        if self.rng.percent(40) {
            return self.array_of_scales(context);
        }
        let scale = self.positive_of_arrays(context);
        match is_alive(&self.case, &scale, &mut self.rng) {
            true => scale,
            false => self.positive(),
        }
    }

    /// Any expression without unknowns, made positive.
    fn positive_of_arrays(&mut self, context: Context) -> Expr {
        let e = self.of_arrays(context, 1);
        match self.rng.below(3) {
            0 => {
                let positive = call(Op::Compare("greater"), vec![e.clone(), Expr::Number(0.25)]);
                call(Op::Select, vec![positive, e, Expr::Number(0.5)])
            }
            1 => call(Op::Add, vec![call(Op::Unary("abs"), vec![e]), Expr::Number(0.25)]),
            _ => {
                let square = call(Op::Power, vec![e, Expr::Number(2.0)]);
                call(Op::Add, vec![square, Expr::Number(0.5)])
            }
        }
    }

    /// A read of an array of positive numbers. Where a test of bounds lets it be read outside of the domain, there is none.
    fn array_of_scales(&mut self, context: Context) -> Expr {
        let (space, vertex) = match context {
            Context::Graph(g) => {
                let v = self.rng.below(self.case.graphs[g].spaces.len());
                (self.case.graphs[g].spaces[v], Some(v))
            }
            Context::Stencil { space, .. } => (space, None),
            Context::Constant => (1, None),
        };
        let ty = self.rng.pick(&["opt_float", "opt_float", "float", "double"]);
        self.field(Kind::Array(ty), space, 1);
        let last = self.case.fields.len() - 1;
        self.case.fields[last].values.iter_mut().for_each(|v| *v = v.abs());
        self.read(context, Source::Field(last), vertex, 1)
    }

    /// The formula of a `Loss`: one that rises slower and slower, as losses do, or any that reads q.
    fn formula(&mut self) -> Expr {
        let (q, s) = (Expr::Squared, self.positive());
        match self.rng.below(7) {
            0 => call(Op::Unary("log"), vec![call(Op::Add, vec![s, q])]),
            1 => {
                let root = call(Op::Unary("sqrt"), vec![call(Op::Add, vec![s.clone(), q])]);
                call(Op::Sub, vec![root, call(Op::Unary("sqrt"), vec![s])])
            }
            2 => {
                let falling = call(Op::Unary("exp"), vec![call(Op::Neg, vec![call(Op::Div, vec![q, s])])]);
                call(Op::Sub, vec![Expr::Number(1.0), falling])
            }
            3 => {
                let (inlier, power) = (call(Op::Compare("less"), vec![q.clone(), s]), self.positive());
                let outlier = call(Op::Power, vec![q.clone(), power]);
                call(Op::Select, vec![inlier, q, outlier])
            }
            4 => call(Op::Power, vec![q, self.positive()]),
            _ => self.of_q(3),
        }
    }

    /// Any function of q that changes with it.
    fn of_q(&mut self, depth: usize) -> Expr {
        if depth == 0 || self.rng.percent(15) {
            return Expr::Squared;
        }
        let (of, by) = (self.of_q(depth - 1), self.positive());
        match self.rng.below(8) {
            0 => call(Op::Add, vec![of, by]),
            1 => call(Op::Mul, vec![by, of]),
            2 => call(Op::Sub, vec![of, call(Op::Mul, vec![Expr::Number(0.25), Expr::Squared])]),
            3 => call(Op::Mul, vec![of, self.of_q(depth - 1)]),
            4 => {
                let square = call(Op::Power, vec![self.of_q(depth - 1), Expr::Number(2.0)]);
                call(Op::Div, vec![of, call(Op::Add, vec![by, square])])
            }
            5 => call(Op::Unary(self.rng.pick(&["atan", "tanh", "sin", "cos", "abs"])), vec![of]),
            6 => {
                let square = call(Op::Power, vec![of, Expr::Number(2.0)]);
                let name = self.rng.pick(&["log", "sqrt"]);
                call(Op::Unary(name), vec![call(Op::Add, vec![square, by])])
            }
            _ => {
                let below = call(Op::Compare("less"), vec![Expr::Squared, by]);
                call(Op::Select, vec![below, of, self.of_q(depth - 1)])
            }
        }
    }

    /// One or two displacements of an unknown.
    fn near_null(&mut self, field: usize) {
        let (space, channels) = (self.case.fields[field].space, self.case.fields[field].channels);
        let context = match space {
            0 => Context::Constant,
            space => Context::Stencil { space, unknowns: false },
        };
        for _ in 0..self.rng.pick(&[1, 1, 2]) {
            let width = if self.rng.percent(30) { 1 } else { channels };
            let displacement = match self.rng.percent(50) {
                true => self.leaf(context, width),
                false => self.expression(context, width, 1),
            };
            self.case.near_nulls.push((field, displacement));
        }
    }
}
