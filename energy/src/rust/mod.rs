//! The Rust front end: the energy language as operator-overloaded values.
//!
//! ```
//! use sumsq_energy::rust::EnergyBuilder;
//!
//! let e = EnergyBuilder::new();
//! let (w, h) = (e.dim("W"), e.dim("H"));
//! let x = e.unknown("X", 1, &[w, h]);
//! let a = e.array("A", 1, &[w, h]);
//! e.energy(0.2 * (x.at([0, 0]) - a.at([0, 0])));
//! for offset in [[1, 0], [0, 1]] {
//!     e.energy(x.at([0, 0]) - x.at(offset));
//! }
//! let energy = e.finish()?;
//! assert_eq!(energy.residuals.len(), 3);
//! # Ok::<(), sumsq_energy::EnergyError>(())
//! ```
//!
//! Mistakes do not panic: the first one is kept, with the line of the Rust call, and returned by
//! [`EnergyBuilder::finish`]. Positions for the C interface are given in order of declaration.

mod expression;
mod extensions;

pub use crate::losses::LossKind;
pub use crate::model::DimId;
pub use crate::rust::expression::{Expr, IntoExpr, rotate_2d, rotate_3d, select, vector};
pub use crate::rust::extensions::{Residuals, Sampled};

use crate::budgets::Budgets;
use crate::builder::{Builder, FieldRef, Value, ValueType};
use crate::error::{EnergyError, Fault};
use crate::model::{ElementType, Energy, GraphId};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

/// An energy under construction. Clones are handles to the same energy.
#[derive(Clone, Debug, Default)]
pub struct EnergyBuilder {
    state: Rc<RefCell<State>>,
}

#[derive(Debug, Default)]
struct State {
    builder: Builder,
    dims: i64,
    positions: i64,
    /// The file that declares each unknown.
    unknown_files: FxHashMap<String, String>,
    /// The first mistake.
    error: Option<EnergyError>,
    finished: bool,
}

impl EnergyBuilder {
    /// An empty energy.
    pub fn new() -> EnergyBuilder {
        EnergyBuilder::default()
    }

    /// An empty energy that may take so much.
    pub fn within(budgets: Budgets) -> EnergyBuilder {
        let state = State { builder: Builder::within(budgets), ..State::default() };
        EnergyBuilder { state: Rc::new(RefCell::new(state)) }
    }

    /// A run-time extent.
    #[track_caller]
    pub fn dim(&self, name: &str) -> DimId {
        self.operate(|b, at| {
            at.dims += 1;
            b.dim(name, at.dims - 1)
        })
        // After a mistake nothing is built any more; any id will do.
        .unwrap_or(DimId(0))
    }

    /// An unknown with `channels` entries per element; `dims` fastest-varying first.
    #[track_caller]
    pub fn unknown(&self, name: &str, channels: u16, dims: &[DimId]) -> Field {
        let field = self.operate(|b, at| b.unknown(name, opt_float(channels), dims, at.next()));
        let file = Location::caller().file().to_owned();
        self.state.borrow_mut().unknown_files.entry(name.to_owned()).or_insert(file);
        Field { energy: self.clone(), field }
    }

    /// A given array of the solve's precision.
    #[track_caller]
    pub fn array(&self, name: &str, channels: u16, dims: &[DimId]) -> Field {
        self.array_of(name, ElementType::OptFloat, channels, dims)
    }

    /// A given array with a declared element type.
    #[track_caller]
    pub fn array_of(&self, name: &str, element: ElementType, channels: u16, dims: &[DimId]) -> Field {
        let ty = ValueType { element, channels: i64::from(channels) };
        let field = self.operate(|b, at| b.array(name, ty, dims, at.next()));
        Field { energy: self.clone(), field }
    }

    /// A constant of the solve with one entry.
    #[track_caller]
    pub fn param(&self, name: &str) -> Expr {
        self.param_vector(name, 1)
    }

    /// A constant of the solve with `channels` entries.
    #[track_caller]
    pub fn param_vector(&self, name: &str, channels: u16) -> Expr {
        self.expr(|b, at| b.param(name, opt_float(channels), at.next()))
    }

