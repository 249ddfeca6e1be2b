//! Tests of the passes on known energies.

use super::problems;
use crate::dag::{Dag, Node, Source};
use crate::derive::{GroupStores, Kind, Passes, Routines, Site, count_ops, hoist, share_parts};
use crate::model::{Domain, ParamId, SpaceId};

const GRID: Site = Site::Element(SpaceId(0));

#[test]
fn passes_never_cost_operations() {
    for p in [problems::laplacian(), problems::arap_image(), problems::graph(), problems::lifted()] {
        let routines = Routines::build(&p.energy).unwrap();
        assert!(!routines.passes.is_empty());
        for pass in &routines.passes {
            for pair in pass.stages.windows(2) {
                assert!(pair[1].1.weight() <= pair[0].1.weight(), "{}: {pair:?}", pass.routine);
            }
        }
    }
}

#[test]
fn arap_keeps_a_cosine_and_a_sine_per_pixel() {
    let p = problems::arap_image();
    let routines = Routines::build(&p.energy).unwrap();
    let mut dag = routines.dag.clone();
    let (mut stored, jtjp) = (Vec::new(), routines.roots(Kind::JtJp, GRID));
    let (roots, _) = hoist(&p.energy, &mut dag, jtjp, &mut stored, Passes::ALL, &|_, _| false);
    assert_eq!(stored.len(), 1);
    let text: Vec<String> = stored[0].roots.iter().map(|&v| dag.display_with(v, &p.energy)).collect();
    assert_eq!(text, ["cos(Angle(0,0))", "sin(Angle(0,0))"]);
    let ops = count_ops(&dag, &roots);
    assert_eq!((ops.transcendental, ops.div), (0, 0));
    // The stored values are read under guards that imply their own bounds: no more conditions than before.
    let before = count_ops(&routines.dag, jtjp);
    assert!(ops.compare <= before.compare && ops.select <= before.select);
    let reads = roots.iter().flat_map(|&r| dag.accesses(r));
    assert!(reads.into_iter().any(|a| a.source == Source::Hoisted(Domain::Space(SpaceId(0)))));
}

#[test]
fn laplacian_is_as_small_as_by_hand() {
    let p = problems::laplacian();
    let routines = Routines::build(&p.energy).unwrap();
    let jtjp = routines.roots(Kind::JtJp, GRID)[0];
    // By hand: w^2 p + four guarded differences: w*w, *p, 4 subtractions, 4 additions.
    let ops = count_ops(&routines.dag, &[jtjp]);
    assert_eq!((ops.add, ops.mul, ops.div, ops.select, ops.loads), (8, 2, 0, 4, 5));
    let block = routines.roots(Kind::Blocks, GRID)[0];
    assert!(routines.dag.accesses(block).is_empty());
    assert!(!matches!(routines.dag.node(block), Node::Const(_)));
}

/// Stored values are 0 where a stencil has no instance: J^T needs no guard there, where its entry is the same everywhere.
#[test]
fn stored_products_are_read_without_guards() {
    let p = problems::laplacian();
    let stores = GroupStores { product: true, residual: true, ..GroupStores::default() };
    let groups = vec![stores; p.energy.residuals.len()];
    let routines = Routines::build_with(&p.energy, Passes::ALL, &groups).unwrap();
    for kind in [Kind::JtJp, Kind::Gradient] {
        let ops = count_ops(&routines.dag, routines.roots(kind, GRID));
        assert_eq!((ops.select, ops.compare), (0, 0), "{kind:?}");
    }
    // An entry that depends on the element may have no value where there is no instance.
    let p = problems::arap_image();
    let groups = vec![stores; p.energy.residuals.len()];
    let routines = Routines::build_with(&p.energy, Passes::ALL, &groups).unwrap();
    assert!(count_ops(&routines.dag, routines.roots(Kind::JtJp, GRID)).select > 0);
}

#[test]
fn products_and_sums_share_their_parts() {
    let mut dag = Dag::new();
    let [a, b, c, d] = [0, 1, 2, 3].map(|p| dag.param(ParamId(p), 0));
    // a*b*c, a*b*d, (a - b + c), 2*(d - a + b), c/d, a/d, b/d: named are a*b, a - b and 1/d.
    let abc = dag.product(1.0, &[(a, 1), (b, 1), (c, 1)]);
    let abd = dag.product(1.0, &[(a, 1), (b, 1), (d, 1)]);
    let plus = dag.sum(0.0, &[(1.0, a), (-1.0, b), (1.0, c)]);
    let minus = dag.sum(0.0, &[(-1.0, a), (1.0, b), (1.0, d)]);
    let quotients = [a, b, c].map(|n| dag.div(n, d));
    let mut roots = vec![abc, abd, plus, minus];
    roots.extend(quotients);
    let shared = share_parts(&mut dag, &roots);
    let (before, after) = (count_ops(&dag, &roots), count_ops(&dag, &shared));
    assert_eq!((before.add, before.mul, before.div), (4, 4, 3));
    assert_eq!((after.add, after.mul, after.div), (3, 6, 1));
}
