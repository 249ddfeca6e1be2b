//! A cycle: what the coarser levels make of r, once per PCG iteration.
//!
//! On additive levels r goes down as it is, and what comes up is added to one smoothing. The others smooth before, send down what is left of
//! r, add what comes up and smooth again; from 0 the first smoothing is S r, so nothing of it is kept.

use crate::matrix_free::draft::{Draft, all};
use crate::matrix_free::preconditioner::hierarchy::galerkin::{level_points, weight};
use crate::matrix_free::preconditioner::hierarchy::shape::Of;
use crate::matrix_free::preconditioner::hierarchy::smoother::{declare, entry};
use crate::matrix_free::preconditioner::hierarchy::{Grid, marks, scheduled};
use crate::matrix_free::preconditioner::is_not_zero;
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::{Scheduled, Span};
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::{Expr, Func, RDom, ScalarType};

/// A vector: its components at an element.
type Read<'r> = &'r dyn Fn(&[Expr]) -> Vec<Expr>;

/// r of level 1.
pub fn restrict_finest(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("restrict"), Role::Linear);
    let dr = What::DR.of(grid.space.id);
    d.input(dr);
    let halo = &grid.k.halos[grid.space.id.index()];
    let values = {
        let d = &d;
        restricted(&grid, &|at| {
            // Where nothing beyond the domain may be read along a dim.
            let (mut near, mut there) = (at.to_vec(), vec![]);
            for dim in (0..at.len()).filter(|&dim| halo[dim] == 0) {
                let last = grid.extent(dim) - 1;
                there.push(at[dim].ge(Expr::from(0)).and(at[dim].le(last.clone())));
                near[dim] = at[dim].max(Expr::from(0)).min(last);
            }
            let r = d.all(dr, &near).split_off(grid.space.components);
            let there = there.into_iter().reduce(|a, b| a.and(b));
            let zero = |r: &Expr| Expr::float(r.ty().scalar, 0.0);
            let kept = |r: Expr| {
                there.as_ref().map_or(r.clone(), |on| Expr::select(on.clone(), r.clone(), zero(&r)))
            };
            r.into_iter().map(kept).collect()
        })
    };
    write(d, &grid.next(), Of::Residual, values, None, Span::Once)
}

/// r of the level behind an additive one.
pub fn restrict(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("restrict"), Role::Linear);
    d.input(grid.id(Of::Residual));
    let values = restricted(&grid, &|at| d.all(grid.id(Of::Residual), at));
    write(d, &grid.next(), Of::Residual, values, None, grid.span(1, grid.of.additive, false))
}

/// r of the level behind one that smooths first: P^T (r - A S r).
pub fn down(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("down"), Role::Linear);
    inputs(&mut d, &grid, &[Of::Smoother, Of::Residual]);
    declare(&mut d, &grid);
    let at = grid.at();
    let rest = rest(&d, &grid, &|at| smoothed(&d, &grid, at), &at);
    let rest = d.p.func(Func::new("rest", &grid.vars(), rest));
    let values = restricted(&grid, &|at| all(&rest, at));
    write(
        d,
        &grid.next(),
        Of::Residual,
        values,
        Some((&grid, rest)),
        grid.span(grid.of.additive, u8::MAX, false),
    )
}

/// The correction of a level that smooths first and last.
pub fn up(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("up"), Role::Linear);
    inputs(&mut d, &grid, &[Of::Smoother, Of::Residual]);
    declare(&mut d, &grid);
    inputs(&mut d, &grid.next(), &[Of::Correction]);
    let at = grid.at();
    let first = added(&d, &grid, &at);
    let first = d.p.func(Func::new("first", &grid.vars(), first));
    let rest = rest(&d, &grid, &|at| all(&first, at), &at);
    let smoother = d.all(grid.id(Of::Smoother), &at);
    let again = smoother.into_iter().zip(rest).map(|(s, r)| s * r);
    let values = all(&first, &at).into_iter().zip(again).map(|(e, again)| e + again).collect();
    write(d, &grid, Of::Correction, values, Some((&grid, first)), grid.span(grid.of.additive, u8::MAX, true))
}

