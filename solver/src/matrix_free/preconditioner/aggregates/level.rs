//! A level of a hierarchy of aggregates, and the next one made of it.

use crate::matrix_free::preconditioner::aggregates::blocks::{
    Blocks, ByColumns, Columns, Pattern, Symmetric, apply_inverse,
};
use crate::matrix_free::preconditioner::aggregates::dense::{MOST, invert, orthonormalise};
use crate::matrix_free::preconditioner::aggregates::loops::{self, Number, SmoothRow, add_squares};
use crate::matrix_free::preconditioner::aggregates::rows::{each, each_ragged, each_with, sum};
use crate::problem::aggregates::{self, NONE, POWER_STEPS, SAFETY};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use sumsq_codegen::runtime::Pool;

/// A level. Rows of scalars that take no part are 0 in all of its matrices. A, P and the smoother are in the precision of PCG; what is made
/// once per level and small (candidates, T, blocks while they are inverted) is in float64.
#[derive(Default)]
pub struct Level<S> {
    /// A, all blocks of both triangles, transposed.
    pub a: Blocks<S>,
    /// w D^-1, block by block, D the diagonal blocks of A and w = 4/(3 lambda), lambda a bound or estimate of the largest eigenvalue of D^-1 A.
    pub smoother: Vec<S>,
    /// w.
    pub weight: f64,
    /// Near-null candidates: per scalar a number for each.
    pub candidates: Vec<f64>,
    /// The way to the next level.
    pub shape: Option<Shape>,
    /// P, with transposed blocks once the next level is made.
    pub p: Blocks<S>,
    /// P by columns.
    pub columns: Columns<S>,
    /// A P.
    ap: Blocks<S>,
    /// T, a block for every member of every aggregate.
    t: Vec<S>,
    /// P^T A P on and above the diagonal.
    half: Vec<S>,
    /// For every block of A whether it couples elements strongly, as aggregates were last formed.
    strong: Vec<bool>,
}

/// News of A since the last time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Everything.
    Everything,
    /// The diagonal.
    Diagonal,
}

/// Everything of a step to the next level that does not depend on numbers, once the aggregates are known.
pub struct Shape {
    /// The aggregate of every element, and its place among the members of all.
    own: Vec<u32>,
    place: Vec<u32>,
    /// Elements of every aggregate: where they begin, and the lists.
    starts: Vec<usize>,
    members: Vec<u32>,
    /// The pattern of A that the rest was made of.
    a: Arc<Pattern>,
    /// Of P, of A P and of P^T A P.
    p: Arc<Pattern>,
    ap: Arc<Pattern>,
    next: Symmetric,
    /// The blocks of P by columns.
    columns: Arc<ByColumns>,
}

impl<S: Number> Level<S> {
    /// A level without numbers.
    pub fn planned(pattern: Arc<Pattern>, block: usize) -> Level<S> {
        let a = Blocks { pattern, height: block, width: block, values: vec![] };
        Level { a, ..Level::default() }
    }

    /// Makes the shape of the step to the next level as it is where all that is coupled is strongly so; the next one's pattern.
    pub fn plan(&mut self) -> Option<Arc<Pattern>> {
        let a = &self.a.pattern;
        let others = |e: usize| a.row(e).iter().map(move |f| *f as usize != e);
        self.form((0..a.rows()).flat_map(others).collect());
        self.shape.as_ref().map(|s| s.next.whole.clone())
    }

    /// Scalars of an element.
    pub fn block(&self) -> usize {
        self.a.height
    }

    /// Elements.
    pub fn elements(&self) -> usize {
        self.a.pattern.rows()
    }

    /// Makes the smoother, of new numbers for A: with this bound of lambda, or with what the power method finds.
    pub fn renew(&mut self, pool: &Pool, bound: Option<f64>) {
        let block = self.block();
        self.smoother.resize(self.elements() * block * block, S::default());
        let a = &self.a;
        each(pool, &mut self.smoother, block * block, |e, inverse| {
            inverse.fill(S::default());
            if let Some(place) = a.pattern.place(e, e as u32) {
                invert(a.block(place), block, inverse);
            }
        });
        self.weight = 4.0 / (3.0 * bound.unwrap_or_else(|| self.largest_eigenvalue(pool)));
        let weight = S::nearest(self.weight);
        each(pool, &mut self.smoother, block * block, |_, of| of.iter_mut().for_each(|v| *v = weight * *v));
    }

