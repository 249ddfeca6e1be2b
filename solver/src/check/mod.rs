//! The certificate of the derivatives: generated routines against the assembled path and against finite differences.
//!
//! With g = J^T r and A = J^T J, at one x and for one direction v, all in float64:
//! - g, diag(A) and A v agree with the assembled Jacobian to a relative 2-norm of [`EXPLICIT_TOLERANCE`], unknown by unknown;
//! - they agree with a Jacobian by finite differences to [`DIFFERENCE_TOLERANCE`], where no branch flips within the step;
//! - A is symmetric and positive semidefinite;
//! - M^-1 is symmetric to [`SYMMETRY_TOLERANCE`] and positive, for D of every radius of [`INVERSE_RADII`];
//! - all of it but the differences again under random masks of excluded elements.
//!
//! A difference is judged against the norm of the expected part, or against its rounding noise where cancellation makes that
//! larger: the part of an unknown whose gradient happens to vanish is not a disagreement of 100 percent.
//!
//! Differences are judged residual by residual. One that has a kink within the step, of a branch or an abs, is looked at nearby
//! instead; one that has kinks there too, or is not finite, is skipped and counted, and what all others say is still compared. What was not
//! compared is not agreed: see [`Certificate::unjudged`]. Derivative images are taken as given in all of that, and are held against
//! their images by themselves: see [`DerivativeImage`].

mod compare;

pub use crate::assembled::random::seeded_direction;

pub use crate::assembled::DerivativeImage;
use crate::assembled::random::Random;
use crate::assembled::{Explicit, ExplicitError, Witness, free_elements};
use crate::problem::data::ProblemData;
use compare::{Expected, dot, norm};
use std::collections::BTreeSet;
use sumsq_energy::dag::At;
use sumsq_energy::model::{Energy, SpaceId};
use thiserror::Error;

/// Largest disagreement with the assembled path, relative, in the 2-norm.
pub const EXPLICIT_TOLERANCE: f64 = 1e-9;

/// Largest disagreement with finite differences.
pub const DIFFERENCE_TOLERANCE: f64 = 1e-5;

/// Largest asymmetry of M^-1, relative to the larger of |u| |M^-1 v| and |v| |M^-1 u|: what is left is the rounding of sums over all scalars.
pub const SYMMETRY_TOLERANCE: f64 = 1e-12;

/// 1/R that M^-1 is built for: a step that hardly moves, usual ones, the largest radius, Gauss-Newton.
pub const INVERSE_RADII: [f64; 4] = [1e2, 1e-4, 1e-16, 0.0];

/// Distance of a derivative image from differences of its image at which zeros are no worse; see [`DerivativeImage::off`].
pub const IMAGE_TOLERANCE: f64 = 1.0;

/// Random masks tried, besides the energy's own.
const MASKS: usize = 3;

/// Share of the elements that a random mask excludes.
const EXCLUDED_SHARE: f64 = 0.3;

/// The routines under test. Every vector holds all unknown scalars (unknowns in order of declaration, each in C order), 0 at
/// excluded ones.
pub trait Routines {
    /// Failure of the routines.
    type Error;
    /// Sets which elements are free from here on, per index space.
    fn set_free(&mut self, free: &[Vec<bool>]) -> Result<(), Self::Error>;
    /// g = J^T r at x.
    fn jtf(&mut self, x: &[f64]) -> Result<Vec<f64>, Self::Error>;
    /// diag(J^T J) at x.
    fn diag(&mut self, x: &[f64]) -> Result<Vec<f64>, Self::Error>;
    /// J^T J v at x.
    fn jtjv(&mut self, x: &[f64], v: &[f64]) -> Result<Vec<f64>, Self::Error>;
    /// Builds M at x, with D of a radius given as 1/R.
    fn build_preconditioner(&mut self, x: &[f64], inverse_radius: f64) -> Result<(), Self::Error>;
    /// M^-1 r, of the M that was built last.
    fn apply_preconditioner(&mut self, r: &[f64]) -> Result<Vec<f64>, Self::Error>;
}

