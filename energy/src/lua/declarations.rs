//! `Dim`, `Unknown`, `Array`, `Image`, `Param`, `Graph`, `UsePreconditioner`, and the types.

use crate::builder::{Builder, FieldRef, ValueType};
use crate::error::Fault;
use crate::lua::arguments::{argument_fault, arity_fault, describe, handle, whole};
use crate::lua::handles::{DimHandle, Expression, FieldHandle, GraphHandle, TypeHandle};
use crate::lua::state::Scope;
use crate::lua::state::operate;
use crate::model::{DimId, ElementType, IntegerType};
use mlua::{Value as LuaValue, Variadic};

const FLOAT_TYPES: [(&str, ElementType); 3] =
    [("opt_float", ElementType::OptFloat), ("float", ElementType::Float), ("double", ElementType::Double)];
const INTEGER_TYPES: [(&str, IntegerType); 10] = [
    ("int", IntegerType::Int32),
    ("uint", IntegerType::Uint32),
    ("int8", IntegerType::Int8),
    ("int16", IntegerType::Int16),
    ("int32", IntegerType::Int32),
    ("int64", IntegerType::Int64),
    ("uint16", IntegerType::Uint16),
    ("uint32", IntegerType::Uint32),
    ("uint64", IntegerType::Uint64),
    ("bool", IntegerType::Bool),
];

/// Channel count in the name of a float vector type, in range or not: `opt_float3` has 3.
pub(super) fn float_channels(name: &str) -> Option<i64> {
    let digits = FLOAT_TYPES.iter().find_map(|(base, _)| name.strip_prefix(base))?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(i64::MAX))
}

pub(super) fn add(scope: &Scope) -> mlua::Result<()> {
    add_types(scope)?;
    let lua = scope.lua;
    let dim = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| match &args[..] {
            [name, position] => {
                let (name, position) =
                    (string("Dim", 0, name)?, crate::lua::declarations::position(b, position)?);
                b.dim(&name, position).map(DimHandle)
            }
            _ => Err(arity_fault("Dim", "a name and a position", args.len())),
        })
    })?;
    scope.set("Dim", dim)?;
    add_field(scope, "Unknown", Builder::unknown)?;
    add_field(scope, "Array", Builder::array)?;
    add_field(scope, "Image", Builder::array)?;
    let param = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let (name, ty, position) = match &args[..] {
                [name, position] => (name, OPT_FLOAT, position),
                [name, ty, position] => (name, value_type("Param", 1, ty)?, position),
                _ => return Err(arity_fault("Param", "a name, a type and a position", args.len())),
            };
            let (name, position) =
                (string("Param", 0, name)?, crate::lua::declarations::position(b, position)?);
            b.param(&name, ty, position).map(Expression)
        })
    })?;
    scope.set("Param", param)?;
    let graph =
        lua.create_function(|lua, args: Variadic<LuaValue>| operate(lua, |b| declare_graph(b, &args)))?;
    scope.set("Graph", graph)?;
    let preconditioner = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| match &args[..] {
            [LuaValue::Boolean(flag)] => {
                b.use_preconditioner(*flag);
                Ok(())
            }
            [other] => Err(argument_fault("UsePreconditioner", 0, "true or false", describe(other))),
            _ => Err(arity_fault("UsePreconditioner", "true or false", args.len())),
        })
    })?;
    scope.set("UsePreconditioner", preconditioner)
}

const OPT_FLOAT: ValueType = ValueType { element: ElementType::OptFloat, channels: 1 };

fn add_types(scope: &Scope) -> mlua::Result<()> {
    for (base, element) in FLOAT_TYPES {
        scope.set(base, TypeHandle(ValueType { element, channels: 1 }))?;
        for channels in 1..=64 {
            scope.set(&format!("{base}{channels}"), TypeHandle(ValueType { element, channels }))?;
        }
    }
    scope.set("uint8", TypeHandle(ValueType { element: ElementType::Uint8, channels: 1 }))?;
    for (name, integer) in INTEGER_TYPES {
        scope.set(name, TypeHandle(ValueType { element: ElementType::Int(integer), channels: 1 }))?;
    }
    Ok(())
}

type Declare = fn(&mut Builder, &str, ValueType, &[DimId], i64) -> Result<FieldRef, Fault>;

/// `Unknown(name, type, {dims}, position)` and the like; the type may be left out.
fn add_field(scope: &Scope, function: &'static str, declare: Declare) -> mlua::Result<()> {
    let lua_function = scope.lua.create_function(move |lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let (name, ty, dims, position) = match &args[..] {
                [name, dims @ LuaValue::Table(_), position] => {
                    (name, OPT_FLOAT, crate::lua::declarations::dims(function, 1, dims)?, position)
                }
                [name, ty, dims, position] => (
                    name,
                    value_type(function, 1, ty)?,
                    crate::lua::declarations::dims(function, 2, dims)?,
                    position,
                ),
                _ => return Err(arity_fault(function, "a name, a type, {dims} and a position", args.len())),
            };
            let (name, position) =
                (string(function, 0, name)?, crate::lua::declarations::position(b, position)?);
            declare(b, &name, ty, &dims, position).map(FieldHandle)
        })
    })?;
    scope.set(function, lua_function)
}

/// `Graph(name, position, "v0", {dims}, position, ...)`.
fn declare_graph(b: &mut Builder, args: &[LuaValue]) -> Result<GraphHandle, Fault> {
    const EXPECTED: &str = "a name and a position, then a name, {dims} and a position for each vertex";
    if args.len() < 2 || args.len() % 3 != 2 {
        return Err(arity_fault("Graph", EXPECTED, args.len()));
    }
    let (name, position) = (string("Graph", 0, &args[0])?, crate::lua::declarations::position(b, &args[1])?);
    let mut vertices = Vec::new();
    for (k, vertex) in args[2..].chunks_exact(3).enumerate() {
        let first = 2 + 3 * k;
        let name = string("Graph", first, &vertex[0])?;
        let dims = crate::lua::declarations::dims("Graph", first + 1, &vertex[1])?;
        vertices.push((name, dims, crate::lua::declarations::position(b, &vertex[2])?));
    }
    b.graph(&name, position, &vertices).map(GraphHandle)
}

pub(super) fn string(function: &str, index: usize, value: &LuaValue) -> Result<String, Fault> {
    match value {
        LuaValue::String(s) => Ok(s.to_string_lossy()),
        other => Err(argument_fault(function, index, "a name in quotes", describe(other))),
    }
}

fn position(builder: &Builder, value: &LuaValue) -> Result<i64, Fault> {
    whole(builder, value).ok_or_else(|| Fault::BadPosition(describe(value)))
}

fn value_type(function: &str, index: usize, value: &LuaValue) -> Result<ValueType, Fault> {
    handle::<TypeHandle>(value)
        .map(|t| t.0)
        .ok_or_else(|| argument_fault(function, index, "a type such as opt_float2", describe(value)))
}

pub(super) fn dims(function: &str, index: usize, value: &LuaValue) -> Result<Vec<DimId>, Fault> {
    let expected = "a list of dims such as {W,H}";
    let LuaValue::Table(list) = value else {
        return Err(argument_fault(function, index, expected, describe(value)));
    };
    let dim = |v: mlua::Result<LuaValue>| {
        let v = v.unwrap_or(LuaValue::Nil);
        let got = || format!("{} in the list", describe(&v));
        handle::<DimHandle>(&v).map(|d| d.0).ok_or_else(|| argument_fault(function, index, expected, got()))
    };
    list.sequence_values().map(dim).collect()
}
