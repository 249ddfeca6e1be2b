//! Names of the inputs and parameters of generated pipelines.
//!
//! | name | what | shape |
//! |---|---|---|
//! | `x<s>` | unknowns of index space s | tuple of components over the space |
//! | `v<s>` | unknowns of space s as of the last accepted step: constant views | as `x<s>` |
//! | `a<k>` | array k | tuple of channels over its space |
//! | `free<s>` | 1 where an element is in the domain and free | u8 over the space, halo 0 |
//! | `g<k>v<i>` | vertex i of graph k | tuple of i32 coordinates over the hyperedges |
//! | `n<s>.<d>` | extent of dim d of index space s | i32 parameter |
//! | `w<k>.<c>` | channel c of parameter k | float parameter |

use crate::model::{ArrayId, GraphId, ParamId, SpaceId};
use sumsq_codegen::{Expr, ScalarType, Type};

/// Unknowns of a space.
pub fn unknowns(s: SpaceId) -> String {
    format!("x{}", s.0)
}
/// The constant views of the unknowns of a space.
pub fn view(s: SpaceId) -> String {
    format!("v{}", s.0)
}
/// An array.
pub fn array(a: ArrayId) -> String {
    format!("a{}", a.0)
}
/// The mask of free elements of a space.
pub fn free(s: SpaceId) -> String {
    format!("free{}", s.0)
}
/// Index array of a vertex.
pub fn vertex(g: GraphId, slot: u16) -> String {
    format!("g{}v{slot}", g.0)
}
/// A channel of a parameter.
pub fn param(p: ParamId, channel: u16) -> String {
    format!("w{}.{channel}", p.0)
}
/// Extent of a dim of a space, as a name.
pub fn extent_name(s: SpaceId, d: usize) -> String {
    format!("n{}.{d}", s.0)
}
/// Extent of a dim of a space.
pub fn extent(s: SpaceId, d: usize) -> Expr {
    Expr::param(extent_name(s, d), Type::I32)
}

/// The coordinates of vertex `slot` of hyperedge `edge`.
pub fn vertex_coordinates(g: GraphId, slot: u16, dims: usize, space: SpaceId, edge: &Expr) -> Vec<Expr> {
    listed_coordinates(&vertex(g, slot), dims, space, edge)
}

/// Entry `at` of a list of element coordinates. In one dim the list's declared range bounds them. In several they are clamped:
/// that changes nothing, the lists are checked when bound, and tells the engine their bounds.
pub fn listed_coordinates(list: &str, dims: usize, space: SpaceId, at: &Expr) -> Vec<Expr> {
    let entry = |d| Expr::call(list, ScalarType::I32, vec![at.clone()], d);
    if dims == 1 {
        return vec![entry(0)];
    }
    (0..dims).map(|d| entry(d).max(0).min(extent(space, d) - 1)).collect()
}
