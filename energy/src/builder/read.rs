//! Reads: unknowns and arrays at offsets and vertices, coordinates, bounds tests.

use crate::builder::{Builder, Value};
use crate::dag::{Access, At, Offset, Source};
use crate::error::Fault;
use crate::model::GraphId;

/// An unknown or array, or a slice of its channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FieldRef {
    /// Its identity.
    pub source: Source,
    /// First channel of the slice.
    pub first: u16,
    /// Channels of the slice.
    pub channels: u16,
}

impl Builder {
    /// Name of a field.
    pub(crate) fn field_name(&self, field: FieldRef) -> String {
        self.source_name(field.source).to_owned()
    }

    /// Number of dims a field is read with: none for a global.
    pub(crate) fn dims_of(&self, field: FieldRef) -> usize {
        let space = self.energy.space_of(field.source);
        if self.energy.is_global(space) { 0 } else { self.energy.spaces[space.index()].len() }
    }

    /// `X(dx, dy)`, `X(dx, dy, c)`.
    pub(crate) fn read_offset(
        &mut self,
        field: FieldRef,
        offset: &[i64],
        channel: Option<i64>,
    ) -> Result<Value, Fault> {
        let dims = self.dims_of(field);
        if offset.len() != dims {
            let name = self.field_name(field);
            return Err(Fault::OffsetCount { name, dims, got: offset.len() });
        }
        if dims == 0 {
            return self.read(field, At::Global, channel);
        }
        let offset = self.offset(&self.field_name(field), offset)?;
        self.read(field, At::Offset(offset), channel)
    }

    /// `X(G.v0)`, `X(G.v0, c)`.
    pub(crate) fn read_vertex(
        &mut self,
        field: FieldRef,
        graph: GraphId,
        slot: u16,
        channel: Option<i64>,
    ) -> Result<Value, Fault> {
        let space = self.energy.graphs[graph.index()].space_of(slot);
        let declared = self.energy.space_of(field.source);
        if declared != space {
            return Err(Fault::VertexSpace {
                field: self.field_name(field),
                field_space: self.energy.space_name(declared),
                vertex: self.vertex_name(graph, slot),
                vertex_space: self.energy.space_name(space),
            });
        }
        self.reach_around(field, graph, slot)?;
        self.read(field, At::Vertex(graph, slot), channel)
    }

    /// `Slice(im, start, end)`.
    pub(crate) fn slice(&self, field: FieldRef, start: i64, end: i64) -> Result<FieldRef, Fault> {
        if start < 0 || end <= start || end > i64::from(field.channels) {
            let name = self.field_name(field);
            return Err(Fault::SliceRange { name, start, end, channels: usize::from(field.channels) });
        }
        Ok(FieldRef { first: field.first + start as u16, channels: (end - start) as u16, ..field })
    }

    /// `Index(d)`.
    pub(crate) fn index(&mut self, dim: i64) -> Result<Value, Fault> {
        let got = || format!("{dim}");
        let d = u16::try_from(dim).map_err(|_| Fault::Argument {
            function: "Index".into(),
            position: 1,
            expected: "a dim, counted from 0".into(),
            got: got(),
        })?;
        Ok(Value::scalar(self.energy.dag.index(d)))
    }

    /// `InBounds(dx, dy)`.
    pub(crate) fn in_bounds(&mut self, offset: &[i64]) -> Result<Value, Fault> {
        self.in_bounds_box("InBounds", offset, 0)
    }

    /// `InBoundsExpanded(dx, dy, k)`.
    pub(crate) fn in_bounds_expanded(&mut self, offset: &[i64], half_width: i64) -> Result<Value, Fault> {
        self.in_bounds_box("InBoundsExpanded", offset, half_width.abs())
    }

    fn in_bounds_box(&mut self, function: &str, offset: &[i64], half_width: i64) -> Result<Value, Fault> {
        let lo: Vec<i64> = offset.iter().map(|o| o.saturating_sub(half_width)).collect();
        let hi: Vec<i64> = offset.iter().map(|o| o.saturating_add(half_width)).collect();
        let (lo, hi) = (self.offset(function, &lo)?, self.offset(function, &hi)?);
        Ok(Value::bounds_test(self.energy.dag.in_bounds(&lo, &hi)))
    }

    fn read(&mut self, field: FieldRef, at: At, channel: Option<i64>) -> Result<Value, Fault> {
        let channels = match channel {
            None => field.first..field.first + field.channels,
            Some(c) if (0..i64::from(field.channels)).contains(&c) => {
                field.first + c as u16..field.first + c as u16 + 1
            }
            Some(c) => {
                let name = self.field_name(field);
                return Err(Fault::ChannelRange { name, channel: c, channels: usize::from(field.channels) });
            }
        };
        let scalars = channels.map(|channel| {
            let access = Access { source: field.source, channel, at: at.clone() };
            if let Some(line) = self.line {
                self.access_lines.insert(access.clone(), line);
            }
            self.energy.dag.access(access)
        });
        Ok(scalars.collect())
    }

    /// Offsets fit i32 with room to shift and add them.
    fn offset(&self, name: &str, offset: &[i64]) -> Result<Offset, Fault> {
        const MAX_OFFSET: i64 = 1 << 20;
        let entry = |&o: &i64| {
            if o.abs() > MAX_OFFSET {
                let what = "an offset (at most 2^20)";
                return Err(Fault::NotConstant { name: name.to_owned(), what, got: o.to_string() });
            }
            Ok(o as i32)
        };
        offset.iter().map(entry).collect()
    }
}
