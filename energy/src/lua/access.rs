//! `X(dx, dy)`, `X(dx, dy, c)`, `X(G.v0)`, `X(G.v0, c)`.

use crate::builder::{Builder, FieldRef, SampledRef, Value};
use crate::error::Fault;
use crate::lua::arguments::{arity_fault, describe, handle, to_value, whole};
use crate::lua::handles::VertexHandle;
use mlua::Value as LuaValue;

/// A field called with arguments.
pub(super) fn read(builder: &mut Builder, field: FieldRef, arguments: &[LuaValue]) -> Result<Value, Fault> {
    let name = builder.field_name(field);
    if let Some(VertexHandle(graph, slot)) = arguments.first().and_then(handle) {
        let channel = match arguments {
            [_] => None,
            [_, c] => Some(constant(builder, &name, "the channel", c)?),
            _ => return Err(arity_fault(&name, "a vertex and at most a channel", arguments.len())),
        };
        return builder.read_vertex(field, graph, slot, channel);
    }
    let dims = builder.dims_of(field);
    if arguments.len() != dims && arguments.len() != dims + 1 {
        return Err(Fault::OffsetCount { name, dims, got: arguments.len() });
    }
    let (offset, channel) = arguments.split_at(dims);
    let offset: Vec<i64> =
        offset.iter().map(|o| constant(builder, &name, "an offset", o)).collect::<Result<_, _>>()?;
    let channel = channel.first().map(|c| constant(builder, &name, "the channel", c)).transpose()?;
    builder.read_offset(field, &offset, channel)
}

/// A sampled image called with coordinates and perhaps a channel.
pub(super) fn sample(
    builder: &mut Builder,
    sampled: &SampledRef,
    arguments: &[LuaValue],
) -> Result<Value, Fault> {
    let (name, dims) = builder.sampled_dims(sampled);
    if arguments.len() != dims && arguments.len() != dims + 1 {
        let expected = format!("{dims} coordinates and at most a channel");
        return Err(arity_fault(&name, &expected, arguments.len()));
    }
    let (at, channel) = arguments.split_at(dims);
    let at: Vec<Value> = at.iter().map(|v| to_value(builder, v)).collect::<Result<_, _>>()?;
    let channel = channel.first().map(|c| constant(builder, &name, "the channel", c)).transpose()?;
    builder.sample(sampled, &at.iter().collect::<Vec<_>>(), channel)
}

/// An offset or channel of `name`.
pub(super) fn constant(
    builder: &Builder,
    name: &str,
    what: &'static str,
    value: &LuaValue,
) -> Result<i64, Fault> {
    whole(builder, value).ok_or_else(|| Fault::NotConstant { name: name.into(), what, got: describe(value) })
}
