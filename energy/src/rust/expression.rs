//! Expressions with operators.

use crate::builder::{Arithmetic, Builder, Comparison, Value};
use crate::dag::Function;
use crate::error::Fault;
use crate::rust::EnergyBuilder;
use std::fmt;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// A scalar or Vector of the energy language. Operators work channel by channel; scalars broadcast.
#[derive(Clone)]
pub struct Expr {
    pub(super) energy: EnergyBuilder,
    /// `None` after a mistake.
    pub(super) value: Option<Value>,
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(value) = &self.value else { return f.write_str("Expr(after an error)") };
        let state = self.energy.state.borrow();
        if state.finished {
            return f.write_str("Expr(of a finished energy)");
        }
        f.debug_list().entries(value.scalars().iter().map(|s| state.builder.display(s.id))).finish()
    }
}

/// Operand of an expression: an [`Expr`] or a number.
pub trait IntoExpr {
    /// As an expression of `energy`.
    fn into_expr(self, energy: &EnergyBuilder) -> Expr;
}

impl IntoExpr for Expr {
    fn into_expr(self, _: &EnergyBuilder) -> Expr {
        self
    }
}

impl IntoExpr for &Expr {
    fn into_expr(self, _: &EnergyBuilder) -> Expr {
        self.clone()
    }
}

impl IntoExpr for f64 {
    fn into_expr(self, energy: &EnergyBuilder) -> Expr {
        energy.constant(self)
    }
}

impl Expr {
    /// One operation on this and other operands.
    #[track_caller]
    fn with<const N: usize>(
        &self,
        others: [Expr; N],
        f: impl FnOnce(&mut Builder, &Value, [&Value; N]) -> Result<Value, Fault>,
    ) -> Expr {
        let this = self.energy.value(self);
        let others = self.energy.values(others);
        self.energy.expr(|b, _| {
            let (this, others) = (this?, others?);
            f(b, &this, std::array::from_fn(|i| &others[i]))
        })
    }

    /// Channel `i` of a Vector.
    #[track_caller]
    pub fn channel(&self, i: usize) -> Expr {
        self.with([], |_, v, []| {
            v.channel(i).ok_or_else(|| Fault::ChannelRange {
                name: "Vector".into(),
                channel: i as i64,
                channels: v.len(),
            })
        })
    }

    /// `self^exponent`; the exponent may not read unknowns.
    #[track_caller]
    pub fn pow(&self, exponent: impl IntoExpr) -> Expr {
        self.with([exponent.into_expr(&self.energy)], |b, v, [e]| b.arithmetic(Arithmetic::Pow, v, e))
    }

    /// The real power, with derivatives for both; the base must be positive where the exponent reads unknowns.
    #[track_caller]
    pub fn powf(&self, exponent: impl IntoExpr) -> Expr {
        self.with([exponent.into_expr(&self.energy)], |b, v, [e]| b.call(Function::Pow, &[v, e]))
    }

    /// The angle of `(x, y)`, with `self` as y.
    #[track_caller]
    pub fn atan2(&self, x: impl IntoExpr) -> Expr {
        self.with([x.into_expr(&self.energy)], |b, y, [x]| b.call(Function::Atan2, &[y, x]))
    }

    /// The inner product.
    #[track_caller]
    pub fn dot(&self, other: impl IntoExpr) -> Expr {
        self.with([other.into_expr(&self.energy)], |b, v, [w]| b.dot(v, w))
    }

    /// The sum of the channels.
    #[track_caller]
    pub fn sum(&self) -> Expr {
        self.with([], |b, v, []| Ok(b.sum(v)))
    }

    /// The product of the channels: whether all are true.
    #[track_caller]
    pub fn all(&self) -> Expr {
        self.with([], |b, v, []| Ok(b.all(v)))
    }

    /// Tells whether any channel is non-zero.
    #[track_caller]
    pub fn any(&self) -> Expr {
        self.with([], |b, v, []| Ok(b.any(v)))
    }

    /// The Euclidean norm.
    #[track_caller]
    pub fn norm(&self) -> Expr {
        self.with([], |b, v, []| b.norm(v))
    }

    /// `self / |self|`.
    #[track_caller]
    pub fn normalize(&self) -> Expr {
        self.with([], |b, v, []| b.normalize(v))
    }

    /// This row-major 3x3 matrix times a 3-vector.
    #[track_caller]
    pub fn matrix3_mul(&self, v: impl IntoExpr) -> Expr {
        self.with([v.into_expr(&self.energy)], |b, m, [v]| b.matrix3_mul(m, v))
    }
}

macro_rules! functions {
    (
        unary { $($name:ident $function:ident = $single:path, $double:path;)* }
        binary { $($rest:tt)* }
    ) => { impl Expr { $(
        #[doc = concat!("`", stringify!($name), "` of each channel.")]
        #[track_caller]
        pub fn $name(&self) -> Expr {
            self.with([], |b, v, []| b.call(Function::$function, &[v]))
        }
    )* } };
}
// Those of two operands are above.
sumsq_codegen::scalar_functions!(functions);

