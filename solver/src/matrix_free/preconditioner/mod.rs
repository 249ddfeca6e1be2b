//! Preconditioners: the M of PCG.
//!
//! M^-1 is linear, symmetric and the same for a whole linear solve. Every kind has a *pointwise part*, field 0: numbers per
//! element that [`Preconditioner::inverse`] makes of the element's own block of A = J^T J + D. What else a kind needs are
//! vectors of its own, fields from 1 on, which its stages write. M^-1 r is had in one way, [`Preconditioner::apply`]: an
//! expression per component of an element, in r there and in fields. So z = M^-1 r may be
//!
//! - *pointwise*: of r and field 0 alone. No stages; the sweeps compute it wherever they read it.
//! - *stored*: read from a field that stages of every PCG iteration have made of r.
//! - *both*: a pointwise part, plus a term that is read from a field of another level.
//!
//! Where a kind has stages of PCG iterations, r is complete before they run, and z after: sweep B updates d and r, the stages
//! run, and a reduction of its own sums r.z and decides. Elsewhere sweep B does it all. The z of the first direction is made
//! likewise, of r = b, when D is: r0.z0 comes with the norms of the damping, or, where M has stages, after them. All stages but those per mask run behind the damping:
//! those per linearisation behind the first one only.
//!
//! Invariants:
//! - Field 0 is 0 at scalars that take no part (excluded, unconstrained, held at a bound), and so is z.
//! - Fields are 0 outside of the domain, in halos and in pads, as all vectors are.
//! - Where a space has `inline_diagonal`, D and field 0 are expressions of the pipelines that read them and no vectors:
//!   [`M::at`] knows. Nothing is excluded or held there, and z is 0 outside of the domain because r is.
//! - A plan holds several kinds, numbered, production one. x, g, the blocks, D, d, r, p and the scalars are common to all: g
//!   comes with the union of the entries of blocks that they ask for. Fields and stages are each kind's own. Whoever goes from
//!   one to the other computes D, b and what the other has per linearisation anew: phases that depend on M have the number of a
//!   kind.

pub mod aggregates;
pub mod diagonal;
pub mod hierarchy;
mod inverse;
pub mod kinds;

use crate::matrix_free::draft::Draft;
use crate::matrix_free::preconditioner::diagonal::{Block, computed};
use crate::matrix_free::skeleton::{Entries, Field, Scheduled, Skeleton, Space, When};
use crate::matrix_free::stop::{self, Progress, Rule};
use crate::matrix_free::vectors::What;
use crate::outer::forcing::Range;
use crate::problem::options::OptionError;
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::model::Energy;

/// A kind of preconditioner: see the invariants above.
pub trait Preconditioner: Send + Sync {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Tells whether it can be had for an energy.
    ///
    /// # Errors
    /// The reason why not.
    fn suits(&self, _energy: &Energy) -> Result<(), OptionError> {
        Ok(())
    }

    /// Tells whether spaces whose elements stencils couple get a [`hierarchy`](Space::hierarchy) for it: the couplings of J^T J are derived
    /// then, and behind its stages per damping the host inverts A on the coarsest levels.
    fn has_hierarchies(&self) -> bool {
        false
    }

    /// Tells whether spaces get [`aggregates`](Space::aggregates) for it: the couplings of J^T J are derived then, those of graphs, too; the host
    /// makes a hierarchy behind its stages per damping, and a correction of r behind those of an iteration.
    fn has_aggregates(&self) -> bool {
        false
    }

    /// The entries of an element's diagonal block of J^T J that [`Preconditioner::inverse`] reads.
    fn entries(&self, _space: &Space) -> Entries {
        Entries::Diagonal
    }

    /// Numbers of field 0 per element.
    fn width(&self, space: &Space) -> usize {
        space.components
    }

    /// Field 0 of an element: as many expressions as [`Preconditioner::width`] says, in the type of the block. Funcs of theirs that are arrays of
    /// an element are put `beside`, readers first; their first variables are those of the block.
    fn inverse(&self, of: &Block, beside: &mut Vec<Func>) -> Vec<Expr>;

    /// The fields of a space from 1 on, by level whatever it needs; `linear` is the type of r and z.
    fn fields(&self, _space: &Space, _linear: ScalarType) -> Vec<Field> {
        vec![]
    }

    /// Number of its stages at these times.
    fn stages(&self, _when: When) -> u8 {
        0
    }

