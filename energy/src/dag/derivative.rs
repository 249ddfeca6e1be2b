//! Symbolic partial derivatives, memoised per (node, access): the algorithm OnePass of DeVito et al., "Opt: a domain
//! specific language for non-linear least squares optimization in graphics and imaging", 2017, section 5.2.
//!
//! Derivatives flow only through the taken branch of a Select: `d Select(c, a, b) = Select(c, da, db)`, again a selection of
//! values, so a NaN or Inf of the untaken branch's derivative stays untaken. Slopes of functions are those of the table
//! ([`Function::derivative`]).

use super::{Access, Dag, ExprId, Node};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Factors of a product from which on its halves are derived one by one.
const LONG_PRODUCT: usize = 16;
/// Steps that a look at the memory of derivatives counts for.
const STEPS: usize = 8;

impl Dag {
    /// The partial derivative of `id` with respect to one access.
    pub fn derivative(&mut self, id: ExprId, access: &Access) -> ExprId {
        if self.is_spent() {
            return self.constant(0.0);
        }
        let var = self.access(access.clone());
        let mut memo = std::mem::take(&mut self.derivatives);
        for n in self.reachable_while(&[id], |n| !memo.contains_key(&(n, var))) {
            let d = if self.is_spent() { var } else { self.derive_node(n, var, &memo) };
            memo.insert((n, var), d);
        }
        let result = memo[&(id, var)];
        self.derivatives = memo;
        result
    }

    fn derive_node(&mut self, id: ExprId, var: ExprId, memo: &FxHashMap<(ExprId, ExprId), ExprId>) -> ExprId {
        self.spend(STEPS * (2 + self.children(id).len()));
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
            Node::Prod(factors) => self.derive_product(&factors, &d),
            Node::Call(function, arguments) => {
                let inner: SmallVec<[ExprId; 2]> = arguments.iter().map(|&a| d(a)).collect();
                if inner.iter().all(|&i| i == zero) {
                    return zero;
                }
                function.derivative(self, id, &arguments, &inner)
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

    /// The sum of the products in which one factor is replaced by its derivative `d`. Of a long product that of two halves, a' b + a b': n terms
    /// of n factors become n log n factors in all.
    fn derive_product(&mut self, factors: &[(ExprId, i32)], d: &impl Fn(ExprId) -> ExprId) -> ExprId {
        if factors.len() > LONG_PRODUCT {
            let (a, b) = factors.split_at(factors.len() / 2);
            let (da, db) = (self.derive_product(a, d), self.derive_product(b, d));
            let (a, b) = (self.product(1.0, a), self.product(1.0, b));
            let terms = [(1.0, self.mul(da, b)), (1.0, self.mul(a, db))];
            return self.sum(0.0, &terms);
        }
        let mut terms = Vec::new();
        for (i, &(f, e)) in factors.iter().enumerate() {
            if self.is_constant(d(f), 0.0) {
                continue;
            }
            let mut partial: Vec<(ExprId, i32)> = factors.to_vec();
            partial[i].1 = e - 1;
            partial.push((d(f), 1));
            terms.push((1.0, self.product(f64::from(e), &partial)));
        }
        self.sum(0.0, &terms)
    }
}
