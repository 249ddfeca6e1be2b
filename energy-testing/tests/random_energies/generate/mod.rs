//! Random cases.

mod extras;

use crate::alive::is_alive;
use sumsq_codegen_testing::rng::Rng;
use sumsq_energy_testing::case::{
    At, Case, Computed, Expr, Field, Graph, Group, Kind, Loss, Op, Rho, Source,
};

/// The case of a seed.
pub fn case(seed: u64) -> Case {
    let mut g = plain_generator(seed);
    g.extras(seed);
    g.case
}

/// The case that a seed had before there were formulas as losses, scales read from arrays and near-null displacements.
pub fn plain(seed: u64) -> Case {
    plain_generator(seed).case
}

fn plain_generator(seed: u64) -> Generator {
    let mut g = Generator { rng: Rng::new(seed), case: Case::default(), max: 2 };
    g.spaces();
    g.fields();
    g.params();
    g.graphs();
    g.arrays_of_computation();
    g.excludes();
    g.residuals();
    g.read_all_unknowns();
    g.bounds();
    g
}

/// The place where an expression stands.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Context {
    /// At an element; unknowns may be read or not.
    Stencil { space: usize, unknowns: bool },
    /// At a hyperedge.
    Graph(usize),
    /// Nowhere: numbers and params alone.
    Constant,
}

struct Generator {
    rng: Rng,
    case: Case,
    /// The largest offset of a stencil.
    max: i64,
}

const SMOOTH: [&str; 9] = ["sin", "cos", "tanh", "atan", "asinh", "abs", "exp", "sinh", "cosh"];
const COMPARISONS: [&str; 5] = ["eq", "less", "lesseq", "greater", "greatereq"];
const INTEGERS: [&str; 8] = ["uint8", "int", "int8", "int16", "int64", "uint16", "uint32", "bool"];
/// Times that an expression is made anew until all that it reads counts.
const TRIES: usize = 20;

impl Generator {
    fn spaces(&mut self) {
        let dims = self.rng.pick(&[1, 1, 1, 2, 2, 2, 2, 3, 3, 4]);
        let sizes: &[usize] = match dims {
            1 => &[1, 2, 3, 5, 8, 13, 17, 21],
            2 => &[1, 2, 3, 4, 5, 7],
            3 => &[1, 2, 3, 4],
            _ => &[1, 2, 3],
        };
        self.case.extents = (0..dims).map(|_| self.rng.pick(sizes)).collect();
        self.case.spaces = vec![vec![], (0..dims).collect()];
        self.max = self.rng.pick(&[1, 1, 2, 2, 3]);
        if self.rng.percent(35) {
            let second = match self.rng.below(3) {
                // Some of the dims, in any order.
                0 if dims > 1 => {
                    let mut some: Vec<usize> = (0..dims).collect();
                    self.rng.shuffle(&mut some);
                    let keep = 1 + self.rng.below(dims);
                    some.truncate(keep);
                    some
                }
                n => {
                    let first = self.case.extents.len();
                    for _ in 0..=n % 2 {
                        let extent = self.rng.pick(&[1, 2, 3, 4, 6]);
                        self.case.extents.push(extent);
                    }
                    (first..self.case.extents.len()).collect()
                }
            };
            if second != self.case.spaces[1] {
                self.case.spaces.push(second);
            }
        }
    }

    /// A space that is no global's; mostly the first.
    fn space(&mut self) -> usize {
        if self.rng.percent(70) { 1 } else { 1 + self.rng.below(self.case.spaces.len() - 1) }
    }

    fn fields(&mut self) {
        for k in 0..self.rng.pick(&[1, 1, 1, 2, 2, 3]) {
            let space = if k > 0 && self.rng.percent(40) { 0 } else { self.space() };
            let channels = self.rng.pick(&[1, 1, 1, 2, 2, 3, 3, 4]);
            let ty = self.rng.pick(&["opt_float", "opt_float", "float", "double"]);
            self.field(Kind::Unknown(ty), space, channels);
        }
        for _ in 0..self.rng.below(4) {
            let space = self.space();
            if self.rng.percent(30) {
                let ty = self.rng.pick(&INTEGERS);
                self.field(Kind::Array(ty), space, 1);
            } else {
                let channels = self.rng.pick(&[1, 1, 1, 2, 3, 9]);
                let ty = self.rng.pick(&["opt_float", "opt_float", "float", "double"]);
                self.field(Kind::Array(ty), space, channels);
            }
        }
        if self.rng.percent(20) {
            let of = 0;
            let Field { space, channels, .. } = self.case.fields[of];
            self.case.fields.push(Field { kind: Kind::View(of), space, channels, values: vec![] });
        }
        if self.rng.percent(20) {
            self.image();
        }
    }

