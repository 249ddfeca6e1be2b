//! Numbers of a problem on their way into a plan's buffers: one pass over each, on the plan's threads, from wherever they lie. What the buffers
//! hold already is not copied again.

use crate::error::{SolveError, Stale};
use crate::matrix_free::params::Number;
use crate::matrix_free::plan::{Plan, Uploaded};
use crate::matrix_free::skeleton::Space;
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::{VectorId, What};
use crate::problem::data::{ArrayView, Numbers, ProblemData};
use sumsq_codegen::runtime::{Buffer, View};
use sumsq_energy::dag::ExprId;
use sumsq_energy::emit::component_index;
use sumsq_energy::model::{ArrayId, Energy, Field, ParamId, UnknownId};

impl Plan {
    /// Copies the unknowns to x, and evaluates what is excluded and bounds where these read constant views.
    pub fn upload_unknowns(&mut self, data: &ProblemData<'_>) -> Result<(), SolveError> {
        for (u, numbers) in data.unknown_numbers().iter().enumerate() {
            let field = &self.k.energy.unknowns[u];
            let first = component_index(&self.k.energy, UnknownId(u as u32), 0);
            let from = self.view(numbers, field, data)?;
            self.copy_numbers(self.essential(What::X.of(field.space)), first, numbers, &from, field)?;
            self.release(numbers)?;
        }
        self.start(Phase::Matched)?;
        let k = self.k.clone();
        let arrays = (0..).map(ArrayId).zip(&k.energy.arrays);
        let views: Vec<ArrayId> = arrays.filter(|(_, a)| a.view_of.is_some()).map(|(id, _)| id).collect();
        self.evaluate_held(|of| k.energy.may_read(of, &views, &[]))
    }

    /// Evaluates what is excluded, and bounds, where `changed` says so of their expressions.
    fn evaluate_held(&mut self, changed: impl Fn(&[ExprId]) -> bool) -> Result<(), SolveError> {
        let k = self.k.clone();
        let excludes: Vec<ExprId> = k.energy.excludes.iter().map(|(_, e)| *e).collect();
        if changed(&excludes) {
            self.evaluate_masks()?;
        }
        let bounds = k.energy.bounds.iter().flat_map(|b| b.lower.iter().chain(&b.upper)).copied();
        if changed(&bounds.collect::<Vec<_>>()) {
            self.run(Phase::Bounds)?;
        }
        Ok(())
    }

    /// Copies arrays and params that are not there yet, and evaluates what is excluded and bounds where these changed.
    pub fn upload_arrays(&mut self, data: &ProblemData<'_>) -> Result<(), SolveError> {
        let (k, changed) = (self.k.clone(), self.changed(data));
        let first = self.uploaded.arrays.is_empty();
        self.copy_arrays(data, |_| true)?;
        self.evaluate_held(|of| first || changed.read_by(&k.energy, of))
    }

    /// Copies arrays and params that have changed, these vectors of them.
    pub(super) fn copy_arrays(
        &mut self,
        data: &ProblemData<'_>,
        which: impl Fn(&VectorId) -> bool,
    ) -> Result<(), SolveError> {
        let (k, changed) = (self.k.clone(), self.changed(data));
        for &(array, numbers) in &changed.arrays {
            let field = &k.energy.arrays[array.index()];
            let from = self.view(numbers, field, data)?;
            for &id in k.arrays[array.index()].iter().filter(|id| which(id)) {
                let held = self.buffer(id).is_some();
                if held && !self.borrow(id, numbers, &from)? {
                    self.copy_numbers(self.essential(id), 0, numbers, &from, field)?;
                }
            }
            self.release(numbers)?;
        }
        for &param in &changed.params {
            for (c, &v) in data.params()[param.index()].iter().enumerate() {
                self.set_number(Number::Energy(param, c as u16), v)?;
            }
        }
        self.uploaded = Uploaded {
            arrays: data.array_numbers().iter().map(|a| a.as_ref().map(Numbers::stamp)).collect(),
            params: data.param_stamps().to_vec(),
            graphs: data.graph_stamp(),
        };
        Ok(())
    }

    /// The first of the graphs, arrays and params of `data` that the plan does not hold.
    pub fn stale(&self, data: &ProblemData<'_>) -> Option<Stale> {
        if self.stale_graphs(data) {
            return Some(Stale::Graphs);
        }
        let Changed { arrays, params } = self.changed(data);
        let energy = &self.k.energy;
        let array = arrays.first().map(|(a, _)| Stale::Array(energy.arrays[a.index()].name.clone()));
        array.or_else(|| params.first().map(|p| Stale::Param(energy.params[p.index()].name.clone())))
    }

    /// Tells whether the graphs of `data` are others than those of the plan.
    pub fn stale_graphs(&self, data: &ProblemData<'_>) -> bool {
        !self.k.energy.graphs.is_empty() && self.uploaded.graphs != data.graph_stamp()
    }

    fn changed<'d>(&self, data: &'d ProblemData<'_>) -> Changed<'d> {
        let arrays = data.array_numbers().iter().enumerate().filter_map(|(a, numbers)| {
            let numbers = numbers.as_ref()?;
            let known = self.uploaded.arrays.get(a).copied().flatten();
            (known != Some(numbers.stamp())).then_some((ArrayId(a as u32), numbers))
        });
        let params = data.param_stamps().iter().enumerate();
        let params = params.filter(|&(p, stamp)| self.uploaded.params.get(p) != Some(stamp));
        Changed { arrays: arrays.collect(), params: params.map(|(p, _)| ParamId(p as u32)).collect() }
    }

