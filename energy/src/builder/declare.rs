//! Declarations: names are unique, positions too, channel counts in range.

use crate::builder::{Builder, FieldRef, Value};
use crate::dag::Source;
use crate::error::Fault;
use crate::model::{
    ArrayId, Dim, DimId, ElementType, Field, Graph, GraphId, Param, ParamId, SpaceId, UnknownId, Vertex,
};

/// Most dims of an index space.
const MAX_DIMS: usize = 8;
/// Most channels an unknown, array or param can have.
const MAX_CHANNELS: i64 = 64;

/// An element type with a channel count that is yet to be checked: `opt_float2`, `uint8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ValueType {
    pub element: ElementType,
    pub channels: i64,
}

impl Builder {
    /// `Dim(name, position)`.
    pub(crate) fn dim(&mut self, name: &str, position: i64) -> Result<DimId, Fault> {
        self.declare_name(name)?;
        self.check_position(position)?;
        if let Some(other) = self.dim_positions.get(&position) {
            return Err(Fault::SamePosition { name: name.into(), other: other.clone(), position });
        }
        self.dim_positions.insert(position, name.into());
        self.energy.dims.push(Dim { name: name.into(), position, fixed: None });
        Ok(DimId(self.energy.dims.len() as u32 - 1))
    }

    /// `Unknown(name, type, dims, position)`.
    pub(crate) fn unknown(
        &mut self,
        name: &str,
        ty: ValueType,
        dims: &[DimId],
        position: i64,
    ) -> Result<FieldRef, Fault> {
        if matches!(ty.element, ElementType::Uint8 | ElementType::Int(_)) {
            return Err(Fault::IntegerUnknown(name.into()));
        }
        let id = UnknownId(self.energy.unknowns.len() as u32);
        let view = self.energy.arrays.iter().position(|a| a.position == position && a.view_of.is_none());
        let field = match view {
            // The view came first.
            Some(view) => {
                self.positions.remove(&position);
                let field = self.field(name, ty, dims, position, None)?;
                check_view(&self.energy.arrays[view], &field)?;
                self.energy.arrays[view].view_of = Some(id);
                field
            }
            None => self.field(name, ty, dims, position, None)?,
        };
        let channels = field.channels;
        self.energy.unknowns.push(field);
        Ok(FieldRef { source: Source::Unknown(id), first: 0, channels })
    }

    /// `Array(name, type, dims, position)`. At the position of an unknown it is a constant view of it.
    pub(crate) fn array(
        &mut self,
        name: &str,
        ty: ValueType,
        dims: &[DimId],
        position: i64,
    ) -> Result<FieldRef, Fault> {
        if dims.is_empty() {
            return Err(Fault::NoDims(name.into()));
        }
        let viewed = self.energy.unknowns.iter().position(|u| u.position == position && position >= 0);
        let viewed = viewed.map(|u| UnknownId(u as u32));
        let field = self.field(name, ty, dims, position, viewed)?;
        if let Some(u) = viewed {
            check_view(&field, &self.energy.unknowns[u.index()])?;
        }
        let channels = field.channels;
        self.energy.arrays.push(field);
        let id = ArrayId(self.energy.arrays.len() as u32 - 1);
        Ok(FieldRef { source: Source::Array(id), first: 0, channels })
    }

    /// `Param(name, type, position)`: its value.
    pub(crate) fn param(&mut self, name: &str, ty: ValueType, position: i64) -> Result<Value, Fault> {
        let channels = check_channels(name, ty.channels)?;
        self.declare_name(name)?;
        self.take_position(name, position)?;
        let id = ParamId(self.energy.params.len() as u32);
        self.energy.params.push(Param { name: name.into(), channels, element: ty.element, position });
        Ok((0..channels).map(|c| self.energy.dag.param(id, c)).collect())
    }

    /// `Graph(name, position, vertex, dims, position, ...)`.
    pub(crate) fn graph(
        &mut self,
        name: &str,
        position: i64,
        vertices: &[(String, Vec<DimId>, i64)],
    ) -> Result<GraphId, Fault> {
        if vertices.is_empty() {
            return Err(Fault::NoVertices(name.into()));
        }
        if vertices.len() >= usize::from(u16::MAX) {
            return Err(Fault::TooManyVertices { graph: name.into(), got: vertices.len() });
        }
        self.declare_name(name)?;
        self.take_position(name, position)?;
        let mut slots = Vec::with_capacity(vertices.len());
        for (vertex, dims, position) in vertices {
            let key = format!("{name}.{vertex}");
            if vertex.is_empty() {
                return Err(Fault::EmptyName);
            }
            self.declare_name(&key)?;
            self.take_position(&key, *position)?;
            if dims.is_empty() {
                return Err(Fault::NoDims(key));
            }
            self.check_dims(&key, dims)?;
            let space = self.space(dims);
            slots.push(Vertex { name: vertex.clone(), space, position: *position });
        }
        self.energy.graphs.push(Graph {
            name: name.into(),
            position,
            vertices: slots,
            neighbours: Default::default(),
        });
        Ok(GraphId(self.energy.graphs.len() as u32 - 1))
    }

