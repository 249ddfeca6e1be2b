//! Function calls and real powers; the DAG as the algebra of their slopes.

use super::{Dag, ExprId, Function, Node};
use sumsq_codegen::functions::Algebra;

impl Dag {
    /// `function(arguments)`.
    pub fn call(&mut self, function: Function, arguments: &[ExprId]) -> ExprId {
        assert_eq!(arguments.len(), function.arity(), "arguments of {}", function.name());
        if function == Function::Pow {
            return self.pow(arguments[0], arguments[1]);
        }
        let constants: Option<Vec<f64>> = arguments.iter().map(|&a| self.as_constant(a)).collect();
        if let Some(values) = constants {
            return self.constant(function.value(values[0], values.get(1).copied().unwrap_or(0.0)));
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

impl Algebra for Dag {
    type Value = ExprId;

    fn constant(&mut self, v: f64) -> ExprId {
        Dag::constant(self, v)
    }
    fn sum(&mut self, constant: f64, terms: &[(f64, ExprId)]) -> ExprId {
        Dag::sum(self, constant, terms)
    }
    fn product(&mut self, coefficient: f64, factors: &[(ExprId, i32)]) -> ExprId {
        Dag::product(self, coefficient, factors)
    }
    fn call(&mut self, f: Function, operands: &[ExprId]) -> ExprId {
        Dag::call(self, f, operands)
    }
    fn select(&mut self, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        Dag::select(self, cond, a, b)
    }
    fn truth(&mut self, a: ExprId) -> ExprId {
        Dag::truth(self, a)
    }
    fn equal(&mut self, a: ExprId, b: ExprId) -> ExprId {
        Dag::equal(self, a, b)
    }
    fn less(&mut self, a: ExprId, b: ExprId) -> ExprId {
        Dag::less(self, a, b)
    }
    fn less_eq(&mut self, a: ExprId, b: ExprId) -> ExprId {
        Dag::less_eq(self, a, b)
    }
    fn and(&mut self, conditions: &[ExprId]) -> ExprId {
        Dag::and(self, conditions)
    }
    fn or(&mut self, conditions: &[ExprId]) -> ExprId {
        Dag::or(self, conditions)
    }
    fn is_zero(&self, a: ExprId) -> bool {
        self.is_constant(a, 0.0)
    }
}
