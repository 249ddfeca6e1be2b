//! The inverse of a small symmetric positive definite matrix, as expressions.

use crate::matrix_free::skeleton::packed;
use sumsq_codegen::{Expr, Func, RDom, ScalarType, Var};

/// Rows of a matrix whose inverse is straight code at most. With 12 that has 5,700 instructions, which take longer to compile than all other
/// pipelines of an energy.
pub const STRAIGHT: usize = 9;

/// A symmetric positive definite matrix A. A pivot that rounding made less than `least` times its diagonal entry counts as that much.
pub struct Matrix<'e> {
    /// Rows.
    pub n: usize,
    /// The packed lower triangle.
    pub entries: &'e [Expr],
    /// Least share of a diagonal entry that its pivot is.
    pub least: f64,
}

/// The entries of a lower triangle, row by row.
pub fn lower(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)))
}

impl Matrix<'_> {
    fn ty(&self) -> ScalarType {
        self.entries[0].ty().scalar
    }

    fn at(&self, i: usize, j: usize) -> &Expr {
        &self.entries[packed(i, j)]
    }

    fn number(&self, value: f64) -> Expr {
        Expr::float(self.ty(), value)
    }

    fn least_pivot(&self, i: usize) -> Expr {
        self.at(i, i) * &self.number(self.least)
    }

    /// The packed inverse in straight code, by Cholesky: A = L L^T, A^-1 = L^-T L^-1.
    pub fn inverse(&self) -> Vec<Expr> {
        let n = self.n;
        let mut l: Vec<Expr> = self.entries.to_vec();
        let mut inv_diagonal = Vec::with_capacity(n);
        for j in 0..n {
            let mut d = self.at(j, j).clone();
            for m in 0..j {
                d = d - &l[packed(j, m)] * &l[packed(j, m)];
            }
            let d = d.max(self.least_pivot(j));
            inv_diagonal.push(self.number(1.0) / d.sqrt());
            for i in j + 1..n {
                let mut v = self.at(i, j).clone();
                for m in 0..j {
                    v = v - &l[packed(i, m)] * &l[packed(j, m)];
                }
                l[packed(i, j)] = v * &inv_diagonal[j];
            }
        }
        // W = L^-1, lower triangular.
        let mut w: Vec<Expr> = self.entries.to_vec();
        for j in 0..n {
            w[packed(j, j)] = inv_diagonal[j].clone();
            for i in j + 1..n {
                let sum = (j..i).map(|m| &l[packed(i, m)] * &w[packed(m, j)]).reduce(|x, y| x + y);
                w[packed(i, j)] = -(sum.expect("i > j") * &inv_diagonal[i]);
            }
        }
        let entry = |(i, j): (usize, usize)| {
            let products = (i.max(j)..n).map(|m| &w[packed(m, i)] * &w[packed(m, j)]);
            products.reduce(|x, y| x + y).expect("at least one term")
        };
        lower(n).map(entry).collect()
    }

    /// The packed inverse by loops over Funcs, which are put `beside` what reads it, of the variables of an element and two more, column and row:
    /// A = L D L^T with ones on L's diagonal, A^-1 = L^-T D^-1 L^-1, which has no negative eigenvalue however it was rounded. `name` tells them
    /// from others.
    ///
    /// `Left` is A, of which eliminating column after column leaves L D below the diagonal and D on it; its row n holds the least pivots.
    /// `Pivot` is D^-1, `Lower` L^-1, from its first row to its last.
    pub fn inverse_by_loops(&self, name: &str, vars: &[Var], beside: &mut Vec<Func>) -> Vec<Expr> {
        let n = self.n as i32;
        let element: Vec<Expr> = vars.iter().map(Var::expr).collect();
        let at = |column: Expr, row: Expr| [&element[..], &[column, row]].concat();
        let (j, i) = (Var::new("column"), Var::new("row"));
        let over = [vars, &[j, i]].concat();
        let (j, i) = (j.expr(), i.expr());
        let steps = RDom::new(["rj", "ri", "rm"].map(|v| (v, 0, n)));
        let [rj, ri, rm] = [0, 1, 2].map(|v| steps.var(v));

        let zero = self.number(0.0);
        let entry = |i: usize, j: usize| if j <= i { self.at(i, j).clone() } else { zero.clone() };
        let row = |i: usize| Expr::mux(j.clone(), (0..self.n).map(|j| entry(i, j)));
        let last = Expr::mux(j.clone(), (0..self.n).map(|j| self.least_pivot(j)));
        let left = Expr::mux(i.clone(), (0..self.n).map(row).chain([last]));
        let left = Func::new(format!("Left{name}"), &over, vec![left]);
        let pivot_of = |f: &Func, m: &Expr| {
            let pivot = f.at(&at(m.clone(), m.clone()), 0).max(f.at(&at(m.clone(), Expr::from(n)), 0));
            self.number(1.0) / pivot
        };
        let here = left.at(&at(rj.clone(), ri.clone()), 0);
        let factor = left.at(&at(rm.clone(), rj.clone()), 0) * pivot_of(&left, &rm);
        let less = here - left.at(&at(rm.clone(), ri.clone()), 0) * factor;
        let below = steps.filter(rm.lt(&rj).and(rj.le(&ri)));
        let left = left.update(at(rj.clone(), ri.clone()), vec![less], below);

        let pivot = Func::new(format!("Pivot{name}"), &over[..over.len() - 1], vec![pivot_of(&left, &j)]);
        let pivot_at = |m: Expr| pivot.at(&[&element[..], &[m]].concat(), 0);

        let unit = Expr::select(i.eq_(&j), self.number(1.0), self.number(0.0));
        let inverse = Func::new(format!("Lower{name}"), &over, vec![unit]);
        let factor = left.at(&at(rm.clone(), ri.clone()), 0) * pivot_at(rm.clone());
        let here = inverse.at(&at(rj.clone(), ri.clone()), 0);
        let less = here - factor * inverse.at(&at(rj.clone(), rm.clone()), 0);
        // Row after row, each from those above it.
        let rows = RDom::new(["rj", "rm", "ri"].map(|v| (v, 0, n))).filter(rj.le(&rm).and(rm.lt(&ri)));
        let inverse = inverse.update(at(rj, ri), vec![less], rows);

        let w = |i: usize, j: usize| inverse.at(&at(Expr::from(j as i32), Expr::from(i as i32)), 0);
        let entry = |(i, j): (usize, usize)| {
            let products = (i.max(j)..self.n).map(|m| w(m, i) * pivot_at(Expr::from(m as i32)) * w(m, j));
            products.reduce(|x, y| x + y).expect("at least one term")
        };
        let entries = lower(self.n).map(entry).collect();
        beside.extend([inverse, pivot, left]);
        entries
    }
}
