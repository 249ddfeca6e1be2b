//! The lists behind graph gathers: which hyperedges meet at an element, packed for vectors.
//!
//! The incidences of one vertex slot are cut into *rows* of at most [`ROW`], so that a vertex in all edges costs no more than
//! others; rows are sorted by length (longest first, ties by element) inside windows of 64 blocks, and packed in blocks of
//! as many as there are lanes: entry i of lane l of block b is at `block[b] + lanes * i + l`. Within a row hyperedges ascend, and the rows of an
//! element are listed in order, so sums have one order whatever the machine. Where elements add up their hyperedges themselves
//! ([`Packing::ByElement`]), rows of elements that have several come first, the others as their elements do. The elements at the other vertices of
//! a hyperedge are listed beside it, so that they are read densely.

use crate::counting_sort::counting_sort;

/// Incidences per row at most.
pub const ROW: usize = 64;
/// Blocks per sorting window.
const WINDOW: usize = 64;

/// The order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// By length: every row is summed on its own.
    ByLength,
    /// As the elements: an element with one row sums that itself.
    ByElement,
}

/// Lists that are longer than the 32-bit indices of generated code reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlong {
    /// Entries or rows.
    pub what: &'static str,
    /// Their number.
    pub count: u64,
}

/// A number of entries or rows as an index.
fn index(what: &'static str, count: u64) -> Result<i32, Overlong> {
    i32::try_from(count).map_err(|_| Overlong { what, count })
}

/// Entries of blocks whose longest rows have these lengths.
fn entries(longest: impl Iterator<Item = usize>, lanes: usize) -> Result<i32, Overlong> {
    index("entries", longest.map(|length| (length.max(1) * lanes) as u64).sum())
}

/// Rows of elements that so many hyperedges meet at, in whole blocks.
fn rows(meeting: impl Iterator<Item = usize>, lanes: usize) -> Result<i32, Overlong> {
    let rows: u64 = meeting.map(|n| n.div_ceil(ROW) as u64).sum();
    index("rows", rows.max(1).next_multiple_of(lanes as u64))
}

/// The packed lists of one (graph, slot). All numbers are in range by construction: generated code reads them unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incidence {
    /// First entry of each block.
    pub block: Vec<i32>,
    /// Incidences of each row; rows are padded to whole blocks with empty ones.
    pub length: Vec<i32>,
    /// Element of each row (of padding: 0).
    pub own: Vec<i32>,
    /// Hyperedges, packed; padding holds hyperedge 0.
    pub edge: Vec<i32>,
    /// Per element: position of its first row in `of`.
    pub first: Vec<i32>,
    /// Per element: number of its rows.
    pub count: Vec<i32>,
    /// Rows, grouped by element.
    pub of: Vec<i32>,
    /// Per element with one row: its first entry.
    pub entry: Vec<i32>,
    /// Per element with one row: its incidences; 0 for others.
    pub entries: Vec<i32>,
    /// Rows at the beginning, in whole blocks, that are summed on their own.
    pub summed: usize,
}

impl Incidence {
    /// The lists for `elements` elements, where hyperedge e meets element `vertex[e]` (each below `elements`). There are fewer than 2^31 of
    /// both.
    ///
    /// # Errors
    /// With padding there are 2^31 rows or entries.
    pub fn build(
        elements: usize,
        vertex: &[u32],
        lanes: usize,
        packing: Packing,
    ) -> Result<Incidence, Overlong> {
        let (start, edges) = counting_sort(vertex, elements);
        self::rows(start.windows(2).map(|s| s[1] - s[0]), lanes)?;
        let mut rows: Vec<(u32, u32, u32)> = vec![]; // (element, first edge position, length)
        for v in 0..elements {
            for from in (start[v]..start[v + 1]).step_by(ROW) {
                rows.push((v as u32, from as u32, (start[v + 1] - from).min(ROW) as u32));
            }
        }
        let mut summed = rows.len();
        match packing {
            Packing::ByLength => {
                for window in rows.chunks_mut(WINDOW * lanes) {
                    let shorter: Vec<u32> =
                        window.iter().map(|&(_, _, length)| ROW as u32 - length).collect();
                    let (_, order) = counting_sort(&shorter, ROW);
                    let sorted: Vec<_> = order.into_iter().map(|r| window[r as usize]).collect();
                    window.copy_from_slice(&sorted);
                }
            }
            Packing::ByElement => {
                let has_several = |v: u32| start[v as usize + 1] - start[v as usize] > ROW;
                let (mut several, others): (Vec<_>, Vec<_>) = rows.iter().partition(|r| has_several(r.0));
                several.resize(several.len().next_multiple_of(lanes), (0, 0, 0));
                (summed, rows) = (several.len(), [several, others].concat());
            }
        }
        index("rows", rows.len() as u64)?;
        let longest = |block: &[(u32, u32, u32)]| block.iter().map(|r| r.2 as usize).max().unwrap_or(0);
        entries(rows.chunks(lanes).map(longest), lanes)?;
        let mut out = Incidence::default();
        for block in rows.chunks(lanes) {
            out.push_block(block, &edges, lanes);
        }
        if rows.is_empty() {
            out.push_block(&[], &edges, lanes);
        }
        out.list_rows(&start, &rows);
        out.summed = if packing == Packing::ByLength { out.rows() } else { summed };
        out.list_entries(lanes);
        Ok(out)
    }

