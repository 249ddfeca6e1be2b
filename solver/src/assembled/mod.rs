//! The explicit path: every residual differentiated by forward-mode evaluation, the Jacobian assembled as a sparse matrix.
//!
//! It shares nothing with the generated routines but the DAG of the residuals as written: neither symbolic derivatives, nor
//! simplification, nor gathers. So it is the oracle for them, and a baseline in the manner of general solvers.
//!
//! Rows of J are the residual instances that count, templates in order, instances ascending; columns are the free unknown
//! scalars. An instance counts iff one of its unknown reads lies in the domain at a free element.

mod aggregation;
mod cholesky;
mod derivative_images;
mod differences;
mod domain;
mod error;
mod eval;
mod hierarchy;
mod inverse;
mod jacobian;
mod locate;
mod loss;
mod model;
mod multigrid;
mod preconditioner;
pub(crate) mod random;
mod solve;
mod tape;
mod template;
mod threads;

pub use crate::assembled::derivative_images::DerivativeImage;
pub(crate) use crate::assembled::differences::Witness;
pub use crate::assembled::error::ExplicitError;
pub use crate::assembled::hierarchy::Hierarchies;
pub use crate::assembled::jacobian::Jacobian;
pub use crate::assembled::locate::{NonFinite, Partial, ValueRead};
pub(crate) use crate::assembled::model::AssembledModel;
pub use crate::assembled::model::LinearSolver;
pub use crate::assembled::solve::{SolveError, solve, solve_with};
pub(crate) use crate::assembled::threads::Threads;

use crate::assembled::domain::{Instance, Layout, Point};
use crate::assembled::eval::Workspace;
use crate::assembled::loss::Losses;
use crate::assembled::tape::{Read, Tape};
use crate::assembled::template::Template;
use crate::outer::lm::Energies;
use crate::problem::bounds::Bounds;
use crate::problem::data::{Numbers, ProblemData, loss_scales};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use sumsq_energy::dag::{Access, Source};
use sumsq_energy::model::{Domain, Energy, Loss, SpaceId, UnknownId};

/// Rows of one task. Sums are combined per task, in order: the size is part of the result's bits.
const CHUNK: usize = 2048;

/// Consecutive rows of one template.
struct Chunk {
    template: usize,
    /// Into the template's counted instances.
    instances: std::ops::Range<usize>,
}

/// A problem, ready to be evaluated at any x.
///
/// x is always the flat vector of *all* unknown scalars, excluded ones included; vectors that belong to columns of J (g,
/// diagonals, directions) hold the free ones only. [`Explicit::scatter`] and [`Explicit::gather`] translate.
pub struct Explicit<'a> {
    data: &'a ProblemData<'a>,
    /// Without computed arrays: their values stand where they are read.
    energy: Cow<'a, Energy>,
    /// Per array its numbers; those of constant views are the unknowns as last refreshed.
    arrays: Vec<Cow<'a, [f64]>>,
    layout: Layout<'a>,
    templates: Vec<Template>,
    chunks: Vec<Chunk>,
    losses: Losses,
    /// The scale of each block whose scale differs from place to place.
    scales: Vec<(usize, Tape)>,
    /// If the energy has any.
    bounds: Option<Bounds>,
    /// All zeros, with the pattern of J.
    pattern: Jacobian,
}

impl<'a> Explicit<'a> {
    /// Prepares `energy` on `data`, excluding what it excludes.
    pub fn new(energy: &'a Energy, data: &'a ProblemData<'a>) -> Result<Explicit<'a>, ExplicitError> {
        let free = free_elements(energy, data)?;
        Explicit::with_free(energy, data, free)
    }

    /// The same under a mask of one's own: per index space, whether each element is free.
    pub fn with_free(
        energy: &'a Energy,
        data: &'a ProblemData<'a>,
        free: Vec<Vec<bool>>,
    ) -> Result<Explicit<'a>, ExplicitError> {
        let mut explicit = Explicit::without_jacobian(energy, data, free)?;
        let Explicit { energy, layout, templates, chunks, .. } = &explicit;
        explicit.pattern = pattern(energy, layout, templates, chunks)?;
        Ok(explicit)
    }

