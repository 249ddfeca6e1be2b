//! Expressions: one immutable, shared DAG for the front end and for every lowering pass.
//!
//! An [`Expr`] is a reference-counted node that caches its type and a structural hash. Sharing is
//! by pointer: passes memoise on [`Expr::id`], so that an expression with n distinct nodes costs n,
//! however often its parts are used. There is no `let` expression; the back end emits a shared
//! node once per scope.
//!
//! Operators bring operands of different types to one ([`Operand`]); [`Expr::binary`] and [`Expr::new`] take them as they are.
//!
//! Semantics: integers wrap; `Div` and `Mod` are Euclidean (0 <= x mod c < |c|; x/0 = x mod 0 = 0);
//! shifts by a negative amount or by at least the width give 0 (arithmetic right shift: the sign).
//! *Coordinates* are the exception: i32 and i64 arithmetic in the arguments of a call, and in comparisons that read no
//! memory, must not overflow (every pass relies on it). A coordinate made by arithmetic that wraps, a hash for instance, is
//! computed in another type, such as u32, and cast.
//! Both arms of a `Select` are evaluated, and it picks *values*: an inf or NaN in the other arm does not
//! leak. Float arithmetic is strict IEEE; a product and a sum are fused only where `Fma` says so or where the
//! stage is relaxed and the operation not [`Strict`](ExprKind::Strict). `Min`/`Max` of floats return the other operand when one is NaN, and the second of two zeros: in another
//! order, a reduction by them may give a zero of the other sign, which a schedule may bring about unless floats are strict. An f16 is
//! rounded after every operation.

pub(crate) mod exact;
mod flat;
pub(crate) mod listed;
mod literal;
mod operators;
mod param;
pub(crate) mod print;
mod strict;
mod typing;
pub mod walk;

pub use flat::{Content, Flat};
pub use param::{Param, Part};

use crate::functions::Function;
use crate::scalar_functions;
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A name of a Func, input, variable or parameter. Cheap to clone.
pub type Name = Arc<str>;

macro_rules! operators_of_functions {
    (
        unary { $($name1:ident $op1:ident = $single1:path, $double1:path;)* }
        binary { $($name2:ident $op2:ident = $single2:path, $double2:path;)* }
    ) => {
        /// Operators of one operand: these, and the [`Function`]s of one operand, elementwise on floats. Roundings leave integers alone.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub enum UnaryOp {
            Neg,
            /// Logical not on bool, bitwise not on integers.
            Not,
            Floor,
            Ceil,
            /// To nearest, ties to even.
            Round,
            Trunc,
            IsNan,
            $($op1,)*
        }

        /// Operators of two operands of the same type: these, and the [`Function`]s of two operands.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub enum BinaryOp {
            Add,
            Sub,
            Mul,
            Div,
            Mod,
            Min,
            Max,
            $($op2,)*
            /// Logical on bool, bitwise on integers; likewise `Or` and `Xor`.
            And,
            Or,
            Xor,
            Shl,
            Shr,
            Eq,
            Ne,
            Lt,
            Le,
            Gt,
            Ge,
        }

        impl UnaryOp {
            /// Those that print as calls.
            pub(crate) const CALLED: &[UnaryOp] = &[
                UnaryOp::Floor,
                UnaryOp::Ceil,
                UnaryOp::Round,
                UnaryOp::Trunc,
                UnaryOp::IsNan,
                $(UnaryOp::$op1,)*
            ];

            /// The function that it is, if it is one.
            pub const fn function(self) -> Option<Function> {
                match self {
                    $(UnaryOp::$op1 => Some(Function::$op1),)*
                    _ => None,
                }
            }
        }

        impl BinaryOp {
            /// Those that print as calls.
            pub(crate) const CALLED: &[BinaryOp] = &[BinaryOp::Min, BinaryOp::Max, $(BinaryOp::$op2,)*];

            /// The function that it is, if it is one.
            pub const fn function(self) -> Option<Function> {
                match self {
                    $(BinaryOp::$op2 => Some(Function::$op2),)*
                    _ => None,
                }
            }
        }

        impl Expr {
            /// `f` of as many operands as it has.
            pub fn apply(f: Function, operands: &[Expr]) -> Expr {
                match f {
                    $(Function::$op1 => operands[0].$name1(),)*
                    $(Function::$op2 => operands[0].$name2(&operands[1]),)*
                }
            }

            $(
                #[doc = concat!("See [`Function::", stringify!($op1), "`].")]
                pub fn $name1(&self) -> Expr { self.unary(UnaryOp::$op1) }
            )*
            $(
                #[doc = concat!("See [`Function::", stringify!($op2), "`].")]
                pub fn $name2(&self, b: impl Operand) -> Expr {
                    self.clone().combined(BinaryOp::$op2, b)
                }
            )*
        }
    };
}
scalar_functions!(operators_of_functions);

