//! The generated routines one by one, in float64, for the certificate of [`crate::check`].
//!
//! Nothing is compiled for the purpose: J^T J v and M^-1 r come out of the sweeps that a solve runs, on inputs that make
//! them plain. With r = 0, p_old = v and beta = 1, sweep A gives p = v; with alpha = 1, D = 0 and r = 0, sweep B gives r' = -J^T J v.
//! With p_old = 0 sweep A gives p = M^-1 r.

use crate::check::Routines;
use crate::matrix_free::domain::fields::over;
use crate::matrix_free::pcg::state;
use crate::matrix_free::pipelines::damping::inverse_diagonal_entry;
use crate::matrix_free::plan::{Phase, Plan};
use crate::problem::error::SolveError;
use sumsq_energy::emit::component_index;
use sumsq_energy::model::{SpaceId, UnknownId};

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
        let elements = |s| self.plan.buffer(&over("x", s)).map_or(0, |b| b.spec().len());
        k.energy.unknowns.iter().map(|u| vec![0.0; elements(u.space) * u.channels as usize]).collect()
    }

    /// The vector over all unknown scalars, 0 at excluded elements, from components `first..` of a vector per space.
    fn gather(&self, name: impl Fn(SpaceId) -> String, first: usize) -> Vec<f64> {
        let mut lists = self.empty();
        self.plan.download(name, first, &mut lists);
        let k = &self.plan.k;
        for (u, list) in k.energy.unknowns.iter().zip(&mut lists) {
            let Some(free) = self.free.get(u.space.index()) else { continue };
            for (values, &free) in list.chunks_mut(u.channels as usize).zip(free) {
                if !free {
                    values.fill(0.0);
                }
            }
        }
        lists.concat()
    }

    fn linearise(&mut self, x: &[f64]) -> Result<(), SolveError> {
        let x = self.split(x);
        self.plan.upload(|s| over("x", s), 0, &x)?;
        self.plan.run(Phase::Linearise)
    }

    /// M^-1 with D = 0.
    fn damp(&mut self, x: &[f64]) -> Result<(), SolveError> {
        self.linearise(x)?;
        self.plan.run(Phase::Scales)?;
        self.plan.set_param("inv_radius", 0.0)?;
        self.plan.run(Phase::Damping)
    }

    fn sweep_a(&mut self, beta: f64, r: &[f64], p: &[f64]) -> Result<(), SolveError> {
        let mut values = [0.0; state::LEN];
        (values[state::RZ], values[state::BETA]) = (1.0, beta);
        self.plan.start_pcg(1.0, 1.0)?;
        self.plan.set_scalars("state", &values)?;
        let (r, p) = (self.split(r), self.split(p));
        for s in self.plan.k.spaces.clone() {
            self.plan.upload(only("dr", s.id), s.components, &r)?;
        }
        self.plan.upload(|s| over("p", s), 0, &p)?;
        self.plan.run(Phase::SweepA)
    }
}

impl Routines for Certified<'_> {
    type Error = SolveError;

    fn set_free(&mut self, free: &[Vec<bool>]) -> Result<(), SolveError> {
        for s in &self.plan.k.spaces {
            let bytes: Vec<u8> = free[s.id.index()].iter().map(|&f| f as u8).collect();
            self.plan.set_free(s.id, &bytes)?;
        }
        self.free = free.to_vec();
        Ok(())
    }

    fn jtf(&mut self, x: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.linearise(x)?;
        Ok(self.gather(|s| over("gb", s), 0))
    }

    fn diag(&mut self, x: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.linearise(x)?;
        let mut lists = self.empty();
        for (u, list) in lists.iter_mut().enumerate() {
            let field = &self.plan.k.energy.unknowns[u];
            let Some(space) = self.plan.k.spaces.iter().find(|s| s.id == field.space) else { continue };
            let Some(gb) = self.plan.buffer(&over("gb", space.id)) else { continue };
            let (values, stride) = (gb.to_vec::<f64>(), gb.spec().channels);
            let first = component_index(&self.plan.k.energy, UnknownId(u as u32), 0);
            let n = field.channels as usize;
            for (e, (to, from)) in list.chunks_mut(n).zip(values.chunks(stride)).enumerate() {
                let free = self.free.get(space.id.index()).is_none_or(|f| f[e]);
                for (c, to) in to.iter_mut().enumerate().filter(|_| free) {
                    *to = from[space.components + inverse_diagonal_entry(space, first + c)];
                }
            }
        }
        Ok(lists.concat())
    }

    fn jtjv(&mut self, x: &[f64], v: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.damp(x)?;
        let zero = vec![0.0; v.len()];
        self.sweep_a(1.0, &zero, v)?;
        self.plan.set_scalars("alpha", &[1.0, 1.0, 1.0])?;
        self.plan.run(Phase::SweepB)?;
        let mut out = zero;
        let spaces = self.plan.k.spaces.clone();
        // r starts behind d, at as many components as the space has.
        for s in spaces {
            let part = self.gather(only("dr", s.id), s.components);
            out.iter_mut().zip(part).for_each(|(o, p)| *o -= p);
        }
        Ok(out)
    }

    fn apply_preconditioner(&mut self, x: &[f64], r: &[f64]) -> Result<Vec<f64>, SolveError> {
        self.damp(x)?;
        self.sweep_a(0.0, r, &vec![0.0; r.len()])?;
        Ok(self.gather(|s| over("pn", s), 0))
    }
}

/// Names a vector over one space alone.
fn only(prefix: &str, space: SpaceId) -> impl Fn(SpaceId) -> String {
    move |s| if s == space { over(prefix, s) } else { String::new() }
}
