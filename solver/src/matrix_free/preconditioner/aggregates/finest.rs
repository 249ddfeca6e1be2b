//! Level 0: A of the numbers that generated code gives, and near-null candidates of it.

use crate::matrix_free::preconditioner::aggregates::blocks::{Blocks, Pattern};
use crate::matrix_free::preconditioner::aggregates::dense::invert;
use crate::matrix_free::preconditioner::aggregates::loops::Number;
use crate::matrix_free::preconditioner::aggregates::numbers::Numbers;
use crate::matrix_free::preconditioner::aggregates::rows::{each, each_ragged};
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::shape::{coordinates_of, number_of};
use crate::matrix_free::skeleton::packed;
use crate::problem::aggregates::{Candidate, MOST_COMPONENTS};
use crate::problem::data::GraphData;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::runtime::Pool;
use sumsq_energy::derive::PairCoupling;
use sumsq_energy::model::Graph;

/// Scalars of an element at most: bits of a mask.
pub const MOST: usize = MOST_COMPONENTS;

/// Channel, row and column of an entry.
type Channel = (usize, usize, usize);

/// A pair of slots of a graph, with what its hyperedges give.
struct Pair {
    /// The graph, by its place among those of the sources.
    graph: usize,
    /// Channels of its couplings.
    channels: usize,
    /// Its entries: channels, with their places in a transposed block of the first slot's row and of the second's.
    entries: Vec<(usize, [usize; 2])>,
}

/// Memory for candidates while their local components are made.
pub struct Completion<S> {
    /// The candidates without these, one column of blocks.
    held: Blocks<S>,
    /// A times that.
    force: Blocks<S>,
}

impl<S: Number> Completion<S> {
    /// For so many elements; nothing where no component is local.
    pub fn new(sources: &Sources, elements: usize) -> Completion<S> {
        let rows = if sources.spread.contains(&false) { elements } else { 0 };
        let (c, k) = (sources.components(), sources.candidates.len());
        let pattern = Arc::new(Pattern::column(rows));
        let blocks =
            |pattern| Blocks { pattern, height: c, width: k, values: vec![S::default(); rows * c * k] };
        Completion { held: blocks(pattern.clone()), force: blocks(pattern) }
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        (self.held.values.len() + self.force.values.len()) * size_of::<S>()
    }
}

/// A block that a hyperedge adds to a row of A.
#[derive(Clone, Copy)]
struct Share {
    pair: u16,
    transposed: bool,
    edge: u32,
    /// Its place among the blocks of A.
    place: u32,
}

/// The structure of A on level 0.
pub struct Finest {
    components: usize,
    extents: Vec<i32>,
    pattern: Arc<Pattern>,
    /// Per offset of the stencil its entries.
    offsets: Vec<(Vec<i32>, Vec<Channel>)>,
    stencil_channels: usize,
    pairs: Vec<Pair>,
    /// Per graph of the sources, numbers of its couplings.
    pair_numbers: Vec<usize>,
    /// Per row, the blocks that hyperedges add to it: where they begin, and all of them.
    starts: Vec<usize>,
    shares: Vec<Share>,
}

impl Finest {
    /// The structure for these sizes.
    pub fn new(sources: &Sources, extents: Vec<i32>, graphs: &[(&Graph, &GraphData)]) -> Finest {
        let elements = extents.iter().product::<i32>() as usize;
        let c = sources.components();
        let mut offsets: BTreeMap<Vec<i32>, Vec<Channel>> = BTreeMap::new();
        for (channel, e) in sources.stencil.iter().enumerate() {
            offsets.entry(e.offset.clone()).or_default().push((channel, e.row, e.column));
        }
        let (mut pairs, mut met) = (vec![], vec![vec![]; elements]);
        for (n, of_graph) in sources.pairs.iter().enumerate() {
            for (slots, entries) in by_slots(&of_graph.entries) {
                let (graph, data) = graphs[n];
                for edge in 0..data.edges {
                    let at = |slot| element_at(graph, data, slot, edge, &extents);
                    let (Some(a), Some(b)) = (at(slots.0), at(slots.1)) else { continue };
                    if a != b {
                        met[a].push((pairs.len() as u16, false, edge as u32, b as u32));
                        met[b].push((pairs.len() as u16, true, edge as u32, a as u32));
                    }
                }
                let places = |(channel, i, j)| (channel, [j * c + i, i * c + j]);
                let entries = entries.into_iter().map(places).collect();
                pairs.push(Pair { graph: n, channels: of_graph.channels, entries });
            }
        }
        let mut of = Finest {
            components: c,
            extents,
            pattern: Arc::default(),
            offsets: offsets.into_iter().collect(),
            stencil_channels: sources.stencil.len(),
            pairs,
            pair_numbers: sources
                .pairs
                .iter()
                .zip(graphs)
                .map(|(of, (_, data))| of.channels * data.edges)
                .collect(),
            starts: vec![0],
            shares: vec![],
        };
        let row = |e: usize| {
            let beside = of.offsets.iter().flat_map(|(offset, _)| of.beside(e, offset));
            let others = beside.flatten().chain(met[e].iter().map(|m| m.3 as usize));
            std::iter::once(e).chain(others).map(|f| f as u32).collect()
        };
        let pattern = Pattern::new((0..elements).map(row));
        for (e, met) in met.iter().enumerate() {
            of.shares.extend(met.iter().filter_map(|&(pair, transposed, edge, other)| {
                pattern.place(e, other).map(|place| Share { pair, transposed, edge, place: place as u32 })
            }));
            of.starts.push(of.shares.len());
        }
        of.pattern = Arc::new(pattern);
        of
    }

