//! The certificate of the derivatives: generated routines against the assembled path and against finite differences.
//!
//! With g = J^T r and A = J^T J, at one x and for one direction v, all in float64:
//! - g, diag(A) and A v agree with the assembled Jacobian to a relative 2-norm of [`EXPLICIT_TOLERANCE`], unknown by unknown;
//! - they agree with a Jacobian by finite differences to [`DIFFERENCE_TOLERANCE`], where no branch flips within the step;
//! - A is symmetric and positive semidefinite, M^-1 symmetric and positive;
//! - all of it but the differences again under random masks of excluded elements.
//!
//! A difference is judged against the norm of the expected part, or against its rounding noise where cancellation makes that
//! larger: the part of an unknown whose gradient happens to vanish is not a disagreement of 100 percent. Entries are skipped,
//! and counted, where a branch flips within the step and where an image is sampled at coordinates that the unknown moves.

mod compare;
mod random;

pub use random::seeded_direction;

use crate::assembled::{Explicit, ExplicitError, Witness, free_elements};
use crate::problem::data::ProblemData;
use compare::{Expected, dot, norm};
use random::Random;
use std::collections::BTreeSet;
use sumsq_energy::dag::At;
use sumsq_energy::model::{Energy, SpaceId};
use thiserror::Error;

/// Largest disagreement with the assembled path, relative, in the 2-norm.
pub const EXPLICIT_TOLERANCE: f64 = 1e-9;

/// Largest disagreement with finite differences.
pub const DIFFERENCE_TOLERANCE: f64 = 1e-5;

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
    /// M^-1 r, with the preconditioner built at x.
    fn apply_preconditioner(&mut self, x: &[f64], r: &[f64]) -> Result<Vec<f64>, Self::Error>;
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
    /// Free scalars whose differences were compared.
    pub compared: usize,
    /// Free scalars skipped there: a Select, comparison or abs flips within the step, or as below.
    pub skipped: usize,
    /// Those of them that say where an image is sampled: given derivative images need not be what differences see.
    pub sampled: usize,
}

/// Results of the routines, and how far they can be trusted.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Per unknown, in order of declaration.
    pub unknowns: Vec<UnknownCertificate>,
    /// Largest |u.(A v) - v.(A u)| / (|u| |A v|) over the masks.
    pub asymmetry: f64,
    /// Least v.(A v) / (|v| |A v|) over the masks; negative beyond rounding is wrong.
    pub least_curvature: f64,
    /// The same of M^-1.
    pub preconditioner_asymmetry: f64,
    /// Least v.(M^-1 v) / (|v| |M^-1 v|); must be positive.
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
        require(m <= EXPLICIT_TOLERANCE, "the preconditioner is not symmetric", m);
        let m = self.preconditioner_least;
        require(m > 0.0, "the preconditioner is not positive", m);
        failures
    }

    /// Tells whether everything agrees.
    pub fn passed(&self) -> bool {
        self.failures().is_empty()
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
        let problem = Explicit::with_free(energy, data, free.clone())?;
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
            sampled: 0,
        };
        Certificate {
            unknowns: energy.unknowns.iter().map(unknown).collect(),
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
            let all = |_: usize| true;
            let into = &mut self.unknowns[u];
            let jtf = expected.jtf.disagreement(&self.jtf, part.clone(), all);
            let diag = expected.diag.disagreement(&self.diag, part.clone(), all);
            let jtjv = expected.jtjv.disagreement(&self.jtjv, part, all);
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
        let (expected, witnesses) = Expected::by_differences(problem, explicit, x, v);
        let free = problem.scatter(&vec![1.0; problem.free()]);
        for (u, part) in (0..energy.unknowns.len()).zip(parts(data)) {
            let into = &mut self.unknowns[u];
            let among = |i: usize| witnesses[i] == Witness::Smooth;
            into.jtf.differences = expected.jtf.disagreement(&self.jtf, part.clone(), among);
            into.diag.differences = expected.diag.disagreement(&self.diag, part.clone(), among);
            into.jtjv.differences = expected.jtjv.disagreement(&self.jtjv, part.clone(), among);
            let free_part = part.filter(|&i| free[i] != 0.0);
            let (compared, skipped): (Vec<usize>, Vec<usize>) = free_part.partition(|&i| among(i));
            (into.compared, into.skipped) = (compared.len(), skipped.len());
            into.sampled = skipped.iter().filter(|&&i| witnesses[i] == Witness::Sampled).count();
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
        let mu = routines.apply_preconditioner(x, u)?;
        let mv = routines.apply_preconditioner(x, v)?;
        let (asymmetry, least) = probe(u, v, &mu, &mv);
        self.preconditioner_asymmetry = worse(self.preconditioner_asymmetry, asymmetry);
        self.preconditioner_least = lower(self.preconditioner_least, least);
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
