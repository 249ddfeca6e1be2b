//! All levels of a space, and a cycle over them.

use crate::matrix_free::preconditioner::aggregates::blocks::add_product;
use crate::matrix_free::preconditioner::aggregates::finest::{Finest, Numbers};
use crate::matrix_free::preconditioner::aggregates::level::Level;
use crate::matrix_free::preconditioner::aggregates::rows::each;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::coarsest::inverted;
use crate::problem::report::Grids;
use crate::problem::aggregates::{COARSEST, COUPLED, LEVELS};
use faer::Mat;
use sumsq_codegen::runtime::Pool;

/// The hierarchy of a space.
pub struct Hierarchy {
    sources: Sources,
    finest: Finest,
    levels: Vec<Level>,
    /// A^-1 on the coarsest level, if that is small enough.
    inverse: Option<Vec<f64>>,
    /// r and the correction on the finest level.
    fine: [Vec<f64>; 2],
    /// r, e and what is left of r, per level behind it.
    vectors: Vec<[Vec<f64>; 3]>,
}

impl Hierarchy {
    /// A hierarchy that has no numbers yet, with the levels that it has where all that is coupled is strongly so.
    pub fn new(sources: Sources, finest: Finest) -> Hierarchy {
        let (n, mut levels) = (finest.elements() * sources.components(), vec![]);
        let (mut next, mut block) = (Some(finest.pattern()), sources.components());
        while let Some(pattern) = next {
            let scalars = pattern.rows() * block;
            let mut level = Level::planned(pattern, block);
            let last = (!levels.is_empty() && scalars <= COARSEST) || levels.len() + 1 == LEVELS;
            next = if last { None } else { level.plan() };
            block = sources.candidates.len();
            levels.push(level);
        }
        let fine = [vec![0.0; n], vec![0.0; n]];
        let mut of = Hierarchy { sources, finest, levels, inverse: None, fine, vectors: vec![] };
        of.make_vectors();
        of
    }

    fn make_vectors(&mut self) {
        let zeros = |level: &Level| {
            let n = level.elements() * level.block();
            [vec![0.0; n], vec![0.0; n], vec![0.0; n]]
        };
        self.vectors = self.levels[1..].iter().map(zeros).collect();
    }

    /// Makes all levels anew. `kept` gives the place of an entry of a diagonal block, packed, among the kept ones; `noise` is the share of an
    /// aggregate's diagonal that is rounding.
    pub fn set_up(&mut self, pool: &Pool, of: &Numbers, kept: &[Option<usize>], noise: f64) {
        let mut a = self.finest.undamped(pool, of, kept);
        let candidates = self.finest.candidates(pool, &self.sources, of, &a);
        self.finest.damp(pool, of, &mut a);
        let (mut l, mut next) = (0, Some((a, candidates)));
        while let Some((a, candidates)) = next {
            if self.levels.len() == l {
                self.levels.push(Level::default());
            }
            let level = &mut self.levels[l];
            level.renew(pool, a, candidates);
            let last = (l > 0 && level.elements() * level.block() <= COARSEST) || l + 1 == LEVELS;
            let threshold = if l == 0 { self.sources.threshold } else { COUPLED };
            next = if last { None } else { level.coarsen(pool, threshold, noise) };
            l += 1;
        }
        self.levels.truncate(l);
        self.inverse = (l > 1).then(|| inverse(&self.levels[l - 1])).flatten();
        self.make_vectors();
    }

    /// r of the finest level, to be written.
    pub fn residual(&mut self) -> &mut [f64] {
        &mut self.fine[0]
    }

    /// Returns what the coarser levels make of it: P e.
    pub fn correct(&mut self, pool: &Pool) -> &[f64] {
        let [r, correction] = &mut self.fine;
        let Some((finest, shape)) = self.levels.first().and_then(|l| Some((l, l.shape.as_ref()?))) else {
            return correction;
        };
        finest.p.apply_transposed(pool, &shape.columns, r, &mut self.vectors[0][0]);
        cycle(pool, &self.levels[1..], self.inverse.as_deref(), &mut self.vectors);
        finest.p.apply(pool, &self.vectors[0][1], correction);
        correction
    }

