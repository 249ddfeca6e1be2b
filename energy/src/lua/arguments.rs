//! From Lua values to what the builder takes.

use crate::builder::{Builder, Value};
use crate::error::Fault;
use crate::lua::handles::{
    DimHandle, Expression, FieldHandle, GraphHandle, LossHandle, SampledHandle, TypeHandle, VertexHandle,
};
use mlua::{AnyUserData, Value as LuaValue};

/// An expression; numbers become constants.
pub(super) fn to_value(builder: &mut Builder, value: &LuaValue) -> Result<Value, Fault> {
    match value {
        LuaValue::Integer(i) => Ok(builder.constant(*i as f64)),
        LuaValue::Number(x) => Ok(builder.constant(*x)),
        LuaValue::Boolean(flag) => Err(Fault::Boolean(*flag)),
        LuaValue::UserData(data) => {
            if let Ok(e) = data.borrow::<Expression>() {
                return Ok(e.0.clone());
            }
            if let Ok(f) = data.borrow::<FieldHandle>() {
                return Err(Fault::BareField(builder.field_name(f.0)));
            }
            Err(Fault::NotAnExpression(describe(value)))
        }
        _ => Err(Fault::NotAnExpression(describe(value))),
    }
}

/// The expressions that a function is called with.
pub(super) fn to_values(
    builder: &mut Builder,
    function: &str,
    arguments: &[LuaValue],
) -> Result<Vec<Value>, Fault> {
    let one = |(i, a): (usize, &LuaValue)| {
        to_value(builder, a).map_err(|fault| match fault {
            Fault::NotAnExpression(got) => argument_fault(function, i, "an expression", got),
            fault => fault,
        })
    };
    arguments.iter().enumerate().map(one).collect()
}

/// A constant whole number, written as an integer, a float or a constant expression.
pub(super) fn whole(builder: &Builder, value: &LuaValue) -> Option<i64> {
    let x = match value {
        LuaValue::Integer(i) => *i as f64,
        LuaValue::Number(x) => *x,
        LuaValue::UserData(data) => builder.as_constant(&data.borrow::<Expression>().ok()?.0)?,
        _ => return None,
    };
    // Beyond 2^53 a float is not one whole number any more.
    (x.fract() == 0.0 && x.abs() < 9e15).then_some(x as i64)
}

/// A handle of type `T`.
pub(super) fn handle<T: Copy + 'static>(value: &LuaValue) -> Option<T> {
    let data: &AnyUserData = value.as_userdata()?;
    data.borrow::<T>().ok().map(|h| *h)
}

/// Returns what a value is, for messages.
pub(super) fn describe(value: &LuaValue) -> String {
    match value {
        LuaValue::Nil => "nil".into(),
        LuaValue::Boolean(b) => format!("the boolean {b}"),
        LuaValue::Integer(i) => i.to_string(),
        LuaValue::Number(x) => x.to_string(),
        LuaValue::String(s) => format!("the string \"{}\"", s.to_string_lossy()),
        LuaValue::Table(_) => "a table".into(),
        LuaValue::Function(_) => "a function".into(),
        LuaValue::UserData(data) => describe_handle(data).into(),
        other => format!("a {}", other.type_name()),
    }
}

fn describe_handle(data: &AnyUserData) -> &'static str {
    if data.is::<Expression>() {
        "an expression"
    } else if data.is::<FieldHandle>() {
        "an array"
    } else if data.is::<SampledHandle>() {
        "a sampled image"
    } else if data.is::<LossHandle>() {
        "a loss"
    } else if data.is::<GraphHandle>() {
        "a graph"
    } else if data.is::<VertexHandle>() {
        "a graph vertex"
    } else if data.is::<DimHandle>() {
        "a dim"
    } else if data.is::<TypeHandle>() {
        "a type"
    } else {
        "a userdata"
    }
}

/// `index` counts from 0.
pub(super) fn argument_fault(function: &str, index: usize, expected: &str, got: String) -> Fault {
    Fault::Argument { function: function.into(), position: index + 1, expected: expected.into(), got }
}

pub(super) fn arity_fault(function: &str, expected: &str, got: usize) -> Fault {
    Fault::Arity { function: function.into(), expected: expected.into(), got }
}
