//! The table of scalar functions: for each its name, operands, value and slope. Whatever handles functions reads them here.
//!
//! | reader | takes |
//! |---|---|
//! | [`crate::expr`] | an operator for each, named as here in text, with a method of [`Expr`](crate::Expr) |
//! | [`crate::lower`] | the arithmetic of each, tested against the value |
//! | [`crate::backend`] | the name: whatever has no instruction of its own becomes a function of the module |
//! | energies | names in Lua and Rust, the value of constants, the slope |
//!
//! The assembled path of the solver has values and slopes of its own: it is the oracle of these.

/// Calls macro `$then` with the table: lines of method, operator, and its value on f32 and on f64.
#[macro_export]
macro_rules! scalar_functions {
    ($then:ident) => {
        $then! {
            unary {
                abs Abs = f32::abs, f64::abs;
                acos Acos = f32::acos, f64::acos;
                acosh Acosh = f32::acosh, f64::acosh;
                asin Asin = f32::asin, f64::asin;
                asinh Asinh = f32::asinh, f64::asinh;
                atan Atan = f32::atan, f64::atan;
                atanh Atanh = f32::atanh, f64::atanh;
                cos Cos = f32::cos, f64::cos;
                cosh Cosh = f32::cosh, f64::cosh;
                exp Exp = f32::exp, f64::exp;
                log Log = f32::ln, f64::ln;
                log10 Log10 = f32::log10, f64::log10;
                sin Sin = f32::sin, f64::sin;
                sinh Sinh = f32::sinh, f64::sinh;
                sqrt Sqrt = f32::sqrt, f64::sqrt;
                tan Tan = f32::tan, f64::tan;
                tanh Tanh = f32::tanh, f64::tanh;
            }
            binary {
                atan2 Atan2 = f32::atan2, f64::atan2;
                pow Pow = f32::powf, f64::powf;
            }
        }
    };
}

macro_rules! functions {
    (
        unary { $($name1:ident $op1:ident = $single1:path, $double1:path;)* }
        binary { $($name2:ident $op2:ident = $single2:path, $double2:path;)* }
    ) => {
        /// A function of floats, channel by channel, lane by lane. Operands in order: `Atan2` (y, x), `Pow` (base, exponent).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[allow(missing_docs)]
        pub enum Function { $($op1,)* $($op2,)* }

        impl Function {
            /// Every function, those of one operand first.
            pub const ALL: &[Function] = &[$(Function::$op1,)* $(Function::$op2,)*];

            /// Its name in all texts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Function::$op1 => stringify!($name1),)*
                    $(Function::$op2 => stringify!($name2),)*
                }
            }

            /// Number of operands.
            pub const fn arity(self) -> usize {
                match self {
                    $(Function::$op1)|* => 1,
                    $(Function::$op2)|* => 2,
                }
            }

            /// Its value in f64; `y` is ignored by functions of one operand.
            pub fn value(self, x: f64, y: f64) -> f64 {
                match self {
                    $(Function::$op1 => $double1(x),)*
                    $(Function::$op2 => $double2(x, y),)*
                }
            }
        }
    };
}
scalar_functions!(functions);

impl Function {
    /// The function of this name.
    pub fn named(name: &str) -> Option<Function> {
        Function::ALL.iter().copied().find(|f| f.name() == name)
    }

    /// True if it is finite for all finite operands: a mask may then be multiplied into it.
    pub const fn is_finite(self) -> bool {
        use Function::{Abs, Atan, Cos, Sin, Tanh};
        matches!(self, Abs | Atan | Cos | Sin | Tanh)
    }

    /// The derivative of `value` = f(x) where x changes by `dx`: the sum of partials times `dx`.
    ///
    /// At singular points the language fixes it, and a selection on the operand puts it there: `sqrt'(0) = 0`, `(x^c)'(0) = 0` for
    /// 0 < c < 1, `atan2' = 0` at (0, 0), `|x|' = +1` for x >= 0 and else -1.
    pub fn derivative<A: Algebra>(
        self,
        a: &mut A,
        value: A::Value,
        x: &[A::Value],
        dx: &[A::Value],
    ) -> A::Value {
        match self {
            Function::Atan2 => return atan2_derivative(a, [x[0], x[1]], [dx[0], dx[1]]),
            Function::Pow => return pow_derivative(a, value, [x[0], x[1]], [dx[0], dx[1]]),
            _ => {}
        }
        let square = a.powi(x[0], 2);
        let one_minus_square = a.sum(1.0, &[(-1.0, square)]);
        let slope = match self {
            Function::Abs => {
                let zero = a.constant(0.0);
                let (plus, minus) = (a.constant(1.0), a.constant(-1.0));
                let positive = a.less_eq(zero, x[0]);
                a.select(positive, plus, minus)
            }
            Function::Acos | Function::Asin => {
                let root = a.call(Function::Sqrt, &[one_minus_square]);
                a.product(if self == Function::Acos { -1.0 } else { 1.0 }, &[(root, -1)])
            }
            // acosh needs x >= 1, so sqrt(x - 1) sqrt(x + 1) is sqrt(x^2 - 1).
            Function::Acosh | Function::Asinh => {
                let one = if self == Function::Acosh { -1.0 } else { 1.0 };
                let radicand = a.sum(one, &[(1.0, square)]);
                let root = a.call(Function::Sqrt, &[radicand]);
                a.powi(root, -1)
            }
            Function::Atan => {
                let denominator = a.sum(1.0, &[(1.0, square)]);
                a.powi(denominator, -1)
            }
            Function::Atanh => a.powi(one_minus_square, -1),
            Function::Cos => {
                let sin = a.call(Function::Sin, &[x[0]]);
                a.sum(0.0, &[(-1.0, sin)])
            }
            Function::Cosh => a.call(Function::Sinh, &[x[0]]),
            Function::Exp => value,
            Function::Log => a.powi(x[0], -1),
            Function::Log10 => a.product(std::f64::consts::LOG10_E, &[(x[0], -1)]),
            Function::Sin => a.call(Function::Cos, &[x[0]]),
            Function::Sinh => a.call(Function::Cosh, &[x[0]]),
            Function::Sqrt => return flat_at_zero(a, x[0], 0.5, (value, -1), dx[0]),
            Function::Tan | Function::Tanh => {
                let square = a.powi(value, 2);
                a.sum(1.0, &[(if self == Function::Tan { 1.0 } else { -1.0 }, square)])
            }
            Function::Atan2 | Function::Pow => unreachable!("functions of two operands are above"),
        };
        a.mul(slope, dx[0])
    }
}

