//! A on every level, per damping, and what follows from it.

use crate::matrix_free::draft::{Draft, no_direction};
use crate::matrix_free::preconditioner::M;
use crate::matrix_free::preconditioner::diagonal;
use crate::matrix_free::preconditioner::hierarchy::Grid;
use crate::matrix_free::preconditioner::hierarchy::pattern::{Entry, PART, coarsened, ways};
use crate::matrix_free::preconditioner::hierarchy::shape::Of;
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::schedule::reduce::{Op, Points};
use crate::matrix_free::skeleton::{Scheduled, Span};
use crate::matrix_free::vectors::{Role, What};
use std::collections::BTreeMap;
use sumsq_codegen::{Expr, Func, RDom, ScalarType};
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::emit::Place;
use sumsq_energy::model::Domain;

/// A on level 0: the diagonal blocks of J^T J as they come with g, D, and the couplings; 0 in the rows and columns of scalars that take no
/// part.
pub fn finest(m: M, grid: Grid) -> Vec<Scheduled> {
    let (k, space) = (grid.k, grid.space);
    let mut d = Draft::new(k, grid.name("stencil"), Role::Master);
    let gb = d.input(What::GradientAndBlocks.of(space.id));
    if !space.inline_diagonal {
        d.input(What::M { kind: m.kind, field: 0 }.of(space.id));
        d.input(What::Damp.of(space.id));
    }
    let at = grid.at();
    let roots = k.routines.roots(Kind::Couplings, Site::Element(space.id));
    let values = d.emit(roots, Place::Element(space.id, at.clone()), &no_direction);
    let couplings = &k.routines.couplings.spaces[&space.id];
    let couplings: BTreeMap<Entry, Expr> = couplings
        .iter()
        .zip(values)
        .map(|(c, v)| (Entry { offset: c.offset.to_vec(), row: c.row, column: c.column }, v))
        .collect();
    let damp = match space.inline_diagonal {
        true => diagonal::computed(&d, space, &at).damp,
        false => d.all(What::Damp.of(space.id), &at),
    };
    let values = grid.pattern().entries().iter().map(|entry| {
        let value = match entry.is_own() {
            true => {
                let kept = space.kept_at(entry.row, entry.column).expect("the blocks are kept");
                gb.at(&at, space.components + kept)
            }
            false => couplings[entry].clone(),
        };
        let value = match entry.is_diagonal() {
            true => value.cast(k.master) + damp[entry.row].cast(k.master),
            false => value,
        };
        let there: Vec<Expr> = at.iter().zip(&entry.offset).map(|(x, &o)| x + i64::from(o)).collect();
        let mut both = m.of.takes_part(&m.at(&d, space, &at), entry.row);
        if !entry.is_diagonal() {
            both = both.and(m.of.takes_part(&m.at(&d, space, &there), entry.column));
        }
        // Where M^-1 is computed it is not 0 out of the domain.
        if space.inline_diagonal {
            both = inside(&grid, &there).into_iter().fold(both, |both, on| both.and(on));
        }
        Expr::select(both, value.cast(k.linear), Expr::float(k.linear, 0.0))
    });
    let values: Vec<Expr> = values.collect();
    for (id, values) in grid.matrix().into_iter().zip(values.chunks(PART)) {
        let f = d.func(id, &grid.vars(), values.to_vec());
        d.output(&f, id);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.skip_unless(&f, k.live_at(space.id, &at));
    }
    d.finish_at_x()
}

/// Conditions: whether an element lies in the domain.
pub fn inside(grid: &Grid, at: &[Expr]) -> Vec<Expr> {
    let along = |(dim, x): (usize, &Expr)| x.ge(Expr::from(0)).and(x.lt(grid.extent(dim)));
    at.iter().enumerate().map(along).collect()
}

