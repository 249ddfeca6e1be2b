//! An energy with its data, as a tree: what a generator makes and an interpreter evaluates.

/// An energy and the numbers of all that it declares.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Extents of the dims; dim k is `D<k>`.
    pub extents: Vec<usize>,
    /// Index spaces: lists of dims, fastest-varying first. The first is that of the globals, without dims.
    pub spaces: Vec<Vec<usize>>,
    /// Unknowns and arrays, in order of declaration.
    pub fields: Vec<Field>,
    /// Values of the params; param k is `p<k>`.
    pub params: Vec<Vec<f64>>,
    /// Graphs; graph k is `G<k>`.
    pub graphs: Vec<Graph>,
    /// Computed arrays: each reads only those before it.
    pub computed: Vec<Computed>,
    /// `Exclude(..)`, with the space that each is of.
    pub excludes: Vec<(usize, Expr)>,
    /// `Bounds(X, lower, upper)`, with the field that each is of.
    pub bounds: Vec<(usize, Expr, Expr)>,
    /// `NearNull(X, displacement)`, with the field that each is of.
    pub near_nulls: Vec<(usize, Expr)>,
    /// `Energy(..)` and `Residual{..}`.
    pub groups: Vec<Group>,
}

/// An unknown or an array.
#[derive(Clone, Debug)]
pub struct Field {
    pub kind: Kind,
    /// Its index space.
    pub space: usize,
    pub channels: usize,
    /// Values: elements in order, the fastest-varying dim first, the channels of each together. Empty for views.
    pub values: Vec<f64>,
}

/// Kind of a field; the text is its type in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Unknown(&'static str),
    Array(&'static str),
    /// A constant view of a field.
    View(usize),
}

/// Hyperedges.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The space of each vertex; vertex k is `v<k>`.
    pub spaces: Vec<usize>,
    /// Per hyperedge and vertex an element, as its number.
    pub edges: Vec<Vec<usize>>,
}

/// `ComputedArray`.
#[derive(Clone, Debug)]
pub struct Computed {
    pub space: usize,
    pub value: Expr,
}

/// Residuals that are given together.
#[derive(Clone, Debug)]
pub struct Group {
    /// `Residual{name=..}`, else `Energy(..)`.
    pub name: Option<String>,
    pub loss: Option<Loss>,
    pub values: Vec<Expr>,
}

/// A robust loss.
#[derive(Clone, Debug)]
pub struct Loss {
    pub rho: Rho,
    pub second_order: bool,
}

/// A function of the squared norm of a block.
#[derive(Clone, Debug)]
pub enum Rho {
    /// A loss of the table with its scale: an expression without unknowns.
    Scaled(LossKind, Expr),
    /// `Power(p, eps)`: numbers or params.
    Power(Expr, Expr),
    /// `Loss(function(q) return .. end)`, of [`Expr::Squared`], numbers and params.
    Formula(Expr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    Huber,
    Cauchy,
    Tukey,
    SoftL1,
    Arctan,
    GemanMcClure,
}

/// The field that is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    Field(usize),
    Computed(usize),
}

/// The place at which it is read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum At {
    /// At an offset from the element.
    Offset(Vec<i64>),
    /// At a vertex of the hyperedge: graph and vertex.
    Vertex(usize, usize),
    /// A global.
    Global,
}

/// An expression of one or more channels.
#[derive(Clone, Debug)]
pub enum Expr {
    Number(f64),
    /// All channels of a param, or one.
    Param(usize, Option<usize>),
    /// Channels `first..end` of a read: all of them, one as `X(0,0,c)`, or a Slice.
    Read(Source, At, [usize; 2]),
    Index(usize),
    /// `InBounds`, or `InBoundsExpanded` with a half-width.
    InBounds(Vec<i64>, Option<i64>),
    /// q, of which a `Loss` is a function.
    Squared,
    Call(Op, Vec<Expr>),
}

