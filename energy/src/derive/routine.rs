//! The table of routines: what each computes, and where.

use super::count::OpCount;
use super::couplings::Couplings;
use super::site::Site;
use crate::dag::{Dag, ExprId};
use crate::model::SpaceId;
use std::fmt;

/// Report of what the passes did to one routine.
#[derive(Clone, Debug)]
pub struct PassReport {
    /// As in `jtjp space 0`: its kind and site.
    pub routine: String,
    /// Operation count after each stage; the first is `assembled`.
    pub stages: Vec<(&'static str, OpCount)>,
}

/// A part of J^T J p and J p that one element and nothing of the direction decides: it may be hoisted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The index space of its elements.
    pub space: SpaceId,
    /// Its number among those of the space.
    pub number: usize,
    /// Its value at offset 0.
    pub value: ExprId,
    /// True if it must be hoisted: it reads a computed array, to which the sweeps have no other way.
    pub forced: bool,
}

/// Kinds of routines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// (J^T r)_c, one root per component of the site's space.
    Gradient,
    /// The element's diagonal block of J^T J, lower triangle packed (0,0), (1,0), (1,1)..
    Blocks,
    /// Entries of J^T J between the element and others of its space, or, at hyperedges, between the elements at two slots: [`Couplings`] says
    /// which. Meaningless where one of the two is excluded or out of the domain, and where both are the same.
    Couplings,
    /// (J^T J p)_c, one root per component, without what [`Kind::StoredBlocks`] gives; p is read as [`Source::Direction`](crate::dag::Source).
    JtJp,
    /// As [`Kind::Blocks`], of the residual groups whose blocks are stored; absent if there are none.
    StoredBlocks,
    /// The diagonal of J^T J as it is to first order, one root per component; absent if no loss is of second order.
    FirstOrder,
    /// True if the element is excluded; absent if the energy excludes none of its space.
    Excluded,
    /// The values of a computed array by channel, then its partials: what [`Source::Partial`](crate::dag::Source) reads.
    Computed,
    /// Weighted residuals that are stored for J^T r: root k is channel k of [`Source::Residual`](crate::dag::Source).
    Residual,
    /// Parts stored once per linearisation: root k is channel k of [`Source::Hoisted`](crate::dag::Source). Partials that are
    /// materialised, then what [`hoist`](super::hoist) adds.
    Stored,
    /// Parts stored once per direction: root k is channel k of [`Source::Product`](crate::dag::Source).
    Product,
    /// r^2 of a counted instance, else 0. Under a loss, the whole block's energy at its first residual, 0 at the others.
    Cost,
    /// Its part of the model's change, (J d)(2 r + J d) times the weight of its loss, else 0; d is the direction. Under a loss of second
    /// order the square is that of the bent J d.
    Model,
    /// True if some unknown that the instance reads is in the domain at a free element.
    Counts,
}

impl Kind {
    /// The routine in mathematics.
    pub fn formula(self) -> &'static str {
        match self {
            Kind::Gradient => "J^T r",
            Kind::Blocks => "blocks of J^T J",
            Kind::Couplings => "couplings of J^T J",
            Kind::JtJp => "J^T J p",
            Kind::StoredBlocks => "stored blocks of J^T J",
            Kind::FirstOrder => "diag(J^T J) to first order",
            Kind::Computed => "values and partials",
            Kind::Residual => "r",
            Kind::Stored => "stored for J^T J p",
            Kind::Product => "J p",
            Kind::Cost => "energy",
            Kind::Model => "model",
            Kind::Excluded | Kind::Counts => "condition",
        }
    }

    /// A condition is emitted as it is written: no pass runs on it.
    pub fn is_condition(self) -> bool {
        matches!(self, Kind::Excluded | Kind::Counts)
    }

    /// True of what every PCG iteration evaluates: what such a routine can have from a linearisation is hoisted out of it.
    pub fn reads_direction(self) -> bool {
        matches!(self, Kind::JtJp | Kind::Product)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Gradient => "gradient",
            Kind::Blocks => "blocks",
            Kind::Couplings => "couplings",
            Kind::JtJp => "jtjp",
            Kind::StoredBlocks => "stored blocks",
            Kind::FirstOrder => "first order",
            Kind::Excluded => "excluded",
            Kind::Computed => "computed",
            Kind::Residual => "residuals",
            Kind::Stored => "stored",
            Kind::Product => "products",
            Kind::Cost => "cost",
            Kind::Model => "model",
            Kind::Counts => "counts",
        })
    }
}

/// Expressions that are evaluated together at every instance of a site.
#[derive(Clone, Debug)]
pub struct Routine {
    /// The kind.
    pub kind: Kind,
    /// The site.
    pub site: Site,
    /// Its values; what each is, the kind says. Never empty.
    pub roots: Vec<ExprId>,
}

/// The routines of an energy.
#[derive(Clone, Debug)]
pub struct Routines {
    /// Holds every root (and the energy's own expressions: it starts as a copy of the energy's DAG).
    pub dag: Dag,
    /// At most one per kind and site, in the order in which the passes take them.
    pub table: Vec<Routine>,
    /// Operation counts of each routine before and after each pass.
    pub passes: Vec<PassReport>,
    /// The parts that may be hoisted, by index space and number.
    pub parts: Vec<Part>,
    /// The entries that the roots of [`Kind::Couplings`] are, once [`Routines::add_couplings`] has derived them.
    pub couplings: Couplings,
    /// True if the order of emitted operations is chosen ([`crate::emit`]).
    pub scheduled: bool,
}

impl Routines {
    /// The routines of a kind, in the order of the table.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Routine> {
        self.table.iter().filter(move |r| r.kind == kind)
    }

    /// The roots of one routine; empty if the energy has none of this kind there.
    pub fn roots(&self, kind: Kind, site: Site) -> &[ExprId] {
        self.of(kind).find(|r| r.site == site).map_or(&[], |r| &r.roots)
    }

    /// True if the energy has a routine of this kind anywhere.
    pub fn has(&self, kind: Kind) -> bool {
        self.of(kind).next().is_some()
    }
}