    /// The same without the pattern of J, which can be larger than all else: for looking at residuals one by one, and nothing else.
    pub(crate) fn without_jacobian(
        energy: &'a Energy,
        data: &'a ProblemData<'a>,
        free: Vec<Vec<bool>>,
    ) -> Result<Explicit<'a>, ExplicitError> {
        data.check_declared(energy)?;
        check_scalars(data.unknown_lengths().into_iter().sum())?;
        let (energy, arrays) = (inlined(energy), arrays(energy, data));
        let layout = Layout::new(&energy, data, free);
        let templates = energy.residuals.iter().map(|residual| {
            let tape = Tape::compile(&energy, residual.domain, residual.value)?;
            let counted = counted_instances(&energy, &layout, residual.domain, &residual.unknown_reads)?;
            let (domain, guard) = (residual.domain, residual.guard.clone());
            let (group, block) = (residual.group.index(), residual.block.map(|b| b.index()));
            Ok(Template { tape, domain, guard, group, block, counted })
        });
        let templates: Vec<Template> = templates.collect::<Result<_, ExplicitError>>()?;
        let chunks = chunks(&templates);
        let pattern = Jacobian::zeros(0, vec![0], Vec::new());
        let scales = loss_scales(&energy, data.params())?;
        let losses = Losses::new(&energy, data.params(), &scales, &templates, |t| layout.instances(t.domain));
        let scales = local_scales(&energy, &templates)?;
        let bounds = bounds(&energy, data, &layout, &arrays)?;
        let mut explicit =
            Explicit { data, energy, arrays, layout, templates, chunks, losses, scales, bounds, pattern };
        explicit.rescale();
        Ok(explicit)
    }

    /// Evaluates the scales that differ from place to place.
    fn rescale(&mut self) {
        let point = Point { x: &[], arrays: &self.arrays, params: self.data.params(), bump: None };
        let mut work = Workspace::default();
        for (block, tape) in &self.scales {
            let members = || self.templates.iter().filter(|t| t.block == Some(*block));
            let Some(domain) = members().next().map(|t| t.domain) else { continue };
            let scale = |n: usize| {
                let at = self.layout.instance(domain, n);
                // Where all residuals are cut off, q is 0 and rho with it.
                let cut = members().all(|t| t.is_cut(&at));
                if cut { 1.0 } else { eval::value(tape, &at, &point, &mut work) }
            };
            self.losses.rescale(*block, (0..self.layout.instances(domain)).map(scale));
        }
    }

    /// Constant views take the values that the unknowns have at x.
    pub fn refresh_views(&mut self, x: &[f64]) {
        for (array, values) in self.energy.arrays.iter().zip(&mut self.arrays) {
            if let Some(unknown) = array.view_of {
                *values = Cow::Owned(x[self.layout.part(unknown)].to_vec());
            }
        }
        self.rescale();
    }

    /// Number of unknown scalars, excluded ones included: the length of x.
    pub fn scalars(&self) -> usize {
        self.layout.scalars()
    }

    /// Number of free unknown scalars: the columns of J.
    pub fn free(&self) -> usize {
        self.layout.free_scalars().len()
    }

    /// Number of residual instances that count: the rows of J.
    pub fn rows(&self) -> usize {
        self.pattern.rows().rows()
    }

    /// Per column of J, its place in x.
    pub fn free_scalars(&self) -> &[u32] {
        self.layout.free_scalars()
    }

    /// The channel of an unknown that each column of J belongs to, numbered through all unknowns.
    pub(crate) fn components(&self) -> Vec<usize> {
        let (mut of_scalars, mut first) = (Vec::with_capacity(self.scalars()), 0);
        for (u, f) in self.energy.unknowns.iter().enumerate() {
            let channels = usize::from(f.channels);
            let scalars = 0..self.layout.part(UnknownId(u as u32)).len();
            of_scalars.extend(scalars.map(|i| first + i % channels));
            first += channels;
        }
        self.free_scalars().iter().map(|&s| of_scalars[s as usize]).collect()
    }

    /// The columns of J of the unknown scalars of an element; none where it is excluded.
    pub(crate) fn columns_at(&self, space: SpaceId, element: usize) -> Vec<u32> {
        self.columns_of(space, element, 0..usize::MAX)
    }

    /// As [`Explicit::columns_at`], of a run of its components.
    pub(crate) fn columns_of(&self, space: SpaceId, element: usize, run: Range<usize>) -> Vec<u32> {
        let unknowns = self.energy.unknowns.iter().enumerate().filter(|(_, f)| f.space == space);
        let scalars = unknowns.flat_map(|(u, f)| {
            (0..usize::from(f.channels)).map(move |channel| self.layout.scalar(u, element, channel))
        });
        scalars.skip(run.start).take(run.len()).filter_map(|s| self.layout.column(s)).collect()
    }

    /// The unknowns as bound, flat.
    pub fn initial(&self) -> Vec<f64> {
        self.data.x()
    }

    /// The unknowns as bound, moved into their bounds, and a warning where they were not inside.
    fn feasible(&self) -> (Vec<f64>, Vec<String>) {
        let Some(bounds) = &self.bounds else { return (self.initial(), Vec::new()) };
        let mut unknowns: Vec<Vec<f64>> = self.data.unknowns().into_iter().map(Cow::into_owned).collect();
        let warnings = bounds.project(&self.energy, &mut unknowns, |u, element| {
            self.layout.column(self.layout.scalar(u, element, 0)).is_some()
        });
        (unknowns.concat(), warnings)
    }

    /// The box bounds of the unknowns, if the energy has any.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
    }

    /// Lower and upper bound of each column of J, if the energy has any.
    pub(crate) fn column_bounds(&self) -> Option<[Vec<f64>; 2]> {
        let of_columns = |lists: &[Vec<f64>]| self.gather(&lists.concat());
        self.bounds.as_ref().map(|b| [of_columns(&b.lower), of_columns(&b.upper)])
    }

    /// A vector over columns, spread over all unknown scalars; 0 at excluded ones.
    pub fn scatter(&self, v: &[f64]) -> Vec<f64> {
        let mut all = vec![0.0; self.scalars()];
        self.free_scalars().iter().zip(v).for_each(|(&s, &v)| all[s as usize] = v);
        all
    }

    /// The entries of the free unknowns of a vector over all scalars.
    pub fn gather(&self, all: &[f64]) -> Vec<f64> {
        self.free_scalars().iter().map(|&s| all[s as usize]).collect()
    }

    /// The residuals that count, r(x), without regard to losses.
    pub fn residuals(&self, x: &[f64]) -> Vec<f64> {
        let mut residuals = vec![0.0; self.rows()];
        let point = self.point(x);
        let (mut rest, mut tasks) = (residuals.as_mut_slice(), Vec::new());
        for chunk in &self.chunks {
            let (mine, others) = rest.split_at_mut(chunk.instances.len());
            tasks.push((chunk, mine));
            rest = others;
        }
        tasks.into_par_iter().for_each(|(chunk, mine)| {
            let mut work = Workspace::default();
            self.instances(chunk).zip(mine).for_each(|((template, at), r)| {
                *r = template.value(&at, &point, &mut work);
            });
        });
        residuals
    }

    /// E(x), in total and per group: the sum of r^2, under a loss that of rho.
    pub fn energies(&self, x: &[f64]) -> Energies {
        let residuals = self.residuals(x);
        let mut by_group = vec![0.0; self.energy.groups.len()];
        let mut rest = residuals.as_slice();
        for chunk in &self.chunks {
            let (mine, others) = rest.split_at(chunk.instances.len());
            let template = &self.templates[chunk.template];
            if template.block.is_none() {
                by_group[template.group] += mine.iter().map(|r| r * r).sum::<f64>();
            }
            rest = others;
        }
        self.losses.add_energies(&residuals, &mut by_group);
        Energies { total: by_group.iter().sum(), by_group }
    }

    /// r(x) and J(x); under a loss r~ and J~, so that J^T r is half the gradient of E.
    pub fn linearise(&self, x: &[f64]) -> (Vec<f64>, Jacobian) {
        let mut jacobian = self.pattern.clone();
        let mut residuals = vec![0.0; self.rows()];
        self.linearise_into(x, &mut residuals, &mut jacobian);
        (residuals, jacobian)
    }

    /// r(x) and J(x), into what an earlier [`Explicit::linearise`] returned. Returns diag(J^T J) to first order, if some loss is of second.
    pub fn linearise_into(
        &self,
        x: &[f64],
        residuals: &mut [f64],
        jacobian: &mut Jacobian,
    ) -> Option<Vec<f64>> {
        let point = self.point(x);
        jacobian.refill(|indptr, columns, values| {
            let (mut tasks, mut row) = (Vec::with_capacity(self.chunks.len()), 0);
            let (mut rest, mut rest_values) = (&mut *residuals, values);
            for chunk in &self.chunks {
                let rows = chunk.instances.len();
                let starts = &indptr[row..=row + rows];
                let (mine, others) = rest.split_at_mut(rows);
                let (mine_values, other_values) = rest_values.split_at_mut(starts[rows] - starts[0]);
                tasks.push((chunk, starts, mine, mine_values));
                (rest, rest_values, row) = (others, other_values, row + rows);
            }
            tasks.into_par_iter().for_each(|(chunk, starts, residuals, values)| {
                let mut work = Workspace::default();
                values.fill(0.0);
                for (i, (template, at)) in self.instances(chunk).enumerate() {
                    let entries = starts[i]..starts[i + 1];
                    let local = entries.start - starts[0]..entries.end - starts[0];
                    residuals[i] =
                        template.row(&at, &point, &columns[entries], &mut values[local], &mut work);
                }
            });
        });
        let first_order = self.losses.first_order_diag(residuals, jacobian);
        self.losses.apply(residuals, jacobian);
        first_order
    }

    /// J(x), under a loss J~.
    pub fn jacobian(&self, x: &[f64]) -> sprs::CsMat<f64> {
        self.linearise(x).1.rows().to_other_types()
    }

    /// g = J^T r, not doubled.
    pub fn gradient(&self, x: &[f64]) -> Vec<f64> {
        let (residuals, jacobian) = self.linearise(x);
        jacobian.apply_transpose(&residuals)
    }

    /// diag(J^T J).
    pub fn diag(&self, x: &[f64]) -> Vec<f64> {
        self.linearise(x).1.diag()
    }

    /// J^T J v.
    pub fn jtjv(&self, x: &[f64], v: &[f64]) -> Vec<f64> {
        let (_, jacobian) = self.linearise(x);
        jacobian.apply_transpose(&jacobian.apply(v))
    }

    fn point<'p>(&'p self, x: &'p [f64]) -> Point<'p> {
        Point { x, arrays: &self.arrays, params: self.data.params(), bump: None }
    }

    /// The rows of a chunk.
    fn instances<'s>(&'s self, chunk: &Chunk) -> impl Iterator<Item = (&'s Template, Instance<'s>)> {
        let template = &self.templates[chunk.template];
        template.counted[chunk.instances.clone()]
            .iter()
            .map(move |&n| (template, self.layout.instance(template.domain, n as usize)))
    }
}