    /// An array with derivative images, over up to three dims.
    fn image(&mut self) {
        let space = self.space();
        let dims = self.case.spaces[space].len();
        if dims > 3 {
            return;
        }
        let channels = self.rng.pick(&[1, 1, 2, 3]);
        for _ in 0..=dims {
            self.field(Kind::Array("opt_float"), space, channels);
        }
    }

    fn field(&mut self, kind: Kind, space: usize, channels: usize) {
        let n = self.case.elements(space) * channels;
        let values = (0..n).map(|_| self.datum(kind)).collect();
        self.case.fields.push(Field { kind, space, channels, values });
    }

    /// A number that is the same in float32.
    fn number(&mut self) -> f64 {
        let v = self.rng.range(-2000, 2000) as f64 / 1024.0;
        if v == 0.0 { 0.125 } else { v }
    }

    fn datum(&mut self, kind: Kind) -> f64 {
        match kind {
            Kind::Array("bool") => self.rng.below(2) as f64,
            Kind::Array("int8" | "int16" | "int" | "int64") => self.rng.range(-3, 3) as f64,
            Kind::Array(ty) if INTEGERS.contains(&ty) => self.rng.below(4) as f64,
            _ => self.number(),
        }
    }

    fn params(&mut self) {
        for _ in 0..self.rng.pick(&[0, 0, 1, 2]) {
            let n = self.rng.pick(&[1, 1, 2, 3]);
            let values = (0..n).map(|_| self.number()).collect();
            self.case.params.push(values);
        }
    }

    fn graphs(&mut self) {
        for _ in 0..self.rng.pick(&[0, 0, 0, 1, 1, 2]) {
            let spaces: Vec<usize> = (0..self.rng.pick(&[1, 2, 2, 2, 3])).map(|_| self.space()).collect();
            let edges = self.rng.pick(&[1, 2, 5, 9, 20]);
            let edge = |g: &mut Generator| {
                spaces.iter().map(|&s| g.rng.below(g.case.elements(s))).collect::<Vec<_>>()
            };
            let edges = (0..edges).map(|_| edge(self)).collect();
            self.case.graphs.push(Graph { spaces, edges });
        }
    }

    fn arrays_of_computation(&mut self) {
        for _ in 0..self.rng.pick(&[0, 0, 0, 1, 1, 2, 3]) {
            let space = self.space();
            let width = self.rng.pick(&[1, 1, 1, 2, 3]);
            let unknowns = self.rng.percent(80);
            let context = Context::Stencil { space, unknowns };
            let Some(value) = self.whole(context, width) else { continue };
            self.case.computed.push(Computed { space, value });
        }
    }

    fn excludes(&mut self) {
        for _ in 0..self.rng.pick(&[0, 0, 0, 1, 1, 2]) {
            let space = self.space();
            let context = Context::Stencil { space, unknowns: false };
            for _ in 0..TRIES {
                let condition = self.condition(context, 1);
                let reads = self.case.reads(&condition).swap_remove(0);
                let placed = reads.all.iter().any(|a| matches!(a.at, At::Offset(_)));
                if placed && is_alive(&self.case, &condition, &mut self.rng) {
                    self.case.excludes.push((space, condition));
                    break;
                }
            }
        }
    }

    fn residuals(&mut self) {
        for k in 0..self.rng.pick(&[1, 1, 2, 2, 3]) {
            let mut values = Vec::new();
            for _ in 0..self.rng.pick(&[1, 1, 1, 2, 3]) {
                let context = match self.case.graphs.len() {
                    n if n > 0 && self.rng.percent(50) => Context::Graph(self.rng.below(n)),
                    _ => Context::Stencil { space: self.space(), unknowns: true },
                };
                let width = self.rng.pick(&[1, 1, 1, 2, 3]);
                values.extend(self.whole(context, width));
            }
            if values.is_empty() {
                continue;
            }
            let loss = self.rng.percent(30).then(|| self.loss());
            // Channels of one loss are of one domain, so that all of them have to read something there.
            let name = (loss.is_some() || self.rng.percent(30)).then(|| format!("g{k}"));
            self.case.groups.push(Group { name, loss, values });
        }
    }

    fn loss(&mut self) -> Loss {
        let rho = Rho::Scaled(self.kind(), self.positive());
        Loss { rho, second_order: self.rng.percent(40) }
    }