macro_rules! comparisons {
    ($($name:ident $comparison:ident $sign:literal),* $(,)?) => { impl Expr { $(
        #[doc = concat!("1 where `self ", $sign, " other`, else 0, for each channel.")]
        #[track_caller]
        pub fn $name(&self, other: impl IntoExpr) -> Expr {
            self.with([other.into_expr(&self.energy)], |b, v, [w]| b.compare(Comparison::$comparison, v, w))
        }
    )* } };
}
comparisons!(equals Eq "=", less Less "<", less_eq LessEq "<=", greater Greater ">", greater_eq GreaterEq ">=");

macro_rules! operators {
    ($($trait:ident $method:ident |$b:ident, $v:ident, $w:ident| $body:expr;)*) => { $(
        impl<R: IntoExpr> $trait<R> for Expr {
            type Output = Expr;
            #[track_caller]
            fn $method(self, other: R) -> Expr {
                self.with([other.into_expr(&self.energy)], |$b, $v, [$w]| $body)
            }
        }
        impl<R: IntoExpr> $trait<R> for &Expr {
            type Output = Expr;
            #[track_caller]
            fn $method(self, other: R) -> Expr {
                self.with([other.into_expr(&self.energy)], |$b, $v, [$w]| $body)
            }
        }
        impl $trait<Expr> for f64 {
            type Output = Expr;
            #[track_caller]
            fn $method(self, other: Expr) -> Expr {
                self.into_expr(&other.energy).with([other], |$b, $v, [$w]| $body)
            }
        }
        impl $trait<&Expr> for f64 {
            type Output = Expr;
            #[track_caller]
            fn $method(self, other: &Expr) -> Expr {
                self.into_expr(&other.energy).with([other.clone()], |$b, $v, [$w]| $body)
            }
        }
    )* };
}
operators! {
    Add add |b, v, w| b.arithmetic(Arithmetic::Add, v, w);
    Sub sub |b, v, w| b.arithmetic(Arithmetic::Sub, v, w);
    Mul mul |b, v, w| b.arithmetic(Arithmetic::Mul, v, w);
    Div div |b, v, w| b.arithmetic(Arithmetic::Div, v, w);
    BitAnd bitand |b, v, w| b.and(&[v, w]);
    BitOr bitor |b, v, w| b.or(&[v, w]);
}

impl Neg for Expr {
    type Output = Expr;
    #[track_caller]
    fn neg(self) -> Expr {
        -&self
    }
}

impl Neg for &Expr {
    type Output = Expr;
    #[track_caller]
    fn neg(self) -> Expr {
        self.with([], |b, v, []| Ok(b.negate(v)))
    }
}

impl Not for Expr {
    type Output = Expr;
    #[track_caller]
    fn not(self) -> Expr {
        !&self
    }
}

impl Not for &Expr {
    type Output = Expr;
    #[track_caller]
    fn not(self) -> Expr {
        self.with([], |b, v, []| Ok(b.not(v)))
    }
}

/// `a` where `cond` is non-zero, else `b`: a choice between values, for each channel.
#[track_caller]
pub fn select(cond: impl AsRef<Expr>, a: impl IntoExpr, b: impl IntoExpr) -> Expr {
    let cond = cond.as_ref();
    let (a, b) = (a.into_expr(&cond.energy), b.into_expr(&cond.energy));
    cond.with([a, b], |builder, cond, [a, b]| builder.select(cond, a, b))
}

/// The Vector of these scalars.
#[track_caller]
pub fn vector<const N: usize>(entries: [Expr; N]) -> Expr {
    let Some(first) = entries.first().cloned() else {
        // Not of any energy: an error as soon as it is used.
        return Expr { energy: EnergyBuilder::new(), value: None };
    };
    first.with(entries, |b, _, entries| b.vector(&entries))
}

/// The 2-vector `v` turned counter-clockwise by `angle`.
#[track_caller]
pub fn rotate_2d(angle: impl AsRef<Expr>, v: impl IntoExpr) -> Expr {
    let angle = angle.as_ref();
    angle.with([v.into_expr(&angle.energy)], |b, angle, [v]| b.rotate_2d(angle, v))
}

/// `Rz(a2) * Ry(a1) * Rx(a0) * v`.
#[track_caller]
pub fn rotate_3d(angles: impl AsRef<Expr>, v: impl IntoExpr) -> Expr {
    let angles = angles.as_ref();
    angles.with([v.into_expr(&angles.energy)], |b, angles, [v]| b.rotate_3d(angles, v))
}

impl AsRef<Expr> for Expr {
    fn as_ref(&self) -> &Expr {
        self
    }
}
