//! Every routine equals its dense counterpart.

use super::oracle::{Place, Problem, View};
use super::problems;
use crate::dag::{Dag, Evaluator, ExprId};
use crate::derive::template::directional;
use crate::derive::{Chain, Kind, Passes, Routine, Routines, Site, hoist, leads_on};
use crate::model::{Domain, Energy, SpaceId};
use std::collections::BTreeMap;

/// Per component of a space, per element.
type Table = BTreeMap<(SpaceId, usize), Vec<f64>>;

/// The dense oracle's J^T r, J^T J p, blocks, and the sums over instances.
struct Dense {
    gradient: Table,
    jtjp: Table,
    blocks: Table,
    /// r and J p of every counted instance, in the order of the instances.
    instances: Vec<(f64, f64)>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn dense(p: &mut Problem) -> Dense {
    let j = p.jacobian();
    let r = p.residuals();
    let jp: Vec<f64> = (0..r.len())
        .map(|row| {
            let per_unknown = j.iter().zip(&p.directions);
            per_unknown.flat_map(|(columns, d)| columns.iter().zip(d)).map(|(c, d)| c[row] * d).sum()
        })
        .collect();
    let mut out = Dense {
        gradient: Table::new(),
        jtjp: Table::new(),
        blocks: Table::new(),
        instances: r.iter().copied().zip(jp.iter().copied()).collect(),
    };
    for s in 0..p.energy.spaces.len() {
        let space = SpaceId(s as u32);
        for element in 0..p.elements(space) {
            let mut columns: Vec<&Vec<f64>> = Vec::new();
            for (u, field) in p.energy.unknowns.iter().enumerate().filter(|(_, f)| f.space == space) {
                let n = usize::from(field.channels);
                columns.extend(&j[u][element * n..(element + 1) * n]);
            }
            for (c, column) in columns.iter().enumerate() {
                out.gradient.entry((space, c)).or_default().push(dot(column, &r));
                out.jtjp.entry((space, c)).or_default().push(dot(column, &jp));
                for (d, other) in columns[..=c].iter().enumerate() {
                    let k = c * (c + 1) / 2 + d;
                    out.blocks.entry((space, k)).or_default().push(dot(column, other));
                }
            }
        }
    }
    out
}

fn evaluate(p: &Problem, routines: &Routines, roots: &[ExprId], place: Place) -> Vec<f64> {
    Evaluator::new(&routines.dag, roots).eval(&View { problem: p, place })
}

/// Evaluates the routines at every element and hyperedge and gathers them.
fn generated(p: &Problem, routines: &Routines) -> [Table; 3] {
    let mut out = [Table::new(), Table::new(), Table::new()];
    for (table, kind) in out.iter_mut().zip([Kind::Gradient, Kind::JtJp, Kind::Blocks]) {
        for r in routines.of(kind) {
            match r.site {
                Site::Element(space) => {
                    for element in 0..p.elements(space) {
                        let values = evaluate(p, routines, &r.roots, Place::Element(space, element));
                        for (c, v) in values.into_iter().enumerate() {
                            table.entry((space, c)).or_default().push(v);
                        }
                    }
                }
                Site::Slot(graph, slot) => {
                    let space = r.site.row_space(&p.energy).unwrap();
                    for (e, edge) in p.edges[graph.index()].iter().enumerate() {
                        let values = evaluate(p, routines, &r.roots, Place::Edge(graph, e));
                        for (c, v) in values.into_iter().enumerate() {
                            table.get_mut(&(space, c)).expect("a component")[edge[usize::from(slot)]] += v;
                        }
                    }
                }
                other => panic!("these problems have no rows at {other:?}"),
            }
        }
    }
    out
}

/// Same at every element that is not excluded.
fn assert_same(p: &Problem, what: &str, ours: &Table, theirs: &Table, tolerance: f64) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{what}");
    for (key, list) in ours {
        for (element, (a, b)) in list.iter().zip(&theirs[key]).enumerate() {
            if !p.excluded(key.0, element) {
                let close = (a - b).abs() <= tolerance * (1.0 + b.abs());
                assert!(close, "{what} {key:?} at {element}: {a} but {b}");
            }
        }
    }
}

