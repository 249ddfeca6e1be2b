//! All levels of a space, and a cycle over them.

use crate::matrix_free::preconditioner::aggregates::cycle::{self, Vectors};
use crate::matrix_free::preconditioner::aggregates::finest::{Completion, Finest};
use crate::matrix_free::preconditioner::aggregates::level::{Level, News};
use crate::matrix_free::preconditioner::aggregates::loops::Number;
use crate::matrix_free::preconditioner::aggregates::numbers::{Numbers, Source};
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::coarsest::inverted;
use crate::problem::aggregates::{COARSEST, COUPLED, LEVELS};
use crate::problem::report::Grids;
use faer::Mat;
use sumsq_codegen::runtime::{Buffer, BufferError, Pool};

/// The hierarchy of a space, in the precision of PCG.
pub struct Hierarchy<S> {
    sources: Sources,
    finest: Finest,
    numbers: Numbers<S>,
    completion: Completion<S>,
    levels: Vec<Level<S>>,
    /// A^-1 on the coarsest level, if that is small enough.
    inverse: Option<Vec<f64>>,
    /// r and the correction on the finest level.
    fine: [Vec<S>; 2],
    /// r, e and what is left of r, per level behind it.
    vectors: Vec<Vectors<S>>,
}

/// A hierarchy of whatever precision.
pub trait Levels: Send + Sync {
    /// Makes all levels, of what has changed since they were made last; returns w of the finest one.
    ///
    /// # Errors
    /// Vectors that cannot be read.
    fn set_up(&mut self, pool: &Pool, news: News, of: &Source<'_>) -> Result<f64, BufferError>;
    /// Writes what the coarser levels make of r: P e.
    ///
    /// # Errors
    /// Vectors that cannot be read or written.
    fn correct(&mut self, pool: &Pool, r: (&Buffer, usize), to: &Buffer) -> Result<(), BufferError>;
    /// The entries of A on a level, if there is one.
    fn level(&self, level: usize) -> Option<Vec<(usize, usize, f64)>>;
    /// The near-null candidates on the finest level, each by element and component.
    fn candidates(&self) -> Vec<Vec<f64>>;
    /// It, as reports have it.
    fn report(&self, space: String) -> Grids;
    /// Bytes of all that it holds.
    fn bytes(&self) -> usize;
}

impl<S: Number> Hierarchy<S> {
    /// A hierarchy that has no numbers yet, with the levels that it has where all that is coupled is strongly so.
    pub fn new(sources: Sources, finest: Finest) -> Hierarchy<S> {
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
        let fine = [vec![S::default(); n], vec![S::default(); n]];
        let numbers = Numbers::new(&sources, finest.elements(), finest.pair_numbers());
        let completion = Completion::new(&sources, finest.elements());
        let (inverse, vectors) = (None, vec![]);
        let mut of = Hierarchy { sources, finest, numbers, completion, levels, inverse, fine, vectors };
        of.make_vectors();
        of
    }

    fn make_vectors(&mut self) {
        let behind = self.levels.get(1..).unwrap_or_default();
        self.vectors.resize_with(behind.len(), Default::default);
        for (level, vectors) in behind.iter().zip(&mut self.vectors) {
            vectors.iter_mut().for_each(|v| v.resize(level.elements() * level.block(), S::default()));
        }
    }

    /// Makes A and the candidates of the finest level.
    fn make_finest(&mut self, pool: &Pool, news: News) {
        let Hierarchy { sources, finest: structure, numbers, completion, levels, .. } = self;
        let finest = &mut levels[0];
        if news == News::Everything {
            structure.undamped(pool, numbers, &mut finest.a);
            // Of J^T J, before D is added.
            structure.candidates(pool, sources, numbers, &finest.a, completion, &mut finest.candidates);
        }
        structure.damp(pool, numbers, &mut finest.a);
    }

