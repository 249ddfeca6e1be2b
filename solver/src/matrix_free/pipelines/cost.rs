//! E, per residual group, and the number of residual instances that count.
//!
//! Output `energy`: a scalar tuple of float64, one per group and the count last.

use crate::matrix_free::domain::fields::all;
use crate::matrix_free::schedule::reduce::{Op, reduce, skip_unless};
use crate::matrix_free::{Scheduled, Skeleton};
use sumsq_codegen::{Expr, Func, Pipeline, ScalarType, Schedule};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::model::Domain;

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Scheduled {
    let (mut p, mut s) = (Pipeline::new("cost"), Schedule::new());
    let groups = k.energy.groups.len();
    let mut totals: Vec<Option<Expr>> = vec![None; groups + 1];
    let mut nest = None;
    for (i, domain) in k.domains().into_iter().enumerate() {
        let points = k.points(domain);
        let terms = terms(k, domain, &points.coordinates);
        let present: Vec<usize> = (0..=groups).filter(|&g| terms[g].is_some()).collect();
        let terms = terms.into_iter().flatten().map(|t| (Op::Add, t)).collect();
        let (f, loops) = reduce(&mut p, &mut s, &format!("cost{i}"), &points, terms);
        if let Domain::Space(space) = domain {
            skip_unless(&mut s, &loops.vector, k.near_at(space, &points.coordinates));
            // Where this is the only nest, what is computed over its space is read there alone.
            nest = (k.domains().len() == 1).then_some((space, loops));
        }
        for (g, e) in present.into_iter().zip(all(&f, &[])) {
            totals[g] = Some(match totals[g].take() {
                None => e,
                Some(t) => t + e,
            });
        }
    }
    let zero = || Expr::float(ScalarType::F64, 0.0);
    let energy =
        p.func(Func::new("energy", &[], totals.into_iter().map(|t| t.unwrap_or_else(zero)).collect()));
    p.output(&energy);
    k.complete_within(&mut p, &mut s, k.master, nest.as_ref());
    (p, s)
}

/// Per group the sum of the costs of its residuals in one domain, then the count, at one point.
fn terms(k: &Skeleton, domain: Domain, at: &[Expr]) -> Vec<Option<Expr>> {
    let groups = k.energy.groups.len();
    let residuals: Vec<usize> = k.residuals(domain).collect();
    // An instance that the boundary rule sets to 0 still counts.
    let roots = [k.instance_roots(Kind::Cost, domain), k.instance_roots(Kind::Counts, domain)].concat();
    let none = |_, _: usize, _: &[Expr]| unreachable!("the cost reads no direction");
    let e = k.emit(&roots, k.master, k.place(domain, at.to_vec()), &none);
    let (values, counts) = e.split_at(residuals.len());
    let mut terms: Vec<Option<Expr>> = vec![None; groups + 1];
    let mut add = |g: usize, t: Expr| {
        let t = t.cast(ScalarType::F64);
        terms[g] = Some(match terms[g].take() {
            None => t,
            Some(old) => old + t,
        });
    };
    for ((r, value), counts) in residuals.into_iter().zip(values).zip(counts) {
        add(k.energy.residuals[r].group.index(), value.clone());
        add(groups, counts.clone());
    }
    terms
}

impl Skeleton {
    /// The domains that have residuals, in order of first use.
    pub fn domains(&self) -> Vec<Domain> {
        let mut domains = vec![];
        for d in self.routines.of(Kind::Cost).map(|r| r.site.domain(&self.energy)) {
            if !domains.contains(&d) {
                domains.push(d);
            }
        }
        domains
    }

    /// The residuals over a domain that have routines.
    fn residuals(&self, domain: Domain) -> impl Iterator<Item = usize> {
        let own = self.routines.of(Kind::Cost).filter_map(|r| match r.site {
            Site::Residual(n) => Some(n),
            _ => None,
        });
        own.filter(move |&n| self.energy.residuals[n].domain == domain)
    }

    /// One root per residual over a domain.
    pub fn instance_roots(&self, kind: Kind, domain: Domain) -> Vec<ExprId> {
        let own = self.residuals(domain).flat_map(|n| self.routines.roots(kind, Site::Residual(n)));
        own.copied().collect()
    }
}