/// Reason why there is no certificate.
#[derive(Debug, Error)]
pub enum CheckError<E> {
    /// From the assembled path.
    #[error(transparent)]
    Explicit(#[from] ExplicitError),
    /// From the routines under test.
    #[error("{0}")]
    Routines(E),
}

/// Distance of one part of one vector from what it should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disagreement {
    /// Against the assembled path: the largest over the masks.
    pub explicit: f64,
    /// Against finite differences, under the energy's own mask.
    pub differences: f64,
}

/// The part of one unknown.
#[derive(Clone, Debug)]
pub struct UnknownCertificate {
    /// Its name.
    pub name: String,
    /// Of J^T r.
    pub jtf: Disagreement,
    /// Of diag(J^T J).
    pub diag: Disagreement,
    /// Of J^T J v.
    pub jtjv: Disagreement,
    /// Free scalars that some residual was compared for by differences.
    pub compared: usize,
    /// Free scalars without: each residual that reads them was skipped, or there is none.
    pub skipped: usize,
}

/// Numbers of residuals.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ResidualCounts {
    /// Compared at x.
    pub compared: usize,
    /// Compared at a place nearby: at x they have a kink.
    pub moved: usize,
    /// Skipped: kinks everywhere, or not finite, or a robust loss that has a kink there.
    pub skipped: usize,
}

/// Results of the routines, and how far they can be trusted.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Per unknown, in order of declaration.
    pub unknowns: Vec<UnknownCertificate>,
    /// Residuals that count: what differences say of them.
    pub residuals: ResidualCounts,
    /// Derivative images, where residuals sample them.
    pub images: Vec<DerivativeImage>,
    /// Largest |u.(A v) - v.(A u)| / (|u| |A v|) over the masks.
    pub asymmetry: f64,
    /// Least v.(A v) / (|v| |A v|) over the masks; negative beyond rounding is wrong.
    pub least_curvature: f64,
    /// The same of M^-1, over the radii too.
    pub preconditioner_asymmetry: f64,
    /// Least v.(M^-1 v) / (|v| |M^-1 v|) over masks and radii; must be positive.
    pub preconditioner_least: f64,
    /// Random masks tried.
    pub masks: usize,
    /// The routines' J^T r, under the energy's own mask.
    pub jtf: Vec<f64>,
    /// The routines' diag(J^T J).
    pub diag: Vec<f64>,
    /// The routines' J^T J v.
    pub jtjv: Vec<f64>,
}

impl Certificate {
    /// Returns what disagrees, in words; empty if all is well.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for u in &self.unknowns {
            for (what, d) in [("J^T r", u.jtf), ("diag(J^T J)", u.diag), ("J^T J v", u.jtjv)] {
                let references = [
                    ("the explicit path", d.explicit, EXPLICIT_TOLERANCE),
                    ("finite differences", d.differences, DIFFERENCE_TOLERANCE),
                ];
                for (reference, value, limit) in references {
                    // NaN fails too.
                    let agrees = value <= limit;
                    if !agrees {
                        let name = &u.name;
                        failures.push(format!(
                            "{what} of `{name}` is off {reference} by {value:.1e} (limit {limit:.0e})"
                        ));
                    }
                }
            }
        }
        let mut require = |holds: bool, what: &str, value: f64| {
            if !holds {
                failures.push(format!("{what}: {value:.1e}"));
            }
        };
        require(self.asymmetry <= EXPLICIT_TOLERANCE, "J^T J is not symmetric", self.asymmetry);
        require(
            self.least_curvature >= -EXPLICIT_TOLERANCE,
            "J^T J is not positive semidefinite",
            self.least_curvature,
        );
        let m = self.preconditioner_asymmetry;
        require(m <= SYMMETRY_TOLERANCE, "the preconditioner is not symmetric", m);
        let m = self.preconditioner_least;
        require(m > 0.0, "the preconditioner is not positive", m);
        failures
    }

    /// The derivative images that are no nearer to differences of their images than zeros would be.
    pub fn wrong_images(&self) -> impl Iterator<Item = &DerivativeImage> {
        // NaN is wrong too.
        self.images.iter().filter(|image| image.off.is_nan() || image.off >= IMAGE_TOLERANCE)
    }

    /// The unknowns of which no scalar was compared.
    pub fn unjudged(&self) -> impl Iterator<Item = &str> {
        self.unknowns.iter().filter(|u| u.compared == 0).map(|u| u.name.as_str())
    }

    /// Tells whether all that was compared agrees.
    pub fn passed(&self) -> bool {
        self.failures().is_empty() && self.wrong_images().next().is_none()
    }
}