/// The correction of an additive level.
pub fn add(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("add"), Role::Linear);
    inputs(&mut d, &grid, &[Of::Smoother, Of::Residual]);
    inputs(&mut d, &grid.next(), &[Of::Correction]);
    let values = added(&d, &grid, &grid.at());
    write(d, &grid, Of::Correction, values, None, grid.span(1, grid.of.additive, true))
}

/// The correction of the coarsest level: its inverse times r.
pub fn solve(grid: Grid) -> Vec<Scheduled> {
    let (k, components) = (grid.k, grid.space.components);
    let mut d = Draft::new(k, grid.name("solve"), Role::Linear);
    inputs(&mut d, &grid, &[Of::Residual]);
    let inverse = super::Grid { level: 0, ..grid }.id(Of::Inverse);
    d.input(inverse);
    let (vars, at) = (grid.vars(), grid.at());
    let names = (0..vars.len()).map(|dim| format!("r{dim}"));
    let rdom = RDom::new(names.enumerate().map(|(dim, v)| (v, Expr::from(0), grid.extent(dim))));
    let there: Vec<Expr> = (0..vars.len()).map(|dim| rdom.var(dim)).collect();
    let number = (0..vars.len()).rev().fold(Expr::from(0), |n, dim| n * grid.extent(dim) + &there[dim]);
    let f64 = ScalarType::F64;
    let mut sum = Func::new("sum", &vars, vec![Expr::float(f64, 0.0); components]);
    let r: Vec<Expr> = d.all(grid.id(Of::Residual), &there).into_iter().map(|r| r.cast(f64)).collect();
    let row = |c: usize| {
        let terms = (0..components).map(|other| {
            let column = &number * (components as i64) + other as i64;
            let at: Vec<Expr> = at.iter().cloned().chain([column]).collect();
            d.element(inverse, &at, c) * &r[other]
        });
        terms.fold(sum.at(&at, c), |a, b| a + b)
    };
    let values = (0..components).map(row).collect();
    sum = d.p.func(sum.update(at.clone(), values, rdom));
    let values: Vec<Expr> = all(&sum, &at).into_iter().map(|e| e.cast(k.linear)).collect();
    let f = d.func(grid.id(Of::Correction), &vars, values);
    d.output(&f, grid.id(Of::Correction));
    d.map(&f, Strip::Level(grid.space.id, grid.level));
    d.registers_in(&f, &sum);
    scheduled(d, Span::Coarsest(grid.space.id))
}

/// P e of the next level at an element; any number out of the domain. An element between two reads both, any other its parent twice; the last
/// one behind its only parent finds 0 beyond it, which doubling makes up for. No coordinate is clamped: lanes read rows.
pub fn interpolated(d: &Draft, grid: &Grid, at: &[Expr]) -> Vec<Expr> {
    let next = grid.next();
    let number = |v| Expr::float(grid.k.linear, v);
    let (mut corners, mut share) = (vec![vec![]], number(0.5f64.powi(at.len() as i32)));
    for (dim, x) in at.iter().enumerate() {
        let sides = [x / 2i64, (x + 1i64) / 2i64];
        let beyond = sides[1].ge(next.extent(dim));
        share = share * Expr::select(beyond, number(2.0), number(1.0));
        let with = |corner: &Vec<Expr>, side: &Expr| corner.iter().cloned().chain([side.clone()]).collect();
        corners =
            corners.iter().flat_map(|corner| sides.iter().map(move |side| with(corner, side))).collect();
    }
    let sum = |c: usize| {
        let terms = corners.iter().map(|corner| d.element(next.id(Of::Correction), corner, c));
        terms.reduce(|a, b| a + b).expect("there are corners") * &share
    };
    (0..grid.space.components).map(sum).collect()
}