    /// Every unknown is read by some residual.
    fn read_all_unknowns(&mut self) {
        for f in 0..self.case.fields.len() {
            let read = |g: &Group| {
                let reads = g.values.iter().flat_map(|v| self.case.reads(v));
                reads.flat_map(|r| self.case.unknown_reads(&r)).any(|(field, ..)| field == f)
            };
            if !self.case.is_unknown(f) || self.case.groups.iter().any(read) {
                continue;
            }
            let source = Source::Field(f);
            let all = Expr::Read(source, self.zero(source), [0, self.case.channels(source)]);
            let value = Expr::Call(Op::Mul, vec![Expr::Number(0.5), all]);
            self.case.groups.push(Group { name: None, loss: None, values: vec![value] });
        }
    }

    fn bounds(&mut self) {
        for f in 0..self.case.fields.len() {
            let space = self.case.fields[f].space;
            if !self.case.is_unknown(f) || !self.rng.percent(12) {
                continue;
            }
            let width = if self.rng.percent(50) { 1 } else { self.case.fields[f].channels };
            let context = match space {
                0 => Context::Constant,
                space => Context::Stencil { space, unknowns: false },
            };
            let side = |g: &mut Generator, sign: f64| {
                let value = g.leaf(context, width);
                // Wide enough for every x.
                let square = Expr::Call(Op::Mul, vec![value.clone(), value]);
                let one = Expr::Call(Op::Add, vec![square, Expr::Number(4.0)]);
                Expr::Call(Op::Mul, vec![Expr::Number(sign), one])
            };
            let (lower, upper) = (side(self, -1.0), side(self, 1.0));
            self.case.bounds.push((f, lower, upper));
        }
    }

    /// An expression all of whose reads count, whatever is folded, and that stands in one domain.
    fn whole(&mut self, context: Context, width: usize) -> Option<Expr> {
        for _ in 0..TRIES {
            let depth = self.rng.pick(&[1, 2, 2, 3, 3, 4]);
            let value = self.expression(context, width, depth);
            let reads = self.case.reads(&value);
            let placed = |r: &sumsq_energy_testing::reads::Reads| r.all.iter().any(|a| a.at != At::Global);
            // Without a place there is one instance, and no coordinates.
            if reads.iter().all(placed) && is_alive(&self.case, &value, &mut self.rng) {
                return Some(value);
            }
        }
        None
    }

    fn zero(&self, source: Source) -> At {
        match self.case.space(source) {
            0 => At::Global,
            space => At::Offset(vec![0; self.case.spaces[space].len()]),
        }
    }

    /// Everything that may be read in a context, unknowns twice.
    fn sources(&self, context: Context) -> Vec<(Source, Option<usize>)> {
        let fields = (0..self.case.fields.len()).map(Source::Field);
        let all = fields.chain((0..self.case.computed.len()).map(Source::Computed));
        let mut found = Vec::new();
        for source in all {
            let space = self.case.space(source);
            let unknown = match source {
                Source::Field(f) => self.case.is_unknown(f),
                Source::Computed(c) => !self.case.unknown_reads(&self.case.all_reads(c)).is_empty(),
            };
            let places: Vec<Option<usize>> = match context {
                Context::Constant => vec![],
                Context::Stencil { unknowns: false, .. } if unknown => vec![],
                Context::Stencil { space: s, .. } if space == s || space == 0 => vec![None],
                Context::Stencil { .. } => vec![],
                Context::Graph(_) if space == 0 => vec![None],
                Context::Graph(g) => {
                    let vertices = self.case.graphs[g].spaces.iter().enumerate();
                    vertices.filter(|(_, s)| **s == space).map(|(v, _)| Some(v)).collect()
                }
            };
            for place in places {
                found.extend(std::iter::repeat_n((source, place), if unknown { 3 } else { 1 }));
            }
        }
        found
    }