impl UnaryOp {
    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            UnaryOp::Neg => "neg",
            UnaryOp::Not => "not",
            UnaryOp::Floor => "floor",
            UnaryOp::Ceil => "ceil",
            UnaryOp::Round => "round",
            UnaryOp::Trunc => "trunc",
            UnaryOp::IsNan => "isnan",
            _ => match self.function() {
                Some(f) => f.name(),
                None => "",
            },
        }
    }
}

impl BinaryOp {
    /// True for the six comparisons, whose result is bool.
    pub const fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// Kinds of expression nodes. `Call` disappears at flattening; the vector nodes and `Load` appear
/// only in lowered code.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ExprKind {
    /// Integer or bool constant; u64 is kept as its bits.
    Int(i64),
    /// Float constant, already rounded to the node's type.
    Float(#[serde(with = "listed::bits")] f64),
    /// A loop variable, reduction variable or let-bound name.
    Var(Name),
    /// A run-time scalar: a parameter of the pipeline, or a part of what a buffer looks like.
    Param(Param),
    /// Conversion to the node's type, see [`ScalarType::wrap`], [`ScalarType::round`] and [`ScalarType::saturate`].
    Cast(Expr),
    /// The same bits as the node's type, which has the operand's width (f32 with i32, f64 with i64, both ways).
    Reinterpret(Expr),
    /// See [`UnaryOp`].
    Unary(UnaryOp, Expr),
    /// See [`BinaryOp`].
    Binary(BinaryOp, Expr, Expr),
    /// `a * b + c`, rounded once.
    Fma(Expr, Expr, Expr),
    /// `cond ? a : b`, on values.
    Select(Expr, Expr, Expr),
    /// A bool that is true in the interior of the domain: loop partitioning makes it so there.
    Likely(Expr),
    /// Value `value` of Func or input `name` at `args` (i32 coordinates, first dimension fastest).
    Call {
        /// Func or input.
        name: Name,
        /// One coordinate per dimension.
        args: Vec<Expr>,
        /// The tuple element.
        value: usize,
    },
    /// `base, base + stride, ...`, the node's lanes of them.
    Ramp(Expr, Expr),
    /// A scalar in every lane.
    Broadcast(Expr),
    /// Reduction of neighbouring lanes, as many groups of the same size as the node has lanes, each to one by a fixed binary tree (`Add`, `Mul`,
    /// `Min`, `Max`, `And`, `Or`, `Xor`).
    VectorReduce(BinaryOp, Expr),
    /// Vectors of the same type, their first lanes, then their second lanes, and so on.
    Interleave(Vec<Expr>),
    /// Vectors of the same type, one after the other.
    Concat(Vec<Expr>),
    /// Element(s) `index` (i64, in elements) of a flat buffer; lanes with a false predicate give 0.
    Load {
        /// Flat buffer.
        buffer: Flat,
        /// Flat element index; a `Ramp` of stride 1 is a dense vector load, other vectors gather.
        index: Expr,
        /// Bool of the same lanes, or none for an unconditional load.
        predicate: Option<Expr>,
    },
    /// An operation of floats, `Unary`, `Binary` or `Fma`, that is computed as it stands in relaxed code, too ([`Expr::strict_float`]).
    Strict(Box<ExprKind>),
}

/// A node with its type and structural hash.
#[derive(Debug)]
pub struct ExprNode {
    kind: ExprKind,
    ty: Type,
    hash: u64,
}

/// A shared, immutable expression. Equality is structural. Making one never fails: an ill-typed one is refused, with
/// [`Expr::type_fault`]'s words, where a pipeline is compiled or evaluated.
#[derive(Clone)]
pub struct Expr(Arc<ExprNode>);

/// Its text, which is short whatever it shares; or its number in an exact text.
impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        exact::numbered(self, f).unwrap_or_else(|| write!(f, "Expr({self}: {})", self.ty()))
    }
}