    /// The elements before and behind an element by an offset, where they are in the domain.
    fn beside(&self, e: usize, offset: &[i32]) -> [Option<usize>; 2] {
        let at = coordinates_of(e as i32, &self.extents);
        [1, -1].map(|sign| {
            let there: Vec<i32> = at.iter().zip(offset).map(|(x, o)| x + sign * o).collect();
            number_of(&there, &self.extents)
        })
    }

    /// The pattern of A.
    pub fn pattern(&self) -> Arc<Pattern> {
        self.pattern.clone()
    }

    /// Elements.
    pub fn elements(&self) -> usize {
        self.pattern.rows()
    }

    /// Per graph of the sources, numbers of its couplings.
    pub fn pair_numbers(&self) -> impl Iterator<Item = usize> {
        self.pair_numbers.iter().copied()
    }

    /// Extents of the space.
    pub fn extents(&self) -> &[i32] {
        &self.extents
    }

    /// Bytes of its lists.
    pub fn bytes(&self) -> usize {
        self.starts.len() * size_of::<usize>() + self.shares.len() * size_of::<Share>()
    }

    /// Makes `a` J^T J between scalars that take part, with transposed blocks.
    pub fn undamped<S: Number>(&self, pool: &Pool, of: &Numbers<S>, a: &mut Blocks<S>) {
        let c = self.components;
        a.reshape(self.pattern.clone(), c, c);
        let width = of.blocks.len() / self.elements();
        let pairs = (0..c).flat_map(|i| (0..c).map(move |j| (i, j)));
        let own: Vec<_> = pairs.filter_map(|(i, j)| Some((i, j, of.kept[packed(i, j)]?))).collect();
        each_ragged(pool, &mut a.values, &self.pattern.starts, c * c, |e, row| {
            row.fill(S::default());
            let columns = self.pattern.row(e);
            let mut add = |place: usize, i: usize, j: usize, value: S| row[(place * c + j) * c + i] += value;
            let place = |f: usize| columns.partition_point(|column| (*column as usize) < f);
            let here = place(e);
            for &(i, j, k) in &own {
                add(here, i, j, of.blocks[e * width + k]);
            }
            for (offset, entries) in &self.offsets {
                let places = self.beside(e, offset).map(|f| f.map(|f| (f, place(f))));
                for &(channel, i, j) in entries {
                    let value = |at: usize| of.stencil[at * self.stencil_channels + channel];
                    let [behind, before] = places;
                    behind.into_iter().for_each(|(_, place)| add(place, i, j, value(e)));
                    before.into_iter().for_each(|(f, place)| add(place, j, i, value(f)));
                }
            }
            for share in &self.shares[self.starts[e]..self.starts[e + 1]] {
                let pair = &self.pairs[usize::from(share.pair)];
                let numbers = &of.pairs[pair.graph][share.edge as usize * pair.channels..][..pair.channels];
                let block = &mut row[(share.place as usize - self.pattern.starts[e]) * c * c..][..c * c];
                for (channel, places) in &pair.entries {
                    block[places[usize::from(share.transposed)]] += numbers[*channel];
                }
            }
            let all = u16::MAX >> (MOST - c);
            for (f, block) in columns.iter().zip(row.chunks_exact_mut(c * c)) {
                let (on, beside) = (of.active[e], of.active[*f as usize]);
                if on & beside != all {
                    let off = block
                        .iter_mut()
                        .enumerate()
                        .filter(|(n, _)| on >> (n % c) & beside >> (n / c) & 1 == 0);
                    off.for_each(|(_, v)| *v = S::default());
                }
            }
        });
    }

