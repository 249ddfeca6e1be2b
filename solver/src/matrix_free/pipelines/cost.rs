//! E, per residual group, and the number of residual instances that count.
//!
//! Output `energy`: a scalar tuple of float64, one per group and the count last.

use crate::matrix_free::draft::{Draft, all, no_direction};
use crate::matrix_free::scalars::{EnergyScalar, Scalar};
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::{Expr, ScalarType};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::model::Domain;

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "cost", Role::Master);
    let mut totals: Vec<Option<Expr>> = vec![None; k.energy.groups.len() + 1];
    let mut nest = None;
    for (i, domain) in k.domains().into_iter().enumerate() {
        let points = k.points(domain);
        let terms = terms(&d, domain, &points.coordinates);
        let present: Vec<usize> = (0..totals.len()).filter(|&g| terms[g].is_some()).collect();
        let terms = terms.into_iter().flatten().map(|t| (Op::Add, t)).collect();
        let f = d.reduce(&format!("cost{i}"), &points, terms);
        if let Domain::Space(space) = domain {
            d.skip_unless(&f, k.near_at(space, &points.coordinates));
            // Where this is the only nest, what is computed over its space is read there alone.
            nest = (k.domains().len() == 1).then(|| (space, f.name.clone()));
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
    let energy = d.func(What::Energy.of(()), &[], totals);
    d.output(&energy, What::Energy.of(()));
    d.finish_reading(vec![], nest)
}

/// Per scalar of the energy its share of one domain, at one point.
fn terms(d: &Draft, domain: Domain, at: &[Expr]) -> Vec<Option<Expr>> {
    let k = d.k;
    let residuals: Vec<usize> = k.residuals(domain).collect();
    // An instance that the boundary rule sets to 0 still counts.
    let roots = [k.instance_roots(Kind::Cost, domain), k.instance_roots(Kind::Counts, domain)].concat();
    let e = d.emit(&roots, k.place(domain, at.to_vec()), &no_direction);
    let (values, counts) = e.split_at(residuals.len());
    let mut terms: Vec<Option<Expr>> = vec![None; k.energy.groups.len() + 1];
    let mut add = |s: EnergyScalar, t: &Expr| {
        let (t, term) = (t.cast(ScalarType::F64), &mut terms[s.index(k)]);
        *term = Some(match term.take() {
            None => t,
            Some(old) => old + t,
        });
    };
    for ((r, value), counts) in residuals.into_iter().zip(values).zip(counts) {
        add(EnergyScalar::Group(k.energy.residuals[r].group), value);
        add(EnergyScalar::Count, counts);
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
