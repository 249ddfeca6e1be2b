//! The energy of a design: spots, and what keeps the lens a lens of the same focal length, buildable, and of the wanted length.

use super::lens::{Beams, Lens};
use super::trace::{ALONG, LEAST, SPARE, Tracer, buffers};
use crate::demos::DemoError;
use std::slice::from_ref;
use sumsq::codegen::runtime::{Buffer, Scalar};
use sumsq::codegen::{Expr, Func, Pipeline, RDom, ScalarType::F64, Source, Var};
use sumsq::pipeline_energy::{
    Certificate, Course, Descent, FirstOrder, Loss, PipelineEnergy, PipelineSolver,
};
use sumsq::{CompileOptions, Control, Iteration, Precision, Report, SolveOptions};

/// Weight of the distances from a spot's centre, beside that of lengths, and of rays that are nearly lost.
const SPOT: f64 = 10.0;
const LENGTH: f64 = 3.0;
/// Weight of a spot's distance from where the field's angle puts it.
const FIELD: f64 = 0.3;
/// Least thickness of glass on the axis, least gap of air, least distance of the sensor, as shares of the length at the start.
const GLASS: f64 = 0.009;
const AIR: f64 = 0.001;
const BACK: f64 = 0.05;
/// The same along every ray, so that no two surfaces meet within the beams.
const EDGE: f64 = 0.003;

/// Adds the sums of each field's spot, over the rays that are not lost, and the residuals of rays against its centre: `spot(i, j)`.
pub(super) fn spots(p: &mut Pipeline, t: &Tracer) -> (Func, Func) {
    let [i, j] = Var::all(["i", "j"]);
    let (i_, j_) = (i.expr(), j.expr());
    let zero = || Expr::float(F64, 0.0);
    let rays = (&t.samples * &t.fields).cast(F64);
    let kept = |i: &Expr, j: &Expr| t.at_sensor(i, j, SPARE).gt(LEAST);
    let samples = RDom::new([("n", 0, t.samples.clone())]);
    let n = samples.var(0);
    let counted = |e: Expr| Expr::select(kept(&n, &j_), e, zero());
    let one = Expr::float(F64, 1.0);
    let terms = vec![counted(t.at_sensor(&n, &j_, 0)), counted(t.at_sensor(&n, &j_, 1)), counted(one)];
    let sums = p.func(Func::sum("sums", &[j], samples.clone(), terms));
    let off = |c: usize| (t.at_sensor(&i_, &j_, c) - centre(&sums, &j_, c)) * SPOT / rays.sqrt();
    let spot = (0..2).map(|c| Expr::select(kept(&i_, &j_), off(c), zero())).collect();
    let spot = p.define_tuple("spot", [i, j], spot);
    (sums, spot)
}

/// The centre of field j's spot by [`spots`]' sums.
fn centre(sums: &Func, j: &Expr, c: usize) -> Expr {
    sums.at(from_ref(j), c) / sums.at(from_ref(j), 2).max(1.0)
}

/// The energy over unknown `curvature`, `more` (what each gap has beyond the least) and `pupil`:
///
/// | residual | holds |
/// |---|---|
/// | `spot` | rays at the sensor to the centre of their field's spot |
/// | `field_of_view` | these centres where the angles of their fields put them |
/// | `lost` | rays inside of every surface, away from total reflection |
/// | `thin` | surfaces apart along every ray |
/// | `power` | the focal length, by a ray near the axis |
/// | `long` | the sum of all gaps |
pub fn energy() -> PipelineEnergy {
    let [i, j, k] = Var::all(["i", "j", "k"]);
    let mut p = Pipeline::new("lens_design");
    let t = Tracer::add_to(&mut p);
    let [length, focal, edge] = ["length", "focal", "edge"].map(|name| p.param(name, F64));
    let float = |v: f64| Expr::float(F64, v);
    let zero = || float(0.0);
    let (i_, j_) = (i.expr(), j.expr());
    let (sums, _) = spots(&mut p, &t);
    p.define("field_of_view", [j], (centre(&sums, &j_, 1) - &focal * t.field.of((0, j))) * FIELD);

    let short = (t.at_sensor(&i_, &j_, SPARE) - 2.0 * LEAST).min(0.0);
    p.define("lost", [i, j], short * LENGTH);
    let thin = edge - t.ray.at(&[i_.clone(), j_.clone(), k + 2], ALONG);
    p.define("thin", [i, j, k], thin.max(0.0) * LENGTH);

    // Height and slope by index of the ray that comes in parallel to the axis, before surface k.
    let axial = Func::new("axial", &[k], vec![float(1.0), zero()]);
    let r = RDom::new([("l", 0, t.surfaces.clone())]);
    let s = r.var(0);
    let slope = axial.at(from_ref(&s), 1);
    let height = axial.at(from_ref(&s), 0) + t.gap.of(s.clone()) * &slope / t.index.of(s.clone());
    let bent = slope - &height * t.bend.of(s.clone()) * (t.index.of(&s + 1) - t.index.of(s.clone()));
    let axial = p.func(axial.update(vec![&s + 1], vec![height, bent], r));
    let power = -axial.at(from_ref(&t.surfaces), 1);
    p.define("power", [], (power * &focal - 1.0) * &focal * LENGTH);
    let gaps = RDom::new([("g", 1, t.surfaces.clone())]);
    let whole = p.sum("whole", &gaps, t.gap.of(gaps.var(0)));
    p.define("long", [], (whole - length) * LENGTH);

    let extents = |e: &[&Expr]| e.iter().map(|e| (Expr::from(0), (*e).clone())).collect::<Vec<_>>();
    let rays = extents(&[&t.samples, &t.fields]);
    let ways = extents(&[&t.samples, &t.fields, &t.surfaces]);
    PipelineEnergy::new(p)
        .unknown("curvature")
        .unknown_in("more", 0.0, f64::INFINITY)
        .unknown_in("pupil", 0.0, f64::INFINITY)
        .residual_over("spot", &rays, Loss::Squares)
        .residual_over("field_of_view", &extents(&[&t.fields]), Loss::Squares)
        .residual_over("lost", &rays, Loss::Squares)
        .residual_over("thin", &ways, Loss::Squares)
        .residual_over("power", &[], Loss::Squares)
        .residual_over("long", &[], Loss::Squares)
}