    /// Makes P, and A and the candidates of the next level, if any elements form aggregates: couplings below `threshold` are none. What is
    /// below `noise` of an aggregate's diagonal is rounding: its row becomes 0. Where only the diagonal of A is new, aggregates and T stay.
    /// Tells whether there is a next level.
    pub fn coarsen(
        &mut self,
        pool: &Pool,
        news: News,
        threshold: f64,
        noise: f64,
        next: &mut Level<S>,
    ) -> bool {
        if news == News::Everything {
            self.aggregate(pool, threshold);
        }
        let Some(shape) = self.shape.take() else { return false };
        if news == News::Everything {
            self.tentative(pool, &shape, &mut next.candidates);
        }
        self.smooth(pool, &shape);
        self.ap.multiply(pool, &self.a, &self.p, shape.ap.clone());
        self.columns.keep(pool, &shape.columns, &self.p);
        next.a.multiply_to_symmetric(pool, &self.columns, &self.ap, &shape.next, &mut self.half);
        self.silence(pool, noise, &mut next.a);
        self.p.transpose_blocks(pool);
        self.shape = Some(shape);
        true
    }

    /// Forms aggregates, unless the same elements are strongly coupled as before.
    fn aggregate(&mut self, pool: &Pool, threshold: f64) {
        let strong = self.strong(pool, threshold);
        let stays = |old: &Shape| strong == self.strong && Arc::ptr_eq(&old.a, &self.a.pattern);
        if self.shape.as_ref().is_some_and(stays) {
            return;
        }
        self.form(strong);
    }

    /// Forms aggregates of elements that these blocks of A couple.
    fn form(&mut self, strong: Vec<bool>) {
        let a = &self.a.pattern;
        let (mut starts, mut all) = (vec![0], vec![]);
        for e in 0..a.rows() {
            let of = a.row(e).iter().zip(&strong[a.starts[e]..]);
            all.extend(of.filter(|(_, strong)| **strong).map(|(f, _)| *f));
            starts.push(all.len());
        }
        let (own, count) = aggregates::aggregates(&starts, &all);
        self.shape = (count > 0).then(|| Shape::new(a, own, count));
        self.strong = strong;
    }

    /// The blocks of A that couple elements strongly.
    fn strong(&self, pool: &Pool, threshold: f64) -> Vec<bool> {
        let (a, threshold) = (&self.a, threshold.powi(2));
        // Squares of Frobenius norms, 0 of an element's own block; and the largest of every element.
        let mut norms = vec![0.0; a.pattern.columns.len()];
        each_ragged(pool, &mut norms, &a.pattern.starts, 1, |e, norms| {
            for ((_, block), norm) in a.row(e).zip(norms).filter(|((f, _), _)| *f as usize != e) {
                *norm = square(block);
            }
        });
        let own = |e: usize| a.pattern.starts[e]..a.pattern.starts[e + 1];
        let mut largest = vec![0.0; self.elements()];
        each(pool, &mut largest, 1, |e, largest| {
            largest[0] = norms[own(e)].iter().copied().fold(0.0, f64::max);
        });
        let mut strong = vec![false; norms.len()];
        each_ragged(pool, &mut strong, &a.pattern.starts, 1, |e, strong| {
            for ((f, norm), strong) in a.pattern.row(e).iter().zip(&norms[own(e)]).zip(strong) {
                let least = threshold * (largest[e] * largest[*f as usize]).sqrt();
                *strong = *norm > 0.0 && *norm >= least;
            }
        });
        strong
    }

