//! Arguments of a compiled pipeline: buffers and parameters, by name.

use crate::error::Error;
use crate::expr::{Content, Expr, Flat, Name};
use crate::func::{Constraint, Layout, Pipeline, extent_param, min_param, step_param};
use crate::plan::validate::error;
use crate::runtime::Buffer;
use crate::schedule::{Directive, Schedule};
use crate::types::ScalarType;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A buffer that a pipeline takes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BufferSlot {
    /// Name that whoever binds calls it by: the input or the output's Func, followed by `.k` if it is of tuple element k alone.
    pub name: Name,
    /// The input or the output's Func.
    pub of: Name,
    /// The tuple element that it is of, if the types of a tuple differ; else it is of all.
    pub element: Option<usize>,
    /// Element type.
    pub ty: ScalarType,
    /// Tuple elements.
    pub channels: usize,
    /// Number of dimensions.
    pub dims: usize,
    /// Layout of the elements.
    pub layout: Layout,
    /// Fixed parts of a strided buffer, one per dimension.
    pub constraints: Vec<Constraint>,
    /// Least halo, per dimension.
    pub halo: Vec<u32>,
    /// True for outputs.
    pub written: bool,
    /// The input that this output may share its buffer with.
    pub in_place_of: Option<Name>,
    /// Inclusive bounds that the values keep, checked when bound.
    pub value_range: Option<(Expr, Expr)>,
}

/// Buffers and parameters of a compiled pipeline.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Signature {
    /// Inputs, then outputs.
    pub buffers: Vec<BufferSlot>,
    /// Parameters with their types.
    pub params: IndexMap<Name, ScalarType>,
    /// Inclusive bounds of some integer parameters.
    pub param_ranges: IndexMap<Name, (i64, i64)>,
}

impl Signature {
    /// The signature of a pipeline under a schedule, which says what runs in place.
    pub fn of(pipeline: &Pipeline, schedule: &Schedule) -> Result<Signature, Error> {
        let mut buffers = vec![];
        for input in pipeline.inputs.values() {
            let slot = BufferSlot {
                name: input.name.clone(),
                of: input.name.clone(),
                element: None,
                ty: first(pipeline, &input.name, &input.types)?,
                channels: input.types.len(),
                dims: input.dims,
                layout: input.layout,
                constraints: input.constraints.clone(),
                halo: input.halo.clone(),
                written: false,
                in_place_of: None,
                value_range: input.value_range.clone(),
            };
            buffers.extend(slot.parts(pipeline, &input.types)?);
        }
        for output in &pipeline.outputs {
            let Some(func) = pipeline.funcs.get(&output.func) else {
                return Err(error(pipeline, format!("output {} is not a Func of the pipeline", output.func)));
            };
            let types = func.types();
            let slot = BufferSlot {
                name: func.name.clone(),
                of: func.name.clone(),
                element: None,
                ty: first(pipeline, &func.name, &types)?,
                channels: func.values.len(),
                dims: func.vars.len(),
                layout: output.layout,
                constraints: output.constraints.clone(),
                halo: output.halo.clone(),
                written: true,
                in_place_of: in_place_of(schedule, &func.name),
                value_range: None,
            };
            buffers.extend(slot.parts(pipeline, &types)?);
        }
        let (params, param_ranges) = (pipeline.params.clone(), pipeline.param_ranges.clone());
        Ok(Signature { buffers, params, param_ranges })
    }

