//! The functions of the language: mathematics, logic, Vectors, stencils, `Energy` and `Exclude`.

use crate::builder::{Arithmetic, Builder, Comparison, Value};
use crate::dag::Function;
use crate::error::Fault;
use crate::lua::access::constant;
use crate::lua::arguments::{argument_fault, arity_fault, describe, handle, to_value, to_values, whole};
use crate::lua::handles::{Expression, FieldHandle};
use crate::lua::state::Scope;
use crate::lua::state::operate;
use mlua::{Table, Value as LuaValue, Variadic};
use std::cell::Cell;

const COMPARISONS: [(&str, Comparison); 5] = [
    ("eq", Comparison::Eq),
    ("less", Comparison::Less),
    ("lesseq", Comparison::LessEq),
    ("greater", Comparison::Greater),
    ("greatereq", Comparison::GreaterEq),
];
const FOLDS: [(&str, Arithmetic); 3] =
    [("mul", Arithmetic::Mul), ("div", Arithmetic::Div), ("prod", Arithmetic::Mul)];

pub(super) fn add(scope: &Scope, print: impl Fn(&str) + 'static) -> mlua::Result<()> {
    add_mathematics(scope)?;
    add_logic(scope)?;
    add_vectors(scope)?;
    add_places(scope)?;
    add_statements(scope)?;
    add_print(scope, print)
}

/// Number of arguments of a function.
#[derive(Clone, Copy)]
enum Arity {
    Exactly(usize),
    AtLeast(usize),
}

impl Arity {
    fn check(self, function: &str, got: usize) -> Result<(), Fault> {
        let plural = |n: usize| format!("{n} argument{}", if n == 1 { "" } else { "s" });
        match self {
            Arity::Exactly(n) if got != n => Err(arity_fault(function, &plural(n), got)),
            Arity::AtLeast(n) if got < n => {
                Err(arity_fault(function, &format!("at least {}", plural(n)), got))
            }
            _ => Ok(()),
        }
    }
}

/// Adds a function from expressions to an expression.
fn add_function(
    scope: &Scope,
    name: &'static str,
    arity: Arity,
    f: impl Fn(&mut Builder, &[Value]) -> Result<Value, Fault> + 'static,
) -> mlua::Result<()> {
    let function = scope.lua.create_function(move |lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            arity.check(name, args.len())?;
            let values = to_values(b, name, &args)?;
            f(b, &values).map(Expression)
        })
    })?;
    scope.set(name, function)
}

fn add_mathematics(scope: &Scope) -> mlua::Result<()> {
    let names = Function::ALL.iter().map(|f| (f.name(), *f)).chain([("Sqrt", Function::Sqrt)]);
    for (name, function) in names {
        let arity = Arity::Exactly(function.arity());
        add_function(scope, name, arity, move |b, v| b.call(function, &v.iter().collect::<Vec<_>>()))?;
    }
    for (name, operator) in FOLDS {
        add_function(scope, name, Arity::AtLeast(1), move |b, v| {
            v[1..].iter().try_fold(v[0].clone(), |product, x| b.arithmetic(operator, &product, x))
        })?;
    }
    Ok(())
}

fn add_logic(scope: &Scope) -> mlua::Result<()> {
    for (name, comparison) in COMPARISONS {
        add_function(scope, name, Arity::Exactly(2), move |b, v| b.compare(comparison, &v[0], &v[1]))?;
    }
    for name in ["and_", "And"] {
        add_function(scope, name, Arity::AtLeast(1), |b, v| b.and(&v.iter().collect::<Vec<_>>()))?;
    }
    for name in ["or_", "Or"] {
        add_function(scope, name, Arity::AtLeast(1), |b, v| b.or(&v.iter().collect::<Vec<_>>()))?;
    }
    for name in ["not_", "Not"] {
        add_function(scope, name, Arity::Exactly(1), |b, v| Ok(b.not(&v[0])))?;
    }
    add_function(scope, "Select", Arity::Exactly(3), |b, v| b.select(&v[0], &v[1], &v[2]))?;
    add_function(scope, "All", Arity::Exactly(1), |b, v| Ok(b.all(&v[0])))?;
    add_function(scope, "Any", Arity::Exactly(1), |b, v| Ok(b.any(&v[0])))
}

fn add_vectors(scope: &Scope) -> mlua::Result<()> {
    add_function(scope, "Vector", Arity::AtLeast(1), |b, v| b.vector(&v.iter().collect::<Vec<_>>()))?;
    add_function(scope, "Dot3", Arity::Exactly(2), |b, v| {
        for w in v {
            if w.len() != 3 {
                return Err(Fault::VectorSize { function: "Dot3".into(), expected: 3, got: w.len() });
            }
        }
        b.dot(&v[0], &v[1])
    })?;
    add_function(scope, "normalize", Arity::Exactly(1), |b, v| b.normalize(&v[0]))?;
    add_function(scope, "length", Arity::Exactly(2), |b, v| b.length(&v[0], &v[1]))?;
    add_function(scope, "L_2_norm", Arity::Exactly(1), |b, v| b.norm(&v[0]))?;
    add_function(scope, "Matrix3x3Mul", Arity::Exactly(2), |b, v| b.matrix3_mul(&v[0], &v[1]))?;
    add_function(scope, "Rotate2D", Arity::Exactly(2), |b, v| b.rotate_2d(&v[0], &v[1]))?;
    add_function(scope, "Rotate3D", Arity::Exactly(2), |b, v| b.rotate_3d(&v[0], &v[1]))?;
    let slice = scope.lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            let [array, start, end] = &args[..] else {
                return Err(arity_fault("Slice", "an array, a first and an end channel", args.len()));
            };
            let Some(FieldHandle(field)) = handle(array) else {
                return Err(argument_fault("Slice", 0, "an array", describe(array)));
            };
            let start = constant(b, "Slice", "a channel", start)?;
            let end = constant(b, "Slice", "a channel", end)?;
            b.slice(field, start, end).map(FieldHandle)
        })
    })?;
    scope.set("Slice", slice)
}

