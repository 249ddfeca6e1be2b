//! A sequential ray tracer as a pipeline: a scan over the surfaces, which carries each ray from one to the next.
//!
//! At surface s with curvature c, vertex at the origin, light along z, a ray at P in direction D meets c |P + d D|^2 = 2 (P + d D)_z at
//! d = C / (F + root) = (F - root) / c, where F = D_z - c P.D, C = c |P|^2 - 2 P_z, and root = sqrt(F^2 - c C) is the cosine of incidence. Behind it
//! D' = m D + (t - m root) N, with m = n / n', t^2 = 1 - m^2 (1 - root^2) and N = (-c x, -c y, 1 - c z): Snell's law.
//!
//! Invariant: every number is finite, whatever the lens. F^2 - c C and t^2 are taken to be no less than [`LEAST`]; the least of them and of N_z
//! along a ray is its *spare*, and a ray whose spare is no larger than [`LEAST`] missed a surface's front half or was totally reflected: it counts nothing.

use super::lens::{Beams, Lens};
use crate::demos::DemoError;
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq::codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType::F64, Schedule, Source, Target, Var};

/// Below it a ray is lost.
pub const LEAST: f64 = 1e-3;

/// Numbers of a ray at a surface: place against the surface's vertex, direction, way from the surface before, spare.
pub const NUMBERS: usize = 8;
pub(super) const ALONG: usize = 6;
pub(super) const SPARE: usize = 7;

/// The tracer's part of a pipeline.
pub(super) struct Tracer {
    /// `ray(i, j, k)`: sample i of field j before surface k, which is the sensor behind the last.
    pub ray: Func,
    /// `bend(k)`: curvature of surface k, 0 of the sensor.
    pub bend: Func,
    /// `gap(k)`: distance from surface k - 1 to surface k.
    pub gap: Func,
    /// Index before surface k.
    pub index: Input,
    /// Tangent of field j's angle, and the height of its beam.
    pub field: Input,
    /// Numbers of samples, fields and surfaces.
    pub samples: Expr,
    pub fields: Expr,
    pub surfaces: Expr,
}

impl Tracer {
    /// Adds inputs `curvature`, `least`, `more` (a gap is the sum of the two), `index`, `sample`, `field`, parameters `pupil` and `aperture`, and
    /// the scan.
    pub fn add_to(p: &mut Pipeline) -> Tracer {
        let [i, j, k] = Var::all(["i", "j", "k"]);
        let [curvature, least, more, index] =
            ["curvature", "least", "more", "index"].map(|name| p.input(Input::new(name, &[F64], 1)));
        let [sample, field] = ["sample", "field"].map(|name| p.input(Input::new(name, &[F64], 2)));
        let [pupil, aperture] = ["pupil", "aperture"].map(|name| p.param(name, F64));
        let surfaces = curvature.extent(0);
        let last = &surfaces - 1;
        let zero = || Expr::float(F64, 0.0);
        let own = curvature.of(k.expr().clamp(0, &last));
        let bend = p.define("bend", [k], Expr::select(k.expr().lt(&surfaces), own, zero()));
        let before = (k - 1).clamp(0, &last);
        let own = least.of(before.clone()) + more.of(before);
        let gap = p.define("gap", [k], Expr::select(k.expr().gt(0), own, zero()));

        let (tangent, height) = (field.of((0, j)), field.of((1, j)));
        let across = sample.of((0, i)) * &aperture * 0.5;
        let up = sample.of((1, i)) * height * &aperture * 0.5 - pupil * &tangent;
        let cos = Expr::float(F64, 1.0) / (&tangent * &tangent + 1.0).sqrt();
        let one = Expr::float(F64, 1.0);
        let start = vec![across, up, zero(), zero(), tangent * &cos, cos, zero(), one];
        let ray = Func::new("ray", &[i, j, k], start);
        let r = RDom::new([("s", 0, &surfaces + 1)]);
        let s = r.var(0);
        let old: [Expr; NUMBERS] = std::array::from_fn(|n| ray.at(&[i.expr(), j.expr(), s.clone()], n));
        let ratio = index.of(s.clone()) / index.of(&s + 1);
        let next = refracted(&old, &bend.of(s.clone()), &gap.of(s.clone()), &ratio);
        let ray = p.func(ray.update(vec![i.expr(), j.expr(), s + 1], next, r));
        let (samples, fields) = (sample.extent(1), field.extent(1));
        Tracer { ray, bend, gap, index, field, samples, fields, surfaces }
    }

    /// Number `n` of a ray at the sensor.
    pub fn at_sensor(&self, i: &Expr, j: &Expr, n: usize) -> Expr {
        self.ray.at(&[i.clone(), j.clone(), &self.surfaces + 1], n)
    }
}

