//! Symbolic partial derivatives, memoised per (node, access): the algorithm OnePass of DeVito et al., "Opt: a domain
//! specific language for non-linear least squares optimization in graphics and imaging", 2017, section 5.2.
//!
//! Derivatives flow only through the taken branch of a Select: `d Select(c, a, b) = Select(c, da, db)`, again a selection of
//! values, so a NaN or Inf of the untaken branch's derivative stays untaken. At singular points the language fixes the
//! value, and a Select on the operand puts it there: `sqrt'(0) = 0`, `(x^c)'(0) = 0` for 0 < c < 1, `atan2' = 0` at
//! (0, 0), `|x|' = +1` for x >= 0 and else -1.

use super::{Access, Dag, ExprId, Function, Node};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

impl Dag {
    /// The partial derivative of `id` with respect to one access.
    pub fn derivative(&mut self, id: ExprId, access: &Access) -> ExprId {
        let var = self.access(access.clone());
        let mut memo = std::mem::take(&mut self.derivatives);
        for n in self.reachable_while(&[id], |n| !memo.contains_key(&(n, var))) {
            let d = self.derive_node(n, var, &memo);
            memo.insert((n, var), d);
        }
        let result = memo[&(id, var)];
        self.derivatives = memo;
        result
    }

    fn derive_node(&mut self, id: ExprId, var: ExprId, memo: &FxHashMap<(ExprId, ExprId), ExprId>) -> ExprId {
        let zero = self.constant(0.0);
        if id == var {
            return self.constant(1.0);
        }
        let d = |n: ExprId| memo[&(n, var)];
        match self.node(id).clone() {
            Node::Sum { terms, .. } => {
                let terms: Vec<_> = terms.iter().map(|&(c, t)| (c.get(), d(t))).collect();
                self.sum(0.0, &terms)
            }
            Node::Prod(factors) => {
                let mut terms = Vec::new();
                for (i, &(f, e)) in factors.iter().enumerate() {
                    if d(f) == zero {
                        continue;
                    }
                    let mut partial: Vec<(ExprId, i32)> = factors.to_vec();
                    partial[i].1 = e - 1;
                    partial.push((d(f), 1));
                    terms.push((1.0, self.product(f64::from(e), &partial)));
                }
                self.sum(0.0, &terms)
            }
            Node::Call(function, arguments) => {
                let inner: SmallVec<[ExprId; 2]> = arguments.iter().map(|&a| d(a)).collect();
                if inner.iter().all(|&i| i == zero) {
                    return zero;
                }
                match function {
                    Function::Atan2 => self.derive_atan2(&arguments, &inner),
                    Function::Pow => self.derive_pow(id, &arguments, &inner),
                    _ => {
                        let outer = self.derive_function(function, id, arguments[0]);
                        match outer {
                            Partial::Regular(p) => self.mul(p, inner[0]),
                            Partial::ZeroUnless(cond, p) => {
                                let product = self.mul(p, inner[0]);
                                self.select(cond, product, zero)
                            }
                        }
                    }
                }
            }
            Node::Select(c, a, b) => self.select(c, d(a), d(b)),
            Node::Sample { partials, at, .. } => {
                let mut terms = Vec::new();
                // Without derivative images the coordinates read no unknown: checked when the energy is built.
                for (&image, coordinate) in partials.iter().zip(&at) {
                    if d(*coordinate) != zero {
                        let slope = self.sample(image, &[], &at);
                        terms.push((1.0, self.mul(slope, d(*coordinate))));
                    }
                }
                self.sum(0.0, &terms)
            }
            _ => zero,
        }
    }