    /// The vertex `G.name`, as its slot.
    pub(crate) fn vertex(&self, graph: GraphId, name: &str) -> Result<u16, Fault> {
        let g = &self.energy.graphs[graph.index()];
        let slot = g.vertices.iter().position(|v| v.name == name);
        slot.map(|s| s as u16).ok_or_else(|| Fault::NoMember(g.name.clone(), name.into()))
    }

    /// `G.v0`.
    pub(crate) fn vertex_name(&self, graph: GraphId, slot: u16) -> String {
        self.energy.graphs[graph.index()].slot_name(slot)
    }

    /// Position, channels and dims that an unknown was declared with.
    pub(crate) fn declaration(&self, field: FieldRef) -> (i64, u16, Vec<DimId>) {
        let declared = match field.source {
            Source::Unknown(u) => &self.energy.unknowns[u.index()],
            Source::Array(a) => &self.energy.arrays[a.index()],
            _ => return (-1, field.channels, Vec::new()),
        };
        (declared.position, declared.channels, self.energy.spaces[declared.space.index()].clone())
    }

    /// `UsePreconditioner(flag)`.
    pub(crate) fn use_preconditioner(&mut self, flag: bool) {
        self.energy.use_preconditioner = Some(flag);
    }

    fn field(
        &mut self,
        name: &str,
        ty: ValueType,
        dims: &[DimId],
        position: i64,
        view_of: Option<UnknownId>,
    ) -> Result<Field, Fault> {
        let channels = check_channels(name, ty.channels)?;
        self.check_dims(name, dims)?;
        self.declare_name(name)?;
        if view_of.is_none() {
            self.take_position(name, position)?;
        }
        let space = self.space(dims);
        let (name, line) = (name.into(), self.line);
        Ok(Field { name, channels, space, element: ty.element, position, view_of, line })
    }

    /// The index space with these dims; without dims that of the globals.
    pub(super) fn space(&mut self, dims: &[DimId]) -> SpaceId {
        let dims = if dims.is_empty() { &[self.global_dim()][..] } else { dims };
        let spaces = &mut self.energy.spaces;
        let known = spaces.iter().position(|s| s == dims);
        let index = known.unwrap_or_else(|| {
            spaces.push(dims.to_vec());
            spaces.len() - 1
        });
        SpaceId(index as u32)
    }

    /// The dim of the globals' space, of extent 1.
    fn global_dim(&mut self) -> DimId {
        let dims = &mut self.energy.dims;
        let known = dims.iter().position(|d| d.fixed.is_some());
        let index = known.unwrap_or_else(|| {
            dims.push(Dim { name: String::new(), position: -1, fixed: Some(1) });
            dims.len() - 1
        });
        DimId(index as u32)
    }

    /// The dims of `name` are not more than there can be.
    pub(super) fn check_dims(&self, name: &str, dims: &[DimId]) -> Result<(), Fault> {
        match dims.len() > MAX_DIMS {
            true => Err(Fault::TooManyDims { name: name.into(), dims: dims.len(), most: MAX_DIMS }),
            false => Ok(()),
        }
    }

    pub(super) fn declare_name(&mut self, name: &str) -> Result<(), Fault> {
        if name.is_empty() {
            return Err(Fault::EmptyName);
        }
        if let Some(&first) = self.names.get(name) {
            let line = self.line;
            self.note(line, name, "declared again here".into());
            self.note(first, name, "first declared here".into());
            return Err(Fault::Duplicate { name: name.into() });
        }
        self.names.insert(name.into(), self.line);
        Ok(())
    }

    fn take_position(&mut self, name: &str, position: i64) -> Result<(), Fault> {
        self.check_position(position)?;
        if let Some(other) = self.positions.get(&position) {
            return Err(Fault::SamePosition { name: name.into(), other: other.clone(), position });
        }
        self.positions.insert(position, name.into());
        Ok(())
    }

    fn check_position(&self, position: i64) -> Result<(), Fault> {
        if position < 0 { Err(Fault::BadPosition(position.to_string())) } else { Ok(()) }
    }
}

/// A constant view is shaped like its unknown.
fn check_view(view: &Field, unknown: &Field) -> Result<(), Fault> {
    if (view.channels, view.space) == (unknown.channels, unknown.space) {
        return Ok(());
    }
    Err(Fault::ViewMismatch { name: view.name.clone(), unknown: unknown.name.clone() })
}

fn check_channels(name: &str, channels: i64) -> Result<u16, Fault> {
    if !(1..=MAX_CHANNELS).contains(&channels) {
        return Err(Fault::ChannelCount { name: name.into(), channels });
    }
    Ok(channels as u16)
}