/// A on the next level, P^T A P: one dim after the other.
pub fn coarsen(grid: Grid) -> Vec<Scheduled> {
    let (k, next, dims) = (grid.k, grid.next(), grid.space.dims);
    let mut d = Draft::new(k, grid.name("galerkin"), Role::Linear);
    grid.matrix().into_iter().for_each(|part| drop(d.input(part)));
    let vars = grid.vars();
    let strip = Strip::Level(next.space.id, next.level);
    let mut entries = grid.pattern().full();
    let mut before: Vec<Func> = vec![];
    let mut made = vec![];
    for dim in 0..dims {
        let last = dim + 1 == dims;
        let wanted = match last {
            true => next.pattern().entries().to_vec(),
            false => coarsened(&entries, dim),
        };
        let at = grid.at();
        let entry_at = |entry: &Entry, at: &[Expr]| match dim {
            0 => stored(&d, &grid, entry, at),
            _ => entries.binary_search(entry).ok().map(|i| before[i / PART].at(at, i % PART)),
        };
        let value = |wanted: &Entry| {
            let terms = entries.iter().filter(|e| beside(e, wanted, dim)).flat_map(|e| {
                let all = ways(e.offset[dim]).filter(|(_, o, _)| *o == wanted.offset[dim]);
                all.map(|(a, o, b)| term(&next, (e, dim), (a, o, b), &at, &entry_at)).collect::<Vec<_>>()
            });
            let sum = terms.flatten().reduce(|x, y| x + y).unwrap_or_else(|| Expr::float(k.linear, 0.0));
            // A last element may be the child of a parent that is not there.
            let there = &at[dim] + i64::from(wanted.offset[dim]);
            let exists = there.ge(Expr::from(0)).and(there.lt(next.extent(dim)));
            match wanted.offset[dim] {
                0 => sum,
                _ => Expr::select(exists, sum, Expr::float(k.linear, 0.0)),
            }
        };
        let values: Vec<Expr> = wanted.iter().map(value).collect();
        let funcs: Vec<Func> = match last {
            true => next
                .matrix()
                .into_iter()
                .zip(values.chunks(PART))
                .map(|(id, v)| d.func(id, &vars, v.to_vec()))
                .collect(),
            false => {
                let name = |part| format!("along{dim}p{part}");
                let parts = values.chunks(PART).enumerate();
                parts.map(|(part, v)| d.p.func(Func::new(name(part), &vars, v.to_vec()))).collect()
            }
        };
        made.extend(funcs.iter().cloned());
        (before, entries) = (funcs, wanted);
    }
    before.iter().zip(next.matrix()).for_each(|(f, id)| d.output(f, id));
    made.iter().rev().for_each(|f| d.map(f, strip));
    scheduled(d, level_span(&grid))
}

/// True of entries that differ in their way along a dim alone.
fn beside(a: &Entry, b: &Entry, dim: usize) -> bool {
    let others = (0..a.offset.len()).filter(|d| *d != dim).all(|d| a.offset[d] == b.offset[d]);
    others && (a.row, a.column) == (b.row, b.column)
}

/// The term of a way, for the parent at `at`.
fn term(
    next: &Grid,
    (entry, dim): (&Entry, usize),
    (a, o, b): (i32, i32, i32),
    at: &[Expr],
    entry_at: &dyn Fn(&Entry, &[Expr]) -> Option<Expr>,
) -> Option<Expr> {
    let mut child = at.to_vec();
    child[dim] = &at[dim] * 2i64 + i64::from(a);
    let value = entry_at(entry, &child)?;
    let parent = &at[dim] + i64::from(o);
    let weights = [weight(next, dim, &at[dim], a), weight(next, dim, &parent, b)];
    Some(weights.into_iter().flatten().fold(value, |v, w| v * w))
}

/// The weight of child 2 i + a in its parent i along a dim; absent where it is 1.
pub fn weight(grid: &Grid, dim: usize, parent: &Expr, a: i32) -> Option<Expr> {
    let number = |v| Expr::float(grid.k.linear, v);
    match a {
        0 => None,
        1 => {
            let last = parent.eq_(grid.extent(dim) - 1);
            Some(Expr::select(last, number(1.0), number(0.5)))
        }
        _ => Some(number(0.5)),
    }
}

