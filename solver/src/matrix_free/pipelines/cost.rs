//! E, per residual group, and the number of residual instances that count.
//!
//! Outputs `energy`, `energy1`, ..: a scalar tuple of float64 per share of the sums, see [`Share`].

use crate::matrix_free::draft::{Draft, all, no_direction};
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::sums::{Share, Sum};
use crate::matrix_free::vectors::{Over, Role, What};
use sumsq_codegen::{Expr, ScalarType};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::model::Domain;

/// The pipelines, one per share of the sums.
pub fn pipelines(k: &Skeleton) -> Vec<Scheduled> {
    k.shares.iter().enumerate().flat_map(|(number, share)| pipeline(k, number, share)).collect()
}

fn pipeline(k: &Skeleton, number: usize, share: &Share) -> Vec<Scheduled> {
    let name = if number == 0 { "cost".to_string() } else { format!("cost_{number}") };
    let mut d = Draft::new(k, name, Role::Master);
    let mut totals: Vec<Option<Expr>> = vec![None; share.groups.len() + 1];
    let mut nest = None;
    for (i, sum) in share.sums.iter().enumerate() {
        let points = k.points(sum.domain);
        let terms = terms(&d, share, sum, &points.coordinates);
        let present: Vec<usize> = (0..totals.len()).filter(|&g| terms[g].is_some()).collect();
        let terms = terms.into_iter().flatten().map(|t| (Op::Add, t)).collect();
        let f = d.reduce(&format!("cost{i}"), &points, terms);
        if let Domain::Space(space) = sum.domain {
            d.skip_unless(&f, k.near_at(space, &points.coordinates));
            // Where this is the only nest, what is computed over its space is read there alone.
            nest = (share.sums.len() == 1).then(|| (space, f.name.clone()));
        }
        for (g, e) in present.into_iter().zip(all(&f, &[])) {
            totals[g] = Some(match totals[g].take() {
                None => e,
                Some(t) => t + e,
            });
        }
    }
    let zero = || Expr::float(ScalarType::F64, 0.0);
    let totals = totals.into_iter().map(|t| t.unwrap_or_else(zero)).collect();
    let id = What::Energy.of(Over::Share(number));
    let energy = d.func(id, &[], totals);
    d.output(&energy, id);
    d.finish_reading(vec![], nest)
}

/// Per scalar of a share what one of its sums has for it, at one point.
fn terms(d: &Draft, share: &Share, sum: &Sum, at: &[Expr]) -> Vec<Option<Expr>> {
    let k = d.k;
    // An instance that the boundary rule sets to 0 still counts.
    let roots = [k.instance_roots(Kind::Cost, sum), k.instance_roots(Kind::Counts, sum)].concat();
    let e = d.emit(&roots, k.place(sum.domain, at.to_vec()), &no_direction);
    let (values, counts) = e.split_at(sum.residuals.len());
    let mut terms: Vec<Option<Expr>> = vec![None; share.groups.len() + 1];
    let mut add = |index: usize, t: &Expr| {
        let (t, term) = (t.cast(ScalarType::F64), &mut terms[index]);
        *term = Some(match term.take() {
            None => t,
            Some(old) => old + t,
        });
    };
    for ((&r, value), counts) in sum.residuals.iter().zip(values).zip(counts) {
        let group = k.energy.residuals[r].group;
        let index = share.groups.binary_search(&group).expect("a share has the groups of its sums");
        add(index, value);
        add(share.groups.len(), counts);
    }
    terms
}

impl Skeleton {
    /// One root per residual of a sum.
    pub fn instance_roots(&self, kind: Kind, sum: &Sum) -> Vec<ExprId> {
        let own = sum.residuals.iter().flat_map(|&n| self.routines.roots(kind, Site::Residual(n)));
        own.copied().collect()
    }
}