    /// Makes the diagonal of `a` that of J^T J with D added.
    pub fn damp<S: Number>(&self, pool: &Pool, of: &Numbers<S>, a: &mut Blocks<S>) {
        let c = self.components;
        let width = of.blocks.len() / self.elements();
        let pattern = self.pattern.clone();
        each_ragged(pool, &mut a.values, &pattern.starts, c * c, |e, row| {
            let Some(place) = pattern.place(e, e as u32) else { return };
            let own = &mut row[(place - pattern.starts[e]) * c * c..][..c * c];
            for (i, k) in (0..c).filter_map(|i| Some((i, of.kept[packed(i, i)]?))) {
                if of.active[e] >> i & 1 != 0 {
                    own[i * c + i] = of.blocks[e * width + k] + of.damping[e * c + i];
                }
            }
        });
    }

    /// Makes the candidates, of J^T J: per scalar a number for each.
    pub fn candidates<S: Number>(
        &self,
        pool: &Pool,
        sources: &Sources,
        of: &Numbers<S>,
        a: &Blocks<S>,
        Completion { held, force }: &mut Completion<S>,
        all: &mut Vec<f64>,
    ) {
        let (c, k) = (self.components, sources.candidates.len());
        let mean = |component: usize| {
            let own = (0..self.elements()).filter(|&e| of.active[e] >> component & 1 != 0);
            own.clone().map(|e| of.x[e * c + component]).sum::<f64>() / own.count().max(1) as f64
        };
        let means: Vec<f64> = (0..c).map(mean).collect();
        let given = of.given.len() / self.elements();
        all.resize(of.x.len() * k, 0.0);
        each(pool, all, c * k, |e, b| {
            b.fill(0.0);
            let value = |i: usize| of.x[e * c + i] - means[i];
            for (n, candidate) in sources.candidates.iter().enumerate() {
                match *candidate {
                    Candidate::Constant(i) => b[i * k + n] = 1.0,
                    Candidate::Turn(i, j) => (b[i * k + n], b[j * k + n]) = (-value(j), value(i)),
                    Candidate::Given { component, count, channel } => {
                        let own = &of.given[e * given + channel..][..count];
                        own.iter().enumerate().for_each(|(i, v)| b[(component + i) * k + n] = *v);
                    }
                }
            }
            let off = (0..c).filter(|&i| of.active[e] >> i & 1 == 0);
            off.for_each(|i| b[i * k..(i + 1) * k].fill(0.0));
        });
        if !sources.spread.contains(&false) {
            return;
        }
        each(pool, &mut held.values, c * k, |e, held| {
            held.iter_mut().zip(&all[e * c * k..]).for_each(|(held, v)| *held = S::nearest(*v));
        });
        force.multiply(pool, a, held, held.pattern.clone());
        let local: Vec<usize> = (0..c).filter(|&i| !sources.spread[i]).collect();
        each(pool, all, c * k, |e, b| self.complete(&local, a, e, force.block(e), b));
    }

    /// Makes the local components of the candidates at an element minimise the energy with the spread ones held, which leave such a force there.
    fn complete<S: Number>(&self, local: &[usize], a: &Blocks<S>, e: usize, force: &[S], b: &mut [f64]) {
        let (c, n) = (self.components, local.len());
        let k = b.len() / c;
        let Some(own) = self.pattern.place(e, e as u32).map(|place| a.block(place)) else { return };
        let (mut block, mut inverse) = ([S::default(); MOST * MOST], [S::default(); MOST * MOST]);
        let pairs = local.iter().flat_map(|&i| local.iter().map(move |&j| (i, j)));
        block.iter_mut().zip(pairs).for_each(|(to, (i, j))| *to = own[i * c + j]);
        invert(&block[..n * n], n, &mut inverse[..n * n]);
        for (i, &row) in local.iter().enumerate() {
            for at in 0..k {
                let terms = local.iter().zip(&inverse[i * n..]);
                let terms = terms.map(|(&column, &m)| m.into() * force[column * k + at].into());
                b[row * k + at] = -terms.sum::<f64>();
            }
        }
    }
}

/// The entries of a graph, by pair of slots.
fn by_slots(entries: &[(usize, PairCoupling)]) -> BTreeMap<(u16, u16), Vec<Channel>> {
    let mut all: BTreeMap<(u16, u16), Vec<Channel>> = BTreeMap::new();
    for (channel, c) in entries {
        all.entry(c.slots).or_default().push((*channel, c.row, c.column));
    }
    all
}

/// The element at a slot of a hyperedge, if it is in the domain.
fn element_at(graph: &Graph, data: &GraphData, slot: u16, edge: usize, extents: &[i32]) -> Option<usize> {
    let (vertex, offset) = graph.vertex_of(slot);
    let element = data.vertices[usize::from(vertex)][edge];
    let Some(offset) = offset else { return Some(element as usize) };
    let at = coordinates_of(element as i32, extents);
    let there: Vec<i32> = at.iter().zip(offset).map(|(x, o)| x + o).collect();
    number_of(&there, extents)
}