/// The energy as machine code, for lenses with the glasses and the focal length of one.
pub struct Designer {
    solver: PipelineSolver,
    beams: Beams,
    least: Vec<f64>,
    focal: f64,
    edge: f64,
}

impl Designer {
    /// For lenses like this one.
    pub fn new(lens: &Lens, beams: &Beams) -> Result<Designer, DemoError> {
        let options =
            CompileOptions { precision: Precision::F64, threads: Some(1), ..CompileOptions::default() };
        let surfaces = lens.curvatures.len() as i32;
        let [samples, fields] = [beams.samples.len(), beams.fields.len()].map(|n| n as i32);
        let estimates: [(&str, &[i32]); 10] = [
            ("curvature", &[surfaces]),
            ("more", &[surfaces]),
            ("least", &[surfaces]),
            ("index", &[surfaces + 2]),
            ("sample", &[2, samples]),
            ("field", &[2, fields]),
            ("spot", &[samples, fields]),
            ("lost", &[samples, fields]),
            ("field_of_view", &[fields]),
            ("thin", &[samples, fields, surfaces]),
        ];
        let solver = energy().compile(&options, &estimates)?;
        let length = lens.length();
        let least = |gap: usize| {
            length
                * match gap {
                    gap if gap + 1 == lens.gaps.len() => BACK,
                    gap if lens.is_glass(gap) => GLASS,
                    _ => AIR,
                }
        };
        let least = (0..lens.gaps.len()).map(least).collect();
        Ok(Designer { solver, beams: beams.clone(), least, focal: lens.focal(), edge: EDGE * length })
    }

    /// The lens of this length that `lens` becomes in up to `steps` steps of Levenberg and Marquardt.
    pub fn solve(
        &self,
        lens: &Lens,
        length: f64,
        steps: usize,
        observe: &mut dyn FnMut(&Iteration),
    ) -> Result<(Lens, Report), DemoError> {
        let options = SolveOptions {
            iterations: Some(steps),
            linear_iterations: Some(200),
            linear_tolerance: Some(1e-10),
            function_tolerance: Some(1e-4),
            ..SolveOptions::default()
        };
        let mut callback = |step: &Iteration| {
            observe(step);
            Control::Continue
        };
        self.changed(lens, length, |buffers, params| {
            self.solver.solve_with(buffers, params, &options, &mut callback)
        })
    }

    /// The same by gradient descent with line search.
    pub fn descend(&self, lens: &Lens, length: f64, steps: usize) -> Result<(Lens, Course), DemoError> {
        let options =
            Descent { method: FirstOrder::Lbfgs { history: 0 }, iterations: steps, ..Descent::default() };
        self.changed(lens, length, |buffers, params| self.solver.descend(buffers, params, &options))
    }

    /// The derivatives of the energy beside finite differences.
    pub fn certified(&self, lens: &Lens, length: f64) -> Result<Certificate, DemoError> {
        let (_, certificate) =
            self.changed(lens, length, |buffers, params| energy().check(buffers, params, Some(1)))?;
        Ok(certificate)
    }

    /// The lens that `change` makes of one.
    fn changed<T>(
        &self,
        lens: &Lens,
        length: f64,
        change: impl FnOnce(
            &[(&str, &Buffer)],
            &mut [(&str, Scalar)],
        ) -> Result<T, sumsq::pipeline_energy::PipelineEnergyError>,
    ) -> Result<(Lens, T), DemoError> {
        let buffers = buffers(lens, &self.beams, &self.least)?;
        let named: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (*name, b)).collect();
        let mut params = [
            ("pupil", lens.pupil),
            ("aperture", self.beams.aperture),
            ("length", length),
            ("focal", self.focal),
            ("edge", self.edge),
        ]
        .map(|(name, v)| (name, Scalar::F64(v)));
        let result = change(&named, &mut params)?;
        let of =
            |name: &str| named.iter().find(|(n, _)| *n == name).map_or(vec![], |(_, b)| b.to_vec::<f64>());
        let gaps = of("more").iter().zip(&self.least).map(|(more, least)| more + least).collect();
        let pupil = params[0].1.constant().as_float().unwrap_or(lens.pupil);
        Ok((Lens { curvatures: of("curvature"), gaps, pupil, indices: lens.indices.clone() }, result))
    }
}
