//! The sums over residual instances: which residuals are summed in one nest, and which nests make a pipeline.
//!
//! Residuals over one domain share the reads of a nest. But its body is one block of straight code, whose compile time grows faster than
//! its length, and it holds one accumulator per residual group; so long lists are cut into several nests, and these into several pipelines.

use std::collections::BTreeSet;
use sumsq_energy::dag::{Dag, ExprId, Node};
use sumsq_energy::derive::{Kind, Routines, Site, count_ops};
use sumsq_energy::model::{Domain, Energy, GroupId};

/// Residual groups that one pipeline sums at most: its accumulators.
const GROUPS: usize = 24;

/// Operations in one nest, as [`OpCount::weight`](sumsq_energy::derive::OpCount) counts them, from which on what follows goes to another
/// nest.
pub const OPERATIONS: u32 = 6000;

/// Residuals over one domain that are summed in one nest.
#[derive(Clone, PartialEq, Debug)]
pub struct Sum {
    /// The domain.
    pub domain: Domain,
    /// Their numbers, ascending; never empty.
    pub residuals: Vec<usize>,
    groups: BTreeSet<GroupId>,
}

/// Sums that one pipeline computes for the energy. Its output is a tuple: E of each group, then the number of instances that count.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Share {
    /// The sums.
    pub sums: Vec<Sum>,
    /// The residual groups that they are of, ascending.
    pub groups: Vec<GroupId>,
}

/// All sums of an energy: domains in order of first use, residuals in order of declaration. Every residual that reads an unknown is in one.
/// There is at least one share, which is empty where no residual reads an unknown. Domains that are `whole` are cut by groups alone.
pub fn shares(energy: &Energy, routines: &Routines, whole: impl Fn(Domain) -> bool) -> Vec<Share> {
    let mut shares = vec![Share::default()];
    for sum in sums(energy, routines, whole) {
        let last = shares.last_mut().expect("there is one");
        let all: BTreeSet<GroupId> = last.groups.iter().chain(&sum.groups).copied().collect();
        match all.len() <= GROUPS || last.sums.is_empty() {
            true => {
                last.groups = all.into_iter().collect();
                last.sums.push(sum);
            }
            false => {
                let groups = sum.groups.iter().copied().collect();
                shares.push(Share { sums: vec![sum], groups });
            }
        }
    }
    shares
}

fn sums(energy: &Energy, routines: &Routines, whole: impl Fn(Domain) -> bool) -> Vec<Sum> {
    let mut domains: Vec<(Domain, Vec<(usize, ExprId)>)> = vec![];
    for r in routines.of(Kind::Cost) {
        let Site::Residual(n) = r.site else { continue };
        let own = (n, r.roots[0]);
        let domain = energy.residuals[n].domain;
        match domains.iter_mut().find(|(d, _)| *d == domain) {
            Some((_, residuals)) => residuals.push(own),
            None => domains.push((domain, vec![own])),
        }
    }
    let most = |domain| if whole(domain) { u32::MAX } else { OPERATIONS };
    let cut = |(domain, residuals)| cut(energy, routines, (domain, residuals), most(domain));
    domains.into_iter().flat_map(cut).collect()
}

/// Cuts the residuals over one domain, behind so many operations.
fn cut(
    energy: &Energy,
    routines: &Routines,
    (domain, residuals): (Domain, Vec<(usize, ExprId)>),
    most: u32,
) -> Vec<Sum> {
    let mut all: Vec<Sum> = vec![];
    let mut operations = 0;
    for (n, root) in residuals {
        let group = energy.residuals[n].group;
        let full = |s: &Sum| s.groups.len() == GROUPS && !s.groups.contains(&group);
        if operations >= most || all.last().is_none_or(full) {
            all.push(Sum { domain, residuals: vec![], groups: BTreeSet::new() });
            operations = 0;
        }
        let sum = all.last_mut().expect("just pushed");
        sum.groups.insert(group);
        sum.residuals.push(n);
        operations = count_ops(&routines.dag, &[root]).weight().saturating_add(operations);
    }
    all
}

/// A sum of multiples of expressions.
pub type Terms = Vec<(f64, ExprId)>;

/// Pieces of few operations that `roots`, which are evaluated together, are cut into.
pub fn count(dag: &Dag, roots: &[ExprId]) -> usize {
    count_ops(dag, roots).weight().div_ceil(OPERATIONS).max(1) as usize
}

/// Cuts `roots`, which are evaluated together, where they are long sums: each of `count` pieces has the next terms of each root, and the pieces
/// of a root add up to it.
pub fn pieces(dag: &Dag, roots: &[ExprId], count: usize) -> Vec<Vec<Terms>> {
    let whole: Vec<Terms> = roots.iter().map(|&r| vec![(1.0, r)]).collect();
    if count <= 1 {
        return vec![whole];
    }
    let terms: Vec<Terms> =
        roots.iter().zip(whole).map(|(&r, whole)| terms(dag, r).unwrap_or(whole)).collect();
    let range = |len: usize, k: usize| k * len / count..(k + 1) * len / count;
    (0..count).map(|k| terms.iter().map(|t| t[range(t.len(), k)].to_vec()).collect()).collect()
}

/// The terms of a sum without a constant.
fn terms(dag: &Dag, root: ExprId) -> Option<Terms> {
    match dag.node(root) {
        Node::Sum { constant, terms } if constant.get() == 0.0 => {
            Some(terms.iter().map(|(c, t)| (c.get(), *t)).collect())
        }
        _ => None,
    }
}
