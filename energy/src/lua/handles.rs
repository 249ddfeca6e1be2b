//! Values of an energy file: expressions, fields, graphs, vertices, dims and types.

use crate::builder::{FieldRef, Robust, SampledRef, Value, ValueType};
use crate::model::{DimId, GraphId};

/// A scalar or Vector.
#[derive(Clone)]
pub(super) struct Expression(pub Value);
/// An unknown or array, or a slice of its channels.
#[derive(Clone, Copy)]
pub(super) struct FieldHandle(pub FieldRef);
/// An array read at real coordinates.
#[derive(Clone)]
pub(super) struct SampledHandle(pub SampledRef);
/// A robust loss.
#[derive(Clone)]
pub(super) struct LossHandle(pub Robust);
/// A graph.
#[derive(Clone, Copy)]
pub(super) struct GraphHandle(pub GraphId);
/// A vertex of a graph.
#[derive(Clone, Copy)]
pub(super) struct VertexHandle(pub GraphId, pub u16);
/// A dim.
#[derive(Clone, Copy)]
pub(super) struct DimHandle(pub DimId);
/// An element type.
#[derive(Clone, Copy)]
pub(super) struct TypeHandle(pub ValueType);
