//! The scalars that steer a solve: tuples of float64 that pipelines write and pipelines or the host read.

use crate::matrix_free::skeleton::Skeleton;
use crate::matrix_free::vectors::What;
use crate::problem::report::LinearStop;
use sumsq_codegen::{Expr, ScalarType};

/// An element of a tuple of scalars.
pub trait Scalar: Copy {
    /// The tuple.
    const OF: What;
    /// Position in the tuple.
    fn index(self) -> usize;
}

/// Scalars that PCG carries from one iteration to the next: the tuples `State` and `Next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PcgScalar {
    /// r . M^-1 r.
    Rz,
    /// Factor of the old direction.
    Beta,
    /// |r|^2.
    Rr,
    /// d.(b + r)/2.
    Q,
    /// Iterations done.
    K,
    /// 0 while running, else the code of a [`LinearStop`].
    Stop,
}

/// Scalars from sweep A to sweep B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlphaScalar {
    /// Step length along p.
    Alpha,
    /// p.q.
    Pq,
    /// 1 if p.q is positive and finite.
    Positive,
}

/// Scalars at the start of PCG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartScalar {
    /// |b|^2.
    Bb,
    /// r0 . M^-1 r0.
    Rz,
    /// max|P(x - g) - x| over free scalars.
    GradientMax,
    /// max|g_i| / sqrt(diag_i) over free scalars, each within its bounds.
    ScaledGradient,
    /// Free scalars with a zero column of J.
    Unconstrained,
}

/// r0.z0 on its own, see [`What::StartProduct`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartProduct;

/// Scalars of the model at the trial point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelScalar {
    /// sum (J s)(2 r + J s), the negative of the predicted decrease.
    Model,
    /// |s|^2.
    Step,
    /// |x + s|^2 over free scalars. The rule that compares |s| with |x| holds only where this is |x|^2 to its tolerance, and
    /// x + s is at hand.
    X,
}

impl PcgScalar {
    /// In the order of the tuple.
    pub const ALL: [PcgScalar; 6] = {
        use PcgScalar::*;
        [Rz, Beta, Rr, Q, K, Stop]
    };
}

impl AlphaScalar {
    /// In the order of the tuple.
    pub const ALL: [AlphaScalar; 3] = [AlphaScalar::Alpha, AlphaScalar::Pq, AlphaScalar::Positive];
}

impl StartScalar {
    /// In the order of the tuple.
    pub const ALL: [StartScalar; 5] = {
        use StartScalar::*;
        [Bb, Rz, GradientMax, ScaledGradient, Unconstrained]
    };
}

impl ModelScalar {
    /// In the order of the tuple.
    pub const ALL: [ModelScalar; 3] = [ModelScalar::Model, ModelScalar::Step, ModelScalar::X];
}

impl Scalar for PcgScalar {
    const OF: What = What::State;
    fn index(self) -> usize {
        self as usize
    }
}
impl Scalar for AlphaScalar {
    const OF: What = What::Alpha;
    fn index(self) -> usize {
        self as usize
    }
}
impl Scalar for StartScalar {
    const OF: What = What::Start;
    fn index(self) -> usize {
        self as usize
    }
}
impl Scalar for StartProduct {
    const OF: What = What::StartProduct;
    fn index(self) -> usize {
        0
    }
}
impl Scalar for ModelScalar {
    const OF: What = What::Model;
    fn index(self) -> usize {
        self as usize
    }
}
impl Skeleton {
    /// A scalar as generated code reads it.
    pub fn scalar<S: Scalar>(&self, s: S) -> Expr {
        Expr::call(S::OF.of(()).to_string(), ScalarType::F64, vec![], s.index())
    }
}

/// Every stop; its code in [`PcgScalar::Stop`] is its number here, from 1.
const STOPS: [LinearStop; 6] = {
    use LinearStop::*;
    [Tolerance, Model, Limit, Indefinite, NotFinite, PreconditionedNorm]
};

impl LinearStop {
    /// The number that stands for it in [`PcgScalar::Stop`].
    pub(super) fn code(self) -> f64 {
        STOPS.iter().position(|&s| s == self).map_or(0.0, |at| (at + 1) as f64)
    }

    /// The stop of a code; `None` while PCG runs.
    pub(super) fn of_code(code: f64) -> Option<LinearStop> {
        STOPS.into_iter().find(|s| s.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_has_a_code_of_its_own() {
        assert!(STOPS.iter().all(|&s| s.code() > 0.0 && LinearStop::of_code(s.code()) == Some(s)));
        assert_eq!(LinearStop::of_code(0.0), None);
    }

    #[test]
    fn tuples_are_listed_in_their_order() {
        assert!(PcgScalar::ALL.iter().enumerate().all(|(i, &s)| s as usize == i));
        assert!(AlphaScalar::ALL.iter().enumerate().all(|(i, &s)| s as usize == i));
        assert!(StartScalar::ALL.iter().enumerate().all(|(i, &s)| s as usize == i));
        assert!(ModelScalar::ALL.iter().enumerate().all(|(i, &s)| s as usize == i));
    }
}
