//! A on the coarser levels, per damping, and the smoothers that are made of it.

use crate::matrix_free::draft::{Draft, coordinates};
use crate::matrix_free::params::Number;
use crate::matrix_free::preconditioner::hierarchy::galerkin::level_points;
use crate::matrix_free::preconditioner::hierarchy::pattern::{Stored, is_own};
use crate::matrix_free::preconditioner::hierarchy::shape::Of;
use crate::matrix_free::preconditioner::hierarchy::{Grid, marks, scheduled};
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::schedule::{Pairs, Strip};
use crate::matrix_free::skeleton::{Scheduled, Span};
use crate::matrix_free::vectors::Role;
use sumsq_codegen::{Expr, Func, ScalarType};

/// The diagonal pairs of A on every coarser level: those of J^T J, and D times what has become of it since it was linearised.
pub fn damped(grid: Grid) -> Vec<Scheduled> {
    let (k, pairs) = (grid.k, &grid.of.pairs);
    let mut d = Draft::new(k, grid.name("damped"), Role::Linear);
    let (vars, scale) = (grid.pair_vars(), Number::DampingScale.expr(k.linear));
    let (at, mut behind) = (coordinates(&vars), coordinates(&vars));
    let pair = behind.len() - 1;
    behind[pair] = &behind[pair] + pairs.list().len() as i64;
    for ((matrix, id), ways) in grid.matrix().into_iter().zip(grid.diagonal()).zip(grid.pattern().parts()) {
        d.input(matrix);
        let value = |i| d.element(matrix, &at, i) + d.element(matrix, &behind, i) * &scale;
        let f = d.func(id, &vars, (0..ways.len()).map(value).collect());
        d.output(&f, id);
        d.map_pairs(&f, Strip::Level(grid.space.id, grid.level), Pairs::First);
        marks::skip(&mut d, &grid, &f, &grid.at());
    }
    scheduled(d, Span::Behind(grid.space.id))
}

/// An entry of A at an element of a coarser level, by its way and the number of its pair; `None`: 0 everywhere.
pub fn entry(d: &Draft, grid: &Grid, way: &[i32], pair: usize, at: &[Expr]) -> Option<Expr> {
    let pairs = &grid.of.pairs;
    let Stored { part, channel, transposed } = grid.pattern().find(way)?;
    let (row, column) = pairs.list()[pair];
    let (mut there, mut number) = (at.to_vec(), pair);
    if transposed || (is_own(way) && row < column) {
        there.iter_mut().zip(way).for_each(|(x, &o)| *x = x.clone() + i64::from(o));
        number = pairs.transposed(pair);
    }
    there.push(Expr::from(number as i32));
    let of = if row == column { Of::Diagonal(part) } else { Of::Matrix(part) };
    Some(d.element(grid.id(of), &there, channel))
}

/// Declares A of a coarser level.
pub fn declare(d: &mut Draft, grid: &Grid) {
    grid.diagonal().into_iter().for_each(|part| drop(d.input(part)));
    if grid.of.pairs.list().len() > grid.space.components {
        grid.matrix().into_iter().for_each(|part| drop(d.input(part)));
    }
}

/// The smoother of a coarser level: w over its diagonal.
pub fn smoother(grid: Grid) -> Vec<Scheduled> {
    let (k, components, pairs) = (grid.k, grid.space.components, grid.of.pairs.list());
    let mut d = Draft::new(k, grid.name("smoother"), Role::Linear);
    declare(&mut d, &grid);
    let number = |v| Expr::float(k.linear, v);
    let own = vec![0; grid.space.dims];
    let diagonal = |d: &Draft, c, at: &[Expr]| entry(d, &grid, &own, c, at).expect("the diagonal is stored");
    let strip = Strip::Level(grid.space.id, grid.level);
    let root = |c| {
        let a = diagonal(&d, c, &grid.at());
        Expr::select(a.gt(number(0.0)), number(1.0) / a.sqrt(), number(0.0))
    };
    let roots = d.p.func(Func::new("roots", &grid.vars(), (0..components).map(root).collect()));
    let points = level_points(&grid);
    let at = &points.coordinates;
    let row = |c: usize| {
        let terms = grid.pattern().full().into_iter().flat_map(|way| {
            let there: Vec<Expr> = at.iter().zip(&way).map(|(x, &o)| x + i64::from(o)).collect();
            let (d, roots) = (&d, &roots);
            let own = pairs.iter().enumerate().filter(move |(_, (row, _))| *row == c);
            let terms = own.map(|(pair, &(_, column))| {
                let value = entry(d, &grid, &way, pair, at).expect("a way of the level");
                value.abs() * roots.at(&there, column)
            });
            terms.collect::<Vec<Expr>>()
        });
        terms.reduce(|a, b| a + b).expect("the diagonal") * roots.at(at, c)
    };
    let largest = (0..components).map(row).reduce(|a, b| a.max(b)).expect("a component");
    let largest = largest.cast(ScalarType::F64);
    let scalar = d.reduce(&grid.id(Of::Bound).to_string(), &points, vec![(Op::Max, largest)]);
    marks::skip(&mut d, &grid, &scalar, at);
    d.map(&roots, strip);
    marks::skip(&mut d, &grid, &roots, &grid.at());
    d.output(&scalar, grid.id(Of::Bound));
    let f64 = |v| Expr::float(ScalarType::F64, v);
    // 1/diag may be more than float32 holds.
    let limit = if k.linear == ScalarType::F32 { f64::from(f32::MAX) } else { f64::MAX };
    let value = |c: usize| {
        let own = diagonal(&d, c, &grid.at()).cast(ScalarType::F64);
        let inverse = (f64(4.0 / 3.0) / (scalar.at(&[], 0) * own.clone())).min(f64(limit));
        Expr::select(own.gt(f64(0.0)), inverse, f64(0.0)).cast(k.linear)
    };
    let f = d.func(grid.id(Of::Smoother), &grid.vars(), (0..components).map(value).collect());
    d.output(&f, grid.id(Of::Smoother));
    d.map(&f, strip);
    marks::skip(&mut d, &grid, &f, &grid.at());
    scheduled(d, grid.level_span())
}
