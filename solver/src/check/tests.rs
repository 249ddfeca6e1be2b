//! The certificate accepts routines that are right, and each kind of mistake fails it.

use super::*;
use crate::{ArrayData, NamedArray};

/// A coupled energy with a kink, an excluded element and two channels.
const ENERGY: &str = r#"
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float2, {W, H}, 0)
local Y = Unknown("Y", opt_float, {W, H}, 1)
local A = Array("A", opt_float, {W, H}, 2)
Exclude(less(A(0, 0), -0.9))
Energy(sin(Y(0, 0)) * X(0, 0) - X(1, 0))
Energy(abs(X(0, 0, 0) - X(0, 1, 1)) - A(0, 0) * Y(0, 0))
Energy(0.3 * Y(0, 0) ^ 2)
"#;

fn problem() -> (Energy, ProblemData<'static>) {
    let energy = Energy::from_text("test.t", ENERGY).unwrap();
    let array = |name: &str, shape: &[usize], seed| NamedArray {
        name: name.to_string(),
        shape: shape.to_vec(),
        data: ArrayData::F64(seeded_direction(shape.iter().product(), seed)),
    };
    let arrays = [array("X", &[6, 7, 2], 5), array("Y", &[6, 7], 6), array("A", &[6, 7], 7)];
    let data = ProblemData::bind(&energy, &arrays).unwrap();
    (energy, data.into_owned())
}

/// Damage done to correct results.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// One entry of g, of the last unknown.
    Gradient,
    Diag,
    /// A plus a skew part.
    Skew,
    /// -A.
    Negative,
    /// The mask is not obeyed.
    Mask,
    Preconditioner,
    /// M is a little off symmetry, with the largest radius alone.
    LargeRadius,
    NegativePreconditioner,
}

/// Correct routines, and one fault.
struct Faulty<'a> {
    energy: &'a Energy,
    data: &'a ProblemData<'a>,
    free: Vec<Vec<bool>>,
    fault: Fault,
    /// x and 1/R that M is built for.
    built: (Vec<f64>, f64),
}

fn faulty<'a>(
    energy: &'a Energy,
    data: &'a ProblemData<'a>,
    free: Vec<Vec<bool>>,
    fault: Fault,
) -> Faulty<'a> {
    Faulty { energy, data, free, fault, built: (vec![], 0.0) }
}

impl Faulty<'_> {
    fn explicit(&self) -> Explicit<'_> {
        Explicit::with_free(self.energy, self.data, self.free.clone()).unwrap()
    }
}

impl Routines for Faulty<'_> {
    type Error = std::convert::Infallible;

    fn set_free(&mut self, free: &[Vec<bool>]) -> Result<(), Self::Error> {
        if self.fault != Fault::Mask {
            self.free = free.to_vec();
        }
        Ok(())
    }
    fn jtf(&mut self, x: &[f64]) -> Result<Vec<f64>, Self::Error> {
        let problem = self.explicit();
        let mut g = problem.scatter(&problem.gradient(x));
        if self.fault == Fault::Gradient {
            let last = *problem.free_scalars().last().unwrap() as usize;
            g[last] += 1e-6;
        }
        Ok(g)
    }
    fn diag(&mut self, x: &[f64]) -> Result<Vec<f64>, Self::Error> {
        let problem = self.explicit();
        let scale = if self.fault == Fault::Diag { 1.0 + 1e-8 } else { 1.0 };
        Ok(problem.scatter(&problem.diag(x)).iter().map(|d| d * scale).collect())
    }
    fn jtjv(&mut self, x: &[f64], v: &[f64]) -> Result<Vec<f64>, Self::Error> {
        let problem = self.explicit();
        let v = problem.gather(v);
        let mut av = problem.jtjv(x, &v);
        match self.fault {
            Fault::Skew => {
                av[0] += 0.1 * v[1];
                av[1] -= 0.1 * v[0];
            }
            Fault::Negative => av.iter_mut().for_each(|a| *a = -*a),
            _ => {}
        }
        Ok(problem.scatter(&av))
    }
    fn build_preconditioner(&mut self, x: &[f64], inverse_radius: f64) -> Result<(), Self::Error> {
        self.built = (x.to_vec(), inverse_radius);
        Ok(())
    }
    fn apply_preconditioner(&mut self, r: &[f64]) -> Result<Vec<f64>, Self::Error> {
        let problem = self.explicit();
        let r = problem.gather(r);
        let (x, inverse_radius) = &self.built;
        let shifted = |d: f64| d * (1.0 + inverse_radius) + 1.0;
        let mut z: Vec<f64> = r.iter().zip(problem.diag(x)).map(|(r, d)| r / shifted(d)).collect();
        match self.fault {
            Fault::Preconditioner => z[0] += 0.1 * r[1],
            Fault::LargeRadius if *inverse_radius == 1e-16 => z[0] += 1e-9 * r[1],
            Fault::NegativePreconditioner => z.iter_mut().for_each(|z| *z = -*z),
            _ => {}
        }
        Ok(problem.scatter(&z))
    }
}