/// Adds what speaks of elements and their neighbours.
fn add_places(scope: &Scope) -> mlua::Result<()> {
    let lua = scope.lua;
    let index = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            Arity::Exactly(1).check("Index", args.len())?;
            let dim = constant(b, "Index", "the dim", &args[0])?;
            b.index(dim).map(Expression)
        })
    })?;
    scope.set("Index", index)?;
    let in_bounds = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            Arity::AtLeast(1).check("InBounds", args.len())?;
            b.in_bounds(&offsets(b, "InBounds", &args)?).map(Expression)
        })
    })?;
    scope.set("InBounds", in_bounds)?;
    let expanded = lua.create_function(|lua, args: Variadic<LuaValue>| {
        const NAME: &str = "InBoundsExpanded";
        operate(lua, |b| {
            Arity::AtLeast(2).check(NAME, args.len())?;
            let numbers = offsets(b, NAME, &args)?;
            let (half_width, offset) = numbers.split_last().expect("two arguments at least");
            if *half_width < 0 {
                return Err(argument_fault(
                    NAME,
                    args.len() - 1,
                    "a half-width from 0",
                    half_width.to_string(),
                ));
            }
            b.in_bounds_expanded(offset, *half_width).map(Expression)
        })
    })?;
    scope.set("InBoundsExpanded", expanded)?;
    let stencil = lua.create_function(|lua, args: Variadic<LuaValue>| {
        let offsets = operate(lua, |b| match &args[..] {
            [LuaValue::Table(list)] => stencil_offsets(b, list),
            [other] => Err(argument_fault("Stencil", 0, STENCIL, describe(other))),
            _ => Err(arity_fault("Stencil", STENCIL, args.len())),
        })?;
        let next = Cell::new(0);
        lua.create_function(move |_, _: Variadic<LuaValue>| {
            let k = next.replace(next.get() + 1);
            // No value ends the loop.
            Ok(Variadic::from_iter(offsets.get(k).into_iter().flatten().copied()))
        })
    })?;
    scope.set("Stencil", stencil)
}

const STENCIL: &str = "a list of offsets such as { {1,0}, {0,1} }";

fn stencil_offsets(b: &Builder, list: &Table) -> Result<Vec<Vec<f64>>, Fault> {
    let wrong = |got: String| argument_fault("Stencil", 0, STENCIL, got);
    let offset = |entry: mlua::Result<LuaValue>| {
        let entry = entry.unwrap_or(LuaValue::Nil);
        let LuaValue::Table(numbers) = &entry else {
            return Err(wrong(format!("{} in the list", describe(&entry))));
        };
        let number = |v: mlua::Result<LuaValue>| {
            let v = v.unwrap_or(LuaValue::Nil);
            let n = whole(b, &v).map(|n| n as f64);
            n.ok_or_else(|| wrong(format!("{} in an offset", describe(&v))))
        };
        numbers.sequence_values().map(number).collect()
    };
    let offsets: Vec<Vec<f64>> = list.sequence_values().map(offset).collect::<Result<_, _>>()?;
    let dims = offsets.first().map_or(0, Vec::len);
    match offsets.iter().find(|o| o.is_empty() || o.len() != dims) {
        Some(odd) => Err(wrong(format!("offsets with {dims} and with {} numbers", odd.len()))),
        None => Ok(offsets),
    }
}

fn offsets(b: &Builder, name: &str, args: &[LuaValue]) -> Result<Vec<i64>, Fault> {
    args.iter().map(|a| constant(b, name, "an offset", a)).collect()
}

fn add_statements(scope: &Scope) -> mlua::Result<()> {
    let lua = scope.lua;
    let energy = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            Arity::AtLeast(1).check("Energy", args.len())?;
            let values = to_values(b, "Energy", &args)?;
            b.energy(&values.iter().collect::<Vec<_>>())
        })
    })?;
    scope.set("Energy", energy)?;
    let exclude = lua.create_function(|lua, args: Variadic<LuaValue>| {
        operate(lua, |b| {
            Arity::Exactly(1).check("Exclude", args.len())?;
            let value = to_value(b, &args[0])?;
            b.exclude(&value)
        })
    })?;
    scope.set("Exclude", exclude)
}

fn add_print(scope: &Scope, print: impl Fn(&str) + 'static) -> mlua::Result<()> {
    let function = scope.lua.create_function(move |_, args: Variadic<LuaValue>| {
        let texts: Vec<String> = args.iter().map(LuaValue::to_string).collect::<mlua::Result<_>>()?;
        print(&texts.join("\t"));
        Ok(())
    })?;
    scope.set("print", function)
}
