//! The derived routines of a pipeline energy beside finite differences, in float64.
//!
//! | routine | beside |
//! |---|---|
//! | gradient, per unknown | central differences of E along a random direction of this unknown |
//! | J^T W J p | W on central differences of the residuals, as a quadratic form |
//! | both J^T W J and M | symmetry and signs |
//!
//! Differences say nothing at kinks: where a residual bends between two points, the two disagree.

use crate::assembled::random::Random;
use crate::outer::vectors::dot;
use crate::pipeline_energy::PipelineEnergy;
use crate::pipeline_energy::compiled::{Kept, Numbers, Routine, Routines, compile};
use crate::pipeline_energy::derive::{Base, OverUnknowns, parts_of};
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::problem::options::{CompileOptions, Precision};
use sumsq_codegen::ScalarType;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Scalar};

/// Step of differences, relative to 1 + max|x|; the second one is half of it, and the two are extrapolated.
const STEP: f64 = 1e-4;
/// Random directions.
const DIRECTIONS: usize = 3;

/// Disagreement of finite differences with the derivatives of a pipeline energy. All relative; NaN where something is not finite.
#[derive(Clone, PartialEq, Debug)]
pub struct Certificate {
    /// Per unknown, the disagreement of g.v with the difference of E/2 along v, over the sum of |g_i v_i|.
    pub gradient: Vec<(String, f64)>,
    /// The disagreement of v.(J^T W J v) with W on differences of the residuals.
    pub product: f64,
    /// |u.(J^T W J v) - v.(J^T W J u)| over their sizes.
    pub asymmetry: f64,
    /// The least entry of M's diagonal.
    pub least_diagonal: f64,
}

impl PipelineEnergy {
    /// Derives and compiles everything in float64 and holds it against finite differences at the unknowns among `buffers` and `params`.
    ///
    /// # Errors
    /// As for [`PipelineEnergy::compile`], and as for a solve.
    pub fn check(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
        threads: Option<usize>,
    ) -> Result<Certificate, PipelineEnergyError> {
        let options = CompileOptions { precision: Precision::F64, threads, ..CompileOptions::default() };
        let estimates: Vec<(&str, &[i32])> =
            buffers.iter().map(|(n, b)| (*n, &b.spec().extents[..])).collect();
        let solver = self.compile(&options, &estimates)?;
        let pipeline = Base::new(self, ScalarType::F64)?.parts();
        let parts = OverUnknowns { pipeline, outputs: vec![] };
        let parts = compile(parts.into(), &options, &estimates)?;
        let mut numbers = Numbers::new(self, &solver.routines, buffers, params, &solver.pool)?;
        let x = solver.start(&numbers, buffers, params);
        let residuals = Residuals::new(self, parts, buffers, params)?;
        let kept = numbers.kept(&solver.routines.product)?;
        let mut c = Checker { e: self, r: &solver.routines, numbers: &mut numbers, kept, residuals, x };
        c.certificate()
    }
}

/// Residuals and weights of each residual Func, element by element.
struct Residuals {
    routine: Routine,
    /// Name, buffer, and number of floats that are residuals.
    outputs: Vec<(String, Buffer, usize)>,
}

impl Residuals {
    fn new(
        e: &PipelineEnergy,
        routine: Routine,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
    ) -> Result<Residuals, PipelineEnergyError> {
        let mut outputs = vec![];
        for r in &e.residuals {
            let floats = e.pipeline.funcs[&r.func].types().into_iter().filter(|t| t.is_float()).count();
            let (min, extents): (Vec<i32>, Vec<i32>) = e.domain_at(r, buffers, params).into_iter().unzip();
            let spec = BufferSpec::new(ScalarType::F64, &extents).starting_at(&min).channels(floats + 2);
            let of = |source| PipelineEnergyError::Buffer { name: r.func.to_string(), source };
            outputs.push((parts_of(&r.func), Buffer::new(spec).map_err(of)?, floats));
        }
        Ok(Residuals { routine, outputs })
    }
}

struct Checker<'c, 'a> {
    e: &'c PipelineEnergy,
    r: &'c Routines,
    numbers: &'c mut Numbers<'a>,
    kept: Kept,
    residuals: Residuals,
    x: Vec<f64>,
}

