//! Choices: for everything that could be kept in memory, in a ring of rows or computed again where it is read, which of these it is.
//!
//! [`Choices`] is one list, filled by [`fill::derive`] (what derivation itself carries out) and [`fill::store`] (what the pipelines do with
//! the result), from the energy, its routines, the target and, if they are known, the sizes. Every later decision reads it: derivation
//! stores or substitutes by it, pipelines and [`crate::matrix_free::schedule`] turn it into Funcs and directives, the table of vectors takes
//! layouts from it. It is printed as text, a line for each choice, and lines of that text read back as [`Overrides`]:
//!
//! ```text
//! r reg: inline                            # or root
//! J reg: inline                            # or root
//! hoisted {W,H}.0: root                    # or inline; sin(Angle(0,0))
//! q {W,H}: inline                          # or root
//! ```
//!
//! Invariant: the value of a choice is one of its possible ones, given the choices before it in the list. Results of different choices
//! differ by rounding alone.

mod fill;
mod in_place;
mod traffic;

pub use crate::problem::overrides::{ChoiceError, Overrides, Value};
pub use fill::{Derived, Facts, derive, store};

use std::fmt::{self, Write};
use sumsq_energy::model::{ArrayId, ComputedId, Domain, GraphId, GroupId, SpaceId};

/// The thing that a choice is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Of {
    /// The residuals of a residual group: computed in J^T r wherever it reads them, or stored per linearisation.
    Residual(GroupId),
    /// The partials of a residual group: computed in J^T J p, or stored per linearisation.
    Jacobian(GroupId),
    /// Its products J p: computed in J^T J p, or stored per direction.
    Product(GroupId),
    /// Its share of the diagonal blocks of J^T J: computed in J^T J p, or stored per linearisation.
    Blocks(GroupId),
    /// A computed array of the energy as it was written: substituted where it is read, or stored.
    Computed(ComputedId),
    /// A part of J^T J p that one element decides: computed there, or stored per linearisation.
    Hoisted(SpaceId, usize),
    /// The direction p of PCG over a space: a sweep of its own, or a ring of rows inside of sweep A.
    Direction(SpaceId),
    /// The stored products J p over a space: a sweep of its own, or a ring of rows inside of sweep A.
    Products(SpaceId),
    /// The sums of J^T J p over the hyperedges of an element: made by sweep A, which has the elements in its loop, or row by row before it,
    /// or by the hyperedges, in any order, as g and the blocks then are.
    Parts(SpaceId),
    /// q = (J^T J + D) p: stored by sweep A, or computed again in sweep B.
    Q(SpaceId),
    /// D and M^-1: stored per damping, or computed in the sweeps.
    Diagonal(SpaceId),
    /// SIMD vectors far from every free element: computed all the same, or left out.
    Skip(SpaceId),
    /// A computed array in the energy at x + d: a sweep of its own, or a ring of rows inside of the sum.
    Cost(ComputedId),
    /// x and all that holds the same scalars: planes or records.
    UnknownLayout(SpaceId),
    /// p: planes or records.
    DirectionLayout(SpaceId),
    /// An array: planes or records.
    ArrayLayout(ArrayId),
    /// Parts that are stored per linearisation over a space: planes or records.
    StoredLayout(SpaceId),
    /// An array of bytes: stored as such, or in the precision of what reads it.
    Bytes(ArrayId),
    /// E and J^T r over a domain, which together are too long for one nest: cut into several, or left whole.
    Nests(Domain),
    /// Parts that are stored over hyperedges and read by the gather at a vertex: copied beside its entries, or read through their number.
    Entries(GraphId, u16),
}

impl Of {
    /// The word in front of its name.
    fn word(self) -> &'static str {
        match self {
            Of::Residual(_) => "r",
            Of::Jacobian(_) => "J",
            Of::Product(_) => "Jp",
            Of::Blocks(_) => "blocks",
            Of::Computed(_) => "computed",
            Of::Hoisted(..) => "hoisted",
            Of::Direction(_) => "direction",
            Of::Products(_) => "products",
            Of::Parts(_) => "parts",
            Of::Q(_) => "q",
            Of::Diagonal(_) => "diagonal",
            Of::Skip(_) => "far",
            Of::Cost(_) => "cost",
            Of::UnknownLayout(_) | Of::DirectionLayout(_) | Of::ArrayLayout(_) | Of::StoredLayout(_) => {
                "layout"
            }
            Of::Bytes(_) => "bytes",
            Of::Nests(_) => "nests",
            Of::Entries(..) => "entries",
        }
    }
}

/// One choice.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The thing that it is about.
    pub of: Of,
    /// Its name: of a residual group, an array, an index space.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// All values that it could have, given the choices before it.
    pub possible: Vec<Value>,
    /// An expression to know it by, or nothing.
    note: String,
}

impl Choice {
    /// The thing as text names it: `J reg`.
    pub fn subject(&self) -> String {
        format!("{} {}", self.of.word(), self.name)
    }
}

/// Every choice of an energy, in the order in which they are made.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Choices(Vec<Choice>);

impl Choices {
    /// All of them.
    pub fn all(&self) -> &[Choice] {
        &self.0
    }

    /// True if there is a choice about `of`, and this is its value.
    pub fn is(&self, of: Of, value: Value) -> bool {
        self.0.iter().any(|c| c.of == of && c.value == value)
    }
}

/// Columns of a choice in front of the comment on it.
const COLUMNS: usize = 40;

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for choice in &self.0 {
            let others: Vec<String> =
                choice.possible.iter().filter(|v| **v != choice.value).map(Value::to_string).collect();
            let mut line = format!("{}: {}", choice.subject(), choice.value);
            let comment = match (others.is_empty(), choice.note.is_empty()) {
                (true, true) => String::new(),
                (true, false) => choice.note.clone(),
                (false, true) => format!("or {}", others.join(", ")),
                (false, false) => format!("or {}; {}", others.join(", "), choice.note),
            };
            if !comment.is_empty() {
                let gap = COLUMNS.saturating_sub(line.len() + 1);
                write!(line, "{:gap$} # {comment}", "")?;
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}