impl PartialEq for Expr {
    fn eq(&self, o: &Expr) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
            || self.0.hash == o.0.hash
                && self.0.ty == o.0.ty
                && same_apart_from_children(self.kind(), o.kind())
                && (self.children_count() == 0 || equal_below(self, o))
    }
}

/// In a loop, over each pair of nodes once: neither the depth of expressions nor the size of their trees matters.
fn equal_below(a: &Expr, b: &Expr) -> bool {
    let mut seen = FxHashSet::default();
    let mut stack: SmallVec<[(&Expr, &Expr); 8]> = smallvec![(a, b)];
    let mut compared = 0;
    while let Some((a, b)) = stack.pop() {
        if Arc::ptr_eq(&a.0, &b.0) {
            continue;
        }
        if a.0.hash != b.0.hash || a.0.ty != b.0.ty || !same_apart_from_children(a.kind(), b.kind()) {
            return false;
        }
        // Most comparisons are of a few nodes, which are not worth remembering.
        compared += 1;
        if compared > 16 && !seen.insert((a.id(), b.id())) {
            continue;
        }
        let at = stack.len();
        a.for_each_child(|c| stack.push((c, c)));
        let mut next = at;
        b.for_each_child(|c| {
            stack[next].1 = c;
            next += 1;
        });
    }
    true
}

/// Are these the same operator, with as many operands?
fn same_apart_from_children(a: &ExprKind, b: &ExprKind) -> bool {
    use ExprKind::*;
    match (a, b) {
        (Int(x), Int(y)) => x == y,
        // A NaN is the same constant as itself, and the two zeros are not.
        (Float(x), Float(y)) => x.to_bits() == y.to_bits(),
        (Var(x), Var(y)) => x == y,
        (Param(x), Param(y)) => x == y,
        (Unary(x, _), Unary(y, _)) => x == y,
        (Binary(x, ..), Binary(y, ..)) | (VectorReduce(x, _), VectorReduce(y, _)) => x == y,
        (Call { name, args, value }, Call { name: n, args: list, value: v }) => {
            name == n && value == v && args.len() == list.len()
        }
        (Interleave(x), Interleave(y)) | (Concat(x), Concat(y)) => x.len() == y.len(),
        (Load { buffer, predicate, .. }, Load { buffer: b, predicate: p, .. }) => {
            buffer == b && predicate.is_some() == p.is_some()
        }
        (Strict(x), Strict(y)) => same_apart_from_children(x, y),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// Hashes what is written for a symbol. Factors of index arithmetic are in the order of their hashes, and so in one that follows from
/// the text of the program alone.
fn hash_text(symbol: &impl std::fmt::Display, h: &mut rustc_hash::FxHasher) {
    symbol.to_string().hash(h);
}

impl Eq for Expr {}
impl Hash for Expr {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.0.hash);
    }
}

