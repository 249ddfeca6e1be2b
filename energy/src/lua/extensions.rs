//! `ComputedArray`, `SampledImage`, `L_p`; and beyond the published language `Residual{...}`, the losses, `Bounds` and `NearNull`.

use crate::builder::{Builder, FieldRef, Group, Robust, Rule, Value};
use crate::error::Fault;
use crate::losses::LossKind;
use crate::lua::arguments::{argument_fault, arity_fault, describe, handle, to_value};
use crate::lua::declarations::{dims, string};
use crate::lua::handles::{Expression, FieldHandle, LossHandle, SampledHandle};
use crate::lua::state::Scope;
use crate::lua::state::{located, operate};
use mlua::{Table, Value as LuaValue, Variadic};

pub(super) fn add(scope: &Scope) -> mlua::Result<()> {
    add_computed(scope)?;
    add_sampled(scope)?;
    add_losses(scope)?;
    add_bounds(scope)?;
    add_near_null(scope)
}

fn add_computed(scope: &Scope) -> mlua::Result<()> {
    let computed = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            const NAME: &str = "ComputedArray";
            let [name, space, value] = &args[..] else {
                return Err(arity_fault(NAME, "a name, {dims} and an expression", args.len()));
            };
            let (name, space) = (string(NAME, 0, name)?, dims(NAME, 1, space)?);
            let value = to_value(b, value)?;
            b.computed(&name, &space, &value).map(FieldHandle)
        })
    })?;
    scope.set("ComputedArray", computed)?;
    let l_p = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let [val, constant, p, space] = &args[..] else {
                return Err(arity_fault("L_p", "a value, its constant copy, p and {dims}", args.len()));
            };
            let (val, constant, p) = (to_value(b, val)?, to_value(b, constant)?, to_value(b, p)?);
            b.l_p(&val, &constant, &p, &dims("L_p", 3, space)?).map(Expression)
        })
    })?;
    scope.set("L_p", l_p)
}

fn add_sampled(scope: &Scope) -> mlua::Result<()> {
    let sampled = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            const NAME: &str = "SampledImage";
            let field = |(i, v): (usize, &LuaValue)| match handle(v) {
                Some(FieldHandle(field)) => Ok(field),
                None => Err(argument_fault(NAME, i, "an array", describe(v))),
            };
            let fields: Vec<FieldRef> = args.iter().enumerate().map(field).collect::<Result<_, _>>()?;
            let Some((image, partials)) = fields.split_first() else {
                return Err(arity_fault(NAME, "an array, and its derivative images", 0));
            };
            b.sampled(*image, partials).map(SampledHandle)
        })
    })?;
    scope.set("SampledImage", sampled)
}

fn add_losses(scope: &Scope) -> mlua::Result<()> {
    for (kind, name) in LossKind::all() {
        let loss = scope.lua.create_function(move |lua, args: Variadic<LuaValue>| {
            operate(lua, |b| match &args[..] {
                [scale] => {
                    let rule = Rule::Scaled(kind, to_value(b, scale)?);
                    Ok(LossHandle(Robust { rule, second_order: false }))
                }
                _ => Err(arity_fault(name, "a scale", args.len())),
            })
        })?;
        scope.set(name, loss)?;
    }
    let power = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let [p, eps] = &args[..] else { return Err(arity_fault("Power", "p and eps", args.len())) };
            let (p, eps) = (to_value(b, p)?, to_value(b, eps)?);
            b.power_loss(&p, &eps).map(LossHandle)
        })
    })?;
    scope.set("Power", power)?;
    let formula = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        const FUNCTION: &str =
            "a function of the squared norm, as in Loss(function(q) return log(1 + q) end)";
        let function = match &args[..] {
            [LuaValue::Function(function)] => function,
            [other] => return Err(located(lua, argument_fault("Loss", 0, FUNCTION, describe(other)))),
            _ => return Err(located(lua, arity_fault("Loss", FUNCTION, args.len()))),
        };
        let q = operate(lua, |b| Ok(Expression(b.squared())))?;
        let rho: LuaValue = function.call(q)?;
        operate(lua, |b| {
            let rho = to_value(b, &rho)?;
            b.formula_loss(rho).map(LossHandle)
        })
    })?;
    scope.set("Loss", formula)?;
    let second_order = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |_| match &args[..] {
            [of] => loss("SecondOrder", of).map(|of| LossHandle(Robust { second_order: true, ..of })),
            _ => Err(arity_fault("SecondOrder", "a loss such as Huber(0.1)", args.len())),
        })
    })?;
    scope.set("SecondOrder", second_order)?;
    let residual = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let [LuaValue::Table(table)] = &args[..] else {
                return Err(arity_fault("Residual", RESIDUAL, args.len()));
            };
            let (group, values) = residual_group(b, table)?;
            b.group(&group, &values.iter().collect::<Vec<_>>())
        })
    })?;
    scope.set("Residual", residual)
}

const RESIDUAL: &str = "one table, as in Residual{name=\"fit\", loss=Huber(0.1), e1, e2}";

/// Returns what a `Residual{...}` holds: the entries with names, then the values in order.
fn residual_group(b: &mut Builder, table: &Table) -> Result<(Group, Vec<Value>), Fault> {
    let mut group = Group::default();
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let Ok((LuaValue::String(key), value)) = pair else { continue };
        match key.to_string_lossy().as_str() {
            "name" => group.name = Some(string("Residual", 0, &value)?),
            "loss" => {
                group.loss = Some(loss("loss", &value)?);
            }
            "merge" => match value {
                LuaValue::Boolean(merge) => group.merge = merge,
                other => return Err(argument_fault("merge", 0, "true or false", describe(&other))),
            },
            other => return Err(Fault::NoMember("Residual".into(), other.into())),
        }
    }
    let value = |v: mlua::Result<LuaValue>| to_value(b, &v.unwrap_or(LuaValue::Nil));
    let values: Vec<Value> = table.sequence_values().map(value).collect::<Result<_, _>>()?;
    if values.is_empty() {
        return Err(arity_fault("Residual", RESIDUAL, 0));
    }
    Ok((group, values))
}

fn loss(of: &'static str, value: &LuaValue) -> Result<Robust, Fault> {
    let handle = value.as_userdata().and_then(|d| d.borrow::<LossHandle>().ok());
    let loss = handle.map(|h| h.0.clone());
    loss.ok_or_else(|| argument_fault(of, 0, "a loss such as Huber(0.1)", describe(value)))
}

fn add_bounds(scope: &Scope) -> mlua::Result<()> {
    let bounds = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let [unknown, lower, upper] = &args[..] else {
                return Err(arity_fault("Bounds", "an unknown, a lower and an upper bound", args.len()));
            };
            let Some(FieldHandle(field)) = handle(unknown) else {
                return Err(argument_fault("Bounds", 0, "an unknown", describe(unknown)));
            };
            let (lower, upper) = (to_value(b, lower)?, to_value(b, upper)?);
            b.bounds(field, &lower, &upper)
        })
    })?;
    scope.set("Bounds", bounds)
}

fn add_near_null(scope: &Scope) -> mlua::Result<()> {
    let near_null = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let [unknown, values] = &args[..] else {
                return Err(arity_fault("NearNull", "an unknown and its displacement", args.len()));
            };
            let Some(FieldHandle(field)) = handle(unknown) else {
                return Err(argument_fault("NearNull", 0, "an unknown", describe(unknown)));
            };
            let values = to_value(b, values)?;
            b.near_null(field, &values)
        })
    })?;
    scope.set("NearNull", near_null)
}