/// Columns of J are 32-bit numbers, of which one stands for none.
fn check_scalars(scalars: usize) -> Result<(), ExplicitError> {
    if scalars < u32::MAX as usize { Ok(()) } else { Err(ExplicitError::TooManyScalars { scalars }) }
}

/// The energy without computed arrays.
fn inlined(energy: &Energy) -> Cow<'_, Energy> {
    if energy.computed.is_empty() { Cow::Borrowed(energy) } else { Cow::Owned(energy.inlined()) }
}

/// The numbers of each array; a constant view starts as its unknown.
fn arrays<'a>(energy: &Energy, data: &'a ProblemData<'a>) -> Vec<Cow<'a, [f64]>> {
    let numbers = energy.arrays.iter().enumerate().map(|(a, array)| match array.view_of {
        Some(unknown) => Some(&data.unknown_numbers()[unknown.index()]),
        None => data.array_numbers()[a].as_ref(),
    });
    numbers.map(|n| n.map(Numbers::doubles).unwrap_or_default()).collect()
}

/// Per index space, whether each element is free: an element is excluded where any Exclude expression is not 0.
pub fn free_elements(energy: &Energy, data: &ProblemData) -> Result<Vec<Vec<bool>>, ExplicitError> {
    data.check_declared(energy)?;
    let elements = |s: usize| data.elements(energy, SpaceId(s as u32));
    let mut free: Vec<Vec<bool>> = (0..energy.spaces.len()).map(|s| vec![true; elements(s)]).collect();
    if energy.excludes.is_empty() {
        return Ok(free);
    }
    // Excludes read arrays only: no mask and no unknown has a say in them.
    let (energy, arrays) = (&*inlined(energy), arrays(energy, data));
    let layout = Layout::new(energy, data, free.clone());
    let point = Point { x: &[], arrays: &arrays, params: data.params(), bump: None };
    for &(space, condition) in &energy.excludes {
        let domain = Domain::Space(space);
        let tape = Tape::compile(energy, domain, condition)?;
        if !tape.slots.is_empty() {
            return Err(ExplicitError::Unsupported { what: "an Exclude that reads an unknown".to_string() });
        }
        let flags = free[space.index()].par_iter_mut().enumerate().with_min_len(CHUNK);
        flags.for_each_init(Workspace::default, |work, (element, flag)| {
            *flag &= eval::value(&tape, &layout.instance(domain, element), &point, work) == 0.0;
        });
    }
    Ok(free)
}