/// r.e of a level, float64.
pub fn product(d: &mut Draft, grid: &Grid) -> Expr {
    inputs(d, grid, &[Of::Residual, Of::Correction]);
    let points = level_points(grid);
    let at = &points.coordinates;
    let both = d.all(grid.id(Of::Residual), at).into_iter().zip(d.all(grid.id(Of::Correction), at));
    let products = both.map(|(r, e)| r.cast(ScalarType::F64) * e.cast(ScalarType::F64));
    let term = products.reduce(|a, b| a + b).expect("at least one component");
    let sum = d.reduce(&grid.name("product"), &points, vec![(Op::Add, term)]);
    marks::skip(d, grid, &sum, at);
    sum.at(&[], 0)
}

fn inputs(d: &mut Draft, grid: &Grid, of: &[Of]) {
    of.iter().for_each(|&of| drop(d.input(grid.id(of))));
}

/// P^T v at an element of the next level.
fn restricted(grid: &Grid, v: Read) -> Vec<Expr> {
    let (next, at) = (grid.next(), grid.at());
    let mut children: Vec<(Vec<Expr>, Option<Expr>)> = vec![(vec![], None)];
    for (dim, x) in at.iter().enumerate() {
        let child = |(of, w): &(Vec<Expr>, Option<Expr>), a: i32| {
            let at = of.iter().cloned().chain([x * 2i64 + i64::from(a)]).collect();
            let own = weight(&next, dim, x, a);
            (at, w.iter().cloned().chain(own).reduce(|a, b| a * b))
        };
        children = children.iter().flat_map(|of| (-1..=1).map(move |a| child(of, a))).collect();
    }
    let terms = children.into_iter().map(|(at, w)| {
        let v = v(&at);
        v.into_iter().map(|v| w.as_ref().map_or(v.clone(), |w| &v * w)).collect::<Vec<Expr>>()
    });
    let add = |a: Vec<Expr>, b: Vec<Expr>| a.into_iter().zip(b).map(|(a, b)| a + b).collect();
    terms.reduce(add).expect("an element has children")
}

/// S r at an element.
fn smoothed(d: &Draft, grid: &Grid, at: &[Expr]) -> Vec<Expr> {
    let r = d.all(grid.id(Of::Residual), at);
    d.all(grid.id(Of::Smoother), at).into_iter().zip(r).map(|(s, r)| s * r).collect()
}

/// S r + P e, 0 where a scalar takes no part.
fn added(d: &Draft, grid: &Grid, at: &[Expr]) -> Vec<Expr> {
    let smoother = d.all(grid.id(Of::Smoother), at);
    let both = smoothed(d, grid, at).into_iter().zip(interpolated(d, grid, at)).map(|(s, e)| s + e);
    let zero = Expr::float(grid.k.linear, 0.0);
    both.zip(smoother).map(|(v, s)| Expr::select(is_not_zero(&s), v, zero.clone())).collect()
}

/// r - A v at an element.
fn rest(d: &Draft, grid: &Grid, v: Read, at: &[Expr]) -> Vec<Expr> {
    let mut rest = d.all(grid.id(Of::Residual), at);
    for way in grid.pattern().full() {
        let there: Vec<Expr> = at.iter().zip(&way).map(|(x, &o)| x + i64::from(o)).collect();
        let v = v(&there);
        for (pair, &(row, column)) in grid.of.pairs.list().iter().enumerate() {
            let a = entry(d, grid, &way, pair, at).expect("a way of the level");
            rest[row] = &rest[row] - a * &v[column];
        }
    }
    rest
}

/// The pipeline that writes a vector of a level; `kept` is a Func, of a level, that it reads at several places.
fn write(
    mut d: Draft,
    grid: &Grid,
    of: Of,
    values: Vec<Expr>,
    kept: Option<(&Grid, Func)>,
    span: Span,
) -> Vec<Scheduled> {
    let f = d.func(grid.id(of), &grid.vars(), values);
    d.output(&f, grid.id(of));
    let strip = Strip::Level(grid.space.id, grid.level);
    d.map(&f, strip);
    marks::skip(&mut d, grid, &f, &grid.at());
    if let Some((of, f)) = kept {
        d.map(&f, strip);
        marks::skip(&mut d, of, &f, &of.at());
    }
    scheduled(d, span)
}