/// Dropping a chain of a million nodes must not overflow the stack: children are unlinked in a loop.
impl Drop for Expr {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) != 1 || self.children_count() == 0 {
            return;
        }
        let mut stack = Vec::new();
        take_children(&mut self.0, &mut stack);
        while let Some(mut e) = stack.pop() {
            if Arc::strong_count(&e.0) == 1 {
                take_children(&mut e.0, &mut stack);
            }
        }
    }
}

/// Moves the children of a uniquely owned node to `out`, leaving a leaf behind.
fn take_children(node: &mut Arc<ExprNode>, out: &mut Vec<Expr>) {
    if let Some(n) = Arc::get_mut(node) {
        children_of(std::mem::replace(&mut n.kind, ExprKind::Int(0)), out);
    }
}

fn children_of(kind: ExprKind, out: &mut Vec<Expr>) {
    match kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_) => {}
        ExprKind::Cast(a)
        | ExprKind::Reinterpret(a)
        | ExprKind::Unary(_, a)
        | ExprKind::Likely(a)
        | ExprKind::Broadcast(a)
        | ExprKind::VectorReduce(_, a) => out.push(a),
        ExprKind::Binary(_, a, b) | ExprKind::Ramp(a, b) => out.extend([a, b]),
        ExprKind::Fma(a, b, c) | ExprKind::Select(a, b, c) => out.extend([a, b, c]),
        ExprKind::Call { args: list, .. } | ExprKind::Interleave(list) | ExprKind::Concat(list) => {
            out.extend(list)
        }
        ExprKind::Load { index, predicate, .. } => {
            out.push(index);
            out.extend(predicate);
        }
        ExprKind::Strict(operation) => children_of(*operation, out),
    }
}

/// Hashes what a node is, apart from its children and what kind it is of.
fn hash_kind(kind: &ExprKind, h: &mut rustc_hash::FxHasher) {
    match kind {
        ExprKind::Int(v) => v.hash(h),
        ExprKind::Float(v) => v.to_bits().hash(h),
        ExprKind::Var(n) => n.hash(h),
        ExprKind::Param(p) => hash_text(p, h),
        ExprKind::Unary(op, _) => op.hash(h),
        ExprKind::Binary(op, ..) | ExprKind::VectorReduce(op, _) => op.hash(h),
        ExprKind::Call { name, value, .. } => (name, value).hash(h),
        ExprKind::Load { buffer, .. } => hash_text(buffer, h),
        ExprKind::Strict(operation) => hash_kind(operation, h),
        _ => {}
    }
}

impl Expr {
    /// Builds a node without simplifying it. `ty` must be the type that `kind` has by the rules above.
    pub fn new(kind: ExprKind, ty: Type) -> Expr {
        let mut h = rustc_hash::FxHasher::default();
        std::mem::discriminant(&kind).hash(&mut h);
        ty.hash(&mut h);
        hash_kind(&kind, &mut h);
        let node = Expr(Arc::new(ExprNode { kind, ty, hash: 0 }));
        node.for_each_child(|c| h.write_u64(c.0.hash));
        let hash = h.finish();
        let mut node = node;
        // The node was just made, so it is uniquely owned.
        if let Some(n) = Arc::get_mut(&mut node.0) {
            n.hash = hash;
        }
        node
    }

    /// Returns what the node is.
    pub fn kind(&self) -> &ExprKind {
        &self.0.kind
    }

    /// Its type.
    pub fn ty(&self) -> Type {
        self.0.ty
    }

    /// Identity of the shared node, for memo tables (valid while the expression is alive).
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// True if something else holds the node, too: what is not shared is met once wherever all of an expression is walked.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The hash of what it says, kept with the node.
    pub(crate) fn structural_hash(&self) -> u64 {
        self.0.hash
    }

    fn children_count(&self) -> usize {
        let mut n = 0;
        self.for_each_child(|_| n += 1);
        n
    }