    /// w of the finest level.
    pub fn weight(&self) -> f64 {
        self.levels.first().map_or(1.0, |l| l.weight)
    }

    /// The entries of A on a level, if there is one.
    pub fn level(&self, level: usize) -> Option<Vec<(usize, usize, f64)>> {
        let a = &self.levels.get(level)?.a;
        let of_row = |row: usize| {
            a.row(row).flat_map(move |(column, block)| {
                let (height, width) = (a.height, a.width);
                let at = move |n: usize| (row * height + n / width, column as usize * width + n % width);
                block.iter().enumerate().map(move |(n, v)| (at(n).0, at(n).1, *v))
            })
        };
        Some((0..a.pattern.rows()).flat_map(of_row).collect())
    }

    /// It, as reports have it.
    pub fn report(&self, space: String) -> Grids {
        let extents = self.levels.iter().skip(1).map(|l| vec![l.elements() as i32]);
        let entries = |level: &Level| level.a.values.len() as f64;
        let all: f64 = self.levels.iter().map(entries).sum();
        Grids {
            space,
            levels: std::iter::once(self.finest.extents().to_vec()).chain(extents).collect(),
            bytes: self.bytes() as u64,
            operator_complexity: self.levels.first().map_or(1.0, |finest| all / entries(finest)),
        }
    }

    /// Bytes of all that it holds.
    pub fn bytes(&self) -> usize {
        let vectors = self.vectors.iter().flatten().chain(&self.fine).map(Vec::len).sum::<usize>();
        let candidates = self.sources.candidates.len();
        let levels = self.levels.iter().map(|l| l.bytes(candidates)).sum::<usize>();
        self.finest.bytes() + levels + (vectors + COARSEST * COARSEST) * size_of::<f64>()
    }
}

/// A cycle over these levels, V(1,1): makes e of r on the first.
fn cycle(pool: &Pool, levels: &[Level], inverse: Option<&[f64]>, vectors: &mut [[Vec<f64>; 3]]) {
    let (Some((level, coarser)), Some((own, others))) = (levels.split_first(), vectors.split_first_mut()) else {
        return;
    };
    let [r, e, rest] = own;
    if let (true, Some(inverse)) = (coarser.is_empty(), inverse) {
        each(pool, e, 1, |i, e| {
            e[0] = 0.0;
            add_product(&inverse[i * r.len()..][..r.len()], r, 1.0, e);
        });
        return;
    }
    level.unblock(pool, r, level.weight, e);
    if let Some(shape) = level.shape.as_ref().filter(|_| !coarser.is_empty()) {
        level.rest(pool, r, e, rest);
        level.p.apply_transposed(pool, &shape.columns, rest, &mut others[0][0]);
        cycle(pool, coarser, inverse, others);
        let correction = &others[0][1];
        each(pool, e, level.block(), |row, e| level.p.add_row(row, correction, 1.0, e));
    }
    level.rest(pool, r, e, rest);
    level.smooth_on(pool, rest, e);
}

/// The inverse of A on the coarsest level; `None` if it is too large.
fn inverse(level: &Level) -> Option<Vec<f64>> {
    let (n, k) = (level.elements() * level.block(), level.block());
    if n > COARSEST {
        return None;
    }
    let mut dense = Mat::zeros(n, n);
    for i in 0..level.elements() {
        for (j, block) in level.a.row(i) {
            block.iter().enumerate().for_each(|(at, v)| dense[(i * k + at / k, j as usize * k + at % k)] = *v);
        }
    }
    let inverse = inverted(&dense);
    Some((0..n * n).map(|at| inverse[(at / n, at % n)]).collect())
}