/// Constructors of expressions: enough to write slopes.
pub trait Algebra {
    /// An expression, by handle.
    type Value: Copy;

    /// A number.
    fn constant(&mut self, v: f64) -> Self::Value;
    /// `constant + sum coefficient * term`.
    fn sum(&mut self, constant: f64, terms: &[(f64, Self::Value)]) -> Self::Value;
    /// `coefficient * product factor^exponent`.
    fn product(&mut self, coefficient: f64, factors: &[(Self::Value, i32)]) -> Self::Value;
    /// A function of as many operands as it has.
    fn call(&mut self, f: Function, operands: &[Self::Value]) -> Self::Value;
    /// `cond ? a : b`, a choice between values.
    fn select(&mut self, cond: Self::Value, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a ~= 0`; true of NaN.
    fn truth(&mut self, a: Self::Value) -> Self::Value;
    /// `a == b`.
    fn equal(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a < b`.
    fn less(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a <= b`.
    fn less_eq(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// Tells whether all of the conditions hold.
    fn and(&mut self, conditions: &[Self::Value]) -> Self::Value;
    /// Tells whether any of the conditions holds.
    fn or(&mut self, conditions: &[Self::Value]) -> Self::Value;
    /// Tells whether an expression is known to be 0.
    fn is_zero(&self, a: Self::Value) -> bool;

    /// `a * b`.
    fn mul(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.product(1.0, &[(a, 1), (b, 1)])
    }

    /// `a^n`.
    fn powi(&mut self, a: Self::Value, n: i32) -> Self::Value {
        self.product(1.0, &[(a, n)])
    }
}

/// `coefficient value^exponent dx`, 0 where x = 0: of powers of x whose slope is infinite there.
fn flat_at_zero<A: Algebra>(
    a: &mut A,
    x: A::Value,
    coefficient: f64,
    power: (A::Value, i32),
    dx: A::Value,
) -> A::Value {
    let regular = a.truth(x);
    let slope = a.product(coefficient, &[power]);
    let (product, zero) = (a.mul(slope, dx), a.constant(0.0));
    a.select(regular, product, zero)
}

/// `d atan2(y, x) = (x dy - y dx) / (x^2 + y^2)`, 0 at (0, 0).
fn atan2_derivative<A: Algebra>(a: &mut A, [y, x]: [A::Value; 2], [dy, dx]: [A::Value; 2]) -> A::Value {
    let (xx, yy) = (a.powi(x, 2), a.powi(y, 2));
    let norm = a.sum(0.0, &[(1.0, xx), (1.0, yy)]);
    let (x_dy, y_dx) = (a.mul(x, dy), a.mul(y, dx));
    let numerator = a.sum(0.0, &[(1.0, x_dy), (-1.0, y_dx)]);
    let quotient = a.product(1.0, &[(numerator, 1), (norm, -1)]);
    let (cond, zero) = (a.truth(norm), a.constant(0.0));
    a.select(cond, quotient, zero)
}

/// `d x^y = y x^(y-1) dx + x^y log(x) dy`, the first 0 where y = 0 and where x = 0 with 0 < y < 1.
fn pow_derivative<A: Algebra>(
    a: &mut A,
    value: A::Value,
    [x, y]: [A::Value; 2],
    [dx, dy]: [A::Value; 2],
) -> A::Value {
    let (zero, one) = (a.constant(0.0), a.constant(1.0));
    let mut terms = Vec::new();
    if !a.is_zero(dx) {
        let less_one = a.sum(-1.0, &[(1.0, y)]);
        let power = a.call(Function::Pow, &[x, less_one]);
        let product = a.product(1.0, &[(y, 1), (power, 1), (dx, 1)]);
        let (at_zero, constant) = (a.equal(x, zero), a.equal(y, zero));
        let (lower, upper) = (a.less(zero, y), a.less(y, one));
        let steep = a.and(&[at_zero, lower, upper]);
        let flat = a.or(&[constant, steep]);
        terms.push((1.0, a.select(flat, zero, product)));
    }
    if !a.is_zero(dy) {
        let log = a.call(Function::Log, &[x]);
        terms.push((1.0, a.product(1.0, &[(value, 1), (log, 1), (dy, 1)])));
    }
    a.sum(0.0, &terms)
}