    fn push_block(&mut self, rows: &[(u32, u32, u32)], edges: &[u32], lanes: usize) {
        let longest = rows.iter().map(|r| r.2).max().unwrap_or(0).max(1) as usize;
        let base = self.edge.len();
        self.block.push(base as i32);
        self.edge.resize(base + longest * lanes, 0);
        for lane in 0..lanes {
            let (v, from, length) = rows.get(lane).copied().unwrap_or((0, 0, 0));
            self.own.push(v as i32);
            self.length.push(length as i32);
            for i in 0..length as usize {
                self.edge[base + i * lanes + lane] = edges[from as usize + i] as i32;
            }
        }
    }

    /// Lists the rows of each element in the order in which they were cut from its incidences, which begin at `start`.
    fn list_rows(&mut self, start: &[usize], rows: &[(u32, u32, u32)]) {
        self.count = start.windows(2).map(|s| (s[1] - s[0]).div_ceil(ROW) as i32).collect();
        let mut all = 0;
        for count in &self.count {
            self.first.push(all);
            all += count;
        }
        self.of = vec![0; all.max(1) as usize];
        // Those without an incidence are padding.
        for (r, &(v, from, _)) in rows.iter().enumerate().filter(|(_, row)| row.2 > 0) {
            let cut = (from as usize - start[v as usize]) / ROW;
            self.of[self.first[v as usize] as usize + cut] = r as i32;
        }
    }

    fn list_entries(&mut self, lanes: usize) {
        for (&first, &count) in self.first.iter().zip(&self.count) {
            let one = (count == 1).then(|| self.of[first as usize] as usize);
            let of = |row: usize| (self.block[row / lanes] + (row % lanes) as i32, self.length[row]);
            let (entry, entries) = one.map_or((0, 0), of);
            self.entry.push(entry);
            self.entries.push(entries);
        }
    }

    /// Number of rows, padding included.
    pub fn rows(&self) -> usize {
        self.length.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the lists as generated code does: per element the hyperedges in the order they are summed.
    fn unpack(i: &Incidence, lanes: usize) -> Vec<Vec<u32>> {
        let row = |r: usize| -> Vec<u32> {
            let base = i.block[r / lanes] as usize + r % lanes;
            (0..i.length[r] as usize).map(|k| i.edge[base + k * lanes] as u32).collect()
        };
        let elements = 0..i.first.len();
        elements
            .map(|v| {
                let rows = (0..i.count[v]).map(|k| i.of[(i.first[v] + k) as usize] as usize);
                rows.flat_map(|r| {
                    assert_eq!(i.own[r] as usize, v);
                    row(r)
                })
                .collect()
            })
            .collect()
    }

    fn check(elements: usize, vertex: Vec<u32>) {
        let mut expected = vec![vec![]; elements];
        for (e, &v) in vertex.iter().enumerate() {
            expected[v as usize].push(e as u32);
        }
        for lanes in [4, 16] {
            for packing in [Packing::ByLength, Packing::ByElement] {
                let i = Incidence::build(elements, &vertex, lanes, packing).unwrap();
                assert_eq!(unpack(&i, lanes), expected);
                assert_eq!(i.rows() % lanes, 0);
                assert!(i.edge.iter().all(|&e| (e as usize) < vertex.len().max(1)));
                // Elements with one row have its entries; the rows of all others are summed.
                for (v, expected) in expected.iter().enumerate() {
                    let entry = |k| i.edge[i.entry[v] as usize + k * lanes] as u32;
                    let own: Vec<u32> = (0..i.entries[v] as usize).map(entry).collect();
                    let rows = (0..i.count[v]).map(|k| i.of[(i.first[v] + k) as usize] as usize);
                    match i.count[v] {
                        1 => assert_eq!(own, *expected),
                        _ => assert!(own.is_empty() && rows.into_iter().all(|r| r < i.summed)),
                    }
                }
                let several = i.count.iter().filter(|&&n| n > 1).sum::<i32>() as usize;
                let summed =
                    if packing == Packing::ByLength { i.rows() } else { several.next_multiple_of(lanes) };
                assert_eq!(i.summed, summed);
            }
        }
    }

    /// Padding alone takes lists to 2^31, far below as many hyperedges.
    #[test]
    fn lists_that_indices_do_not_reach_are_refused() {
        use std::iter::repeat_n;
        let most = (1 << 31) / (16 * ROW);
        assert_eq!(entries(repeat_n(ROW, most - 1), 16), Ok(i32::MAX - 1023));
        assert_eq!(entries(repeat_n(ROW, most), 16), Err(Overlong { what: "entries", count: 1 << 31 }));
        assert_eq!(entries([0].into_iter(), 8), Ok(8), "a block of padding");
        // Each of these elements meets one hyperedge more than a row holds.
        assert_eq!(rows(repeat_n(ROW + 1, (1 << 30) - 8), 16), Ok(i32::MAX - 15));
        let error = rows(repeat_n(ROW + 1, (1 << 30) - 7), 16);
        assert_eq!(error, Err(Overlong { what: "rows", count: 1 << 31 }));
        assert_eq!((rows([].into_iter(), 4), rows([1, 64, 65].into_iter(), 4)), (Ok(4), Ok(4)));
    }

    #[test]
    fn every_incidence_once_and_in_order() {
        check(5, vec![]);
        check(1, vec![0; 100_000]);
        check(3, vec![2, 2, 0, 2]);
        check(1000, (0..7919u32).map(|e| e.wrapping_mul(2_654_435_761) % 1000).collect());
        check(200, (0..500u32).map(|e| if e % 3 == 0 { 7 } else { e % 200 }).collect());
    }
}
