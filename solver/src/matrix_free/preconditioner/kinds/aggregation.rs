//! M by a hierarchy of aggregates: z = w M_0^-1 r + P e, with M_0 block Jacobi's and e what the coarser levels make of P^T r. Spaces without a
//! spread unknown, or with too many unknowns, keep block Jacobi.

use crate::matrix_free::draft::{Draft, coordinates, no_direction, vars};
use crate::matrix_free::preconditioner::diagonal::{self, Block};
use crate::matrix_free::preconditioner::kinds::block_jacobi::BlockJacobi;
use crate::matrix_free::preconditioner::{At, M, Preconditioner};
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::skeleton::{Entries, Field, Scheduled, Skeleton, Space, When};
use crate::matrix_free::vectors::{Extents, Initial, Role, What};
use crate::outer::forcing::Range;
use crate::problem::options::{self, OptionError};
use crate::problem::{aggregates, levels};
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::Kind;
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// M by a hierarchy of aggregates.
pub struct Aggregation;

impl Preconditioner for Aggregation {
    fn name(&self) -> &'static str {
        options::Preconditioner::Aggregation.name()
    }

    fn suits(&self, energy: &Energy) -> Result<(), OptionError> {
        levels::check_aggregates(energy)
    }

    fn has_aggregates(&self) -> bool {
        true
    }

    fn entries(&self, space: &Space) -> Entries {
        BlockJacobi.entries(space)
    }

    fn width(&self, space: &Space) -> usize {
        BlockJacobi.width(space)
    }

    fn inverse(&self, of: &Block, beside: &mut Vec<Func>) -> Vec<Expr> {
        BlockJacobi.inverse(of, beside)
    }

    fn fields(&self, space: &Space, linear: ScalarType) -> Vec<Field> {
        if space.aggregates.is_none() {
            return vec![];
        }
        let (points, initial) = (Extents::Space(space.id), Initial::ZerosPerMask);
        let of = |width, ty| Field { level: 0, points, width, ty, initial };
        let weight = Field { points: Extents::Scalar, initial: Initial::Zeros, ..of(1, ScalarType::F64) };
        vec![of(2 * space.components, ScalarType::F64), of(space.components, linear), weight]
    }

    fn stages(&self, when: When) -> u8 {
        match when {
            When::Masked => 0,
            When::Linearised | When::Damped => 1,
            // The host's.
            When::Iteration => 1,
        }
    }

    fn pipelines(&self, k: &Skeleton, kind: u8, when: When, _: u8) -> Vec<Scheduled> {
        match when {
            When::Linearised => couplings(k),
            When::Damped => damping(k, M { kind, of: self }),
            When::Masked | When::Iteration => vec![],
        }
    }

    fn apply(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        let own = BlockJacobi.apply(at, r);
        if at.space().aggregates.is_none() {
            return own;
        }
        let ty = r[0].ty().scalar;
        let k = at.draft.k;
        let weight = k.field(at.kind, FIELD_WEIGHT, at.space().id);
        let w = at.draft.element(weight, &[], 0).cast(ty);
        let correction = at.field(FIELD_CORRECTION);
        own.into_iter().zip(correction).map(|(z, e)| &w * z + e).collect()
    }

    fn eta(&self) -> Option<Range> {
        Range::of(options::Preconditioner::Aggregation)
    }

    fn takes_part(&self, at: &At, c: usize) -> Expr {
        BlockJacobi.takes_part(at, c)
    }
}

/// D, then 1 where a scalar takes part and 0 elsewhere.
pub const FIELD_DAMPING: u8 = 1;

/// The correction that the coarser levels make of r.
pub const FIELD_CORRECTION: u8 = 2;

/// w, one number.
pub const FIELD_WEIGHT: u8 = 3;

/// The couplings of every domain that has any, but for spaces without aggregates, at x; and the given displacements.
fn couplings(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "couplings", Role::Master);
    for routine in k.routines.of(Kind::Couplings) {
        let domain = routine.site.domain(&k.energy);
        let own = |s: SpaceId| k.spaces.iter().any(|space| space.id == s && space.aggregates.is_some());
        if matches!(domain, Domain::Space(s) if !own(s)) {
            continue;
        }
        let place = k.place(domain, coordinates(&k.vars_over(domain)));
        let values = d.emit(&routine.roots, place, &no_direction);
        d.map_domain(What::Couplings.of(domain), domain, values, true);
    }
    for space in k.spaces.iter().filter(|s| s.aggregates.is_some()).map(|s| s.id) {
        let given: Vec<ExprId> =
            aggregates::given(&k.energy, space).into_iter().flat_map(|(_, of)| of.values.clone()).collect();
        if !given.is_empty() {
            let domain = Domain::Space(space);
            let values = d.emit(&given, k.place(domain, coordinates(&k.vars_over(domain))), &no_direction);
            d.map_domain(What::NearNull.of(domain), domain, values, true);
        }
    }
    d.finish_at_x()
}

/// [`FIELD_DAMPING`] of every space that has aggregates.
fn damping(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("damping_aggregates"), Role::Linear);
    for space in k.spaces.iter().filter(|s| s.aggregates.is_some()) {
        let vars = vars(space.dims);
        let at = coordinates(&vars);
        let damp = match space.inline_diagonal {
            true => diagonal::computed(&d, space, &at).damp,
            false => {
                d.input(What::M { kind: m.kind, field: 0 }.of(space.id));
                d.input(What::Damp.of(space.id));
                d.all(What::Damp.of(space.id), &at)
            }
        };
        let here = m.at(&d, space, &at);
        let number = |v| Expr::float(ScalarType::F64, v);
        let on = |c: usize| m.of.takes_part(&here, c);
        let active = (0..space.components).map(|c| Expr::select(on(c), number(1.0), number(0.0)));
        let damp = damp.into_iter().enumerate();
        let damp = damp.map(|(c, damp)| Expr::select(on(c), damp.cast(ScalarType::F64), number(0.0)));
        let values = damp.chain(active).collect();
        let id = k.field(m.kind, FIELD_DAMPING, space.id);
        let f = d.func(id, &vars, values);
        d.output(&f, id);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.skip_unless(&f, k.live_at(space.id, &at));
    }
    d.finish()
}