    fn leaf(&mut self, context: Context, width: usize) -> Expr {
        let sources = self.sources(context);
        let wide: Vec<_> = sources.into_iter().filter(|(s, _)| self.case.channels(*s) >= width).collect();
        if !wide.is_empty() && self.rng.percent(85) {
            let (source, vertex) = self.rng.pick(&wide);
            return self.read(context, source, vertex, width);
        }
        let params: Vec<usize> =
            (0..self.case.params.len()).filter(|&p| self.case.params[p].len() >= width).collect();
        if width == 1 {
            return match self.rng.below(4) {
                0 | 1 if !params.is_empty() => {
                    let p = self.rng.pick(&params);
                    Expr::Param(p, Some(self.rng.below(self.case.params[p].len())))
                }
                2 => match context {
                    Context::Stencil { space, .. } => {
                        Expr::Index(self.rng.below(self.case.spaces[space].len()))
                    }
                    _ => Expr::Number(self.number()),
                },
                _ => Expr::Number(self.number()),
            };
        }
        match params.into_iter().find(|&p| self.case.params[p].len() == width) {
            Some(p) if self.rng.percent(50) => Expr::Param(p, None),
            _ => Expr::Call(Op::Vector, (0..width).map(|_| self.leaf(context, 1)).collect()),
        }
    }

    fn read(&mut self, context: Context, source: Source, vertex: Option<usize>, width: usize) -> Expr {
        let first = self.rng.below(self.case.channels(source) - width + 1);
        let at = match (context, vertex) {
            (Context::Graph(g), Some(v)) => At::Vertex(g, v),
            _ if self.case.space(source) == 0 => At::Global,
            _ => At::Offset(self.offset(self.case.space(source))),
        };
        Expr::Read(source, at, [first, first + width])
    }

    fn offset(&mut self, space: usize) -> Vec<i64> {
        let max = self.max;
        let entry = |rng: &mut Rng| if rng.percent(60) { 0 } else { rng.range(-max, max) };
        self.case.spaces[space].iter().map(|_| entry(&mut self.rng)).collect()
    }

    /// An expression of this many channels.
    fn expression(&mut self, context: Context, width: usize, depth: usize) -> Expr {
        if depth == 0 || self.rng.percent(10) {
            return self.leaf(context, width);
        }
        let depth = depth - 1;
        if self.rng.percent(30) {
            return if width == 1 { self.folded(context, depth) } else { self.vector(context, width, depth) };
        }
        let call = |op, operands| Expr::Call(op, operands);
        let operand = |g: &mut Generator| {
            let narrow = if g.rng.percent(25) { 1 } else { width };
            g.expression(context, narrow, depth)
        };
        match self.rng.below(20) {
            0..=2 => call(Op::Add, vec![self.expression(context, width, depth), operand(self)]),
            3..=5 => call(Op::Sub, vec![operand(self), self.expression(context, width, depth)]),
            6..=8 => call(Op::Mul, vec![operand(self), self.expression(context, width, depth)]),
            9 => {
                let by = self.at_least_one(context, depth);
                call(Op::Div, vec![self.expression(context, width, depth), by])
            }
            10 | 11 => {
                let name = self.rng.pick(&SMOOTH);
                call(Op::Unary(name), vec![self.expression(context, width, depth)])
            }
            12 => {
                let value = self.partial(context, width, depth);
                if self.case.width(&value) == width {
                    return value;
                }
                call(Op::Mul, vec![value, self.leaf(context, width)])
            }
            13 | 14 => {
                let condition = self.condition(context, depth);
                let (a, b) = (self.expression(context, width, depth), operand(self));
                let pair = if self.rng.percent(50) { [a, b] } else { [b, a] };
                let [a, b] = pair;
                call(Op::Select, vec![condition, a, b])
            }
            15 => {
                let condition = self.condition(context, depth);
                call(Op::Mul, vec![condition, self.expression(context, width, depth)])
            }
            16 => {
                let exponent = self.rng.pick(&[2.0, 2.0, 3.0, 1.0, 0.0, 4.0]);
                call(Op::Power, vec![self.expression(context, width, depth), Expr::Number(exponent)])
            }
            17 => call(Op::Neg, vec![self.expression(context, width, depth)]),
            18 => call(Op::Atan2, vec![self.expression(context, width, depth), operand(self)]),
            _ => {
                let gone = call(Op::Gone, vec![operand(self)]);
                call(Op::Add, vec![gone, self.expression(context, width, depth)])
            }
        }
    }

    /// 1 + e^2, or as near to it as the context lets one come.
    fn at_least_one(&mut self, context: Context, depth: usize) -> Expr {
        let value = self.expression(context, 1, depth.min(1));
        let square = Expr::Call(Op::Power, vec![value, Expr::Number(2.0)]);
        Expr::Call(Op::Add, vec![Expr::Number(1.0), square])
    }