    /// Calls `f` on every direct child, in order.
    pub fn for_each_child<'a>(&'a self, mut f: impl FnMut(&'a Expr)) {
        match self.operation() {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_) => {}
            ExprKind::Cast(a)
            | ExprKind::Reinterpret(a)
            | ExprKind::Unary(_, a)
            | ExprKind::Likely(a)
            | ExprKind::Broadcast(a)
            | ExprKind::VectorReduce(_, a) => f(a),
            ExprKind::Binary(_, a, b) | ExprKind::Ramp(a, b) => {
                f(a);
                f(b);
            }
            ExprKind::Fma(a, b, c) | ExprKind::Select(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            ExprKind::Call { args: list, .. } | ExprKind::Interleave(list) | ExprKind::Concat(list) => {
                list.iter().for_each(f)
            }
            ExprKind::Load { index, predicate, .. } => {
                f(index);
                if let Some(p) = predicate {
                    f(p);
                }
            }
            // No operation is marked twice.
            ExprKind::Strict(_) => {}
        }
    }

    /// The same node over other children (same number and order as [`Expr::for_each_child`]). The element
    /// type is kept; the lanes are those of the new children. Returns `self` if no child changed.
    pub fn with_children(&self, children: Vec<Expr>) -> Expr {
        let mut same = true;
        let mut i = 0;
        self.for_each_child(|c| {
            same &= Arc::ptr_eq(&c.0, &children[i].0);
            i += 1;
        });
        if same {
            return self.clone();
        }
        let lanes = match self.kind() {
            ExprKind::Ramp(..) | ExprKind::Broadcast(_) | ExprKind::VectorReduce(..) => self.ty().lanes,
            ExprKind::Interleave(_) | ExprKind::Concat(_) => children.iter().map(|c| c.ty().lanes).sum(),
            _ => children.iter().map(|c| c.ty().lanes).max().unwrap_or(1),
        };
        let mut it = children.into_iter();
        let mut next = || it.next().expect("with_children: as many children as the node has");
        let kind = match self.operation() {
            k @ (ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_)) => k.clone(),
            ExprKind::Cast(_) => ExprKind::Cast(next()),
            ExprKind::Reinterpret(_) => ExprKind::Reinterpret(next()),
            ExprKind::Unary(op, _) => ExprKind::Unary(*op, next()),
            ExprKind::Likely(_) => ExprKind::Likely(next()),
            ExprKind::Broadcast(_) => ExprKind::Broadcast(next()),
            ExprKind::VectorReduce(op, _) => ExprKind::VectorReduce(*op, next()),
            ExprKind::Binary(op, ..) => ExprKind::Binary(*op, next(), next()),
            ExprKind::Ramp(..) => ExprKind::Ramp(next(), next()),
            ExprKind::Fma(..) => ExprKind::Fma(next(), next(), next()),
            ExprKind::Select(..) => ExprKind::Select(next(), next(), next()),
            ExprKind::Call { name, args, value } => ExprKind::Call {
                name: name.clone(),
                args: args.iter().map(|_| next()).collect(),
                value: *value,
            },
            ExprKind::Interleave(parts) => ExprKind::Interleave(parts.iter().map(|_| next()).collect()),
            ExprKind::Concat(parts) => ExprKind::Concat(parts.iter().map(|_| next()).collect()),
            ExprKind::Load { buffer, predicate, .. } => ExprKind::Load {
                buffer: buffer.clone(),
                index: next(),
                predicate: predicate.as_ref().map(|_| next()),
            },
            k @ ExprKind::Strict(_) => k.clone(),
        };
        let kind = if self.is_strict() { ExprKind::Strict(Box::new(kind)) } else { kind };
        Expr::new(kind, self.ty().with_lanes(lanes))
    }

    /// The lanes of `parts`, which have one type, in turns.
    pub fn interleave(parts: Vec<Expr>) -> Expr {
        let ty = all_lanes(&parts);
        Expr::new(ExprKind::Interleave(parts), ty)
    }

    /// The lanes of `parts`, which have one type, one part after the other.
    pub fn concat(parts: Vec<Expr>) -> Expr {
        let ty = all_lanes(&parts);
        Expr::new(ExprKind::Concat(parts), ty)
    }

    /// Groups of neighbouring lanes reduced, each to one of `lanes`.
    pub fn reduced(op: BinaryOp, e: Expr, lanes: u16) -> Expr {
        let ty = e.ty().with_lanes(lanes);
        Expr::new(ExprKind::VectorReduce(op, e), ty)
    }

    /// Integer constant of type `ty`, wrapped.
    pub fn int(ty: impl Into<Type>, v: i64) -> Expr {
        let ty = ty.into();
        Expr::new(ExprKind::Int(ty.scalar.wrap(v)), ty)
    }

    /// Float constant of type `ty`, rounded to it.
    pub fn float(ty: impl Into<Type>, v: f64) -> Expr {
        let ty = ty.into();
        Expr::new(ExprKind::Float(ty.scalar.round(v)), ty)
    }

    /// Constant `v` of any scalar type; integers are truncated and saturated.
    pub fn constant(ty: impl Into<Type>, v: f64) -> Expr {
        let ty = ty.into();
        if ty.scalar.is_float() { Expr::float(ty, v) } else { Expr::int(ty, ty.scalar.saturate(v)) }
    }

    /// Constant `v` of any scalar type; integers wrap.
    pub fn whole(ty: impl Into<Type>, v: i64) -> Expr {
        let ty = ty.into();
        if ty.scalar.is_float() { Expr::float(ty, v as f64) } else { Expr::int(ty, v) }
    }

    /// The least value of a type: negative infinity for floats.
    pub fn least(ty: impl Into<Type>) -> Expr {
        let ty = ty.into();
        if ty.scalar.is_float() {
            Expr::float(ty, f64::NEG_INFINITY)
        } else {
            Expr::int(ty, ty.scalar.least())
        }
    }

    /// The greatest value of a type: infinity for floats.
    pub fn greatest(ty: impl Into<Type>) -> Expr {
        let ty = ty.into();
        if ty.scalar.is_float() {
            Expr::float(ty, f64::INFINITY)
        } else {
            Expr::int(ty, ty.scalar.greatest())
        }
    }

    /// Bool constant.
    pub fn bool(v: bool) -> Expr {
        Expr::new(ExprKind::Int(v as i64), Type::BOOL)
    }

    /// An i32 variable.
    pub fn var(name: impl Into<Name>) -> Expr {
        Expr::new(ExprKind::Var(name.into()), Type::I32)
    }

    /// A run-time scalar; a name is that of a parameter which the pipeline declares.
    pub fn param(param: impl Into<Param>, ty: impl Into<Type>) -> Expr {
        Expr::new(ExprKind::Param(param.into()), ty.into())
    }

    /// A part of what the buffer bound to an input or output looks like.
    pub fn part(of: impl Into<Name>, part: Part) -> Expr {
        Expr::param(Param::Of(of.into(), part), part.ty())
    }

    /// Conversion; a no-op if the type is already `scalar`.
    pub fn cast(&self, scalar: ScalarType) -> Expr {
        if self.ty().scalar == scalar {
            return self.clone();
        }
        Expr::new(ExprKind::Cast(self.clone()), Type { scalar, lanes: self.ty().lanes })
    }

    /// The bits of `self` as `scalar`, a type of the same width.
    pub fn reinterpret(&self, scalar: ScalarType) -> Expr {
        Expr::new(ExprKind::Reinterpret(self.clone()), Type { scalar, lanes: self.ty().lanes })
    }

    /// `op self`.
    pub fn unary(&self, op: UnaryOp) -> Expr {
        let ty = if op == UnaryOp::IsNan { self.ty().as_bool() } else { self.ty() };
        Expr::new(ExprKind::Unary(op, self.clone()), ty)
    }

    /// `a op b`; both of the same type (a scalar constant of the wrong lanes is not widened here).
    pub fn binary(op: BinaryOp, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        let (a, b) = (a.into(), b.into());
        let ty = if op.is_comparison() { a.ty().as_bool() } else { a.ty() };
        Expr::new(ExprKind::Binary(op, a, b), ty)
    }

    /// The value in `[low, high]` next to this one; `high` where that is less than `low`.
    pub fn clamp(&self, low: impl Operand, high: impl Operand) -> Expr {
        self.max(low).min(high)
    }

    /// Marks a condition as true in the interior.
    pub fn likely(&self) -> Expr {
        Expr::new(ExprKind::Likely(self.clone()), self.ty())
    }

    /// Value `value` of Func or input `name` of element type `ty` at `args`.
    pub fn call(name: impl Into<Name>, ty: ScalarType, args: Vec<Expr>, value: usize) -> Expr {
        let lanes = args.iter().map(|a| a.ty().lanes).max().unwrap_or(1);
        Expr::new(ExprKind::Call { name: name.into(), args, value }, Type { scalar: ty, lanes })
    }

    /// The integer, if this is an integer or bool constant (or a broadcast of one).
    pub fn as_int(&self) -> Option<i64> {
        match self.kind() {
            ExprKind::Int(v) => Some(*v),
            ExprKind::Broadcast(e) => e.as_int(),
            _ => None,
        }
    }

    /// The float, if this is a float constant (or a broadcast of one).
    pub fn as_float(&self) -> Option<f64> {
        match self.kind() {
            ExprKind::Float(v) => Some(*v),
            ExprKind::Broadcast(e) => e.as_float(),
            _ => None,
        }
    }
}