    /// Index of the buffer called `name` by whoever binds it.
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.buffers.iter().position(|b| &*b.name == name)
    }

    /// Slot and plane of a flat buffer; none if it is no argument.
    pub(super) fn plane(&self, flat: &Flat) -> Option<(usize, usize)> {
        let first = self.first_slot(&flat.of)?;
        let b = &self.buffers[first];
        match (flat.content, b.element) {
            // Records are one buffer; so is a planar one that is asked for as a whole.
            (Content::Records, None) => Some((first, 0)),
            (Content::Records, Some(_)) => None,
            (Content::Plane(k), None) => {
                (!matches!(b.layout, Layout::Record(_)) && k < b.channels).then_some((first, k))
            }
            (Content::Plane(k), Some(_)) => {
                let slot = self.buffers.iter().position(|b| b.of == flat.of && b.element == Some(k))?;
                Some((slot, 0))
            }
        }
    }

    /// Slot of the buffer that parts of `of` describe; if its tuple elements have buffers of their own, they look alike.
    pub(super) fn first_slot(&self, of: &Name) -> Option<usize> {
        self.buffers.iter().position(|b| b.of == *of)
    }
}

/// The type of the first element of a tuple.
fn first(pipeline: &Pipeline, name: &Name, types: &[ScalarType]) -> Result<ScalarType, Error> {
    types.first().copied().ok_or_else(|| error(pipeline, format!("{name} has no value")))
}

fn in_place_of(schedule: &Schedule, func: &Name) -> Option<Name> {
    schedule
        .stages
        .iter()
        .filter(|(stage, _)| stage.func == *func)
        .flat_map(|(_, directives)| directives)
        .find_map(|d| match d {
            Directive::InPlaceOf(input) => Some(input.clone()),
            _ => None,
        })
}

impl BufferSlot {
    /// The slots of a tuple of these types: one, or if the types differ one per element, `f.0`, `f.1`, ..., whose buffers look
    /// alike: those after the first are constrained to its domain and strides.
    fn parts(self, pipeline: &Pipeline, types: &[ScalarType]) -> Result<Vec<BufferSlot>, Error> {
        if types.iter().all(|t| *t == types[0]) {
            return Ok(vec![self]);
        }
        let name = &self.name;
        if self.layout != Layout::Strided || self.in_place_of.is_some() {
            let why = "which lie in strided buffers, one for each, and not in place of others";
            return Err(error(pipeline, format!("{name} has values of several types, {why}")));
        }
        let same = |d: usize| Constraint {
            min: Some(min_param(name.clone(), d)),
            extent: Some(extent_param(name.clone(), d)),
            stride: Some(step_param(name.clone(), d)),
        };
        let part = |(k, ty): (usize, &ScalarType)| BufferSlot {
            name: format!("{name}.{k}").into(),
            element: Some(k),
            ty: *ty,
            channels: 1,
            constraints: match k {
                0 => self.constraints.clone(),
                _ => (0..self.dims).map(same).collect(),
            },
            ..self.clone()
        };
        Ok(types.iter().enumerate().map(part).collect())
    }

    /// Says what is wrong with `b` in this place, if anything.
    pub fn check(&self, b: &Buffer) -> Result<(), String> {
        let s = b.spec();
        if s.ty != self.ty {
            return Err(format!("expected elements of type {}, got {}", self.ty.name(), s.ty.name()));
        }
        if s.extents.len() != self.dims {
            return Err(format!("expected {} dimensions, got {}", self.dims, s.extents.len()));
        }
        if s.channels != self.channels {
            return Err(format!("expected {} channels, got {}", self.channels, s.channels));
        }
        // Code for strided buffers takes any planar one too.
        let fits = s.layout == self.layout || self.layout == Layout::Strided && s.layout == Layout::Planar;
        if !fits {
            return Err(format!("expected layout {:?}, got {:?}", self.layout, s.layout));
        }
        if self.layout != Layout::Strided && s.min.iter().any(|&m| m != 0) {
            return Err(format!("expected coordinates from 0 on, got a minimum of {:?}", s.min));
        }
        if self.written && !b.writable() {
            return Err("is written to, but its memory was borrowed for reading".into());
        }
        if self.halo.iter().zip(&s.halo).any(|(need, has)| has < need) {
            return Err(format!("expected a halo of at least {:?}, got {:?}", self.halo, s.halo));
        }
        Ok(())
    }
}