    /// Makes all levels of the numbers of the finest one.
    fn make(&mut self, pool: &Pool, news: News) {
        self.make_finest(pool, news);
        let (mut l, mut there) = (0, true);
        while there {
            if self.levels.len() == l + 1 {
                self.levels.push(Level::default());
            }
            let [level, next] = &mut self.levels[l..l + 2] else { break };
            level.renew(pool, (l == 0).then_some(self.sources.elements as f64));
            let last = (l > 0 && level.elements() * level.block() <= COARSEST) || l + 1 == LEVELS;
            let threshold = if l == 0 { self.sources.threshold } else { COUPLED };
            // Couplings of coarser levels have D in them, too.
            let news = if l == 0 { news } else { News::Everything };
            there = !last && level.coarsen(pool, news, threshold, S::NOISE, next);
            l += 1;
        }
        self.levels.truncate(l);
        self.inverse = (l > 1).then(|| inverse(&self.levels[l - 1])).flatten();
        self.make_vectors();
    }
}

impl<S: Number> Levels for Hierarchy<S> {
    fn set_up(&mut self, pool: &Pool, news: News, of: &Source<'_>) -> Result<f64, BufferError> {
        self.numbers.read(pool, news, of)?;
        self.make(pool, news);
        Ok(self.levels.first().map_or(1.0, |l| l.weight))
    }

    fn correct(
        &mut self,
        pool: &Pool,
        (from, first): (&Buffer, usize),
        to: &Buffer,
    ) -> Result<(), BufferError> {
        let components = self.sources.components();
        let [r, correction] = &mut self.fine;
        from.copy_channels_to(first, components, r, pool)?;
        cycle::correct(pool, &self.levels, self.inverse.as_deref(), [r, correction], &mut self.vectors);
        to.generate(pool, |element, c| correction[element * components + c])
    }

    fn level(&self, level: usize) -> Option<Vec<(usize, usize, f64)>> {
        let a = &self.levels.get(level)?.a;
        let of_row = |row: usize| {
            a.row(row).flat_map(move |(column, block)| {
                let (height, width) = (a.height, a.width);
                // Blocks are transposed.
                let at = move |n: usize| (row * height + n % width, column as usize * width + n / width);
                block.iter().enumerate().map(move |(n, v)| (at(n).0, at(n).1, (*v).into()))
            })
        };
        Some((0..a.pattern.rows()).flat_map(of_row).collect())
    }

    fn candidates(&self) -> Vec<Vec<f64>> {
        let (all, k) = (&self.levels[0].candidates, self.sources.candidates.len());
        (0..k).map(|n| all.iter().skip(n).step_by(k).copied().collect()).collect()
    }

    fn report(&self, space: String) -> Grids {
        let extents = self.levels.iter().skip(1).map(|l| vec![l.elements() as i32]);
        let entries = |level: &Level<S>| level.a.values.len() as f64;
        let all: f64 = self.levels.iter().map(entries).sum();
        let candidates = self.sources.candidates.len();
        let mean = |level: &Level<S>| level.a.values.len() / level.elements().max(1);
        Grids {
            space,
            levels: std::iter::once(self.finest.extents().to_vec()).chain(extents).collect(),
            stencils: self.levels.iter().map(mean).collect(),
            level_bytes: self.levels.iter().map(|l| l.bytes(candidates) as u64).collect(),
            bytes: self.bytes() as u64,
            operator_complexity: self.levels.first().map_or(1.0, |finest| all / entries(finest)),
        }
    }

    fn bytes(&self) -> usize {
        let vectors = self.vectors.iter().flatten().chain(&self.fine).map(Vec::len).sum::<usize>();
        let candidates = self.sources.candidates.len();
        let levels = self.levels.iter().map(|l| l.bytes(candidates)).sum::<usize>();
        let inverse = COARSEST * COARSEST * size_of::<f64>();
        self.finest.bytes()
            + self.numbers.bytes()
            + self.completion.bytes()
            + levels
            + vectors * size_of::<S>()
            + inverse
    }
}

/// The inverse of A on the coarsest level; `None` if it is too large.
fn inverse<S: Number>(level: &Level<S>) -> Option<Vec<f64>> {
    let (n, k) = (level.elements() * level.block(), level.block());
    if n > COARSEST {
        return None;
    }
    let mut dense = Mat::zeros(n, n);
    for i in 0..level.elements() {
        for (j, block) in level.a.row(i) {
            // Blocks are transposed.
            let at = |n: usize| (i * k + n % k, j as usize * k + n / k);
            block.iter().enumerate().for_each(|(n, v)| dense[at(n)] = (*v).into());
        }
    }
    let inverse = inverted(&dense, S::TYPE);
    Some((0..n * n).map(|at| inverse[(at / n, at % n)]).collect())
}
