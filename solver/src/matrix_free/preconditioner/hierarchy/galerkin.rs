//! J^T J and D on every level, per linearisation.
//!
//! Code grows with the ways alone: pairs of components are a dimension of the Funcs, and so of the loops.

use crate::matrix_free::draft::{Draft, coordinates, no_direction};
use crate::matrix_free::preconditioner::M;
use crate::matrix_free::preconditioner::diagonal;
use crate::matrix_free::preconditioner::hierarchy::pattern::{PART, Stored, coarsened, is_own, terms_along};
use crate::matrix_free::preconditioner::hierarchy::{Grid, marks, scheduled};
use crate::matrix_free::schedule::reduce::Points;
use crate::matrix_free::schedule::{Pairs, Strip};
use crate::matrix_free::skeleton::Scheduled;
use crate::matrix_free::vectors::{Role, What};
use std::collections::BTreeMap;
use sumsq_codegen::{Expr, Func, RDom};
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::emit::Place;
use sumsq_energy::model::Domain;

/// J^T J and D on level 0, stored: the diagonal blocks of J^T J as they come with g, the couplings, and D; 0 in the rows and columns of scalars
/// that take no part. Every entry is an expression of its own: what they share is computed once for a vector of elements, in registers.
pub fn finest(m: M, grid: Grid) -> Vec<Scheduled> {
    let mut d = drafted(&grid, "stencil");
    let [entries, parts @ ..] = &stencil(&mut d, m, &grid, [grid.at(), vec![]])[..] else { return vec![] };
    for (f, id) in parts.iter().zip(grid.matrix()) {
        d.output(f, id);
        d.map_pairs(f, Strip::Of(Domain::Space(grid.space.id)), Pairs::WrittenOut(numbers(&grid)));
        d.skip_unless(f, grid.k.live_at(grid.space.id, &grid.at()));
    }
    match parts {
        [one] => d.registers_in(one, entries),
        _ => d.map(entries, Strip::Of(Domain::Space(grid.space.id))),
    }
    d.finish_at_x()
}

/// Those on level 1, with rows of level 0 in a ring, 0 beyond the domain: along dim 0 as the vectors are that they are made of.
pub fn coarsen_rolling(m: M, grid: Grid) -> Vec<Scheduled> {
    let mut d = drafted(&grid, "galerkin");
    let (mut near, mut there) = (grid.at(), inside(&grid, &grid.at()));
    for (dim, x) in near.iter_mut().enumerate().skip(1) {
        *x = x.max(Expr::from(0)).min(grid.extent(dim) - 1);
    }
    let live = grid.k.live_at(grid.space.id, &near);
    // Where M^-1 is computed it is not 0 out of the domain.
    there.drain(..usize::from(!grid.space.inline_diagonal));
    let [entries, one] = &stencil(&mut d, m, &grid, [near, there])[..] else { return vec![] };
    let next = product(&mut d, &grid, Pairs::ByRows, &|_, at, channel| one.at(at, channel));
    d.pairs_in(&next[0], one, numbers(&grid));
    d.skip_unless(one, live);
    d.registers_in(one, entries);
    d.finish_at_x()
}

/// A pipeline of level 0, which reads what its entries are made of.
fn drafted<'k>(grid: &Grid<'k>, name: &str) -> Draft<'k> {
    Draft::new(grid.k, grid.name(name), Role::Master)
}

/// Pairs of A, and those of D.
fn numbers(grid: &Grid) -> i32 {
    (grid.of.pairs.list().len() + grid.of.pairs.components()) as i32
}

/// Adds the entries of level 0, then the parts that they make, pair by pair: of the element at `near`, where it is `there`.
fn stencil(d: &mut Draft, m: M, grid: &Grid, [near, there]: [Vec<Expr>; 2]) -> Vec<Func> {
    d.input(What::GradientAndBlocks.of(grid.space.id));
    if !grid.space.inline_diagonal {
        d.input(What::M { kind: m.kind, field: 0 }.of(grid.space.id));
        d.input(What::Damp.of(grid.space.id));
    }
    let entries = entries(d, m, grid, [&near, &there]);
    let written = d.p.func(Func::new("entries", &grid.vars(), entries.values().cloned().collect()));
    let vars = grid.pair_vars();
    let pair = vars[grid.space.dims].expr();
    let (at, zero) = (grid.at(), Expr::float(grid.k.linear, 0.0));
    let value = |way: &Vec<i32>| {
        let own = entries.keys().enumerate().filter(|(_, (along, _))| along == way);
        own.fold(zero.clone(), |others, (i, (_, number))| {
            Expr::select(pair.eq_(Expr::from(*number as i32)), written.at(&at, i), others)
        })
    };
    let values: Vec<Expr> = grid.pattern().ways().iter().map(value).collect();
    let parts = values.chunks(PART).enumerate().map(|(part, values)| {
        let name = if grid.of.rolls { "stencil".to_string() } else { grid.matrix()[part].to_string() };
        d.p.func(Func::new(name, &vars, values.to_vec()))
    });
    let parts: Vec<Func> = parts.collect();
    [written].into_iter().chain(parts).collect()
}