    /// A function with a domain: of what lies in it, under a guard, or bare.
    fn partial(&mut self, context: Context, width: usize, depth: usize) -> Expr {
        let inside = self.at_least_one(context, depth);
        let any = self.expression(context, width, depth.min(2));
        let call = |op, operands| Expr::Call(op, operands);
        let name = self.rng.pick(&["log", "log10", "sqrt", "Sqrt", "acosh"]);
        match self.rng.below(8) {
            0 => call(Op::Unary(name), vec![inside]),
            1 => {
                let halved = call(Op::Mul, vec![Expr::Number(0.5), call(Op::Unary("tanh"), vec![any])]);
                call(Op::Unary(self.rng.pick(&["acos", "asin", "atanh", "tan"])), vec![halved])
            }
            2 => {
                let exponent = self.rng.pick(&[0.5, 1.5, -1.0, -2.0, -0.5, 2.5]);
                call(Op::Power, vec![inside, Expr::Number(exponent)])
            }
            3 => call(Op::Pow, vec![inside, any]),
            4 => {
                let exponent = self.leaf(Context::Constant, 1);
                call(Op::Power, vec![inside, exponent])
            }
            5 | 6 => {
                let guarded = self.expression(context, 1, depth.min(1));
                let positive = call(Op::Compare("greater"), vec![guarded.clone(), Expr::Number(0.0)]);
                let value = match self.rng.below(3) {
                    0 => call(Op::Div, vec![any, guarded]),
                    1 => call(Op::Mul, vec![call(Op::Unary(name), vec![guarded]), any]),
                    _ => call(Op::Power, vec![guarded, Expr::Number(self.rng.pick(&[0.5, 1.5, -1.0]))]),
                };
                match self.rng.percent(50) {
                    true => call(Op::Select, vec![positive, value, Expr::Number(0.0)]),
                    false => call(Op::Mul, vec![positive, value]),
                }
            }
            _ => {
                let guarded = self.expression(context, width, depth.min(1));
                let names = ["log", "sqrt", "acos", "asin", "acosh", "atanh", "tan", "exp"];
                call(Op::Unary(self.rng.pick(&names)), vec![guarded])
            }
        }
    }

    /// A number that is used as a truth.
    fn condition(&mut self, context: Context, depth: usize) -> Expr {
        let depth = depth.min(2).saturating_sub(1);
        let call = |op, operands| Expr::Call(op, operands);
        match self.rng.below(10) {
            0 if depth > 0 => {
                call(Op::And, vec![self.condition(context, depth), self.condition(context, depth)])
            }
            1 if depth > 0 => {
                call(Op::Or, vec![self.condition(context, depth), self.condition(context, depth)])
            }
            2 if depth > 0 => call(Op::Not, vec![self.condition(context, depth)]),
            3 | 4 => match context {
                Context::Stencil { space, .. } => {
                    let half_width = self.rng.percent(30).then(|| self.rng.range(0, 2));
                    Expr::InBounds(self.offset(space), half_width)
                }
                _ => self.comparison(context, depth),
            },
            5 => self.truth(context),
            _ => self.comparison(context, depth),
        }
    }

    /// An integer, bare or compared for equality.
    fn truth(&mut self, context: Context) -> Expr {
        let integer = |case: &Case, s: Source| match s {
            Source::Field(f) => matches!(case.fields[f].kind, Kind::Array(ty) if INTEGERS.contains(&ty)),
            Source::Computed(_) => false,
        };
        let integers: Vec<_> =
            self.sources(context).into_iter().filter(|(s, _)| integer(&self.case, *s)).collect();
        if integers.is_empty() {
            return self.comparison(context, 0);
        }
        let (source, vertex) = self.rng.pick(&integers);
        let read = self.read(context, source, vertex, 1);
        if self.rng.percent(50) {
            return read;
        }
        let number = Expr::Number(self.rng.below(2) as f64);
        Expr::Call(Op::Compare("eq"), vec![read, number])
    }

    fn comparison(&mut self, context: Context, depth: usize) -> Expr {
        let name = self.rng.pick(&COMPARISONS[1..]);
        let (a, b) = (self.expression(context, 1, depth), self.leaf(context, 1));
        Expr::Call(Op::Compare(name), vec![a, b])
    }