    /// The numbers of a field where they lie: the channels, then its dims.
    pub(super) fn view<'d>(
        &self,
        numbers: &'d Numbers<'_>,
        field: &Field,
        data: &ProblemData<'_>,
    ) -> Result<View<'d>, SolveError> {
        self.check_device(numbers, field)?;
        let extents = data.extents(&self.k.energy, field.space);
        let shaped = if self.k.energy.is_global(field.space) { 0 } else { extents.len() };
        let view = numbers.channels(usize::from(field.channels), &extents, shaped);
        view.map_err(|source| SolveError::of_buffer(&field.name, source))
    }

    /// Copies the numbers of a field to the channels of a buffer from `first` on.
    fn copy_numbers(
        &self,
        to: &Buffer,
        first: usize,
        numbers: &Numbers<'_>,
        from: &View<'_>,
        field: &Field,
    ) -> Result<(), SolveError> {
        if let Some(on) = &self.device {
            let there = from.spec().len() * to.spec().ty.bytes();
            if numbers.device().is_some() {
                on.count_copy();
            }
            if numbers.device().is_some() || on.transfers.pays(from, to.spec().ty, there) {
                return on.transfers.fill(to, first, from, &self.pool);
            }
        }
        let copied = to.copy_channels(first, from, &self.pool);
        copied.map_err(|source| SolveError::of_buffer(&field.name, source))
    }

    /// Packs one list per unknown into the components `first..` of an essential vector over every space; its other components become 0.
    pub(crate) fn upload(
        &self,
        what: What,
        first: impl Fn(&Space) -> usize,
        from: &[Vec<f64>],
    ) -> Result<(), SolveError> {
        for s in &self.k.spaces {
            let buffer = self.essential(what.of(s.id));
            buffer.fill(0.0);
            let extents: Vec<usize> = buffer.spec().extents.iter().map(|&e| e as usize).collect();
            for (u, values) in from.iter().enumerate() {
                let field = &self.k.energy.unknowns[u];
                if field.space != s.id {
                    continue;
                }
                let at = first(s) + component_index(&self.k.energy, UnknownId(u as u32), 0);
                let shape: Vec<usize> =
                    extents.iter().rev().copied().chain([usize::from(field.channels)]).collect();
                let view = ArrayView::new(&field.name, &shape, values.as_slice());
                let copied = view.channels(usize::from(field.channels), &extents, extents.len());
                let copied = copied.and_then(|view| buffer.copy_channels(at, &view, &self.pool));
                copied.map_err(|source| SolveError::of_buffer(&field.name, source))?;
            }
        }
        Ok(())
    }

    /// Copies x to the unknowns: all of it or, where a device does not hand it out, none.
    pub fn download_unknowns(&self, data: &mut ProblemData<'_>) -> Result<(), SolveError> {
        let unknowns = 0..self.k.energy.unknowns.len();
        let (there, here): (Vec<usize>, Vec<usize>) =
            unknowns.partition(|&u| self.device.is_some() && data.unknown_numbers()[u].device().is_some());
        for &u in &here {
            self.essential(What::X.of(self.k.energy.unknowns[u].space)).sync_host()?;
        }
        there.into_iter().try_for_each(|u| self.hand_out(u, data))?;
        here.into_iter().try_for_each(|u| self.download_one(What::X, |_| 0, u, data.new_unknown(u)))
    }

    /// Unpacks the components `first..` of a vector over every space into one list per unknown, which stays as it is where there is no
    /// such vector.
    pub(crate) fn download(
        &self,
        what: What,
        first: impl Fn(&Space) -> usize,
        to: &mut [Vec<f64>],
    ) -> Result<(), SolveError> {
        to.iter_mut().enumerate().try_for_each(|(u, values)| self.download_one(what, &first, u, values))
    }

    fn download_one(
        &self,
        what: What,
        first: impl Fn(&Space) -> usize,
        unknown: usize,
        to: &mut [f64],
    ) -> Result<(), SolveError> {
        let field = &self.k.energy.unknowns[unknown];
        let Some(buffer) = self.buffer(what.of(field.space)) else { return Ok(()) };
        let at = first(self.k.space_of_unknowns(field.space))
            + component_index(&self.k.energy, UnknownId(unknown as u32), 0);
        let copied = buffer.copy_channels_to(at, usize::from(field.channels), to, &self.pool);
        copied.map_err(|source| SolveError::of_buffer(&field.name, source))
    }
}

/// Numbers that the buffers do not hold yet.
struct Changed<'d> {
    arrays: Vec<(ArrayId, &'d Numbers<'d>)>,
    params: Vec<ParamId>,
}

impl Changed<'_> {
    /// Tells whether expressions read any of it, or could.
    fn read_by(&self, energy: &Energy, roots: &[ExprId]) -> bool {
        let arrays: Vec<ArrayId> = self.arrays.iter().map(|(a, _)| *a).collect();
        energy.may_read(roots, &arrays, &self.params)
    }
}