    /// The pipelines of one of its stages, in the order in which they run; `kind` is its own number.
    fn pipelines(&self, _k: &Skeleton, _kind: u8, _when: When, _stage: u8) -> Vec<Scheduled> {
        vec![]
    }

    /// M^-1 r at an element, an expression per component; r is read there alone. Where nothing else is said field 0 is the
    /// diagonal of M^-1, and nothing else is there.
    fn apply(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        at.scaled(r)
    }

    /// A condition that holds where scalar c takes part. Where it does not, J^T J p may be anything, NaN too.
    fn takes_part(&self, at: &At, c: usize) -> Expr {
        is_not_zero(&at.inverse[c])
    }

    /// The part of M^-1 r at an element that r.z is summed of there; [`Preconditioner::product_of_levels`] has what the other part gives.
    fn apply_own(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        self.apply(at, r)
    }

    /// The part of r.z that coarser levels of a space have, float64: P^T r is there, so r.(P e) is had without P e.
    fn product_of_levels(&self, _d: &mut Draft, _kind: u8, _space: &Space) -> Option<Expr> {
        None
    }

    /// The share of an element in r.z, float64.
    fn product(&self, r: &[Expr], z: &[Expr]) -> Expr {
        let products = r.iter().zip(z).map(|(r, z)| (r * z).cast(ScalarType::F64));
        products.reduce(|a, b| a + b).expect("at least one component")
    }

    /// The values of eta, if r.z measures the error, so that PCG ends by that and not by the model.
    fn eta(&self) -> Option<Range> {
        None
    }

    /// The rules that end PCG, of which the first that holds counts.
    fn rules(&self, of: &Progress) -> Vec<Rule> {
        if self.eta().is_some() { stop::rules_by_norm(of) } else { stop::rules(of) }
    }
}

/// Tells whether a number is not 0.
pub fn is_not_zero(e: &Expr) -> Expr {
    e.ne_(Expr::float(e.ty().scalar, 0.0))
}

/// An element at which a pipeline reads M^-1.
pub struct At<'a> {
    draft: &'a Draft<'a>,
    kind: u8,
    space: &'a Space,
    coordinates: &'a [Expr],
    /// Field 0 there.
    pub inverse: Vec<Expr>,
}

impl At<'_> {
    /// The element's space.
    pub fn space(&self) -> &Space {
        self.space
    }

    /// Field 0 times r, number by number.
    pub fn scaled(&self, r: &[Expr]) -> Vec<Expr> {
        self.inverse.iter().zip(r).map(|(m, r)| m * r).collect()
    }

    /// A field there, from 1 on.
    pub fn field(&self, field: u8) -> Vec<Expr> {
        self.draft.all(self.draft.k.field(self.kind, field, self.space.id), self.coordinates)
    }
}

/// A preconditioner and its number among those of a plan.
#[derive(Clone, Copy)]
pub struct M<'m> {
    /// The number.
    pub kind: u8,
    /// The preconditioner.
    pub of: &'m dyn Preconditioner,
}

impl M<'_> {
    /// Tells whether z is had of r only after stages of its own.
    pub fn has_iteration_stages(&self) -> bool {
        self.of.stages(When::Iteration) > 0
    }

    /// Tells whether it has stages behind the damping: so the first z is had, and r0.z0 with it.
    pub fn follows_damping(&self) -> bool {
        When::BEHIND_DAMPING.iter().any(|&when| self.of.stages(when) > 0)
    }

    /// The name of a pipeline that there is once per kind.
    pub fn pipeline(&self, name: &str) -> String {
        if self.kind == 0 { name.to_string() } else { format!("{name}_m{}", self.kind) }
    }

    /// An element whose field 0 is read from memory, or computed where it is no vector.
    pub fn at<'a>(&self, draft: &'a Draft<'a>, space: &'a Space, coordinates: &'a [Expr]) -> At<'a> {
        let inverse = match space.inline_diagonal {
            true => self.of.inverse(&computed(draft, space, coordinates), &mut vec![]),
            false => draft.all(What::M { kind: self.kind, field: 0 }.of(space.id), coordinates),
        };
        self.at_with(draft, space, coordinates, inverse)
    }

    /// As [`M::at`], where field 0 is at hand.
    pub fn at_with<'a>(
        &self,
        draft: &'a Draft<'a>,
        space: &'a Space,
        coordinates: &'a [Expr],
        inverse: Vec<Expr>,
    ) -> At<'a> {
        At { draft, kind: self.kind, space, coordinates, inverse }
    }
}
