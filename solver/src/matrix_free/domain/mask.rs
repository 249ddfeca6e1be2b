//! `free<s>`: 1 where an element is not excluded, u8 over space s, and `nfree<s>`, their number; run when arrays or params are bound.
//!
//! Vectors (of [`grain`] elements along dim 0) far from every free element are skipped. One u8 per vector says which not, made of `free<s>`
//! whenever that changes:
//! - `live<s>`: it has a free element. Only these have entries of g, of the diagonal and in PCG: p, r and d stay 0 elsewhere.
//! - `near<s>`: it has an element within twice the reach of a free one, per dim. An instance counts only if it reads a free element, so it
//!   is within the reach, and what it reads, such as a computed array or x + s, is within twice the reach. Elsewhere E has no terms, x + s
//!   stays x, and computed arrays and what is stored per linearisation have any value.

use crate::matrix_free::draft::{Draft, all, coordinates, no_direction, vars};
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::schedule::{Strip, grain};
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space};
use crate::matrix_free::vectors::{Role, VectorId, What};
use sumsq_codegen::{Expr, Func, RDom, ScalarType};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// The pipeline, if anything is excluded at all; elsewhere the mask is 1 throughout the domain.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "mask", Role::Master);
    for space in &k.spaces {
        let Some(excluded) = k.excluded(space.id) else { continue };
        let vars = vars(space.dims);
        let place = Place::Element(space.id, coordinates(&vars));
        let e = d.emit(&[excluded], place, &no_direction).remove(0);
        let held = e.ne_(Expr::float(d.ty(), 0.0));
        let id = What::Free.of(space.id);
        let f = d.func(id, &vars, vec![Expr::select(held, byte(0), byte(1))]);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.output(&f, id);
        count(&mut d, space, &f);
    }
    d.finish()
}

/// Adds the number of free elements.
fn count(d: &mut Draft, space: &Space, free: &Func) {
    let points = d.k.points(Domain::Space(space.id));
    let is_free = free.at(&points.coordinates, 0).ne_(byte(0));
    let one = Expr::select(is_free, Expr::from(1.0f64), Expr::from(0.0f64));
    let id = What::FreeCount.of(space.id);
    let f = d.reduce(&id.to_string(), &points, vec![(Op::Add, one)]);
    d.output(&f, id);
}

/// The pipeline of `live` and `near`, where vectors are skipped.
pub fn near(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "near", Role::Master);
    for space in k.spaces.iter().filter(|s| s.skips) {
        let (free, vector) = (d.input(What::Free.of(space.id)), grain(&k.target));
        let element =
            |at: &[Expr], i: Expr| free.at(&beside(space, at, 0, &at[0] * i64::from(vector) + i), 0);
        let [live, near] = [What::Live, What::Near].map(|what| what.of(space.id));
        let (dims, strip) = (space.dims, Strip::Of(Domain::Space(space.id)));
        let f = greatest(&mut d, &live.to_string(), (dims, strip), [0, vector], element);
        d.output(&f, live);
        // A box is a line along each dim, one after the other: a line behind the end holds nothing that its last element does not.
        let reach: Vec<i32> = k.reaches[space.id.index()].iter().map(|&r| 2 * r as i32).collect();
        let name =
            |dim: usize| if dim + 1 == space.dims { near.to_string() } else { format!("{near}_{dim}") };
        let mut f = greatest(&mut d, &name(0), (dims, strip), [-reach[0], vector + reach[0]], element);
        for dim in 1..space.dims {
            let line = |at: &[Expr], i: Expr| f.at(&beside(space, at, dim, &at[dim] + i), 0);
            f = greatest(&mut d, &name(dim), (dims, strip), [-reach[dim], 1 + reach[dim]], line);
        }
        d.output(&f, near);
    }
    d.finish()
}

/// Adds Func `name` = per vector the greatest of `of` for the offsets from the first one to before the last.
pub fn greatest(
    d: &mut Draft,
    name: &str,
    (dims, strip): (usize, Strip),
    [first, last]: [i32; 2],
    of: impl Fn(&[Expr], Expr) -> Expr,
) -> Func {
    let vars = vars(dims);
    let at = coordinates(&vars);
    let offsets = RDom::new([("i", Expr::from(first), Expr::from(last - first))]);
    let most = Func::new(format!("{name}_most"), &vars, vec![byte(0)]);
    let value = most.at(&at, 0).max(of(&at, offsets.var(0)));
    let most = d.p.func(most.update(at.clone(), vec![value], offsets));
    let f = d.p.func(Func::new(name, &vars, all(&most, &at)));
    d.map(&f, strip);
    d.registers_in(&f, &most);
    f
}

/// `at` with another coordinate along a dim of the space: that, or the nearest one in the domain.
fn beside(space: &Space, at: &[Expr], dim: usize, coordinate: Expr) -> Vec<Expr> {
    let mut at = at.to_vec();
    at[dim] = coordinate.min(names::extent(space.id, dim) - 1).max(Expr::from(0));
    at
}