/// Operators and functions.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    Neg,
    /// A function of one operand, by name.
    Unary(&'static str),
    Add,
    Sub,
    Mul,
    Div,
    /// `a ^ b`.
    Power,
    /// `pow(a, b)`.
    Pow,
    Atan2,
    /// eq, less, lesseq, greater, greatereq.
    Compare(&'static str),
    And,
    Or,
    Not,
    Select,
    Vector,
    Channel(usize),
    Sum,
    Norm,
    Normalize,
    Length,
    Dot,
    All,
    Any,
    Matrix3x3Mul,
    Rotate2D,
    Rotate3D,
    /// An array, its derivative images, the channel (all without).
    Sample(usize, Vec<usize>, Option<usize>),
    /// `L_p(val, constant, p, {dims})` over a space: val and constant are the operands.
    LP(f64, usize),
    /// `0*a`: folded when it is built, so that nothing in it counts as read.
    Gone,
}

impl Case {
    /// Elements of an index space.
    pub fn elements(&self, space: usize) -> usize {
        self.spaces[space].iter().map(|&d| self.extents[d]).product()
    }

    /// Channels of what is read.
    pub fn channels(&self, source: Source) -> usize {
        match source {
            Source::Field(f) => self.fields[f].channels,
            Source::Computed(c) => self.width(&self.computed[c].value),
        }
    }

    /// The index space of what is read.
    pub fn space(&self, source: Source) -> usize {
        match source {
            Source::Field(f) => self.fields[f].space,
            Source::Computed(c) => self.computed[c].space,
        }
    }

    pub fn is_unknown(&self, field: usize) -> bool {
        matches!(self.fields[field].kind, Kind::Unknown(_))
    }

    /// Places of the scalars of each field in the vector of all unknowns; empty where it is none.
    pub fn parts(&self) -> Vec<std::ops::Range<usize>> {
        let mut start = 0;
        let part = |f: &Field| {
            let n = if matches!(f.kind, Kind::Unknown(_)) { f.values.len() } else { 0 };
            start += n;
            start - n..start
        };
        self.fields.iter().map(part).collect()
    }

    /// The values of all unknowns.
    pub fn x(&self) -> Vec<f64> {
        let unknowns = self.fields.iter().filter(|f| matches!(f.kind, Kind::Unknown(_)));
        unknowns.flat_map(|f| f.values.iter().copied()).collect()
    }

    /// The number of an element within a space; none outside of the domain.
    pub fn element(&self, space: usize, at: &[i64]) -> Option<usize> {
        let (mut number, mut stride) = (0, 1);
        for (&d, &c) in self.spaces[space].iter().zip(at) {
            let c = usize::try_from(c).ok().filter(|&c| c < self.extents[d])?;
            number += c * stride;
            stride *= self.extents[d];
        }
        Some(number)
    }

    /// The coordinates of an element.
    pub fn coordinates(&self, space: usize, element: usize) -> Vec<i64> {
        let mut rest = element;
        let coordinate = |&d: &usize| {
            let c = rest % self.extents[d];
            rest /= self.extents[d];
            c as i64
        };
        self.spaces[space].iter().map(coordinate).collect()
    }

    /// Channels of an expression.
    pub fn width(&self, e: &Expr) -> usize {
        let Expr::Call(op, operands) = e else {
            return match e {
                Expr::Param(p, None) => self.params[*p].len(),
                Expr::Read(_, _, [first, end]) => end - first,
                _ => 1,
            };
        };
        let widest = || operands.iter().map(|o| self.width(o)).max().unwrap_or(1);
        match op {
            Op::Vector => operands.len(),
            Op::Channel(_) | Op::Sum | Op::Norm | Op::Length | Op::Dot | Op::All | Op::Any => 1,
            Op::Matrix3x3Mul | Op::Rotate3D => 3,
            Op::Rotate2D => 2,
            Op::Sample(image, _, channel) => channel.map_or(self.fields[*image].channels, |_| 1),
            Op::LP(..) => self.width(&operands[0]),
            _ => widest(),
        }
    }
}

impl Loss {
    /// The expressions in it.
    pub fn parts(&self) -> Vec<&Expr> {
        match &self.rho {
            Rho::Scaled(_, of) | Rho::Formula(of) => vec![of],
            Rho::Power(p, eps) => vec![p, eps],
        }
    }

    pub fn parts_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.rho {
            Rho::Scaled(_, of) | Rho::Formula(of) => vec![of],
            Rho::Power(p, eps) => vec![p, eps],
        }
    }
}

impl Expr {
    /// Every expression in it, itself first.
    pub fn walk(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        if let Expr::Call(_, operands) = self {
            operands.iter().for_each(|o| o.walk(f));
        }
    }
}
