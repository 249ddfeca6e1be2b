//! The generated routines one by one, in float64, for the certificate of [`crate::check`].
//!
//! Nothing is compiled for the purpose: J^T J v and M^-1 r come out of the sweeps that a solve runs, on inputs that make
//! them plain. With r = 0, p_old = v and beta = 1, sweep A gives p = v; with alpha = 1, D = 0 and r = 0, sweep B gives r' = -J^T J v.
//! With p_old = 0 sweep A gives p = M^-1 r.

use crate::check::Routines;
use crate::error::SolveError;
use crate::matrix_free::params::Number;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::scalars::{AlphaScalar, PcgScalar};
use crate::matrix_free::skeleton::Space;
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::What;
use crate::problem::options::SolveOptions;
use sumsq_energy::emit::component_index;
use sumsq_energy::model::UnknownId;

/// The preconditioner that is certified: the first.
const M: u8 = 0;

/// The routines of a plan whose precisions are both float64.
pub struct Certified<'p> {
    plan: &'p mut Plan,
    /// Per space with unknowns, as set.
    free: Vec<Vec<bool>>,
}

impl<'p> Certified<'p> {
    /// The routines of `plan`, without bounds: nothing is held.
    pub fn new(plan: &'p mut Plan) -> Certified<'p> {
        plan.unbound();
        Certified { plan, free: vec![] }
    }

    /// One list per unknown from a vector over all unknown scalars.
    fn split(&self, all: &[f64]) -> Vec<Vec<f64>> {
        let mut lists = self.empty();
        let mut rest = all;
        for list in &mut lists {
            let (mine, others) = rest.split_at(list.len().min(rest.len()));
            list[..mine.len()].copy_from_slice(mine);
            rest = others;
        }
        lists
    }

    fn empty(&self) -> Vec<Vec<f64>> {
        let k = &self.plan.k;
        let elements = |s| self.plan.buffer(What::X.of(s)).map_or(0, |b| b.spec().len());
        k.energy.unknowns.iter().map(|u| vec![0.0; elements(u.space) * u.channels as usize]).collect()
    }

    /// The vector over all unknown scalars, 0 at excluded elements, from components `first..` of a vector per space.
    fn gather(&self, what: What, first: impl Fn(&Space) -> usize) -> Result<Vec<f64>, SolveError> {
        let mut lists = self.empty();
        self.plan.download(what, first, &mut lists)?;
        let k = &self.plan.k;
        for (u, list) in k.energy.unknowns.iter().zip(&mut lists) {
            let Some(free) = self.free.get(u.space.index()) else { continue };
            for (values, &free) in list.chunks_mut(u.channels as usize).zip(free) {
                if !free {
                    values.fill(0.0);
                }
            }
        }
        Ok(lists.concat())
    }

    fn linearise(&mut self, x: &[f64]) -> Result<(), SolveError> {
        let x = self.split(x);
        self.plan.upload(What::X, |_| 0, &x)?;
        self.plan.run(Phase::Linearise)
    }

    /// D and M^-1 at x.
    fn damp(&mut self, x: &[f64], inverse_radius: f64) -> Result<(), SolveError> {
        self.linearise(x)?;
        let options = SolveOptions::default();
        self.plan.set_number(Number::LeastDiagonal, options.min_lm_diagonal)?;
        self.plan.set_number(Number::MostDiagonal, options.max_lm_diagonal)?;
        self.plan.set_number(Number::Running, 0.0)?;
        let k = self.plan.k.clone();
        for space in &k.spaces {
            for c in 0..space.components {
                self.plan.set_number(Number::LargestBefore(space.id, c as u16), 0.0)?;
            }
        }
        self.plan.run(Phase::Scales)?;
        self.plan.set_number(Number::InvRadius, inverse_radius)?;
        self.plan.set_number(Number::DampingScale, 1.0)?;
        self.plan.run(Phase::Damping(M))?;
        self.plan.run(Phase::Prepare(M))?;
        self.plan.run(Phase::Start(M))
    }

    fn sweep_a(&mut self, beta: f64, r: &[f64], p: &[f64]) -> Result<(), SolveError> {
        self.plan.clear_direction();
        self.plan.set_scalars(&[(PcgScalar::Rz, 1.0), (PcgScalar::Beta, beta)])?;
        let (r, p) = (self.split(r), self.split(p));
        // r lies behind d.
        self.plan.upload(What::DR, |s| s.components, &r)?;
        self.plan.upload(What::P, |_| 0, &p)?;
        self.plan.run(Phase::SweepA(M))
    }
}

impl Routines for Certified<'_> {
    type Error = SolveError;

    fn set_free(&mut self, free: &[Vec<bool>]) -> Result<(), SolveError> {
        self.plan.set_free(free)?;
        self.free = free.to_vec();
        Ok(())
    }

    fn jtf(&mut self, x: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.linearise(x)?;
        self.gather(What::GradientAndBlocks, |_| 0)
    }

    fn diag(&mut self, x: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.linearise(x)?;
        let mut lists = self.empty();
        for (u, list) in lists.iter_mut().enumerate() {
            let field = &self.plan.k.energy.unknowns[u];
            let Some(space) = self.plan.k.spaces.iter().find(|s| s.id == field.space) else { continue };
            let Some(gb) = self.plan.buffer(What::GradientAndBlocks.of(space.id)) else { continue };
            gb.sync_host()?;
            let (values, stride) = (gb.to_vec::<f64>(), gb.spec().channels);
            let first = component_index(&self.plan.k.energy, UnknownId(u as u32), 0);
            let n = field.channels as usize;
            for (e, (to, from)) in list.chunks_mut(n).zip(values.chunks(stride)).enumerate() {
                let free = self.free.get(space.id.index()).is_none_or(|f| f[e]);
                for (c, to) in to.iter_mut().enumerate().filter(|_| free) {
                    let kept = space.kept_at(first + c, first + c).expect("the diagonal is kept");
                    *to = from[space.components + kept];
                }
            }
        }
        Ok(lists.concat())
    }

    fn jtjv(&mut self, x: &[f64], v: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.damp(x, 0.0)?;
        let zero = vec![0.0; v.len()];
        self.sweep_a(1.0, &zero, v)?;
        self.plan.set_scalars(&AlphaScalar::ALL.map(|s| (s, 1.0)))?;
        self.plan.run(Phase::SweepB(M))?;
        Ok(self.gather(What::DR, |s| s.components)?.into_iter().map(|r| 0.0 - r).collect())
    }

    fn build_preconditioner(&mut self, x: &[f64], inverse_radius: f64) -> Result<(), SolveError> {
        self.damp(x, inverse_radius)
    }

    fn apply_preconditioner(&mut self, r: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.sweep_a(0.0, r, &vec![0.0; r.len()])?;
        self.gather(What::PNew, |_| 0)
    }
}