/// A ray carried over the gap to the next surface and through it.
fn refracted(old: &[Expr; NUMBERS], c: &Expr, gap: &Expr, ratio: &Expr) -> Vec<Expr> {
    let [x, y, z, u, v, w, _, spare] = old;
    let z = z - gap;
    let facing = w - (x * u + y * v + &z * w) * c;
    let far = (x * x + y * y + &z * &z) * c - &z * 2.0;
    let root2 = &facing * &facing - &far * c;
    let root = root2.max(LEAST).sqrt();
    // Of the two ways to write the meeting nearer to the vertex, the one without cancellation; a plane has facing = D_z.
    let curved = Expr::select(c.eq_(0.0), 1.0, c);
    let d = Expr::select(facing.ge(0.0), far / (&facing + &root), (&facing - &root) / curved);
    let (x, y, z) = (x + u * &d, y + v * &d, z + w * &d);
    let behind2 = ratio * ratio * (&root * &root - 1.0) + 1.0;
    let turn = behind2.max(LEAST).sqrt() - ratio * &root;
    let front = c * &z - 1.0;
    let spare = spare.min(root2).min(behind2).min(-front.clone());
    let u = u * ratio - &turn * c * &x;
    let v = v * ratio - &turn * c * &y;
    let w = w * ratio - turn * front;
    vec![x, y, z, u, v, w, d, spare]
}

/// The buffers that a lens and beams are given in, by name: without the unknowns `curvature` and `more`.
pub(super) fn buffers(
    lens: &Lens,
    beams: &Beams,
    least: &[f64],
) -> Result<Vec<(&'static str, Buffer)>, DemoError> {
    let more: Vec<f64> = lens.gaps.iter().zip(least).map(|(gap, least)| gap - least).collect();
    // The sensor refracts nothing.
    let behind = lens.indices.last().copied().unwrap_or(1.0);
    let indices: Vec<f64> = lens.indices.iter().copied().chain([behind]).collect();
    Ok(vec![
        ("curvature", filled(&[lens.curvatures.len()], &lens.curvatures)?),
        ("more", filled(&[more.len()], &more)?),
        ("least", filled(&[least.len()], least)?),
        ("index", filled(&[indices.len()], &indices)?),
        ("sample", filled(&[2, beams.samples.len()], beams.samples.as_flattened())?),
        ("field", filled(&[2, beams.fields.len()], beams.fields.as_flattened())?),
    ])
}

pub(super) fn filled(extents: &[usize], values: &[f64]) -> Result<Buffer, DemoError> {
    let extents: Vec<i32> = extents.iter().map(|&n| n as i32).collect();
    let b = Buffer::new(BufferSpec::new(F64, &extents))?;
    b.copy_from(values)?;
    Ok(b)
}

/// Rays on their way through a lens: of field j and sample i, at each surface and at last at the sensor, the [`NUMBERS`] of the ray behind it.
pub fn trace(lens: &Lens, beams: &Beams) -> Result<Vec<Vec<Vec<[f64; NUMBERS]>>>, DemoError> {
    let mut p = Pipeline::new("trace");
    let tracer = Tracer::add_to(&mut p);
    let [n, i, j, k] = Var::all(["n", "i", "j", "k"]);
    let numbers = (0..NUMBERS).map(|n| tracer.ray.at(&[i.expr(), j.expr(), k + 1], n));
    let way = p.define("way", [n, i, j, k], Expr::mux(n, numbers));
    p.output(&way);
    let compiled = Compiled::new(&p, &Schedule::new(), &Target::host())?;
    let counts = [NUMBERS, beams.samples.len(), beams.fields.len(), lens.curvatures.len() + 1];
    let zeros = vec![0.0; lens.gaps.len()];
    let mut buffers = buffers(lens, beams, &zeros)?;
    buffers.push(("way", filled(&counts, &vec![0.0; counts.iter().product()])?));
    let named: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (*name, b)).collect();
    let params = [("pupil", Scalar::F64(lens.pupil)), ("aperture", Scalar::F64(beams.aperture))];
    compiled.run(&Pool::new(1), &named, &params)?;
    let values: Vec<f64> = named.last().map(|(_, b)| b.to_vec()).unwrap_or_default();
    let all = values.as_chunks::<NUMBERS>().0;
    let at = |i: usize, j: usize, k: usize| all[(k * counts[2] + j) * counts[1] + i];
    let of_ray = |i: usize, j: usize| (0..counts[3]).map(|k| at(i, j, k)).collect();
    let of_field = |j: usize| (0..counts[1]).map(|i| of_ray(i, j)).collect();
    Ok((0..counts[2]).map(of_field).collect())
}
