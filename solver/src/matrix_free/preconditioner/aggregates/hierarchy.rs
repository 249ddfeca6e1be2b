//! All levels of a space, and a cycle over them.

use crate::matrix_free::preconditioner::aggregates::cycle::{self, Rounded, Vectors};
use crate::matrix_free::preconditioner::aggregates::finest::{Finest, Numbers};
use crate::matrix_free::preconditioner::aggregates::level::Level;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::coarsest::inverted;
use crate::problem::aggregates::{COARSEST, COUPLED, LEVELS};
use crate::problem::report::Grids;
use faer::Mat;
use sumsq_codegen::runtime::Pool;

/// The hierarchy of a space.
pub struct Hierarchy {
    sources: Sources,
    finest: Finest,
    levels: Vec<Level>,
    /// Rounded copies of the levels, for a PCG in float32.
    rounded: Option<Vec<Rounded>>,
    /// A^-1 on the coarsest level, if that is small enough.
    inverse: Option<Vec<f64>>,
    /// r and the correction on the finest level.
    fine: [Vec<f64>; 2],
    /// r, e and what is left of r, per level behind it.
    vectors: Vec<Vectors>,
}

impl Hierarchy {
    /// A hierarchy that has no numbers yet, with the levels that it has where all that is coupled is strongly so.
    /// PCG is in float32 if it is `rounded`.
    pub fn new(sources: Sources, finest: Finest, rounded: bool) -> Hierarchy {
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
        let mut of = Hierarchy {
            sources,
            finest,
            levels,
            rounded: rounded.then(Vec::new),
            inverse: None,
            fine,
            vectors: vec![],
        };
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
        let finest = &mut self.levels[0];
        self.finest.undamped(pool, of, kept, &mut finest.a);
        finest.candidates = self.finest.candidates(pool, &self.sources, of, &finest.a);
        self.finest.damp(pool, of, &mut finest.a);
        let (mut l, mut there) = (0, true);
        while there {
            if self.levels.len() == l + 1 {
                self.levels.push(Level::default());
            }
            let [level, next] = &mut self.levels[l..l + 2] else { break };
            level.renew(pool);
            let last = (l > 0 && level.elements() * level.block() <= COARSEST) || l + 1 == LEVELS;
            let threshold = if l == 0 { self.sources.threshold } else { COUPLED };
            there = !last && level.coarsen(pool, threshold, noise, next);
            if let Some(rounded) = &mut self.rounded {
                rounded.resize_with(rounded.len().max(l + 1), Rounded::default);
                rounded[l].keep(pool, level, l == 0);
            }
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
        let (fine, inverse) = ([&mut r[..], &mut correction[..]], self.inverse.as_deref());
        match &self.rounded {
            Some(rounded) => {
                let levels: Vec<_> =
                    rounded.iter().zip(&self.levels).map(|(r, of)| r.operators(of)).collect();
                cycle::correct(pool, &levels, inverse, fine, &mut self.vectors);
            }
            None => {
                let levels: Vec<_> = self.levels.iter().map(Level::operators).collect();
                cycle::correct(pool, &levels, inverse, fine, &mut self.vectors);
            }
        }
        &self.fine[1]
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
        let (candidates, rounded) = (self.sources.candidates.len(), self.rounded.is_some());
        let mean = |level: &Level| level.a.values.len() / level.elements().max(1);
        Grids {
            space,
            levels: std::iter::once(self.finest.extents().to_vec()).chain(extents).collect(),
            stencils: self.levels.iter().map(mean).collect(),
            level_bytes: self.levels.iter().map(|l| l.bytes(candidates, rounded) as u64).collect(),
            bytes: self.bytes() as u64,
            operator_complexity: self.levels.first().map_or(1.0, |finest| all / entries(finest)),
        }
    }

    /// Bytes of all that it holds.
    pub fn bytes(&self) -> usize {
        let vectors = self.vectors.iter().flatten().chain(&self.fine).map(Vec::len).sum::<usize>();
        let candidates = self.sources.candidates.len();
        let rounded = self.rounded.is_some();
        let levels = self.levels.iter().map(|l| l.bytes(candidates, rounded)).sum::<usize>();
        self.finest.bytes() + levels + (vectors + COARSEST * COARSEST) * size_of::<f64>()
    }
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
            block
                .iter()
                .enumerate()
                .for_each(|(at, v)| dense[(i * k + at / k, j as usize * k + at % k)] = *v);
        }
    }
    let inverse = inverted(&dense);
    Some((0..n * n).map(|at| inverse[(at / n, at % n)]).collect())
}
