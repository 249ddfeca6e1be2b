//! Products of atoms, the monomials of [`crate::analysis::algebra::poly`].

use crate::expr::{Expr, ExprKind};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;

/// A product of atoms, ordered by hash, parameters last; it derefs to its factors. One factor is never a `Product`. Polynomials are
/// copied all the time, and nearly all monomials are one atom: that takes no memory of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mono {
    /// One factor.
    Atom(Expr),
    /// Any other number of factors.
    Product(Arc<Vec<Expr>>),
}

impl Mono {
    /// The product of these atoms.
    pub(crate) fn product(factors: impl IntoIterator<Item = Expr>) -> Mono {
        let mut factors: Vec<Expr> = factors.into_iter().collect();
        if factors.len() == 1 {
            return Mono::Atom(factors.remove(0));
        }
        factors.sort_by_key(|e| (matches!(e.kind(), ExprKind::Param(_)), FxBuildHasher.hash_one(e)));
        Mono::Product(Arc::new(factors))
    }

    /// The product of both.
    pub(crate) fn times(&self, o: &Mono) -> Mono {
        Mono::product(self.iter().chain(o.iter()).cloned())
    }
}

impl Deref for Mono {
    type Target = [Expr];
    fn deref(&self) -> &[Expr] {
        match self {
            Mono::Atom(e) => std::slice::from_ref(e),
            Mono::Product(list) => list,
        }
    }
}