    /// A set of hyperedges, each vertex with its name and the dims it indexes.
    #[track_caller]
    pub fn graph(&self, name: &str, vertices: &[(&str, &[DimId])]) -> Graph {
        let graph = self.operate(|b, at| {
            let position = at.next();
            let slots: Vec<_> =
                vertices.iter().map(|(name, dims)| (name.to_string(), dims.to_vec(), at.next())).collect();
            b.graph(name, position, &slots)
        });
        Graph { energy: self.clone(), graph }
    }

    /// Each channel of `value` is one residual; together they are one group.
    #[track_caller]
    pub fn energy(&self, value: impl IntoExpr) {
        self.energies([value]);
    }

    /// Several values as one group.
    #[track_caller]
    pub fn energies<E: IntoExpr>(&self, values: impl IntoIterator<Item = E>) {
        let values = self.values(values);
        self.operate(|b, _| b.energy(&values?.iter().collect::<Vec<_>>()));
    }

    /// Holds every unknown of an index space fixed where `condition` is non-zero.
    #[track_caller]
    pub fn exclude(&self, condition: impl IntoExpr) {
        let values = self.values([condition]);
        self.operate(|b, _| values?.iter().try_for_each(|v| b.exclude(v)));
    }

    /// Jacobi preconditioning on or off.
    pub fn use_preconditioner(&self, flag: bool) {
        self.state.borrow_mut().builder.use_preconditioner(flag);
    }

    /// A number.
    #[track_caller]
    pub fn constant(&self, value: f64) -> Expr {
        self.expr(|b, _| Ok(b.constant(value)))
    }

    /// The element's coordinate along dim `d` of its index space.
    #[track_caller]
    pub fn index(&self, d: u16) -> Expr {
        self.expr(|b, _| b.index(i64::from(d)))
    }

    /// 1 where the element at that offset lies in the domain, else 0.
    #[track_caller]
    pub fn in_bounds(&self, offset: impl AsRef<[i32]>) -> Expr {
        let offset = wide(offset.as_ref());
        self.expr(|b, _| b.in_bounds(&offset))
    }

    /// 1 where the box of half-width `k` around that offset lies in the domain, else 0.
    #[track_caller]
    pub fn in_bounds_expanded(&self, offset: impl AsRef<[i32]>, k: u16) -> Expr {
        let offset = wide(offset.as_ref());
        self.expr(|b, _| b.in_bounds_expanded(&offset, i64::from(k)))
    }

    /// The finished energy. Whatever is done afterwards with its handles is ignored, and another `finish` is an error.
    ///
    /// # Errors
    /// The first mistake that was made while building, or what is wrong with the whole.
    pub fn finish(&self) -> Result<Energy, EnergyError> {
        let state = self.state.replace(State { finished: true, ..State::default() });
        if let Some(error) = state.error {
            return Err(error);
        }
        if state.finished {
            return Err(EnergyError::in_rust(Fault::Finished, None));
        }
        state.builder.finish(None).map_err(|f| {
            let at = f.line.zip(state.unknown_files.get(f.fault.culprit().unwrap_or_default()));
            EnergyError::in_rust(f.fault.clone(), at.map(|(line, file)| (file.clone(), line)))
        })
    }

    /// One operation: `None` once there was a mistake.
    #[track_caller]
    fn operate<R>(&self, f: impl FnOnce(&mut Builder, &mut Positions) -> Result<R, Fault>) -> Option<R> {
        let caller = Location::caller();
        let state = &mut *self.state.borrow_mut();
        let at = || (caller.file().to_owned(), caller.line());
        if state.finished && state.error.is_none() {
            state.error = Some(EnergyError::in_rust(Fault::Finished, Some(at())));
        }
        if state.error.is_some() {
            return None;
        }
        let mut positions = Positions { dims: state.dims, others: state.positions };
        state.builder.set_line(Some(caller.line()));
        let result = f(&mut state.builder, &mut positions);
        let result = state.builder.check_budgets().and(result);
        (state.dims, state.positions) = (positions.dims, positions.others);
        result
            .map_err(|fault| {
                state.error = Some(EnergyError::in_rust(fault, Some(at())));
            })
            .ok()
    }

    /// One operation that gives a value.
    #[track_caller]
    fn expr(&self, f: impl FnOnce(&mut Builder, &mut Positions) -> Result<Value, Fault>) -> Expr {
        Expr { value: self.operate(f), energy: self.clone() }
    }

