//! `free<s>`: 1 where an element is not excluded, u8 over space s; run once when arrays or params are bound.
//!
//! Vectors (of as many elements along dim 0 as there are lanes) far from every free element are skipped. One u8 per vector says which not:
//! - `live<s>`: it has a free element. Only these have entries of g, of the diagonal and in PCG: p, r and d stay 0 elsewhere.
//! - `near<s>`: it has an element within twice the reach of a free one, per dim. An instance counts only if it reads a free element, so it
//!   is within the reach, and what it reads, such as a computed array or x + s, is within twice the reach. Elsewhere E has no terms, x + s
//!   stays x, and computed arrays and what is stored per linearisation have any value.

use crate::matrix_free::draft::{Draft, coordinates, no_direction, vars};
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space};
use crate::matrix_free::vectors::{Role, VectorId, What};
use sumsq_codegen::{Expr, ScalarType};
use sumsq_energy::emit::Place;
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// The pipeline, if anything is excluded at all; elsewhere the mask is 1 throughout the domain.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "mask", Role::Master);
    for space in &k.spaces {
        let Some(excluded) = k.excluded(space.id) else { continue };
        let vars = vars(space.dims);
        let place = Place::Element(space.id, coordinates(&vars));
        let e = d.emit(&[excluded], place, &no_direction).remove(0);
        let held = e.ne_(Expr::float(d.ty(), 0.0));
        let byte = |v| Expr::int(ScalarType::U8, v);
        let id = What::Free.of(space.id);
        let f = d.func(id, &vars, vec![Expr::select(held, byte(0), byte(1))]);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.output(&f, id);
    }
    d.finish()
}

impl Skeleton {
    /// True where an element is free.
    pub fn free_at(&self, space: &Space, at: &[Expr]) -> Expr {
        is_set(What::Free.of(space.id), at)
    }

    /// True where the vector at `at` has a free element; absent where nothing is skipped.
    pub fn live_at(&self, space: SpaceId, at: &[Expr]) -> Option<Expr> {
        self.vector_at(What::Live, space, at)
    }

    /// True where the vector at `at` is near a free element; absent where nothing is skipped.
    pub fn near_at(&self, space: SpaceId, at: &[Expr]) -> Option<Expr> {
        self.vector_at(What::Near, space, at)
    }

    fn vector_at(&self, mask: What, space: SpaceId, at: &[Expr]) -> Option<Expr> {
        self.spaces.iter().find(|s| s.id == space && s.skips)?;
        let mut at = at.to_vec();
        at[0] = &at[0] / i64::from(self.target.lanes);
        Some(is_set(mask.of(space), &at))
    }
}

/// True where an entry of a vector of bytes is not 0.
fn is_set(id: VectorId, at: &[Expr]) -> Expr {
    Expr::call(id.to_string(), ScalarType::U8, at.to_vec(), 0).ne_(Expr::int(ScalarType::U8, 0))
}

/// Tells whether vectors of a space can be skipped: those of a grid of two or more dims with an Exclude that stands alone. No graph's vertices lie in it, and
/// the residuals over it read no unknowns of another space.
pub fn can_skip(energy: &Energy, space: SpaceId) -> bool {
    let excluded = energy.excludes.iter().any(|(s, _)| *s == space);
    let joined = energy.graphs.iter().flat_map(|g| &g.vertices).any(|v| v.space == space);
    let own = energy.residuals.iter().filter(|r| r.domain == Domain::Space(space));
    let mut reads = own.flat_map(|r| &r.unknown_reads);
    excluded
        && energy.spaces[space.index()].len() >= 2
        && !joined
        && reads.all(|a| energy.space_of(a.source) == space)
}

/// `live` of `free`, over `extents`.
pub fn live_vectors(free: &[u8], extents: &[i32], lanes: i32) -> Vec<u8> {
    vectors_within(free, extents, lanes, 0)
}

