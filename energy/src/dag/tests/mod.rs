//! Unit and property tests of the DAG. Oracles: f64 evaluation, central differences, and expressions written out by hand.

mod guards;
mod identities;
mod random;

use super::*;
use crate::model::{ArrayId, GraphId, ParamId, SpaceId, UnknownId};
use std::collections::HashMap;

/// An access of channel 0 of unknown `u` at a 2-D offset.
pub(crate) fn at(u: u32, x: i32, y: i32) -> Access {
    let at = At::Offset([x, y].into_iter().collect());
    Access { source: Source::Unknown(UnknownId(u)), channel: 0, at }
}

pub(crate) fn offset(x: i32, y: i32) -> Offset {
    [x, y].into_iter().collect()
}

/// Values by access; everything else is in bounds, free and zero.
#[derive(Clone, Default)]
pub(crate) struct Values {
    pub(crate) reads: HashMap<Access, f64>,
    pub(crate) params: HashMap<(ParamId, u16), f64>,
    pub(crate) outside: bool,
}

impl Env for Values {
    fn access(&self, a: &Access) -> f64 {
        *self.reads.get(a).unwrap_or_else(|| panic!("no value for {a:?}"))
    }
    fn tap(&self, _: (ArrayId, u16), _: &[i64]) -> f64 {
        panic!("nothing is sampled")
    }
    fn param(&self, p: ParamId, c: u16) -> f64 {
        self.params[&(p, c)]
    }
    fn index(&self, d: u16) -> f64 {
        f64::from(d) + 3.0
    }
    fn in_bounds(&self, _: &Offset, _: &Offset) -> bool {
        !self.outside
    }
    fn free(&self, _: SpaceId, _: &At) -> bool {
        true
    }
    fn same_vertex(&self, _: GraphId, _: u16, _: u16) -> bool {
        false
    }
    fn in_bounds_at(&self, _: GraphId, _: u16, _: &Offset, _: &Offset) -> bool {
        !self.outside
    }
    fn index_at(&self, _: GraphId, _: u16, d: u16) -> f64 {
        f64::from(d) + 3.0
    }
}