/// The pipeline that makes x + s x, where vectors are skipped: what the trial leaves out is the same in both.
pub fn matched(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "matched", Role::Master);
    for space in k.spaces.iter().filter(|s| s.skips) {
        d.input(What::X.of(space.id));
        let (id, vars) = (What::Trial.of(space.id), vars(space.dims));
        let x = d.all(What::X.of(space.id), &coordinates(&vars));
        let f = d.func(id, &vars, x);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.output(&f, id);
    }
    d.finish()
}

impl Skeleton {
    /// True where an element is free.
    pub fn free_at(&self, space: &Space, at: &[Expr]) -> Expr {
        is_set(What::Free.of(space.id), at)
    }

    /// True where the vector at `at` has a free element; absent where nothing is skipped.
    pub fn live_at(&self, space: SpaceId, at: &[Expr]) -> Option<Expr> {
        self.vector_at(What::Live, space, at)
    }

    /// True where the vector at `at` is near a free element; absent where nothing is skipped.
    pub fn near_at(&self, space: SpaceId, at: &[Expr]) -> Option<Expr> {
        self.vector_at(What::Near, space, at)
    }

    fn vector_at(&self, mask: What, space: SpaceId, at: &[Expr]) -> Option<Expr> {
        self.spaces.iter().find(|s| s.id == space && s.skips)?;
        let mut at = at.to_vec();
        at[0] = &at[0] / i64::from(grain(&self.target));
        Some(is_set(mask.of(space), &at))
    }
}

/// True where an entry of a vector of bytes is not 0.
pub fn is_set(id: VectorId, at: &[Expr]) -> Expr {
    Expr::call(id.to_string(), ScalarType::U8, at.to_vec(), 0).ne_(byte(0))
}

fn byte(value: i64) -> Expr {
    Expr::int(ScalarType::U8, value)
}

/// Tells whether vectors of a space can be skipped: those of a grid of two or more dims with an Exclude that stands alone. No graph's vertices lie in it, and
/// the residuals over it read no unknowns of another space.
pub fn can_skip(energy: &Energy, space: SpaceId) -> bool {
    let excluded = energy.excludes.iter().any(|(s, _)| *s == space);
    let joined = energy.graphs.iter().flat_map(|g| &g.vertices).any(|v| v.space == space);
    let own = energy.residuals.iter().filter(|r| r.domain == Domain::Space(space));
    let mut reads = own.flat_map(|r| &r.unknown_reads);
    excluded
        && energy.spaces[space.index()].len() >= 2
        && !joined
        && reads.all(|a| energy.space_of(a.source) == space)
}

