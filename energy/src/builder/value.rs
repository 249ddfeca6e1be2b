//! Values of the energy language: scalars and Vectors of DAG nodes.

use crate::dag::ExprId;
use smallvec::{SmallVec, smallvec};

/// One scalar expression, with what the DAG cannot tell because it folds: how it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scalar {
    pub id: ExprId,
    /// True if `InBounds` or `InBoundsExpanded` was written in it, be it as `InBounds(0,0)`, which is 1.
    pub uses_bounds: bool,
}

/// A scalar (one entry) or a Vector. A Vector with one entry is a scalar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    scalars: SmallVec<[Scalar; 4]>,
}

impl Value {
    pub(crate) fn scalar(id: ExprId) -> Value {
        Value { scalars: smallvec![Scalar { id, uses_bounds: false }] }
    }

    /// A 1 or 0 that came from `InBounds` or `InBoundsExpanded`.
    pub(crate) fn bounds_test(id: ExprId) -> Value {
        Value { scalars: smallvec![Scalar { id, uses_bounds: true }] }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.scalars.len()
    }

    pub(crate) fn scalars(&self) -> &[Scalar] {
        &self.scalars
    }

    /// Entry `i`; a scalar is its own entry everywhere.
    pub(crate) fn broadcast(&self, i: usize) -> Scalar {
        if self.scalars.len() == 1 { self.scalars[0] } else { self.scalars[i] }
    }

    /// Entry `i` on its own, if there is one.
    pub(crate) fn channel(&self, i: usize) -> Option<Value> {
        self.scalars.get(i).map(|&s| Value { scalars: smallvec![s] })
    }
}

impl FromIterator<Scalar> for Value {
    fn from_iter<I: IntoIterator<Item = Scalar>>(scalars: I) -> Value {
        Value { scalars: scalars.into_iter().collect() }
    }
}

impl FromIterator<ExprId> for Value {
    fn from_iter<I: IntoIterator<Item = ExprId>>(ids: I) -> Value {
        ids.into_iter().map(|id| Scalar { id, uses_bounds: false }).collect()
    }
}
