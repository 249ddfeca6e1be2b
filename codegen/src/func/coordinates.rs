//! Variables, and the coordinates that a call is given.

use crate::expr::{BinaryOp, Expr, Name, Operand};
use crate::types::Type;
use rustc_hash::FxHashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A pure variable: a dimension of a Func, called by its name. Copied freely; every distinct name is kept for good, once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Var(&'static Name);

impl Var {
    /// A variable called `name`.
    pub fn new(name: impl Into<Name>) -> Var {
        static NAMES: LazyLock<Mutex<FxHashSet<&'static Name>>> = LazyLock::new(Mutex::default);
        let name = name.into();
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        Var(names.get(&name).copied().unwrap_or_else(|| {
            let name: &'static Name = Box::leak(Box::new(name));
            names.insert(name);
            name
        }))
    }

    /// Variables called by these names.
    pub fn all<const N: usize>(names: [&str; N]) -> [Var; N] {
        names.map(Var::new)
    }

    /// Its name.
    pub fn name(&self) -> &'static Name {
        self.0
    }

    /// The variable as an i32 expression.
    pub fn expr(&self) -> Expr {
        Expr::var(self.0.clone())
    }
}

impl From<Var> for Expr {
    fn from(v: Var) -> Expr {
        v.expr()
    }
}

impl From<&Var> for Expr {
    fn from(v: &Var) -> Expr {
        v.expr()
    }
}

impl Operand for Var {
    fn beside(self, _: Type) -> Expr {
        self.expr()
    }
}

macro_rules! operators {
    ($($tr:ident $f:ident $op:ident),*) => { $(
        impl<T: Operand> std::ops::$tr<T> for Var {
            type Output = Expr;
            fn $f(self, b: T) -> Expr { self.expr().combined(BinaryOp::$op, b) }
        }
        impl std::ops::$tr<Var> for i32 {
            type Output = Expr;
            fn $f(self, b: Var) -> Expr { Expr::from(self).combined(BinaryOp::$op, b) }
        }
    )* };
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Mod);

/// Arguments of a call: a tuple of expressions, variables and numbers, one of them alone, or a list of expressions.
pub trait Coordinates {
    /// They as expressions, one per dimension.
    fn list(self) -> Vec<Expr>;
}

impl Coordinates for Vec<Expr> {
    fn list(self) -> Vec<Expr> {
        self
    }
}

impl Coordinates for &[Expr] {
    fn list(self) -> Vec<Expr> {
        self.to_vec()
    }
}

impl<const N: usize> Coordinates for [Var; N] {
    fn list(self) -> Vec<Expr> {
        self.map(|v| v.expr()).to_vec()
    }
}

macro_rules! coordinates {
    ($($single:ty),*; $(($($t:ident),*))*) => {
        $(impl Coordinates for $single {
            fn list(self) -> Vec<Expr> { vec![self.into()] }
        })*
        $(impl<$($t: Into<Expr>),*> Coordinates for ($($t,)*) {
            #[allow(non_snake_case)]
            fn list(self) -> Vec<Expr> {
                let ($($t,)*) = self;
                vec![$($t.into()),*]
            }
        })*
    };
}
coordinates!(Expr, &Expr, Var, i32; () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E));
