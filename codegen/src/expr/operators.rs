//! Operators as they are written: operands of different types are brought to one.

use super::{BinaryOp, Expr, ExprKind, Operand};
use crate::types::{ScalarType, Type};

impl Operand for Expr {
    fn beside(self, _: Type) -> Expr {
        self
    }
}

impl Operand for &Expr {
    fn beside(self, _: Type) -> Expr {
        self.clone()
    }
}

impl Operand for f32 {
    fn beside(self, _: Type) -> Expr {
        Expr::from(self)
    }
}

impl Operand for f64 {
    fn beside(self, other: Type) -> Expr {
        let whole = self.fract() == 0.0 && self.abs() < 9e15;
        match other.scalar.is_float() {
            true => Expr::float(other, self),
            false if whole && other.scalar.has(self as i64) => Expr::int(other, self as i64),
            false => Expr::float(Type::F64, self),
        }
    }
}

impl Operand for i64 {
    fn beside(self, other: Type) -> Expr {
        match other.scalar.is_float() || other.scalar.has(self) {
            true => Expr::whole(other, self),
            false => Expr::int(Type::I64, self),
        }
    }
}

impl Operand for i32 {
    fn beside(self, other: Type) -> Expr {
        i64::from(self).beside(other)
    }
}

impl Expr {
    /// `cond ? a : b` on values, of the type that both arms agree on as operands do ([`Operand`]).
    pub fn select(cond: impl Into<Expr>, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        let (cond, (a, b)) = (cond.into(), agreed(a.into(), b.into()));
        let ty = a.ty();
        Expr::new(ExprKind::Select(cond, a, b), ty)
    }

    /// `a * b + c` rounded once, of the type that all agree on.
    pub fn fma(a: impl Into<Expr>, b: impl Into<Expr>, c: impl Into<Expr>) -> Expr {
        let (a, b) = agreed(a.into(), b.into());
        let (a, c) = agreed(a, c.into());
        let (b, c) = agreed(b, c);
        let ty = a.ty();
        Expr::new(ExprKind::Fma(a, b, c), ty)
    }

    /// `self op b`, both brought to one type.
    pub(crate) fn combined(self, op: BinaryOp, b: impl Operand) -> Expr {
        let (a, b) = self.with(b);
        Expr::binary(op, a, b)
    }

    /// Itself and `b`, both brought to one type.
    pub(crate) fn with(self, b: impl Operand) -> (Expr, Expr) {
        let b = b.beside(self.ty());
        agreed(self, b)
    }
}

/// Both of one type, if there is one for them.
pub(super) fn agreed(a: Expr, b: Expr) -> (Expr, Expr) {
    let (a, b) = numbers_agreed(a, b);
    let (of_a, of_b) = (a.ty(), b.ty());
    if of_a == of_b {
        return (a, b);
    }
    match meeting(of_a.scalar, of_b.scalar) {
        Some(ty) if of_a.lanes == of_b.lanes && !a.is_number() && !b.is_number() => (a.cast(ty), b.cast(ty)),
        _ => (a, b),
    }
}

/// Both of one type, if one is a number that the other's type has.
fn numbers_agreed(a: Expr, b: Expr) -> (Expr, Expr) {
    if a.ty() == b.ty() {
        return (a, b);
    }
    if let Some(b) = b.literal_as(a.ty().scalar) {
        return (a, b);
    }
    match a.literal_as(b.ty().scalar) {
        Some(a) => (a, b),
        None => (a, b),
    }
}

impl Expr {
    /// The same node, an operator, over operands of which numbers take the type of the others: what schedules say, which convert nothing.
    pub(crate) fn with_numbers_agreed(&self) -> Expr {
        let kind = match self.kind() {
            ExprKind::Binary(op, a, b) => {
                let (a, b) = numbers_agreed(a.clone(), b.clone());
                return Expr::binary(*op, a, b);
            }
            ExprKind::Fma(a, b, c) => {
                let (a, b) = numbers_agreed(a.clone(), b.clone());
                let (a, c) = numbers_agreed(a, c.clone());
                let (b, c) = numbers_agreed(b, c);
                ExprKind::Fma(a, b, c)
            }
            ExprKind::Select(c, a, b) => {
                let (a, b) = numbers_agreed(a.clone(), b.clone());
                ExprKind::Select(c.clone(), a, b)
            }
            ExprKind::Strict(_) => return self.unmarked().with_numbers_agreed().marked(),
            _ => return self.clone(),
        };
        let ty = match &kind {
            ExprKind::Fma(a, ..) | ExprKind::Select(_, a, _) => a.ty(),
            _ => self.ty(),
        };
        Expr::new(kind, ty)
    }
}

/// The type in which values of two types meet, as the table at [`Operand`] says.
fn meeting(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
    use ScalarType::Bool;
    let wider = |a: ScalarType, b: ScalarType| if a.bytes() >= b.bytes() { a } else { b };
    match (a.is_float(), b.is_float()) {
        _ if a == Bool || b == Bool => None,
        (true, false) => Some(a),
        (false, true) => Some(b),
        (true, true) => Some(wider(a, b)),
        _ if a.is_signed() == b.is_signed() => Some(wider(a, b)),
        _ => Some(wider(a, b).signed()),
    }
}

macro_rules! binary_methods {
    ($($(#[$m:meta])* $f:ident $op:ident),* $(,)?) => { impl Expr { $(
        $(#[$m])* #[doc = concat!("See [`BinaryOp::", stringify!($op), "`].")]
        pub fn $f(&self, b: impl Operand) -> Expr { self.clone().combined(BinaryOp::$op, b) }
    )* } };
}
binary_methods!(
    min Min, max Max, and And, or Or, xor Xor, shl Shl, shr Shr, modulo Mod,
    eq_ Eq, ne_ Ne, lt Lt, le Le, gt Gt, ge Ge,
);

macro_rules! operators {
    ($($tr:ident $f:ident $op:ident),*) => { $(
        impl<T: Operand> std::ops::$tr<T> for Expr {
            type Output = Expr;
            fn $f(self, b: T) -> Expr { self.combined(BinaryOp::$op, b) }
        }
        impl<T: Operand> std::ops::$tr<T> for &Expr {
            type Output = Expr;
            fn $f(self, b: T) -> Expr { self.clone().combined(BinaryOp::$op, b) }
        }
        operators!(numbers $tr $f $op: i32 f32 f64);
    )* };
    (numbers $tr:ident $f:ident $op:ident: $($number:ty)*) => { $(
        impl std::ops::$tr<Expr> for $number {
            type Output = Expr;
            fn $f(self, b: Expr) -> Expr { self.beside(b.ty()).combined(BinaryOp::$op, b) }
        }
        impl std::ops::$tr<&Expr> for $number {
            type Output = Expr;
            fn $f(self, b: &Expr) -> Expr { self.beside(b.ty()).combined(BinaryOp::$op, b) }
        }
    )* };
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Mod);
