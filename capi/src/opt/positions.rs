//! The positions of the parameter table: their kinds, reading and writing.

use crate::element::{Element, view};
use crate::failure::{Failure, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::c_void;
use sumsq::energy::Energy;
use sumsq::energy::model::{Field, SpaceId};
use sumsq::{ArrayData, NamedArray};

/// Kinds of positions.
#[derive(Clone, Debug)]
enum Kind {
    /// An unknown, by its index.
    Unknown(usize),
    /// An array.
    Array,
    /// A param's value.
    Param,
    /// The edge count of a graph, by its index.
    EdgeCount(usize),
    /// An index array of a graph: ints, `dims` per edge.
    Vertex { graph: usize, dims: usize },
}

/// One declared position.
#[derive(Clone, Debug)]
struct Slot {
    /// The declared name: `X`, `G`, `G.v0`.
    name: String,
    position: usize,
    kind: Kind,
    element: Element,
    /// Dims of the index space of a field, fastest first; those with an extent of their own left out.
    dims: Vec<usize>,
    channels: usize,
}

/// The parameter table of an energy. Dims are numbered apart.
#[derive(Clone, Debug)]
pub struct Positions {
    slots: Vec<Slot>,
    /// Name and position of the energy's dims; `None` where C does not give the extent.
    dims: Vec<(String, Option<usize>)>,
    graphs: usize,
}

impl Positions {
    /// The table of an energy. A numbering with holes is an error: the caller's table could not have been made for it.
    pub fn new(energy: &Energy, double: bool) -> Result<Positions> {
        let dims: Vec<_> =
            energy.dims.iter().map(|d| (d.name.clone(), usize::try_from(d.position).ok())).collect();
        check_holes("dim", dims.iter().filter_map(|(name, p)| p.map(|p| (p, name.as_str()))))?;
        let given = |space: SpaceId| -> Vec<usize> {
            let dims_of = energy.spaces[space.index()].iter().map(|d| d.index());
            dims_of.filter(|&d| dims[d].1.is_some()).collect()
        };
        let mut slots = vec![];
        let mut add = |name: &str, position: i64, kind, element, dims, channels: u16| -> Result<()> {
            let position = usize::try_from(position)
                .map_err(|_| Failure::argument(format!("`{name}` has the position {position}")))?;
            slots.push(Slot { name: name.into(), position, kind, element, dims, channels: channels.into() });
            Ok(())
        };
        let mut field = |f: &Field, kind| {
            add(&f.name, f.position, kind, Element::declared(f.element, double), given(f.space), f.channels)
        };
        for (i, u) in energy.unknowns.iter().enumerate() {
            field(u, Kind::Unknown(i))?;
        }
        // A constant view has the position of its unknown and no memory of its own.
        for a in energy.arrays.iter().filter(|a| a.view_of.is_none()) {
            field(a, Kind::Array)?;
        }
        for p in &energy.params {
            add(&p.name, p.position, Kind::Param, Element::declared(p.element, double), vec![], p.channels)?;
        }
        for (graph, g) in energy.graphs.iter().enumerate() {
            add(&g.name, g.position, Kind::EdgeCount(graph), Element::Int32, vec![], 1)?;
            for v in &g.vertices {
                let kind = Kind::Vertex { graph, dims: energy.spaces[v.space.index()].len() };
                add(&format!("{}.{}", g.name, v.name), v.position, kind, Element::Int32, vec![], 1)?;
            }
        }
        check_holes("parameter", slots.iter().map(|s| (s.position, s.name.as_str())))?;
        // Counts before the arrays that they measure.
        slots.sort_by_key(|s| (!matches!(s.kind, Kind::EdgeCount(_)), s.position));
        Ok(Positions { slots, dims, graphs: energy.graphs.len() })
    }

    /// Extents of the energy's dims from the caller's, which are numbered by position; 1 where C gives none.
    ///
    /// # Safety
    /// `given` is null or holds an extent for each position.
    pub unsafe fn extents(&self, given: *const u32) -> Result<Vec<usize>> {
        let extent = |(name, position): &(String, Option<usize>)| {
            let Some(position) = position else { return Ok(1) };
            if given.is_null() {
                return Err(Failure::argument("the dimensions are a null pointer"));
            }
            // SAFETY: not null, and long enough by the contract.
            let value = unsafe { given.add(*position).read_unaligned() };
            match i32::try_from(value) {
                Ok(1..) => Ok(value as usize),
                _ => Err(Failure::data(format!(
                    "dim `{name}`: expected an extent from 1 to 2147483647, came {value}"
                ))),
            }
        };
        self.dims.iter().map(extent).collect()
    }

    /// The extents as named numbers.
    pub fn dim_arrays(&self, extents: &[usize]) -> Vec<NamedArray> {
        let given = self.dims.iter().zip(extents).filter(|((_, position), _)| position.is_some());
        given
            .map(|((name, _), &extent)| NamedArray {
                name: name.clone(),
                shape: vec![],
                data: ArrayData::Int(vec![extent as i64], "int"),
            })
            .collect()
    }
}

/// The caller's memory as it was last seen: what differs from it has been changed by the caller.
pub struct Memory {
    /// Per slot; `None`: not seen yet.
    seen: Vec<Option<Vec<u8>>>,
}

impl Memory {
    pub fn new(positions: &Positions) -> Memory {
        Memory { seen: vec![None; positions.slots.len()] }
    }

    /// Everything is to be read again.
    pub fn forget(&mut self) {
        self.seen.fill(None);
    }

    /// The arrays that differ from what was seen before. Scalars of an unknown that the caller did not touch keep their value in
    /// `unknowns`, the state of the solve, which may be more precise than the caller's memory.
    ///
    /// # Safety
    /// `table` is null or holds a pointer at each position; each pointer is null or points to as many numbers of the declared
    /// type as extents and edge counts say.
    pub unsafe fn read(
        &mut self,
        positions: &Positions,
        extents: &[usize],
        table: *const *mut c_void,
        unknowns: Option<&[Cow<'_, [f64]>]>,
    ) -> Result<Vec<NamedArray>> {
        let mut edges = vec![0; positions.graphs];
        let mut changed = vec![];
        for (slot, seen) in positions.slots.iter().zip(&mut self.seen) {
            let shape = slot.shape(extents, &edges);
            let len = slot.bytes(&shape)?;
            // SAFETY: the table holds this position by the contract.
            let pointer = unsafe { slot.pointer(table) }?;
            // SAFETY: `len` bytes are what shape and declared type take.
            let bytes = unsafe { view(pointer, len) }?;
            if let Kind::EdgeCount(graph) = slot.kind {
                edges[graph] = slot.edge_count(bytes)?;
                continue;
            }
            if seen.as_deref() == Some(bytes) {
                continue;
            }
            let mut data = slot.element.decode(bytes)?;
            if let (Kind::Unknown(i), Some(unknowns), Some(seen)) = (&slot.kind, unknowns, &*seen) {
                data = keep_untouched(data, bytes, seen, &unknowns[*i], slot.element.bytes());
            }
            *seen = Some(bytes.to_vec());
            changed.push(NamedArray { name: slot.name.clone(), shape, data });
        }
        Ok(changed)
    }

    /// Writes the unknowns to the caller's memory.
    ///
    /// # Safety
    /// As for [`Memory::read`]; the memory of unknowns can be written.
    pub unsafe fn write(
        &mut self,
        positions: &Positions,
        table: *const *mut c_void,
        unknowns: &[Cow<'_, [f64]>],
    ) -> Result<()> {
        for (slot, seen) in positions.slots.iter().zip(&mut self.seen) {
            let Kind::Unknown(i) = slot.kind else { continue };
            // SAFETY: the table holds this position by the contract.
            let pointer = unsafe { slot.pointer(table) }?;
            let bytes = seen.get_or_insert_default();
            bytes.resize(slot.element.bytes() * unknowns[i].len(), 0);
            slot.element.encode(&unknowns[i], bytes)?;
            // SAFETY: `bytes` is as long as what was read from there; the two do not overlap, since `bytes` is ours.
            unsafe { pointer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    }
}

impl Slot {
    /// Shape as the solver names it: slowest first, channels innermost.
    fn shape(&self, extents: &[usize], edges: &[usize]) -> Vec<usize> {
        let mut shape: Vec<usize> = match self.kind {
            Kind::Vertex { graph, dims: 1 } => vec![edges[graph]],
            Kind::Vertex { graph, dims } => vec![edges[graph], dims],
            _ => self.dims.iter().rev().map(|&d| extents[d]).collect(),
        };
        if self.channels > 1 {
            shape.push(self.channels);
        }
        shape
    }

    fn bytes(&self, shape: &[usize]) -> Result<usize> {
        let bytes = shape.iter().try_fold(self.element.bytes(), |n, &e| n.checked_mul(e));
        bytes.ok_or_else(|| Failure::data(format!("`{}` of shape {shape:?} is too large", self.name)))
    }

    fn edge_count(&self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.try_into().map(i32::from_ne_bytes).unwrap_or(0);
        match usize::try_from(count) {
            Ok(n @ 1..) => Ok(n),
            _ => {
                Err(Failure::data(format!("graph `{}`: expected at least one edge, came {count}", self.name)))
            }
        }
    }

    /// # Safety
    /// `table` is null or holds a pointer at this position.
    unsafe fn pointer(&self, table: *const *mut c_void) -> Result<*mut u8> {
        if table.is_null() {
            return Err(Failure::argument("the problem parameters are a null pointer"));
        }
        // SAFETY: not null, and long enough by the contract.
        let pointer = unsafe { table.add(self.position).read_unaligned() };
        if pointer.is_null() {
            let (name, position) = (&self.name, self.position);
            return Err(Failure::argument(format!(
                "`{name}`: problem parameter {position} is a null pointer"
            )));
        }
        Ok(pointer.cast())
    }
}

/// `data` where the caller's bytes differ from those seen, else the solve's own values.
fn keep_untouched(data: ArrayData, bytes: &[u8], seen: &[u8], own: &[f64], width: usize) -> ArrayData {
    if !matches!(data, ArrayData::F32(_) | ArrayData::F64(_)) {
        return data;
    }
    let values = data.doubles();
    let touched = bytes.chunks(width).zip(seen.chunks(width)).map(|(a, b)| a != b);
    let merged = values.iter().zip(own).zip(touched);
    ArrayData::F64(merged.map(|((&new, &old), touched)| if touched { new } else { old }).collect())
}

/// Positions run from 0 without a hole.
fn check_holes<'a>(what: &str, taken: impl Iterator<Item = (usize, &'a str)>) -> Result<()> {
    let taken: BTreeMap<usize, &str> = taken.collect();
    let hole = taken.keys().enumerate().find(|(expected, position)| expected != *position);
    let Some((hole, position)) = hole else { return Ok(()) };
    Err(Failure::argument(format!(
        "the energy declares no {what} at position {hole}, but `{}` at position {position}: the numbering has a hole",
        taken[position]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::energy::model::ElementType;
    use sumsq::energy::rust::EnergyBuilder;

    /// X of two channels on a grid, A and s, a graph from a list into the grid.
    fn energy() -> Energy {
        let e = EnergyBuilder::new();
        let (w, h, n) = (e.dim("W"), e.dim("H"), e.dim("N"));
        let (x, a, s) =
            (e.unknown("X", 2, &[w, h]), e.array_of("A", ElementType::Uint8, 1, &[w, h]), e.param("s"));
        let g = e.graph("G", &[("v", &[w, h]), ("l", &[n])]);
        e.energy(s * (x.at_channel([0, 0], 0) - a.at([0, 0])));
        e.energy(x.at_channel(&g.vertex("v"), 1));
        e.finish().unwrap()
    }

    /// Memory of a caller: each array as long as it must be, from an odd address.
    struct Caller {
        arrays: Vec<Vec<u8>>,
        table: Vec<*mut c_void>,
    }

    impl Caller {
        fn new() -> Caller {
            let floats = |from: &[f32]| from.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
            let ints = |from: &[i32]| from.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
            let x: Vec<f32> = (0..12).map(|i| i as f32).collect();
            let numbers = [
                floats(&x),
                vec![1, 2, 3, 4, 5, 6],
                floats(&[0.5]),
                ints(&[2]),
                ints(&[0, 1, 1, 2]),
                ints(&[0, 3]),
            ];
            let mut arrays = numbers.map(|n| [&[0], &n[..]].concat()).to_vec();
            let table = arrays.iter_mut().map(|a| a[1..].as_mut_ptr().cast()).collect();
            Caller { arrays, table }
        }

        fn read(
            &self,
            memory: &mut Memory,
            positions: &Positions,
            own: Option<&[f64]>,
        ) -> Result<Vec<NamedArray>> {
            let own = own.map(|x| vec![Cow::Borrowed(x)]);
            // SAFETY: a pointer for each position, to as many numbers as the extents and the count of edges say.
            unsafe { memory.read(positions, &[3, 2, 4], self.table.as_ptr(), own.as_deref()) }
        }
    }

    fn names(read: &[NamedArray]) -> Vec<&str> {
        read.iter().map(|a| a.name.as_str()).collect()
    }

    #[test]
    fn extents_are_read_from_any_address() {
        let positions = Positions::new(&energy(), false).unwrap();
        let bytes: Vec<u8> =
            [0u8].into_iter().chain([3u32, 2, 4].iter().flat_map(|n| n.to_ne_bytes())).collect();
        // SAFETY: three extents, or null.
        let read = |at: *const u8| unsafe { positions.extents(at.cast()) };
        assert_eq!(read(bytes[1..].as_ptr()).unwrap(), [3, 2, 4]);
        assert_eq!(read(std::ptr::null()).unwrap_err().message, "the dimensions are a null pointer");
    }

    #[test]
    fn the_callers_memory_is_read_where_it_changed() {
        let positions = Positions::new(&energy(), false).unwrap();
        let (mut caller, mut memory) = (Caller::new(), Memory::new(&positions));
        let first = caller.read(&mut memory, &positions, None).unwrap();
        assert_eq!(names(&first), ["X", "A", "s", "G.v", "G.l"]);
        assert_eq!((&first[0].shape[..], &first[3].shape[..]), (&[2, 3, 2][..], &[2, 2][..]));
        assert_eq!(first[3].data.doubles(), [0.0, 1.0, 1.0, 2.0]);
        assert!(caller.read(&mut memory, &positions, None).unwrap().is_empty());

        // A number of the caller's beside those of the solve, which floats do not hold.
        let own: Vec<f64> = (0..12).map(|i| f64::from(i) + 1e-12).collect();
        caller.arrays[0][1..5].copy_from_slice(&7f32.to_ne_bytes());
        caller.table[0] = caller.arrays[0][1..].as_mut_ptr().cast();
        let touched = caller.read(&mut memory, &positions, Some(&own)).unwrap();
        assert_eq!(names(&touched), ["X"]);
        assert_eq!(touched[0].data.doubles()[..3], [7.0, own[1], own[2]]);
    }

    #[test]
    fn unknowns_are_written_within_the_callers_memory() {
        let positions = Positions::new(&energy(), false).unwrap();
        let (caller, mut memory) = (Caller::new(), Memory::new(&positions));
        caller.read(&mut memory, &positions, None).unwrap();
        let values: Vec<f64> = (0..12).map(|i| 0.25 * f64::from(i)).collect();
        // SAFETY: as above, and the memory can be written.
        unsafe { memory.write(&positions, caller.table.as_ptr(), &[Cow::Borrowed(&values)]) }.unwrap();
        // What was written here is no change of the caller's.
        assert!(caller.read(&mut memory, &positions, None).unwrap().is_empty());
        memory.forget();
        assert_eq!(caller.read(&mut memory, &positions, None).unwrap()[0].data.doubles(), values);
    }

    #[test]
    fn null_pointers_are_refused_by_name() {
        let positions = Positions::new(&energy(), false).unwrap();
        for (position, name) in ["X", "A", "s", "G", "G.v", "G.l"].iter().enumerate() {
            let mut caller = Caller::new();
            caller.table[position] = std::ptr::null_mut();
            let refused = caller.read(&mut Memory::new(&positions), &positions, None).unwrap_err();
            assert_eq!(refused.message, format!("`{name}`: problem parameter {position} is a null pointer"));
        }
        // SAFETY: a null table.
        let refused = unsafe { Memory::new(&positions).read(&positions, &[3, 2, 4], std::ptr::null(), None) };
        assert_eq!(refused.unwrap_err().message, "the problem parameters are a null pointer");
    }
}