/// `near` of `free`, over `extents`, for a reach per dim.
pub fn near_vectors(free: &[u8], extents: &[i32], reach: &[u32], lanes: i32) -> Vec<u8> {
    let mut near = vectors_within(free, extents, lanes, 2 * reach[0] as usize);
    let vectors = vector_extents(extents, lanes);
    let mut stride = 1;
    for (d, &n) in vectors.iter().enumerate() {
        let slab = stride * n.max(1) as usize;
        if d > 0 {
            near = near.chunks(slab).flat_map(|slab| dilate(slab, stride, 2 * reach[d])).collect();
        }
        stride = slab;
    }
    near
}

/// Per vector, whether it or what is at most `beyond` before or behind it in its row holds a free element.
fn vectors_within(free: &[u8], extents: &[i32], lanes: i32, beyond: usize) -> Vec<u8> {
    let row = extents.first().map_or(1, |&n| n.max(1) as usize);
    let lanes = lanes as usize;
    let mut vectors = Vec::with_capacity(free.len().div_ceil(lanes));
    // How many elements of the row are free in front of each, and in all.
    let mut before = vec![0u32; row + 1];
    for row in free.chunks(row) {
        for (i, &f) in row.iter().enumerate() {
            before[i + 1] = before[i] + u32::from(f != 0);
        }
        vectors.extend((0..row.len()).step_by(lanes).map(|start| {
            let (from, to) = (start.saturating_sub(beyond), (start + lanes + beyond).min(row.len()));
            u8::from(before[to] > before[from])
        }));
    }
    vectors
}

/// 1 within `reach` rows, of `stride` elements each, of what is not 0.
fn dilate(slab: &[u8], stride: usize, reach: u32) -> Vec<u8> {
    let mut out = slab.to_vec();
    let mut pass = |rows: &mut dyn Iterator<Item = usize>| {
        // Rows that are left to set, per column.
        let mut left = vec![0; stride];
        for at in rows {
            for (i, left) in left.iter_mut().enumerate() {
                *left = if slab[at + i] != 0 { reach + 1 } else { left.saturating_sub(1) };
                out[at + i] |= (*left > 0) as u8;
            }
        }
    };
    pass(&mut (0..slab.len()).step_by(stride));
    pass(&mut (0..slab.len()).step_by(stride).rev());
    out
}

/// Extents of a mask of vectors for those of the space.
pub fn vector_extents(extents: &[i32], lanes: i32) -> Vec<i32> {
    let mut vectors = extents.to_vec();
    vectors[0] = (vectors[0] + lanes - 1) / lanes;
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_with_one_free_element_is_live() {
        let mut free = vec![0u8; 2 * 20];
        (free[3], free[20 + 19]) = (1, 1);
        assert_eq!(live_vectors(&free, &[20, 2], 16), [1, 0, 0, 1]);
        assert_eq!(vector_extents(&[20, 2], 16), [2, 2]);
    }

    #[test]
    fn what_is_near_is_what_a_box_around_a_free_element_holds() {
        let (extents, reach) = ([37, 9, 6], [3, 1, 2]);
        let mut free = vec![0u8; extents.iter().product::<i32>() as usize];
        let place = |i: usize| [i % 37, i / 37 % 9, i / (37 * 9)];
        for (step, from) in [(331, 40), (1000, 7)] {
            free.iter_mut().skip(from).step_by(step).for_each(|f| *f = 1);
        }
        let set: Vec<[usize; 3]> = (0..free.len()).filter(|&i| free[i] != 0).map(place).collect();
        let is_near = |at: [usize; 3]| {
            set.iter().any(|f| (0..3).all(|d| f[d].abs_diff(at[d]) <= 2 * reach[d] as usize))
        };
        let near: Vec<u8> = (0..free.len()).map(|i| is_near(place(i)) as u8).collect();
        assert!(near.contains(&0) && near.contains(&1));
        for lanes in [4, 16] {
            let vectors = near_vectors(&free, &extents, &reach, lanes);
            assert_eq!(vectors, live_vectors(&near, &extents, lanes));
            assert!(vectors.contains(&0) && vectors != live_vectors(&free, &extents, lanes));
        }
    }
}