    /// The derivative of a function of one operand; `value` is the call itself.
    fn derive_function(&mut self, function: Function, value: ExprId, x: ExprId) -> Partial {
        let square = self.powi(x, 2);
        let one_minus_square = self.sum(1.0, &[(-1.0, square)]);
        Partial::Regular(match function {
            Function::Abs => {
                let zero = self.constant(0.0);
                let (plus, minus) = (self.constant(1.0), self.constant(-1.0));
                let positive = self.less_eq(zero, x);
                self.select(positive, plus, minus)
            }
            Function::Acos | Function::Asin => {
                let root = self.call(Function::Sqrt, &[one_minus_square]);
                let sign = if function == Function::Acos { -1.0 } else { 1.0 };
                self.product(sign, &[(root, -1)])
            }
            // acosh needs x >= 1, so sqrt(x - 1) sqrt(x + 1) is sqrt(x^2 - 1).
            Function::Acosh => {
                let radicand = self.sum(-1.0, &[(1.0, square)]);
                let root = self.call(Function::Sqrt, &[radicand]);
                self.powi(root, -1)
            }
            Function::Asinh => {
                let radicand = self.sum(1.0, &[(1.0, square)]);
                let root = self.call(Function::Sqrt, &[radicand]);
                self.powi(root, -1)
            }
            Function::Atan => {
                let denominator = self.sum(1.0, &[(1.0, square)]);
                self.powi(denominator, -1)
            }
            Function::Atanh => self.powi(one_minus_square, -1),
            Function::Cos => {
                let sin = self.call(Function::Sin, &[x]);
                self.neg(sin)
            }
            Function::Cosh => self.call(Function::Sinh, &[x]),
            Function::Exp => value,
            Function::Log => self.powi(x, -1),
            Function::Log10 => self.product(std::f64::consts::LOG10_E, &[(x, -1)]),
            Function::Sin => self.call(Function::Cos, &[x]),
            Function::Sinh => self.call(Function::Cosh, &[x]),
            Function::Sqrt => {
                let cond = self.truth(x);
                return Partial::ZeroUnless(cond, self.product(0.5, &[(value, -1)]));
            }
            Function::Tan => {
                let square = self.powi(value, 2);
                self.sum(1.0, &[(1.0, square)])
            }
            Function::Tanh => {
                let square = self.powi(value, 2);
                self.sum(1.0, &[(-1.0, square)])
            }
            Function::Atan2 | Function::Pow => unreachable!("functions of two operands have their own rules"),
        })
    }

    /// `d atan2(y, x) = (x dy - y dx) / (x^2 + y^2)`, 0 at (0, 0).
    fn derive_atan2(&mut self, arguments: &[ExprId], inner: &[ExprId]) -> ExprId {
        let (y, x) = (arguments[0], arguments[1]);
        let (xx, yy) = (self.powi(x, 2), self.powi(y, 2));
        let norm = self.add(xx, yy);
        let (x_dy, y_dx) = (self.mul(x, inner[0]), self.mul(y, inner[1]));
        let numerator = self.sub(x_dy, y_dx);
        let quotient = self.div(numerator, norm);
        let (cond, zero) = (self.truth(norm), self.constant(0.0));
        self.select(cond, quotient, zero)
    }

    /// `d x^y = y x^(y-1) dx + x^y log(x) dy`, the first 0 where y = 0 and where x = 0 with 0 < y < 1.
    fn derive_pow(&mut self, value: ExprId, arguments: &[ExprId], inner: &[ExprId]) -> ExprId {
        let (x, y) = (arguments[0], arguments[1]);
        let (zero, one) = (self.constant(0.0), self.constant(1.0));
        let mut terms = Vec::new();
        if inner[0] != zero {
            let less_one = self.sum(-1.0, &[(1.0, y)]);
            let power = self.pow(x, less_one);
            let product = self.product(1.0, &[(y, 1), (power, 1), (inner[0], 1)]);
            let (at_zero, constant) = (self.equal(x, zero), self.equal(y, zero));
            let (lower, upper) = (self.less(zero, y), self.less(y, one));
            let steep = self.and(&[at_zero, lower, upper]);
            let flat = self.or(&[constant, steep]);
            terms.push((1.0, self.select(flat, zero, product)));
        }
        if inner[1] != zero {
            let log = self.call(Function::Log, &[x]);
            terms.push((1.0, self.product(1.0, &[(value, 1), (log, 1), (inner[1], 1)])));
        }
        self.sum(0.0, &terms)
    }
}

/// A derivative with respect to the only operand.
enum Partial {
    /// Just this.
    Regular(ExprId),
    /// This where the condition holds, else 0 whatever its value.
    ZeroUnless(ExprId, ExprId),
}