    /// The values of operands, which must belong to this energy.
    fn values<E: IntoExpr>(&self, operands: impl IntoIterator<Item = E>) -> Result<Vec<Value>, Fault> {
        operands.into_iter().map(|o| self.value(&o.into_expr(self))).collect()
    }

    fn value(&self, e: &Expr) -> Result<Value, Fault> {
        if !Rc::ptr_eq(&e.energy.state, &self.state) {
            return Err(Fault::Foreign);
        }
        // No value: there was a mistake, so that the operation is not done at all.
        e.value.clone().ok_or(Fault::Foreign)
    }
}

/// The next free positions of the C interface.
struct Positions {
    dims: i64,
    others: i64,
}

impl Positions {
    fn next(&mut self) -> i64 {
        self.others += 1;
        self.others - 1
    }
}

fn opt_float(channels: u16) -> ValueType {
    ValueType { element: ElementType::OptFloat, channels: i64::from(channels) }
}

fn wide(offset: &[i32]) -> Vec<i64> {
    offset.iter().map(|&o| i64::from(o)).collect()
}

/// An unknown or array.
#[derive(Clone, Debug)]
pub struct Field {
    energy: EnergyBuilder,
    field: Option<FieldRef>,
}

impl Field {
    /// Reads all channels at an offset (`x.at([1, 0])`) or at a graph vertex (`x.at(&v0)`).
    #[track_caller]
    pub fn at<'a>(&self, place: impl Into<Place<'a>>) -> Expr {
        self.read(place.into(), None)
    }

    /// Reads one channel there.
    #[track_caller]
    pub fn at_channel<'a>(&self, place: impl Into<Place<'a>>, channel: u16) -> Expr {
        self.read(place.into(), Some(i64::from(channel)))
    }

    #[track_caller]
    fn read(&self, place: Place, channel: Option<i64>) -> Expr {
        self.energy.expr(|b, _| {
            // No field: its declaration was a mistake, so that this is not run.
            let field = self.field.ok_or(Fault::Foreign)?;
            match place {
                Place::Offset(offset) => b.read_offset(field, &wide(&offset), channel),
                Place::Vertex(v) if !Rc::ptr_eq(&v.energy.state, &self.energy.state) => Err(Fault::Foreign),
                Place::Vertex(v) => b.read_vertex(field, v.graph, v.slot, channel),
            }
        })
    }

    /// Channels `start..end`.
    #[track_caller]
    pub fn slice(&self, start: u16, end: u16) -> Field {
        let slice = |b: &mut Builder, _: &mut Positions| {
            b.slice(self.field.ok_or(Fault::Foreign)?, i64::from(start), i64::from(end))
        };
        Field { field: self.energy.operate(slice), energy: self.energy.clone() }
    }
}

/// Place where a field is read.
#[derive(Clone, Debug)]
pub enum Place<'a> {
    /// At the element plus an offset.
    Offset(Vec<i32>),
    /// At a vertex of the hyperedge.
    Vertex(&'a Vertex),
}

impl<const N: usize> From<[i32; N]> for Place<'_> {
    fn from(offset: [i32; N]) -> Self {
        Place::Offset(offset.to_vec())
    }
}

impl From<&[i32]> for Place<'_> {
    fn from(offset: &[i32]) -> Self {
        Place::Offset(offset.to_vec())
    }
}

impl<'a> From<&'a Vertex> for Place<'a> {
    fn from(vertex: &'a Vertex) -> Self {
        Place::Vertex(vertex)
    }
}

/// A graph.
#[derive(Clone, Debug)]
pub struct Graph {
    energy: EnergyBuilder,
    graph: Option<GraphId>,
}

/// A vertex of a graph.
#[derive(Clone, Debug)]
pub struct Vertex {
    energy: EnergyBuilder,
    graph: GraphId,
    slot: u16,
}

impl Graph {
    /// The vertex with this name.
    #[track_caller]
    pub fn vertex(&self, name: &str) -> Vertex {
        let vertex = self.energy.operate(|b, _| {
            let graph = self.graph.ok_or(Fault::Foreign)?;
            Ok((graph, b.vertex(graph, name)?))
        });
        // After a mistake nothing is read any more.
        let (graph, slot) = vertex.unwrap_or((GraphId(0), 0));
        Vertex { energy: self.energy.clone(), graph, slot }
    }
}