impl Checker<'_, '_> {
    fn certificate(&mut self) -> Result<Certificate, PipelineEnergyError> {
        let x = self.x.clone();
        self.numbers.set_point(&x, true)?;
        self.numbers.set_point(&x, false)?;
        let [mut g, mut diagonal] = [(); 2].map(|()| vec![0.0; x.len()]);
        self.numbers.evaluate(&self.r.gradient, true, &mut g)?;
        self.numbers.evaluate(&self.r.diagonal, false, &mut diagonal)?;
        let mut random = Random::new(1);
        let mut direction = || -> Vec<f64> { x.iter().map(|_| 2.0 * random.uniform() - 1.0).collect() };
        let directions: Vec<Vec<f64>> = (0..DIRECTIONS).map(|_| direction()).collect();
        let ranges: Vec<_> = self.numbers.ranges().map(|(range, _)| range).collect();
        let mut gradient = vec![];
        for (u, range) in self.e.unknowns.iter().zip(ranges) {
            let mut worst = 0.0;
            for v in &directions {
                let own = |i: usize| if range.contains(&i) { v[i] } else { 0.0 };
                let v: Vec<f64> = (0..v.len()).map(own).collect();
                worst = worse(worst, self.along_gradient(&g, &v)?);
            }
            gradient.push((u.name.to_string(), worst));
        }
        let mut products = vec![];
        for v in &directions {
            products.push(self.product(v)?);
        }
        let mut product = 0.0;
        for (v, q) in directions.iter().zip(&products) {
            let expected = self.quadratic(v)?;
            product = worse(product, (dot(v, q) - expected).abs() / expected.abs().max(f64::MIN_POSITIVE));
        }
        let mut asymmetry = 0.0;
        for (a, b) in [(0, 1), (1, 2), (2, 0)] {
            let (ab, ba) = (dot(&directions[a], &products[b]), dot(&directions[b], &products[a]));
            let norm = |v: &[f64]| dot(v, v).sqrt();
            let size = norm(&directions[a]) * norm(&products[b]);
            asymmetry = worse(asymmetry, (ab - ba).abs() / size.max(f64::MIN_POSITIVE));
        }
        let least_diagonal =
            diagonal.into_iter().fold(f64::INFINITY, |a, b| if b < a || b.is_nan() { b } else { a });
        Ok(Certificate { gradient, product, asymmetry, least_diagonal })
    }

    fn product(&mut self, v: &[f64]) -> Result<Vec<f64>, PipelineEnergyError> {
        let x = self.x.clone();
        self.numbers.set_point(&x, false)?;
        self.numbers.set_direction(v)?;
        self.numbers.keep(&self.r.product, &self.kept)?;
        let mut q = vec![0.0; v.len()];
        self.numbers.product(&self.r.product, &self.kept, &mut q)?;
        Ok(q)
    }

    /// x + h v.
    fn moved(&self, v: &[f64], h: f64) -> Vec<f64> {
        self.x.iter().zip(v).map(|(x, v)| x + h * v).collect()
    }

    fn step(&self) -> f64 {
        STEP * (1.0 + self.x.iter().fold(0.0, |m: f64, x| m.max(x.abs())))
    }

    fn along_gradient(&mut self, g: &[f64], v: &[f64]) -> Result<f64, PipelineEnergyError> {
        let h = self.step();
        let mut central = |h: f64| {
            let mut at = |h: f64| {
                let x = self.moved(v, h);
                self.numbers.set_point(&x, true)?;
                self.numbers.energies(self.r).map(|all| all.iter().sum::<f64>())
            };
            Ok::<f64, PipelineEnergyError>((at(h)? - at(-h)?) / (4.0 * h))
        };
        let (wide, narrow) = (central(h)?, central(0.5 * h)?);
        let expected = (4.0 * narrow - wide) / 3.0;
        let size: f64 = g.iter().zip(v).map(|(g, v)| (g * v).abs()).sum();
        Ok((dot(g, v) - expected).abs() / size.max(f64::MIN_POSITIVE))
    }

    /// All residuals with their weights at x + h v.
    fn parts(&mut self, v: &[f64], h: f64) -> Result<Vec<Vec<f64>>, PipelineEnergyError> {
        let x = self.moved(v, h);
        self.numbers.set_point(&x, true)?;
        let outputs: Vec<(&str, &Buffer)> =
            self.residuals.outputs.iter().map(|(n, b, _)| (n.as_str(), b)).collect();
        self.numbers.run(&self.residuals.routine.code, true, &outputs)?;
        Ok(self.residuals.outputs.iter().map(|(_, b, _)| b.to_vec()).collect())
    }

    /// (J v)^T W J v from differences of the residuals.
    fn quadratic(&mut self, v: &[f64]) -> Result<f64, PipelineEnergyError> {
        let h = self.step();
        let at = self.parts(v, 0.0)?;
        let [near, far] =
            [0.5 * h, h].map(|h| Ok::<_, PipelineEnergyError>((self.parts(v, h)?, self.parts(v, -h)?)));
        let (near, far) = (near?, far?);
        let mut sum = 0.0;
        for (f, (_, _, floats)) in self.residuals.outputs.iter().enumerate() {
            let change = |i: usize| {
                let central =
                    |pair: &(Vec<Vec<f64>>, Vec<Vec<f64>>), h: f64| (pair.0[f][i] - pair.1[f][i]) / (2.0 * h);
                (4.0 * central(&near, 0.5 * h) - central(&far, h)) / 3.0
            };
            for first in (0..at[f].len()).step_by(floats + 2) {
                let r = &at[f][first..first + floats + 2];
                let t: Vec<f64> = (first..first + floats).map(change).collect();
                let along = dot(&r[..*floats], &t);
                sum += r[*floats] * (dot(&t, &t) - r[floats + 1] * along * along);
            }
        }
        Ok(sum)
    }
}

/// The larger; NaN wins.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}