/// The scales of losses that differ from place to place, by block.
fn local_scales(energy: &Energy, templates: &[Template]) -> Result<Vec<(usize, Tape)>, ExplicitError> {
    let mut scales = Vec::new();
    for (number, block) in energy.blocks.iter().enumerate() {
        let Loss::Scaled(_, scale) = block.loss else { continue };
        let member = templates.iter().find(|t| t.block == Some(number));
        let Some(member) = member.filter(|_| !energy.dag.is_uniform(scale)) else { continue };
        scales.push((number, Tape::compile(energy, member.domain, scale)?));
    }
    Ok(scales)
}

/// The box bounds, evaluated at every element.
fn bounds(
    energy: &Energy,
    data: &ProblemData,
    layout: &Layout<'_>,
    arrays: &[Cow<'_, [f64]>],
) -> Result<Option<Bounds>, ExplicitError> {
    if energy.bounds.is_empty() {
        return Ok(None);
    }
    let mut bounds = Bounds::none(data);
    let point = Point { x: &[], arrays, params: data.params(), bump: None };
    for of in &energy.bounds {
        let (u, domain) = (of.unknown.index(), Domain::Space(energy.unknowns[of.unknown.index()].space));
        for (expressions, values) in [(&of.lower, &mut bounds.lower[u]), (&of.upper, &mut bounds.upper[u])] {
            for (channel, &expression) in expressions.iter().enumerate() {
                let tape = Tape::compile(energy, domain, expression)?;
                let elements = values.par_chunks_mut(expressions.len()).enumerate().with_min_len(CHUNK);
                elements.for_each_init(Workspace::default, |work, (element, scalars)| {
                    scalars[channel] = eval::value(&tape, &layout.instance(domain, element), &point, work);
                });
            }
        }
    }
    bounds.check(energy, data)?;
    Ok(Some(bounds))
}

/// The instances of a template that count: those with a free unknown among `reads`.
fn counted_instances(
    energy: &Energy,
    layout: &Layout<'_>,
    domain: Domain,
    reads: &[Access],
) -> Result<Vec<u32>, ExplicitError> {
    let unknowns = reads.iter().filter_map(|access| match access.source {
        Source::Unknown(u) => Some((access, u)),
        _ => None,
    });
    let reads = unknowns.map(|(access, u)| {
        let place = tape::place(energy, domain, energy.unknowns[u.index()].space, &access.at)?;
        Ok(Read { source: access.source, channel: access.channel, place, slot: None })
    });
    let reads: Vec<Read> = reads.collect::<Result<_, ExplicitError>>()?;
    let counts = |&n: &u32| {
        let at = layout.instance(domain, n as usize);
        reads.iter().any(|read| at.column(read).is_some())
    };
    let numbers = 0..layout.instances(domain) as u32;
    Ok(numbers.into_par_iter().with_min_len(CHUNK).filter(counts).collect())
}

fn chunks(templates: &[Template]) -> Vec<Chunk> {
    let of_template = |(template, t): (usize, &Template)| {
        let n = t.counted.len();
        let starts = (0..n).step_by(CHUNK);
        starts
            .map(move |start| Chunk { template, instances: start..(start + CHUNK).min(n) })
            .collect::<Vec<_>>()
    };
    templates.iter().enumerate().flat_map(of_template).collect()
}

/// The pattern of J: per row, the distinct columns of the unknowns it reads; under a loss of second order of those that its block reads.
fn pattern(
    energy: &Energy,
    layout: &Layout<'_>,
    templates: &[Template],
    chunks: &[Chunk],
) -> Result<Jacobian, ExplicitError> {
    let of_chunk = |chunk: &Chunk| {
        let template = &templates[chunk.template];
        let block = template.block.filter(|&b| energy.blocks[b].second_order);
        let read: Vec<&Template> = match block {
            None => vec![template],
            Some(_) => templates.iter().filter(|t| t.block == block).collect(),
        };
        let (mut lengths, mut all) = (Vec::new(), Vec::new());
        let mut columns: Vec<u32> = Vec::new();
        for &n in &template.counted[chunk.instances.clone()] {
            let at = layout.instance(template.domain, n as usize);
            columns.clear();
            if !template.is_cut(&at) {
                for t in &read {
                    let slots = t.tape.result_slots().iter();
                    columns.extend(slots.filter_map(|&s| at.column(t.tape.slot_read(s))));
                }
                columns.sort_unstable();
                columns.dedup();
            }
            lengths.push(columns.len());
            all.extend_from_slice(&columns);
        }
        (lengths, all)
    };
    let parts: Vec<(Vec<usize>, Vec<u32>)> = chunks.par_iter().map(of_chunk).collect();
    let entries = parts.iter().map(|p| p.1.len()).sum();
    if entries > u32::MAX as usize {
        return Err(ExplicitError::TooLarge { entries });
    }
    let (mut indptr, mut indices) = (vec![0], Vec::with_capacity(entries));
    for (lengths, columns) in parts {
        for length in lengths {
            indptr.push(indptr[indptr.len() - 1] + length);
        }
        indices.extend(columns);
    }
    Ok(Jacobian::zeros(layout.free_scalars().len(), indptr, indices))
}

#[cfg(test)]
mod tests;
