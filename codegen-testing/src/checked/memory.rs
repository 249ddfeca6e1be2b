//! Memory that remembers.

use super::races::{Accesses, Positions};
use crate::reference::{Realization, Value};
use sumsq_codegen::expr::Content;
use sumsq_codegen::func::Layout;
use sumsq_codegen::types::ScalarType;

/// One element.
#[derive(Clone, Default)]
pub(super) struct Cell {
    /// None until it is written.
    pub value: Option<Value>,
    pub(super) accesses: Accesses,
    /// Operations of the run when it was written.
    pub written_at: usize,
    /// Length of the chain of dependences that ends in its value, and of the longest that reads it.
    pub chain: usize,
    pub read_chain: usize,
}

impl Cell {
    pub(super) fn of(value: Value) -> Cell {
        Cell { value: Some(value), ..Cell::default() }
    }

    /// The value, or what is wrong with reading it.
    pub(super) fn read(&mut self, positions: &Positions) -> Result<Value, &'static str> {
        let value = self.value.ok_or("is read before it is written")?;
        match self.accesses.read(positions) {
            true => Ok(value),
            false => Err("races: an iteration of a parallel loop reads what another one writes"),
        }
    }

    /// Writes, or says what is wrong with that.
    pub(super) fn write(&mut self, value: Value, positions: &Positions) -> Result<(), &'static str> {
        let same = self.value.is_some_and(|old| old.same(value));
        self.value = Some(value);
        match self.accesses.write(positions, same) {
            true => Ok(()),
            false => Err("races: an iteration of a parallel loop writes what another one reads or writes"),
        }
    }
}

/// Elements around the origin.
#[derive(Clone, Default)]
pub(super) struct Memory {
    pub elements: Vec<Cell>,
    pub origin: i64,
}

impl Memory {
    pub(super) fn at(&mut self, index: i64) -> Option<&mut Cell> {
        self.elements.get_mut(usize::try_from(index + self.origin).ok()?)
    }
}

/// An input or output.
pub struct Buffer {
    pub(super) min: Vec<i32>,
    pub(super) extents: Vec<usize>,
    halo: Vec<usize>,
    /// One per tuple element (for records: one, interleaved).
    pub(super) flat: Vec<Memory>,
    pub(super) strides: Vec<i64>,
    layout: Layout,
}

impl Buffer {
    /// Filled from a realization, halo included.
    pub fn input(r: &Realization, layout: Layout) -> Buffer {
        let mut b = Buffer::new(&r.types, &r.min, &r.extents, &r.halo, layout);
        let sizes: Vec<usize> = r.extents.iter().zip(&r.halo).map(|(n, h)| n + 2 * h).collect();
        for at in Realization::zeros(&[], &sizes).points() {
            let at: Vec<i32> = (0..at.len()).map(|d| at[d] + r.min[d] - r.halo[d] as i32).collect();
            for k in 0..r.types.len() {
                if let Some(cell) = b.element(k, &at) {
                    cell.value = r.get(&at, k);
                }
            }
        }
        b
    }

    /// Nothing written yet.
    pub fn output(types: &[ScalarType], domain: &[(i32, usize)], layout: Layout, halo: &[u32]) -> Buffer {
        let (min, extents): (Vec<_>, Vec<_>) = domain.iter().copied().unzip();
        let halo: Vec<usize> = halo.iter().map(|&h| h as usize).collect();
        Buffer::new(types, &min, &extents, &halo, layout)
    }

    /// The memory of a flat buffer; none if the layout has no such one.
    pub(super) fn memory(&mut self, content: Content) -> Option<&mut Memory> {
        match (content, self.layout) {
            (Content::Plane(_), Layout::Record(_)) => None,
            (Content::Plane(k), _) => self.flat.get_mut(k),
            (Content::Records, Layout::Record(_)) => self.flat.first_mut(),
            (Content::Records, _) => None,
        }
    }

    fn new(types: &[ScalarType], min: &[i32], extents: &[usize], halo: &[usize], layout: Layout) -> Buffer {
        let slots = if let Layout::Record(n) = layout { n as i64 } else { 1 };
        // Pitches are multiples of 16 elements (see `lower::flatten`); the gap is never legally touched.
        let mut strides = vec![];
        let mut stride = slots;
        for (d, (n, h)) in extents.iter().zip(halo).enumerate() {
            strides.push(stride);
            stride *= (n + 2 * h) as i64;
            if layout == Layout::Strided {
                stride += 3;
            } else if d == 0 {
                stride = (stride + 15) / 16 * 16 + 16;
            }
        }
        let origin: i64 = strides.iter().zip(halo).map(|(s, h)| s * *h as i64).sum();
        let memory = Memory { elements: vec![Cell::default(); stride as usize], origin };
        let flat = vec![memory; if slots > 1 { 1 } else { types.len() }];
        Buffer { min: min.to_vec(), extents: extents.to_vec(), halo: halo.to_vec(), flat, strides, layout }
    }

    /// Tuple element `k` at `at`; none outside of domain and halo.
    pub(super) fn element(&mut self, k: usize, at: &[i32]) -> Option<&mut Cell> {
        let at: Vec<i64> = at.iter().zip(&self.min).map(|(&c, &m)| c as i64 - m as i64).collect();
        let inside = |((&c, &n), &h): ((&i64, &usize), &usize)| c >= -(h as i64) && c < (n + h) as i64;
        if !at.iter().zip(&self.extents).zip(&self.halo).all(inside) {
            return None;
        }
        let index: i64 = at.iter().zip(&self.strides).map(|(c, s)| c * s).sum();
        let (plane, slot) = if let Layout::Record(_) = self.layout { (0, k as i64) } else { (k, 0) };
        self.flat[plane].at(index + slot)
    }

    /// The value of tuple element `k` at `at`, if there is one.
    pub fn get(&mut self, k: usize, at: &[i32]) -> Option<Value> {
        self.element(k, at)?.value
    }
}
