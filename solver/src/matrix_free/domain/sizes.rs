//! Everything that follows from sizes: extents, strip heights, parameters of generated pipelines.

use crate::matrix_free::schedule::reduce::strip_name;
use crate::matrix_free::{LANES, Skeleton};
use crate::problem::data::ProblemData;
use std::collections::BTreeMap;
use sumsq_energy::emit::names;
use sumsq_energy::model::{Domain, GraphId, SpaceId};

/// Pixels below which cutting a strip in two is not worth a barrier.
const STRIP_PIXELS: usize = 16 * 1024;

/// The same of lists: what hyperedges meet at, and hyperedges, cost many times what a pixel does.
const STRIP_ENTRIES: usize = 512;

/// Integer parameters of generated pipelines, by name.
pub fn integers(k: &Skeleton, data: &ProblemData) -> BTreeMap<String, i64> {
    let mut out = BTreeMap::new();
    for s in (0..k.energy.spaces.len() as u32).map(SpaceId) {
        let extents = data.extents(&k.energy, s);
        for (d, &n) in extents.iter().enumerate() {
            out.insert(names::extent_name(s, d), n as i64);
        }
        out.insert(strip_name(Domain::Space(s)), strip(&extents) as i64);
    }
    for (g, graph) in data.graphs().iter().enumerate() {
        out.insert(format!("edges{g}"), graph.edges as i64);
        out.insert(strip_name(Domain::Graph(GraphId(g as u32))), strip(&[graph.edges]) as i64);
    }
    out
}

/// Height of a strip along the last dim, from sizes alone: 32 strips, fewer where a strip would be so small
/// that a barrier costs more than its work. Neighbouring strips of a ring recompute `2 reach` rows each.
pub fn strip(extents: &[usize]) -> usize {
    let Some((&rows, inner)) = extents.split_last() else { return 1 };
    let row: usize = inner.iter().product::<usize>().max(1);
    if inner.is_empty() {
        // Whole vectors.
        let strip = rows.div_ceil(32).max(STRIP_ENTRIES).clamp(1, rows.max(1));
        return strip.next_multiple_of(LANES as usize);
    }
    rows.div_ceil(32).max(STRIP_PIXELS.div_ceil(row)).clamp(1, rows.max(1))
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn strips_come_from_sizes() {
        assert_eq!(strip(&[4096, 4096]), 128);
        assert_eq!(strip(&[64, 64]), 64);
        assert_eq!(strip(&[10]), 16);
        assert_eq!(strip(&[10_000]), 512);
        assert_eq!(strip(&[1_000_000]), 31_264);
        assert_eq!(strip(&[7, 0]), 1);
    }
}
