//! Function calls and real powers.

use super::{Dag, ExprId, Function, Node};

impl Dag {
    /// `function(arguments)`: one argument, or two for `Atan2` (y, x) and `Pow` (base, exponent).
    pub fn call(&mut self, function: Function, arguments: &[ExprId]) -> ExprId {
        debug_assert_eq!(arguments.len(), arity(function));
        if function == Function::Pow {
            return self.pow(arguments[0], arguments[1]);
        }
        let constants: Option<Vec<f64>> = arguments.iter().map(|&a| self.as_constant(a)).collect();
        if let Some(values) = constants {
            return self.constant(apply(function, values[0], values.get(1).copied().unwrap_or(0.0)));
        }
        if function == Function::Abs && self.is_boolean(arguments[0]) {
            return arguments[0];
        }
        self.intern(Node::Call(function, arguments.iter().copied().collect()))
    }

    /// `base^exponent`: by multiplication for constant whole exponents, square root for 1/2, else the real power.
    pub fn pow(&mut self, base: ExprId, exponent: ExprId) -> ExprId {
        if let Some(e) = self.as_constant(exponent) {
            if e.fract() == 0.0 && e.abs() <= f64::from(i32::MAX) {
                return self.powi(base, e as i32);
            }
            if e == 0.5 {
                return self.call(Function::Sqrt, &[base]);
            }
            if let Some(b) = self.as_constant(base) {
                return self.constant(b.powf(e));
            }
        }
        self.intern(Node::Call(Function::Pow, [base, exponent].into_iter().collect()))
    }
}

/// Number of operands.
pub fn arity(function: Function) -> usize {
    match function {
        Function::Atan2 | Function::Pow => 2,
        _ => 1,
    }
}

/// The value of a function in f64; `y` is ignored by functions of one operand.
pub fn apply(function: Function, x: f64, y: f64) -> f64 {
    match function {
        Function::Abs => x.abs(),
        Function::Acos => x.acos(),
        Function::Acosh => x.acosh(),
        Function::Asin => x.asin(),
        Function::Asinh => x.asinh(),
        Function::Atan => x.atan(),
        Function::Atan2 => x.atan2(y),
        Function::Atanh => x.atanh(),
        Function::Cos => x.cos(),
        Function::Cosh => x.cosh(),
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Log10 => x.log10(),
        Function::Pow => x.powf(y),
        Function::Sin => x.sin(),
        Function::Sinh => x.sinh(),
        Function::Sqrt => x.sqrt(),
        Function::Tan => x.tan(),
        Function::Tanh => x.tanh(),
    }
}