    /// Makes T, and the candidates of the next level: what T makes of those of this one is R of T R.
    fn tentative(&mut self, pool: &Pool, shape: &Shape, left: &mut Vec<f64>) {
        let block = self.block();
        let k = self.candidates.len() / (self.elements() * block);
        let size = block * k;
        let candidates = &self.candidates;
        left.resize((shape.starts.len() - 1) * k * k, 0.0);
        self.t.resize(shape.members.len() * size, S::default());
        each_with(pool, (&mut self.t, size), &shape.starts, (left, k * k), |aggregate, t, left| {
            let members = &shape.members[shape.starts[aggregate]..shape.starts[aggregate + 1]];
            let own = members.iter().flat_map(|&e| &candidates[e as usize * size..][..size]);
            let mut exact: Vec<f64> = own.copied().collect();
            orthonormalise(&mut exact, k, left);
            t.iter_mut().zip(exact).for_each(|(t, exact)| *t = S::nearest(exact));
        });
    }

    /// P = (I - w D^-1 A) T.
    fn smooth(&mut self, pool: &Pool, shape: &Shape) {
        let block = self.block();
        let k = self.t.len() / (shape.members.len() * block);
        let of = |e: usize| {
            let (aggregate, place) = (shape.own[e], shape.place[e] as usize * block * k);
            (aggregate != NONE).then(|| (aggregate, &self.t[place..place + block * k]))
        };
        self.p.reshape(shape.p.clone(), block, k);
        let (a, smoother, square) = (&self.a, &self.smoother, block * block);
        each_ragged(pool, &mut self.p.values, &shape.p.starts, block * k, |e, out| {
            let mut at: SmallVec<[S; 4 * MOST * MOST]> = smallvec![S::default(); out.len()];
            let columns = shape.p.row(e);
            let place = |aggregate: u32| columns.partition_point(|c| *c < aggregate);
            let own = a.pattern.starts[e]..a.pattern.starts[e + 1];
            let beside = &a.pattern.columns[own.clone()];
            let row = SmoothRow {
                a: &a.values[own.start * square..own.end * square],
                term: |n: usize| of(beside[n] as usize).map(|(i, t)| (place(i), t)),
                smoother: &smoother[e * square..][..square],
                at: &mut at,
                out,
            };
            loops::run([block, block, k], row);
            if let Some((aggregate, t)) = of(e) {
                out[place(aggregate) * block * k..].iter_mut().zip(t).for_each(|(out, t)| *out += *t);
            }
        });
    }

    /// Makes rows and columns 0 whose diagonal entry in `next` is not above what rounding leaves of 0.
    fn silence(&self, pool: &Pool, noise: f64, next: &mut Blocks<S>) {
        let (block, k) = (self.block(), next.height);
        let mut diagonal = vec![S::default(); self.elements() * block];
        each(pool, &mut diagonal, block, |e, diagonal| {
            let own = self.a.pattern.place(e, e as u32).map_or(&[][..], |place| self.a.block(place));
            diagonal.iter_mut().zip(own.iter().step_by(block + 1)).for_each(|(to, v)| *to = *v);
        });
        let mut kept = vec![S::default(); next.pattern.rows() * k];
        each(pool, &mut kept, k, |aggregate, kept| {
            for (e, block_of_p) in self.columns.column(aggregate) {
                add_squares(block_of_p, &diagonal[e as usize * block..][..block], kept);
            }
            let own = next.pattern.place(aggregate, aggregate as u32).map_or(&[][..], |p| next.block(p));
            for (kept, diagonal) in kept.iter_mut().zip(own.iter().step_by(k + 1)) {
                let on = (*diagonal).into() > noise * (*kept).into();
                *kept = S::nearest(f64::from(u8::from(on)));
            }
        });
        let off = |n: usize| kept[n] == S::default();
        if !(0..kept.len()).any(off) {
            return;
        }
        let Blocks { pattern, values, .. } = next;
        each_ragged(pool, values, &pattern.starts, k * k, |i, row| {
            for (&j, block) in pattern.row(i).iter().zip(row.chunks_mut(k * k)) {
                // Transposed.
                let is_off = |n: usize| off(i * k + n % k) || off(j as usize * k + n / k);
                let all = block.iter_mut().enumerate().filter(|(n, _)| is_off(*n));
                all.for_each(|(_, v)| *v = S::default());
            }
        });
    }