/// J p of a residual as derived, not simplified, in a DAG of its own.
fn derived_jp(energy: &Energy, residual: usize) -> (Dag, ExprId) {
    let mut dag = energy.dag.clone();
    let partials = Chain::new(energy, &mut dag).partials(energy, &mut dag, energy.residuals[residual].value);
    let jp = directional(&mut dag, &partials);
    (dag, jp)
}

fn check(mut p: Problem) {
    let oracle = dense(&mut p);
    let assembled = Routines::assemble(&p.energy, Passes::ALL, &[]).unwrap();
    let simplified = Routines::build(&p.energy).unwrap();
    for routines in [&assembled, &simplified] {
        let [gradient, jtjp, blocks] = generated(&p, routines);
        assert_same(&p, "gradient", &gradient, &oracle.gradient, 1e-9);
        assert_same(&p, "jtjp", &jtjp, &oracle.jtjp, 1e-9);
        assert_same(&p, "blocks", &blocks, &oracle.blocks, 1e-9);
        let mut counted = BTreeMap::new();
        for ((residual, place), values) in p.instances().into_iter().zip(&oracle.instances) {
            counted.insert((residual, place), *values);
        }
        for residual in 0..p.energy.residuals.len() {
            let site = Site::Residual(residual);
            let roots = [Kind::Cost, Kind::Model, Kind::Counts].map(|kind| routines.roots(kind, site)[0]);
            let (dag, jp) = derived_jp(&p.energy, residual);
            let derived = Evaluator::new(&dag, &[jp]);
            for place in p.domain(p.energy.residuals[residual].domain) {
                let v = evaluate(&p, routines, &roots, place);
                let (r, jp) = counted.get(&(residual, place)).copied().unwrap_or_default();
                assert_eq!(v[2] != 0.0, p.reads_free(&p.energy.residuals[residual], place));
                assert!((v[0] - r * r).abs() <= 1e-12 * (1.0 + v[0]), "{} but {}", v[0], r * r);
                let model = jp * (2.0 * r + jp);
                assert!((v[1] - model).abs() <= 1e-9 * (1.0 + v[1].abs()), "{} but {model}", v[1]);
                let counts = counted.contains_key(&(residual, place));
                let jp = if counts { derived.eval(&View { problem: &p, place })[0] } else { 0.0 };
                let model = jp * (2.0 * r + jp);
                assert!((v[1] - model).abs() <= 1e-12 * (1.0 + v[1].abs()), "{} but {model}", v[1]);
            }
        }
    }
    check_hoisting(&mut p, &simplified);
}

/// Hoisted parts computed per element and read back give the same J^T J p.
fn check_hoisting(p: &mut Problem, routines: &Routines) {
    for r in routines.of(Kind::JtJp) {
        let domain = r.site.domain(&p.energy);
        check_hoisted_roots(p, routines, &r.roots, domain);
    }
}

fn check_hoisted_roots(p: &mut Problem, routines: &Routines, roots: &[ExprId], domain: Domain) {
    let mut dag = routines.dag.clone();
    let mut stored = Vec::new();
    let (hoisted, _) = hoist(&p.energy, &mut dag, roots, &mut stored, Passes::ALL, &|_, _| false);
    p.hoisted.clear();
    for Routine { site, roots: values, .. } in &stored {
        let evaluator = Evaluator::new(&dag, values);
        let domain = site.domain(&p.energy);
        let places = p.domain(domain);
        let data = places.into_iter().flat_map(|place| evaluator.eval(&View { problem: p, place })).collect();
        p.hoisted.insert(domain, (values.len(), data));
    }
    let (before, after) = (Evaluator::new(&dag, roots), Evaluator::new(&dag, &hoisted));
    for place in p.domain(domain) {
        let view = View { problem: p, place };
        for (a, b) in before.eval(&view).into_iter().zip(after.eval(&view)) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} but {b} at {place:?}");
        }
    }
}