/// An entry of A at an element of a level; `None`: 0 everywhere.
pub fn stored(d: &Draft, grid: &Grid, entry: &Entry, at: &[Expr]) -> Option<Expr> {
    let (part, channel, transposed) = grid.pattern().find(entry)?;
    let there: Vec<Expr> = match transposed {
        true => at.iter().zip(&entry.offset).map(|(x, &o)| x + i64::from(o)).collect(),
        false => at.to_vec(),
    };
    Some(d.element(grid.id(Of::Matrix(part)), &there, channel))
}

/// The smoother of a coarser level: w over its diagonal.
pub fn smoother(grid: Grid) -> Vec<Scheduled> {
    let (k, components) = (grid.k, grid.space.components);
    let mut d = Draft::new(k, grid.name("smoother"), Role::Linear);
    grid.matrix().into_iter().for_each(|part| drop(d.input(part)));
    let f64 = |v| Expr::float(ScalarType::F64, v);
    let full = grid.pattern().full();
    let points = level_points(&grid);
    let at = &points.coordinates;
    let own = |c: usize, at: &[Expr]| {
        let entry = Entry { offset: vec![0; at.len()], row: c, column: c };
        stored(&d, &grid, &entry, at).expect("the diagonal is always stored").cast(ScalarType::F64)
    };
    let row = |c: usize| {
        let terms = full.iter().filter(|e| e.row == c).map(|e| {
            let there: Vec<Expr> = at.iter().zip(&e.offset).map(|(x, &o)| x + i64::from(o)).collect();
            let (value, other) =
                (stored(&d, &grid, e, at).expect("an entry of its own"), own(e.column, &there));
            Expr::select(other.gt(f64(0.0)), value.cast(ScalarType::F64).abs() / other.sqrt(), f64(0.0))
        });
        let sum = terms.reduce(|a, b| a + b).expect("the diagonal");
        Expr::select(own(c, at).gt(f64(0.0)), sum / own(c, at).sqrt(), f64(0.0))
    };
    let largest = (0..components).map(row).reduce(|a, b| a.max(b)).expect("a component");
    let scalar = d.reduce(&grid.id(Of::Bound).to_string(), &points, vec![(Op::Max, largest)]);
    d.output(&scalar, grid.id(Of::Bound));
    let at = grid.at();
    // 1/diag may be more than float32 holds.
    let limit = if k.linear == ScalarType::F32 { f64::from(f32::MAX) } else { f64::MAX };
    let value = |c: usize| {
        let entry = Entry { offset: vec![0; at.len()], row: c, column: c };
        let own =
            stored(&d, &grid, &entry, &at).expect("the diagonal is always stored").cast(ScalarType::F64);
        let inverse = (f64(4.0 / 3.0) / (scalar.at(&[], 0) * own.clone())).min(f64(limit));
        Expr::select(own.gt(f64(0.0)), inverse, f64(0.0)).cast(k.linear)
    };
    let values = (0..components).map(value).collect();
    let f = d.func(grid.id(Of::Smoother), &grid.vars(), values);
    d.output(&f, grid.id(Of::Smoother));
    d.map(&f, Strip::Level(grid.space.id, grid.level));
    scheduled(d, level_span(&grid))
}

/// All points of a coarser level.
pub fn level_points(grid: &Grid) -> Points {
    let names = grid.vars().into_iter().map(|v| format!("r{}", v.name()));
    let rdom = RDom::new(names.enumerate().map(|(dim, v)| (v, Expr::from(0), grid.extent(dim))));
    let coordinates = (0..grid.space.dims).map(|d| rdom.var(d)).collect();
    Points { rdom, coordinates, strip: Strip::Level(grid.space.id, grid.level) }
}

/// Once for level 0, else for all levels before the coarsest.
pub fn level_span(grid: &Grid) -> Span {
    match grid.level {
        0 => Span::Once,
        from => grid.span(from, u8::MAX, false),
    }
}

/// The finished pipeline over a span.
pub fn scheduled(d: Draft, span: Span) -> Vec<Scheduled> {
    d.finish().into_iter().map(|s| Scheduled { span, ..s }).collect()
}