/// The entries of level 0 that are not 0 everywhere, by way and number of their pair: of the element at `at`, where these conditions hold.
fn entries(d: &Draft, m: M, grid: &Grid, [at, on]: [&[Expr]; 2]) -> BTreeMap<(Vec<i32>, usize), Expr> {
    let (k, space, pairs) = (grid.k, grid.space, &grid.of.pairs);
    let block = |row, column| {
        let kept = space.kept_at(row, column).expect("the blocks are kept");
        d.element(What::GradientAndBlocks.of(space.id), at, space.components + kept)
    };
    let damp = match space.inline_diagonal {
        true => diagonal::computed(d, space, at).damp,
        false => d.all(What::Damp.of(space.id), at),
    };
    let roots = k.routines.roots(Kind::Couplings, Site::Element(space.id));
    let values = d.emit(roots, Place::Element(space.id, at.to_vec()), &no_direction);
    let couplings = k.routines.couplings.spaces[&space.id].iter().zip(values);
    let mut entries: BTreeMap<(Vec<i32>, usize), Expr> = BTreeMap::new();
    let mut add = |way: &[i32], (number, row, column): (usize, usize, usize), value: Expr| {
        let there: Vec<Expr> = at.iter().zip(way).map(|(x, &o)| x + i64::from(o)).collect();
        let mut both = m.of.takes_part(&m.at(d, space, at), row);
        if !(is_own(way) && row == column) {
            both = both.and(m.of.takes_part(&m.at(d, space, &there), column));
        }
        // Where M^-1 is computed it is not 0 out of the domain.
        if space.inline_diagonal {
            both = inside(grid, &there).into_iter().fold(both, |both, on| both.and(on));
        }
        both = on.iter().fold(both, |both, on| both.and(on.clone()));
        let value = Expr::select(both, value.cast(k.linear), Expr::float(k.linear, 0.0));
        entries.insert((way.to_vec(), number), value);
    };
    let own = vec![0; space.dims];
    for (number, &(row, column)) in pairs.list().iter().enumerate() {
        if row == column || space.coupled {
            add(&own, (number, row, column), block(row, column));
        }
    }
    for (c, damp) in damp.into_iter().enumerate() {
        add(&own, (pairs.list().len() + c, c, c), damp);
    }
    for (c, value) in couplings {
        let number = pairs.find(c.row, c.column).expect("couplings are among the pairs");
        add(&c.offset, (number, c.row, c.column), value);
    }
    entries
}

/// Conditions: whether an element lies in the domain.
pub fn inside(grid: &Grid, at: &[Expr]) -> Vec<Expr> {
    let along = |(dim, x): (usize, &Expr)| x.ge(Expr::from(0)).and(x.lt(grid.extent(dim)));
    at.iter().enumerate().map(along).collect()
}

/// J^T J and D on the next level, of a stored one.
pub fn coarsen(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("galerkin"), Role::Linear);
    let parts = grid.matrix();
    parts.iter().for_each(|&part| drop(d.input(part)));
    let read = |part: usize, at: &[Expr], channel| {
        Expr::call(parts[part].to_string(), grid.k.linear, at.to_vec(), channel)
    };
    product(&mut d, &grid, Pairs::First, &read);
    scheduled(d, grid.level_span())
}