/// Extents of a mask of vectors of so many elements for those of the space.
pub fn vector_extents(extents: &[i32], grain: i32) -> Vec<i32> {
    let mut vectors = extents.to_vec();
    vectors[0] = (vectors[0] + grain - 1) / grain;
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix_free::preconditioner::hierarchy::shape;
    use crate::problem::data::ProblemData;
    use crate::problem::grids;
    use crate::problem::options::{CompileOptions, Preconditioner};
    use crate::solver::{Problem, Solver};
    use crate::{ArrayData, NamedArray};
    use sumsq_codegen::Level;

    /// Residuals that reach 3 elements along dim 0 and 1 along dim 1.
    const IMAGE: &str = "local W, H = Dim('W', 0), Dim('H', 1)
        local X, M = Unknown('X', float, {W,H}, 0), Array('M', float, {W,H}, 1)
        Exclude(eq(M(0,0), 0))
        Energy(X(0,0) - X(3,0), X(0,0) - X(0,-1))";

    /// Residuals that reach 1, 0 and 2 elements.
    const VOLUME: &str = "local W, H, D = Dim('W', 0), Dim('H', 1), Dim('D', 2)
        local X, M = Unknown('X', float2, {W,H,D}, 0), Array('M', float, {W,H,D}, 1)
        Exclude(eq(M(0,0,0), 0))
        Energy(X(0,0,0) - X(1,0,0), X(0,0,0) - X(0,0,2))";

    fn numbers<'a>(energy: &Energy, extents: &[usize], free: &[bool]) -> ProblemData<'a> {
        let shape: Vec<usize> = extents.iter().rev().copied().collect();
        let channels = usize::from(energy.unknowns[0].channels);
        let of_x = if channels > 1 { [&shape[..], &[channels]].concat() } else { shape.clone() };
        let array = |name: &str, shape: Vec<usize>, values| NamedArray {
            name: name.to_string(),
            shape,
            data: ArrayData::F64(values),
        };
        let mask = free.iter().map(|&f| f64::from(u8::from(f))).collect();
        let arrays = [array("X", of_x, vec![0.5; channels * free.len()]), array("M", shape, mask)];
        ProblemData::bind(energy, &arrays).unwrap().into_owned()
    }

    /// Per vector, whether a free element is at most `around` elements, per dim, from one of its own.
    fn marks(free: &[bool], extents: &[usize], around: &[usize], grain: usize) -> Vec<u8> {
        let place = |i: usize| {
            let mut rest = i;
            extents.iter().map(move |n| (rest % n, rest /= n).0).collect::<Vec<usize>>()
        };
        let set: Vec<Vec<usize>> = (0..free.len()).filter(|&i| free[i]).map(place).collect();
        let row = extents[0].div_ceil(grain);
        let mut marks = vec![0; row * (free.len() / extents[0])];
        for i in 0..free.len() {
            let at = place(i);
            let is_near = |f: &Vec<usize>| (0..at.len()).all(|d| f[d].abs_diff(at[d]) <= around[d]);
            marks[i / extents[0] * row + at[0] / grain] |= u8::from(set.iter().any(is_near));
        }
        marks
    }

    fn held(problem: &Problem, what: What) -> Vec<u8> {
        problem.plan.buffer(what.of(SpaceId(0))).expect("vectors are skipped").to_vec()
    }

    /// As they are after every change of the mask, on vectors of several lengths; nothing but the free elements and the sizes decides.
    #[test]
    fn marks_are_those_of_boxes_around_free_elements() {
        let cases: [(&str, &[usize], &[usize]); 3] =
            [(IMAGE, &[150, 11], &[6, 2]), (IMAGE, &[5, 3], &[6, 2]), (VOLUME, &[67, 4, 13], &[2, 0, 4])];
        for (text, extents, around) in cases {
            let n: usize = extents.iter().product();
            // In the middle, at both ends, everywhere, nowhere.
            let shapes: [&dyn Fn(usize) -> bool; 5] =
                [&|i| i == n / 2, &|i| i == 0 || i + 1 == n, &|i| i % 331 == 40, &|_| true, &|_| false];
            let masks = shapes.map(|shape| (0..n).map(shape).collect::<Vec<bool>>());
            for target in [Level::X86V2, Level::Native] {
                let energy = Energy::from_text("masks.t", text).unwrap();
                let options = CompileOptions { target, threads: Some(2), ..CompileOptions::default() };
                let solver = Solver::compile(energy.clone(), &options).unwrap();
                let mut problem = solver.plan(&numbers(&energy, extents, &masks[0])).unwrap();
                let lanes = grain(&problem.plan.k.target) as usize;
                let none = vec![0; extents.len()];
                for free in &masks {
                    let data = numbers(&energy, extents, free);
                    problem.set_arrays(&data).unwrap();
                    assert_eq!(held(&problem, What::Live), marks(free, extents, &none, lanes));
                    assert_eq!(held(&problem, What::Near), marks(free, extents, around, lanes));
                    let count = free.iter().filter(|f| **f).count();
                    assert_eq!(problem.plan.free_count(SpaceId(0)).unwrap(), Some(count));
                }
                problem.plan.free_everything().unwrap();
                assert!(held(&problem, What::Live).iter().all(|&b| b == 1), "nothing is excluded");
                problem.plan.evaluate_masks().unwrap();
                assert!(
                    held(&problem, What::Near).iter().all(|&b| b == 0),
                    "the last mask has no free element"
                );
            }
        }
    }

    /// The elements of the next level at which P reads one of these.
    fn parents(free: &[bool], extents: &[usize], next: &[usize]) -> Vec<bool> {
        let mut parents = vec![false; next.iter().product()];
        for i in (0..free.len()).filter(|&i| free[i]) {
            let (mut rest, mut all, mut stride) = (i, vec![0], 1);
            for (n, m) in extents.iter().zip(next) {
                let (x, of) = (rest % n, stride);
                let along = [x / 2, x.div_ceil(2)].map(|parent| of * parent.min(m - 1));
                all = all.iter().flat_map(|at| along.map(|along| at + along)).collect();
                (rest, stride) = (rest / n, stride * m);
            }
            all.into_iter().for_each(|at: usize| parents[at] = true);
        }
        parents
    }

    #[test]
    fn marks_of_levels_are_those_of_free_descendants() {
        for (text, extents) in [(IMAGE, &[150, 31][..]), (VOLUME, &[67, 4, 13])] {
            let (n, none) = (extents.iter().product(), vec![0; extents.len()]);
            let mut free: Vec<bool> = (0..n).map(|i| i % 331 == 40).collect();
            let energy = Energy::from_text("masks.t", text).unwrap();
            let preconditioner = Preconditioner::Multigrid;
            let options = CompileOptions { preconditioner, threads: Some(2), ..CompileOptions::default() };
            let problem = Solver::compile(energy.clone(), &options).unwrap();
            let problem = problem.plan(&numbers(&energy, extents, &free)).unwrap();
            let k = &problem.plan.k;
            let of = k.spaces[0].hierarchy.as_ref().expect("the space has one");
            let levels = grids::levels(extents, k.spaces[0].components);
            assert!(levels.len() > 2, "{levels:?}");
            for (level, finer) in (1..).zip(levels.windows(2)) {
                free = parents(&free, &finer[0], &finer[1]);
                let field = of.field(shape::Of::Live, level);
                let id = VectorId { level, ..What::M { kind: 0, field }.of(SpaceId(0)) };
                let live: Vec<u8> = problem.plan.buffer(id).expect("vectors are skipped").to_vec();
                let expected = marks(&free, &finer[1], &none, grain(&k.target) as usize);
                assert_eq!(live, expected, "level {level}");
            }
        }
    }
}