    /// The largest eigenvalue of D^-1 A, a little more than the power method finds; the smoother is D^-1 still.
    fn largest_eigenvalue(&self, pool: &Pool) -> f64 {
        let n = self.elements() * self.block();
        let mut v: Vec<S> = (0..n).map(|i| S::nearest(aggregates::start(i))).collect();
        let (mut av, mut largest) = (vec![S::default(); n], 1.0);
        for _ in 0..POWER_STEPS {
            self.a.apply(pool, &v, &mut av);
            apply_inverse(pool, &self.smoother, self.block(), &av, &mut v);
            // Behind the first step v^T D v = 1.
            largest = sum(pool, n, |i| v[i].into() * av[i].into()).sqrt();
            if largest.is_nan() || largest <= 0.0 {
                return 1.0;
            }
            let scale = S::nearest(1.0 / largest);
            each(pool, &mut v, 1, |_, v| v[0] = scale * v[0]);
        }
        SAFETY * largest
    }

    /// Bytes of its numbers and lists, with so many candidates.
    pub fn bytes(&self, candidates: usize) -> usize {
        let (block, elements, number) = (self.block(), self.elements(), size_of::<S>());
        let lists = |p: &Pattern| p.starts.len() * size_of::<usize>() + p.columns.len() * size_of::<u32>();
        let a = &self.a.pattern;
        let blocks = (a.columns.len() + elements) * block * block * number;
        let shape = self.shape.as_ref().map_or(0, |s| {
            let own =
                (2 * s.own.len() + s.members.len()) * size_of::<u32>() + s.starts.len() * size_of::<usize>();
            let columns = s.columns.blocks.len() * 2 * size_of::<u32>();
            let products =
                (2 * s.p.columns.len() + s.ap.columns.len() + s.members.len()) * block * candidates;
            let half = s.next.half.columns.len() * candidates * candidates;
            own + columns
                + (products + half) * number
                + lists(&s.p)
                + lists(&s.ap)
                + s.next.bytes()
                + a.columns.len()
        });
        blocks + elements * block * candidates * size_of::<f64>() + lists(a) + shape
    }
}

/// The square of a block's Frobenius norm.
fn square<S: Number>(block: &[S]) -> f64 {
    let (fours, rest) = block.as_chunks::<4>();
    let mut sums = [0.0f64; 4];
    for four in fours {
        for j in 0..4 {
            let v: f64 = four[j].into();
            sums[j] += v * v;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&v| v.into() * v.into()).sum::<f64>()
}

impl Shape {
    fn new(a: &Arc<Pattern>, own: Vec<u32>, count: usize) -> Shape {
        let taken = own.iter().filter(|o| **o != NONE).count();
        let mut starts = vec![0; count + 1];
        own.iter().filter(|o| **o != NONE).for_each(|&o| starts[o as usize + 1] += 1);
        (0..count).for_each(|i| starts[i + 1] += starts[i]);
        let (mut next, mut members, mut place) = (starts.clone(), vec![0; taken], vec![0; own.len()]);
        for (e, &o) in own.iter().enumerate().filter(|(_, o)| **o != NONE) {
            members[next[o as usize]] = e as u32;
            place[e] = next[o as usize] as u32;
            next[o as usize] += 1;
        }
        let of = |e: usize| a.row(e).iter().map(|&f| own[f as usize]).filter(|o| *o != NONE).collect();
        let p = Pattern::new((0..a.rows()).map(of));
        let ap = a.times(&p);
        let columns = p.by_columns(count);
        let row =
            |i: usize| columns.of(i).iter().flat_map(|&(e, _)| ap.row(e as usize).iter().copied()).collect();
        let next = Symmetric::new(Pattern::new((0..count).map(row)));
        let (p, ap, columns) = (Arc::new(p), Arc::new(ap), Arc::new(columns));
        Shape { own, place, starts, members, a: a.clone(), p, ap, next, columns }
    }
}