/// Certifies `routines` at x in direction v (both over all unknown scalars; entries of v at excluded elements count as 0).
pub fn check<R: Routines>(
    energy: &Energy,
    data: &ProblemData,
    routines: &mut R,
    x: &[f64],
    v: &[f64],
) -> Result<Certificate, CheckError<R::Error>> {
    let own = free_elements(energy, data)?;
    let mut random = Random::new(1);
    let mut certificate = Certificate::new(energy);
    // The energy's own mask comes last: the routines are left under it, and its results are the ones to keep.
    for number in (0..=MASKS).rev() {
        let free = if number == 0 { own.clone() } else { masked(&own, &unmasked(energy), &mut random) };
        let mut problem = Explicit::with_free(energy, data, free.clone())?;
        // Those of the routines are their unknowns.
        problem.refresh_views(x);
        if number > 0 && problem.free() == 0 {
            continue;
        }
        routines.set_free(&free).map_err(CheckError::Routines)?;
        let v = problem.scatter(&problem.gather(v));
        let expected = Expected::new(&problem, x, &v);
        certificate.jtf = routines.jtf(x).map_err(CheckError::Routines)?;
        certificate.diag = routines.diag(x).map_err(CheckError::Routines)?;
        certificate.jtjv = routines.jtjv(x, &v).map_err(CheckError::Routines)?;
        certificate.compare_explicit(energy, data, &expected);
        certificate.masks += usize::from(number > 0);
        let u = problem.scatter(&problem.gather(&seeded_direction(x.len(), 2 + number as u64)));
        certificate.probe_operators(routines, x, &u, &v).map_err(CheckError::Routines)?;
        if number == 0 {
            certificate.compare_differences(energy, data, &problem, &expected, x, &v);
        }
    }
    Ok(certificate)
}

/// `own`, with a random share of the free elements excluded besides, but for spaces that are `unmasked`.
fn masked(own: &[Vec<bool>], unmasked: &[SpaceId], random: &mut Random) -> Vec<Vec<bool>> {
    let mut share = |free: bool| free && random.uniform() >= EXCLUDED_SHARE;
    let mask = |(s, space): (usize, &Vec<bool>)| match unmasked.iter().any(|u| u.index() == s) {
        true => space.clone(),
        false => space.iter().map(|&f| share(f)).collect(),
    };
    own.iter().enumerate().map(mask).collect()
}

/// The spaces of which a mask would change what a loss is of: without an Exclude the routines know that every residual of a block counts,
/// while under a mask those of a block that read different elements may count or not.
fn unmasked(energy: &Energy) -> Vec<SpaceId> {
    let mut spaces = Vec::new();
    for block in 0..energy.blocks.len() {
        let members = energy.residuals.iter().filter(|r| r.block.is_some_and(|b| b.index() == block));
        let reads: Vec<BTreeSet<(SpaceId, At)>> = members
            .map(|r| r.unknown_reads.iter().map(|a| (energy.space_of(a.source), a.at.clone())).collect())
            .collect();
        if reads.windows(2).any(|pair| pair[0] != pair[1]) {
            spaces.extend(reads.into_iter().flatten().map(|(space, _)| space));
        }
    }
    spaces.retain(|s| !energy.excludes.iter().any(|(excluded, _)| excluded == s));
    spaces
}

/// Returns where each unknown's scalars lie in a vector over all of them.
fn parts(data: &ProblemData) -> impl Iterator<Item = std::ops::Range<usize>> {
    data.unknown_lengths().into_iter().scan(0, |start, length| {
        let range = *start..*start + length;
        *start = range.end;
        Some(range)
    })
}

impl Certificate {
    fn new(energy: &Energy) -> Certificate {
        let none = Disagreement { explicit: 0.0, differences: 0.0 };
        let unknown = |f: &sumsq_energy::model::Field| UnknownCertificate {
            name: f.name.clone(),
            jtf: none,
            diag: none,
            jtjv: none,
            compared: 0,
            skipped: 0,
        };
        Certificate {
            unknowns: energy.unknowns.iter().map(unknown).collect(),
            residuals: ResidualCounts::default(),
            images: Vec::new(),
            asymmetry: 0.0,
            least_curvature: f64::INFINITY,
            preconditioner_asymmetry: 0.0,
            preconditioner_least: f64::INFINITY,
            masks: 0,
            jtf: Vec::new(),
            diag: Vec::new(),
            jtjv: Vec::new(),
        }
    }