/// The type of all lanes of `parts` together.
fn all_lanes(parts: &[Expr]) -> Type {
    let lanes = parts.iter().map(|p| p.ty().lanes).sum();
    parts.first().map_or(Type::BOOL, Expr::ty).with_lanes(lanes)
}

macro_rules! unary_methods {
    ($($f:ident $op:ident),* $(,)?) => { impl Expr { $(
        #[doc = concat!("See [`UnaryOp::", stringify!($op), "`].")]
        pub fn $f(&self) -> Expr { self.unary(UnaryOp::$op) }
    )* } };
}
unary_methods!(not_ Not, floor Floor, ceil Ceil, round Round, trunc Trunc, is_nan IsNan);

/// Operands beside an expression: another one, a [`Var`](crate::Var), or a number.
///
/// Two expressions of different types meet as follows; a cast says something else.
///
/// | types | both become |
/// |---|---|
/// | two floats, two signed or two unsigned integers | the wider |
/// | a float and an integer | the float |
/// | a signed and an unsigned integer | the signed one of the greater width |
///
/// A number takes the type of the expression, so that `pixel * 3` of a u8 is a u8. Where that type does not have it, as in
/// `pixel * 300` or `pixel * 0.5`, the node is ill-typed and the pipeline refused; `pixel * 0.5f32` is an f32, since that
/// number says its type.
pub trait Operand {
    /// It as an expression, beside one of type `other`.
    fn beside(self, other: Type) -> Expr;
}

impl std::ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.unary(UnaryOp::Neg)
    }
}
impl From<&Expr> for Expr {
    fn from(e: &Expr) -> Expr {
        e.clone()
    }
}
impl From<i32> for Expr {
    fn from(v: i32) -> Expr {
        Expr::int(Type::I32, v as i64)
    }
}
impl From<f32> for Expr {
    fn from(v: f32) -> Expr {
        Expr::float(Type::F32, v as f64)
    }
}
impl From<f64> for Expr {
    fn from(v: f64) -> Expr {
        Expr::float(Type::F64, v)
    }
}
