//! A stable sort by small keys.

/// The positions of `keys` (each below `bound`) in the order of their keys, and where those of each key begin: `bound + 1` starts.
/// Equal keys keep their order. Fewer than 2^32 keys.
pub(crate) fn counting_sort(keys: &[u32], bound: usize) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0usize; bound + 1];
    for &key in keys {
        starts[key as usize + 1] += 1;
    }
    for key in 0..bound {
        starts[key + 1] += starts[key];
    }
    let mut next = starts.clone();
    let mut order = vec![0u32; keys.len()];
    for (position, &key) in keys.iter().enumerate() {
        let place = &mut next[key as usize];
        order[*place] = position as u32;
        *place += 1;
    }
    (starts, order)
}