    fn compare_explicit(&mut self, energy: &Energy, data: &ProblemData, expected: &Expected) {
        for (u, part) in (0..energy.unknowns.len()).zip(parts(data)) {
            let into = &mut self.unknowns[u];
            let jtf = expected.jtf.disagreement(&self.jtf, part.clone());
            let diag = expected.diag.disagreement(&self.diag, part.clone());
            let jtjv = expected.jtjv.disagreement(&self.jtjv, part);
            into.jtf.explicit = worse(into.jtf.explicit, jtf);
            into.diag.explicit = worse(into.diag.explicit, diag);
            into.jtjv.explicit = worse(into.jtjv.explicit, jtjv);
        }
    }

    fn compare_differences(
        &mut self,
        energy: &Energy,
        data: &ProblemData,
        problem: &Explicit<'_>,
        explicit: &Expected,
        x: &[f64],
        v: &[f64],
    ) {
        let (expected, residuals, compared) = Expected::by_differences(problem, explicit, x, v);
        let count = |witness: Witness| residuals.iter().filter(|&&w| w == witness).count();
        self.residuals = ResidualCounts {
            compared: count(Witness::Smooth),
            moved: count(Witness::Moved),
            skipped: count(Witness::Kink),
        };
        self.images = problem.derivative_images(x);
        let free = problem.scatter(&vec![1.0; problem.free()]);
        for (u, part) in (0..energy.unknowns.len()).zip(parts(data)) {
            let into = &mut self.unknowns[u];
            into.jtf.differences = expected.jtf.disagreement(&self.jtf, part.clone());
            into.diag.differences = expected.diag.disagreement(&self.diag, part.clone());
            into.jtjv.differences = expected.jtjv.disagreement(&self.jtjv, part.clone());
            let of_free = part.filter(|&i| free[i] != 0.0).map(|i| compared[i]);
            (into.compared, into.skipped) =
                of_free.fold((0, 0), |(yes, no), judged| if judged { (yes + 1, no) } else { (yes, no + 1) });
        }
    }

    /// Symmetry and signs of A and M^-1 on two directions.
    fn probe_operators<R: Routines>(
        &mut self,
        routines: &mut R,
        x: &[f64],
        u: &[f64],
        v: &[f64],
    ) -> Result<(), R::Error> {
        let au = routines.jtjv(x, u)?;
        let (asymmetry, least) = probe(u, v, &au, &self.jtjv);
        self.asymmetry = worse(self.asymmetry, asymmetry);
        self.least_curvature = lower(self.least_curvature, least);
        for inverse_radius in INVERSE_RADII {
            routines.build_preconditioner(x, inverse_radius)?;
            let (mu, mv) = (routines.apply_preconditioner(u)?, routines.apply_preconditioner(v)?);
            let (asymmetry, least) = probe(u, v, &mu, &mv);
            self.preconditioner_asymmetry = worse(self.preconditioner_asymmetry, asymmetry);
            self.preconditioner_least = lower(self.preconditioner_least, least);
        }
        Ok(())
    }
}

/// Relative asymmetry and least relative curvature of an operator, from its images of u and v. An image that is 0 says
/// nothing.
fn probe(u: &[f64], v: &[f64], au: &[f64], av: &[f64]) -> (f64, f64) {
    let size = (norm(u) * norm(av)).max(norm(v) * norm(au));
    let asymmetry = (dot(u, av) - dot(v, au)).abs();
    let curvature = |w: &[f64], aw: &[f64]| {
        let size = norm(w) * norm(aw);
        if size == 0.0 { f64::INFINITY } else { dot(w, aw) / size }
    };
    (if size == 0.0 { 0.0 } else { asymmetry / size }, lower(curvature(u, au), curvature(v, av)))
}

/// The larger; NaN wins.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller; NaN wins.
fn lower(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

#[cfg(test)]
mod tests;
