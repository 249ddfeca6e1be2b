//! `free<s>`: 1 where an element is not excluded, u8 over space s; run once when arrays or params are bound.
//!
//! `live<s>`: 1 where any of the [`LANES`] elements of a vector along dim 0 is free, one u8 per vector. The sweeps of PCG skip the
//! others: p, r and d stay 0 there.

use super::fields::vars;
use super::reduce::{map_root, strip_name};
use super::{LANES, Scheduled, Skeleton, Space, fields::over};
use sumsq_codegen::{Expr, Func, Input, Layout, Pipeline, ScalarType, Schedule};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::Domain;

/// The pipeline, if anything is excluded at all; elsewhere the mask is 1 throughout the domain.
pub fn pipeline(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("mask"), Schedule::new());
    for space in &k.spaces {
        let Some(excluded) = k.excluded(space.id) else { continue };
        let vars = vars(space.dims);
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let none = |_, _: usize, _: &[Expr]| unreachable!("Exclude reads no direction");
        let e = k.emit(&[excluded], k.master, Place::Element(space.id, at), &none).remove(0);
        let held = e.ne_(Expr::float(k.master, 0.0));
        let byte = |v| Expr::int(ScalarType::U8, v);
        let f = p.func(Func::new(names::free(space.id), &vars, vec![Expr::select(held, byte(0), byte(1))]));
        map_root(&mut s, &f, &Expr::param(strip_name(Domain::Space(space.id)), ScalarType::I32));
        p.output_with(&f, Layout::Planar, k.halos[space.id.index()].clone());
    }
    k.complete(&mut p, &mut s, k.master);
    (!p.outputs.is_empty()).then_some((p, s))
}

impl Skeleton<'_> {
    /// Whether an element is free.
    pub fn free_at(&self, space: &Space, at: &[Expr]) -> Expr {
        let mask = Expr::call(names::free(space.id), ScalarType::U8, at.to_vec(), 0);
        mask.ne_(Expr::int(ScalarType::U8, 0))
    }

    /// `live<s>` as an input.
    pub fn live(&self, space: &Space) -> Input {
        self.field(over("live", space.id), &[ScalarType::U8], space.id)
    }

    /// Whether the vector at `at` has anything to do; absent where the sweeps run everywhere.
    pub fn live_at(&self, space: &Space, at: &[Expr]) -> Option<Expr> {
        if !space.skips {
            return None;
        }
        let mut at = at.to_vec();
        at[0] = &at[0] / LANES as i64;
        let zero = Expr::int(ScalarType::U8, 0);
        Some(Expr::call(over("live", space.id), ScalarType::U8, at, 0).ne_(zero))
    }
}

/// `live` of `free`, whose rows are `row` elements long.
pub fn live_vectors(free: &[u8], row: usize) -> Vec<u8> {
    let vectors = free.chunks(row.max(1)).flat_map(|r| r.chunks(LANES as usize));
    vectors.map(|v| v.iter().any(|&f| f != 0) as u8).collect()
}

/// Extents of `live` for those of the space.
pub fn live_extents(extents: &[i32]) -> Vec<i32> {
    let mut live = extents.to_vec();
    live[0] = (live[0] + LANES - 1) / LANES;
    live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_with_one_free_element_is_live() {
        let mut free = vec![0u8; 2 * 20];
        (free[3], free[20 + 19]) = (1, 1);
        assert_eq!(live_vectors(&free, 20), [1, 0, 0, 1]);
        assert_eq!(live_extents(&[20, 2]), [2, 2]);
    }
}