/// Adds J^T J and D on the next level, P^T A P, part by part, one pair after the other: for a row of elements along the last dim first, whose
/// rows are next to each other, and along the first dim, whose neighbours are lanes, last. `read` has a channel of a part at an element and a pair.
fn product(d: &mut Draft, grid: &Grid, order: Pairs, read: Read) -> Vec<Func> {
    let (k, next, dims) = (grid.k, grid.next(), grid.space.dims);
    let vars = grid.pair_vars();
    let at: Vec<Expr> = coordinates(&vars);
    let mut ways = grid.pattern().full();
    let mut before: Vec<Func> = vec![];
    let mut kept = vec![];
    for dim in (0..dims).rev() {
        let wanted = match dim {
            0 => next.pattern().ways().to_vec(),
            _ => coarsened(&ways, dim),
        };
        let value_at = |way: &Vec<i32>, at: &[Expr]| match dim + 1 == dims {
            true => stored(grid, read, way, at),
            false => ways.binary_search(way).ok().map(|i| before[i / PART].at(at, i % PART)),
        };
        let value = |wanted: &Vec<i32>| {
            let terms = ways.iter().filter(|way| beside(way, wanted, dim)).flat_map(|way| {
                let all = terms_along(way[dim]).filter(|(_, o, _)| *o == wanted[dim]);
                all.map(|along| term(&next, (way, dim), along, &at, &value_at)).collect::<Vec<_>>()
            });
            let sum = terms.flatten().reduce(|x, y| x + y).unwrap_or_else(|| Expr::float(k.linear, 0.0));
            // A last element may be the child of a parent that is not there.
            let there = &at[dim] + i64::from(wanted[dim]);
            let exists = there.ge(Expr::from(0)).and(there.lt(next.extent(dim)));
            match wanted[dim] {
                0 => sum,
                _ => Expr::select(exists, sum, Expr::float(k.linear, 0.0)),
            }
        };
        let values: Vec<Expr> = wanted.iter().map(value).collect();
        let name = |part: usize| match dim {
            0 => next.matrix()[part].to_string(),
            _ => format!("along{dim}p{part}"),
        };
        let parts = values.chunks(PART).enumerate();
        let funcs: Vec<Func> =
            parts.map(|(part, v)| d.p.func(Func::new(name(part), &vars, v.to_vec()))).collect();
        if dim > 0 {
            kept.extend(funcs.iter().map(|f| (dim, f.clone())));
        }
        (before, ways) = (funcs, wanted);
    }
    before.iter().zip(next.matrix()).for_each(|(f, id)| d.output(f, id));
    let strip = Strip::Level(next.space.id, next.level);
    for f in &before {
        d.map_pairs(f, strip, order);
        marks::skip(d, &next, f, &next.at());
    }
    for (dim, f) in kept.iter().rev() {
        match &before[..] {
            [one] => d.rows_in(one, f),
            _ => d.map_pairs(f, strip, order),
        }
        let live = grid.live(d, &grid.children(&grid.at(), *dim));
        d.skip_unless(f, live);
    }
    before
}

/// True of ways that differ along a dim alone.
fn beside(a: &[i32], b: &[i32], dim: usize) -> bool {
    (0..a.len()).filter(|d| *d != dim).all(|d| a[d] == b[d])
}

/// A channel of a part, at an element and the number of a pair.
type Read<'a> = &'a dyn Fn(usize, &[Expr], usize) -> Expr;

/// The value along a way, for the row at these coordinates; `None`: 0 everywhere.
type Along<'a> = &'a dyn Fn(&Vec<i32>, &[Expr]) -> Option<Expr>;

/// The term of a way, for the parent at `at`.
fn term(
    next: &Grid,
    (way, dim): (&Vec<i32>, usize),
    (a, o, b): (i32, i32, i32),
    at: &[Expr],
    value_at: Along,
) -> Option<Expr> {
    let mut child = at.to_vec();
    child[dim] = &at[dim] * 2i64 + i64::from(a);
    let value = value_at(way, &child)?;
    let parent = &at[dim] + i64::from(o);
    let weights = [weight(next, dim, &at[dim], a), weight(next, dim, &parent, b)];
    Some(weights.into_iter().flatten().fold(value, |v, w| v * w))
}

/// J^T J and D along a way, of the pair that is the last of these coordinates; `None`: 0 everywhere.
fn stored(grid: &Grid, read: Read, way: &[i32], at: &[Expr]) -> Option<Expr> {
    let Stored { part, channel, transposed } = grid.pattern().find(way)?;
    let mut there = at.to_vec();
    if transposed {
        there.iter_mut().zip(way).for_each(|(x, &o)| *x = x.clone() + i64::from(o));
        let pair = there.len() - 1;
        there[pair] = grid.of.pairs.transposed_expr(&there[pair]);
    }
    Some(read(part, &there, channel))
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

/// All points of a coarser level.
pub fn level_points(grid: &Grid) -> Points {
    let names = grid.vars().into_iter().map(|v| format!("r{}", v.name()));
    let rdom = RDom::new(names.enumerate().map(|(dim, v)| (v, Expr::from(0), grid.extent(dim))));
    let coordinates = (0..grid.space.dims).map(|d| rdom.var(d)).collect();
    Points { rdom, coordinates, strip: Strip::Level(grid.space.id, grid.level) }
}