fn certify(fault: Fault) -> Certificate {
    let (energy, data) = problem();
    let free = vec![vec![true; 42]; energy.spaces.len()];
    let mut routines = faulty(&energy, &data, free, fault);
    let x = data.x();
    check(&energy, &data, &mut routines, &x, &seeded_direction(x.len(), 9)).unwrap()
}

#[test]
fn correct_routines_pass() {
    let certificate = certify(Fault::None);
    assert!(certificate.passed(), "{:?}", certificate.failures());
    assert_eq!(certificate.masks, MASKS);
    for u in &certificate.unknowns {
        assert_eq!((u.jtf.explicit, u.diag.explicit, u.jtjv.explicit), (0.0, 0.0, 0.0));
        assert!(u.jtf.differences > 0.0 && u.jtf.differences < 1e-8, "{u:?}");
        assert!(u.compared > 0);
    }
    assert_eq!(certificate.jtf.len(), 126);
}

#[test]
fn every_fault_is_found() {
    let cases = [
        (Fault::Gradient, "J^T r of `Y` is off the explicit path"),
        (Fault::Diag, "diag(J^T J) of `X` is off the explicit path"),
        (Fault::Skew, "J^T J is not symmetric"),
        (Fault::Negative, "J^T J is not positive semidefinite"),
        (Fault::Mask, "off the explicit path"),
        (Fault::Preconditioner, "the preconditioner is not symmetric"),
        (Fault::LargeRadius, "the preconditioner is not symmetric"),
        (Fault::NegativePreconditioner, "the preconditioner is not positive"),
    ];
    for (fault, message) in cases {
        let failures = certify(fault).failures();
        assert!(failures.iter().any(|f| f.contains(message)), "{message}: {failures:?}");
    }
}

#[test]
fn residuals_at_a_kink_are_compared_beside_it() {
    let (energy, mut data) = problem();
    // Every element: X(0, 0, 0) = X(0, 1, 1), where abs has its kink.
    data.set_x(&vec![0.5; data.x().len()]).unwrap();
    let free = vec![vec![true; 42]; energy.spaces.len()];
    let mut routines = faulty(&energy, &data, free, Fault::None);
    let x = data.x();
    let certificate = check(&energy, &data, &mut routines, &x, &x).unwrap();
    assert!(certificate.passed(), "{:?}", certificate.failures());
    assert!(certificate.unknowns[0].skipped == 0, "{:?}", certificate.unknowns[0]);
    let ResidualCounts { compared, moved, skipped } = certificate.residuals;
    assert!(moved > 25 && compared > 60 && skipped == 0, "{:?}", certificate.residuals);
}

/// All residuals of a global at the kink of a loss of second order: differences say nothing of it.
#[test]
fn nothing_compared_is_not_agreed() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local T = Unknown("T", opt_float, {}, 1)
        Energy(X(0) - 1)
        Residual{loss=SecondOrder(Huber(0.5)), T() * X(0)}"#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let x = [1.0, 1.0, 1.0, 0.5];
    let array = |name: &str, shape: &[usize], values: &[f64]| NamedArray {
        name: name.to_string(),
        shape: shape.to_vec(),
        data: ArrayData::F64(values.to_vec()),
    };
    let arrays = [array("X", &[3], &x[..3]), array("T", &[1], &x[3..])];
    let data = ProblemData::bind(&energy, &arrays).unwrap();
    let free = free_elements(&energy, &data).unwrap();
    let mut routines = faulty(&energy, &data, free, Fault::None);
    let certificate = check(&energy, &data, &mut routines, &x, &x).unwrap();
    assert!(certificate.passed(), "{:?}", certificate.failures());
    assert_eq!(certificate.unjudged().collect::<Vec<_>>(), ["T"]);
    assert_eq!(certificate.residuals, ResidualCounts { compared: 3, moved: 0, skipped: 3 });
}

#[test]
fn residuals_that_sample_where_unknowns_say_are_compared_with_the_given_slopes() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W, H}, 0)
        local Y = Unknown("Y", opt_float, {W, H}, 1)
        local A = Array("A", opt_float, {W, H}, 2)
        local S = SampledImage(A, A, A)
        Energy(S(Index(0) + X(0, 0, 0), Index(1) + 0.5) - X(0, 0, 1))
        Energy(X(0, 0, 1) ^ 2 * Y(0, 0), Y(0, 0))"#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let (_, data) = problem();
    let free = vec![vec![true; 42]; energy.spaces.len()];
    let mut routines = faulty(&energy, &data, free, Fault::None);
    let x = data.x();
    let certificate = check(&energy, &data, &mut routines, &x, &x).unwrap();
    assert_eq!(certificate.failures(), Vec::<String>::new());
    let counts = |u: usize| (certificate.unknowns[u].compared, certificate.unknowns[u].skipped);
    assert_eq!((counts(0), counts(1)), ((84, 0), (42, 0)));
    // An image is not its own derivative; where it is noise, one direction may by chance be nearer than zeros would be.
    assert!(certificate.wrong_images().count() >= 1, "{:?}", certificate.images);
    assert!(certificate.images.iter().all(|image| image.places > 10));
}