    /// One channel from several.
    fn folded(&mut self, context: Context, depth: usize) -> Expr {
        let width = self.rng.pick(&[2, 2, 3, 3, 4]);
        let call = |op, operands| Expr::Call(op, operands);
        let vector = |g: &mut Generator| g.expression(context, width, depth);
        match self.rng.below(8) {
            0 => call(Op::Channel(self.rng.below(width)), vec![vector(self)]),
            1 => call(Op::Sum, vec![vector(self)]),
            2 => call(Op::Norm, vec![vector(self)]),
            3 => call(Op::Length, vec![vector(self), vector(self)]),
            4 => call(Op::Dot, vec![vector(self), vector(self)]),
            5 => call(Op::All, vec![vector(self)]),
            6 => {
                let bits = (0..width).map(|_| self.condition(context, 1)).collect();
                let any = call(Op::Any, vec![call(Op::Vector, bits)]);
                call(Op::Mul, vec![any, self.expression(context, 1, depth)])
            }
            _ => self.sample(context, depth, 1),
        }
    }

    /// Several channels, by what only Vectors have.
    fn vector(&mut self, context: Context, width: usize, depth: usize) -> Expr {
        let call = |op, operands| Expr::Call(op, operands);
        match (self.rng.below(6), width) {
            (0, _) => call(Op::Normalize, vec![self.expression(context, width, depth)]),
            (1 | 2, 2) => {
                let angle = self.unbounded(context, 1, depth);
                call(Op::Rotate2D, vec![angle, self.unbounded(context, 2, depth)])
            }
            (1, 3) => {
                let angles = self.unbounded(context, 3, depth);
                call(Op::Rotate3D, vec![angles, self.unbounded(context, 3, depth)])
            }
            (2, 3) => {
                let matrix = self.unbounded(context, 9, depth.min(1));
                call(Op::Matrix3x3Mul, vec![matrix, self.unbounded(context, 3, depth)])
            }
            (3, _) => self.sample(context, depth, width),
            (4, _) => self.reweighted(context, width, depth),
            _ => {
                let entries = (0..width).map(|_| self.expression(context, 1, depth)).collect();
                call(Op::Vector, entries)
            }
        }
    }

    /// Without bounds tests: of which channel of a rotation they are is nowhere said.
    fn unbounded(&mut self, context: Context, width: usize, depth: usize) -> Expr {
        for _ in 0..TRIES {
            let e = self.expression(context, width, depth);
            if self.case.reads(&e).iter().all(|r| !r.bounds) {
                return e;
            }
        }
        self.leaf(context, width)
    }

    /// A sampled image, where there is one of as many channels.
    fn sample(&mut self, context: Context, depth: usize, width: usize) -> Expr {
        let arrays: Vec<usize> = (0..self.case.fields.len())
            .filter(|&f| {
                let field = &self.case.fields[f];
                let float = matches!(field.kind, Kind::Array(ty) if !INTEGERS.contains(&ty));
                float && self.case.spaces[field.space].len() <= 3 && field.channels >= width
            })
            .collect();
        if arrays.is_empty() {
            return self.leaf(context, width);
        }
        let image = self.rng.pick(&arrays);
        let Field { space, channels, .. } = self.case.fields[image];
        let dims = self.case.spaces[space].len();
        let like = |f: &usize| {
            let other = &self.case.fields[*f];
            (other.space, other.channels) == (space, channels)
        };
        let partials: Vec<usize> = arrays.iter().copied().filter(like).collect();
        let channel = if channels == width && self.rng.percent(50) {
            None
        } else if width == 1 {
            Some(self.rng.below(channels))
        } else {
            return self.leaf(context, width);
        };
        let partials: Vec<usize> = match self.rng.percent(70) {
            true => (0..dims).map(|_| self.rng.pick(&partials)).collect(),
            false => vec![],
        };
        // Without derivative images no unknown may say where.
        let context = match context {
            Context::Stencil { space, .. } if partials.is_empty() => {
                Context::Stencil { space, unknowns: false }
            }
            Context::Graph(_) if partials.is_empty() => Context::Constant,
            context => context,
        };
        let at = (0..dims).map(|_| self.expression(context, 1, depth.min(2))).collect();
        Expr::Call(Op::Sample(image, partials, channel), at)
    }

    /// `L_p`, mostly of a view.
    fn reweighted(&mut self, context: Context, width: usize, depth: usize) -> Expr {
        let Context::Stencil { space, .. } = context else { return self.leaf(context, width) };
        let constant = self.unbounded(Context::Stencil { space, unknowns: false }, width, depth.min(1));
        let placed = self.case.reads(&constant).iter().any(|r| r.all.iter().any(|a| a.at != At::Global));
        if !placed || self.rng.percent(50) {
            return self.leaf(context, width);
        }
        let p = self.rng.pick(&[0.8, 1.0, 1.5]);
        let value = self.expression(context, width, depth);
        Expr::Call(Op::LP(p, space), vec![value, constant])
    }
}