#[test]
fn laplacian() {
    check(problems::laplacian());
}

#[test]
fn arap_image_with_exclude() {
    check(problems::arap_image());
}

#[test]
fn graph_with_coinciding_vertices_and_duplicates() {
    check(problems::graph());
}

#[test]
fn residuals_that_lift_the_boundary_rule() {
    check(problems::lifted());
}

/// Couplings equal J^T J between different elements, where both are free, and are 0 in J^T J where there is none.
fn check_couplings(mut p: Problem) {
    let mut routines = Routines::build(&p.energy).unwrap();
    routines.add_couplings(&p.energy, Passes::ALL).unwrap();
    let j = p.jacobian();
    for space in (0..p.energy.spaces.len() as u32).map(SpaceId) {
        let own: Vec<_> = (0..p.unknowns.len()).filter(|&u| p.energy.unknowns[u].space == space).collect();
        let column = |element: usize, c: usize| {
            let mut c = c;
            for &u in &own {
                let n = usize::from(p.energy.unknowns[u].channels);
                if c < n {
                    return &j[u][element * n + c];
                }
                c -= n;
            }
            panic!("no component {c}")
        };
        let n: usize = own.iter().map(|&u| usize::from(p.energy.unknowns[u].channels)).sum();
        let mut made = BTreeMap::new();
        if let Some(list) = routines.couplings.spaces.get(&space) {
            let roots = routines.roots(Kind::Couplings, Site::Element(space));
            for e in 0..p.elements(space) {
                let values = evaluate(&p, &routines, roots, Place::Element(space, e));
                for (coupling, value) in list.iter().zip(values) {
                    let Some(f) = p.neighbour(space, e, &coupling.offset) else { continue };
                    assert!(leads_on(&coupling.offset) && f > e);
                    made.insert((e, coupling.row, f, coupling.column), value);
                }
            }
        }
        // Graphs have no couplings: what they join is left out on both sides.
        let stencil: Vec<bool> =
            p.instances().iter().map(|(_, place)| matches!(place, Place::Element(..))).collect();
        let dot = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).zip(&stencil).filter(|(_, s)| **s).map(|((a, b), _)| a * b).sum::<f64>()
        };
        let free: Vec<usize> = (0..p.elements(space)).filter(|&e| !p.excluded(space, e)).collect();
        for (&e, &f) in free.iter().flat_map(|e| free.iter().map(move |f| (e, f))).filter(|(e, f)| f > e) {
            for (c, d) in (0..n).flat_map(|c| (0..n).map(move |d| (c, d))) {
                let expected = dot(column(e, c), column(f, d));
                let came = made.get(&(e, c, f, d)).copied().unwrap_or(0.0);
                let close = (came - expected).abs() <= 1e-9 * (1.0 + expected.abs());
                assert!(close, "A({e},{f})[{c},{d}] is {came}, not {expected}");
            }
        }
    }
}

#[test]
fn couplings_are_those_of_the_dense_jacobian() {
    for p in [problems::laplacian(), problems::arap_image(), problems::graph(), problems::lifted()] {
        check_couplings(p);
    }
}

#[test]
fn couplings_know_what_rows_read() {
    for (p, elements, pairs) in [(problems::laplacian(), 2, 2), (problems::arap_image(), 2, 12)] {
        let mut routines = Routines::build(&p.energy).unwrap();
        routines.add_couplings(&p.energy, Passes::ALL).unwrap();
        let count: usize = routines.couplings.spaces.values().map(Vec::len).sum();
        assert_eq!((routines.couplings.elements, count), (elements, pairs));
    }
}
