//! The numbers of level 0 as generated code leaves them, in the memory of a hierarchy.

use crate::matrix_free::preconditioner::aggregates::level::News;
use crate::matrix_free::preconditioner::aggregates::loops::Number;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::skeleton::packed;
use crate::problem::aggregates::Candidate;
use sumsq_codegen::runtime::{Buffer, BufferError, Pool};

/// The vectors of a plan that they are in.
pub struct Source<'a> {
    /// g and the kept entries of the diagonal blocks of J^T J.
    pub blocks: &'a Buffer,
    /// The place of an entry of a block, packed, among the kept ones.
    pub kept: Vec<Option<usize>>,
    /// D, then 1 where a scalar takes part and 0 elsewhere.
    pub damping: &'a Buffer,
    /// The couplings of stencils.
    pub stencil: Option<&'a Buffer>,
    /// Those of every graph of the sources, by hyperedge.
    pub pairs: Vec<&'a Buffer>,
    /// The unknowns.
    pub x: &'a Buffer,
    /// The given displacements.
    pub given: Option<&'a Buffer>,
}

/// The numbers, by element, channels innermost.
pub struct Numbers<S> {
    components: usize,
    /// The kept entries of the diagonal blocks of J^T J.
    pub blocks: Vec<S>,
    /// The place of an entry of a block, packed, among them.
    pub kept: Vec<Option<usize>>,
    /// Per element, the bits of the scalars that take part.
    pub active: Vec<u16>,
    /// D.
    pub damping: Vec<S>,
    /// The couplings of stencils.
    pub stencil: Vec<S>,
    /// Those of every graph of the sources, by hyperedge.
    pub pairs: Vec<Vec<S>>,
    /// The unknowns.
    pub x: Vec<f64>,
    /// The given displacements.
    pub given: Vec<f64>,
}

impl<S: Number> Numbers<S> {
    /// Room for those of a space of so many elements, with so many couplings of every graph of the sources.
    pub fn new(sources: &Sources, n: usize, pairs: impl Iterator<Item = usize>) -> Numbers<S> {
        let c = sources.components();
        let given = sources.candidates.iter().map(|of| match of {
            Candidate::Given { count, .. } => *count,
            Candidate::Constant(_) | Candidate::Turn(..) => 0,
        });
        let zeros = |channels: usize| vec![S::default(); n * channels];
        Numbers {
            components: c,
            blocks: zeros(packed(c, 0)),
            kept: vec![],
            active: vec![0; n],
            damping: zeros(c),
            stencil: zeros(sources.stencil.len()),
            pairs: pairs.map(|n| vec![S::default(); n]).collect(),
            x: vec![0.0; n * c],
            given: vec![0.0; n * given.sum::<usize>()],
        }
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// A device that does not hand it out.
    pub fn read(&mut self, pool: &Pool, news: News, of: &Source<'_>) -> Result<(), BufferError> {
        let c = self.components;
        channels(pool, of.damping, 0, c, &mut self.damping)?;
        if news == News::Diagonal {
            return Ok(());
        }
        let mut active = vec![0u8; self.active.len() * c];
        of.damping.copy_channels_to(c, c, &mut active, pool)?;
        for (bits, on) in self.active.iter_mut().zip(active.chunks(c)) {
            *bits = on.iter().enumerate().fold(0, |bits, (i, on)| bits | u16::from(on & 1) << i);
        }
        self.kept.clone_from(&of.kept);
        channels(pool, of.blocks, c, of.kept.iter().flatten().count(), &mut self.blocks)?;
        if let Some(stencil) = of.stencil {
            channels(pool, stencil, 0, stencil.spec().channels, &mut self.stencil)?;
        }
        for (from, to) in of.pairs.iter().zip(&mut self.pairs) {
            channels(pool, from, 0, from.spec().channels, to)?;
        }
        of.x.copy_channels_to(0, c, &mut self.x, pool)?;
        if let Some(given) = of.given {
            given.copy_channels_to(0, given.spec().channels, &mut self.given, pool)?;
        }
        Ok(())
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        let pairs = self.pairs.iter().map(Vec::len).sum::<usize>();
        let numbers = self.blocks.len() + self.damping.len() + self.stencil.len() + pairs;
        numbers * size_of::<S>()
            + (self.x.len() + self.given.len()) * size_of::<f64>()
            + 2 * self.active.len()
    }
}

/// Copies so many channels of a vector from one on.
fn channels<S: Number>(
    pool: &Pool,
    from: &Buffer,
    first: usize,
    count: usize,
    to: &mut Vec<S>,
) -> Result<(), BufferError> {
    to.resize(from.spec().len() * count, S::default());
    from.copy_channels_to(first, count, to, pool)
}
