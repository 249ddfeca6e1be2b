//! Operations of an energy file on what it holds: operators and methods of Lua userdata.

use crate::builder::Arithmetic;
use crate::error::Fault;
use crate::lua::access;
use crate::lua::arguments::{arity_fault, describe, to_value, whole};
use crate::lua::handles::{
    DimHandle, Expression, FieldHandle, GraphHandle, LossHandle, SampledHandle, TypeHandle, VertexHandle,
};
use crate::lua::state::operate;
use mlua::{Lua, MetaMethod, UserData, UserDataMethods, Value as LuaValue, Variadic};

impl UserData for Expression {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        add_operators(methods);
        // Methods are found before entries: `v:dot(w)` is never an index.
        methods.add_method("dot", |lua, this, other: LuaValue| {
            operate(lua, |b| {
                let other = to_value(b, &other)?;
                b.dot(&this.0, &other).map(Expression)
            })
        });
        methods.add_method("sum", |lua, this, ()| operate(lua, |b| Ok(Expression(b.sum(&this.0)))));
        methods.add_method("size", |_, this, ()| Ok(this.0.len() as f64));
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: LuaValue| channel(lua, this, &key));
        methods.add_meta_method(MetaMethod::Call, |lua, this, keys: Variadic<LuaValue>| match &keys[..] {
            [key] => channel(lua, this, key),
            _ => operate(lua, |_| Err(arity_fault("Vector", "1 argument, the channel", keys.len()))),
        });
        for comparison in [MetaMethod::Eq, MetaMethod::Lt, MetaMethod::Le] {
            methods.add_meta_function(comparison, |lua, _: (LuaValue, LuaValue)| -> mlua::Result<bool> {
                operate(lua, |_| Err(Fault::LuaComparison))
            });
        }
        methods.add_meta_method(MetaMethod::ToString, |lua, this, ()| {
            operate(lua, |b| {
                let texts: Vec<String> = this.0.scalars().iter().map(|s| b.display(s.id)).collect();
                Ok(if texts.len() == 1 { texts.concat() } else { format!("Vector({})", texts.join(", ")) })
            })
        });
    }
}

impl UserData for FieldHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        add_operators(methods);
        methods.add_meta_method(MetaMethod::Call, |lua, this, arguments: Variadic<LuaValue>| {
            operate(lua, |b| access::read(b, this.0, &arguments).map(Expression))
        });
    }
}

impl UserData for SampledHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        add_operators(methods);
        methods.add_meta_method(MetaMethod::Call, |lua, this, arguments: Variadic<LuaValue>| {
            operate(lua, |b| access::sample(b, &this.0, &arguments).map(Expression))
        });
    }
}

impl UserData for LossHandle {}

impl UserData for GraphHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: LuaValue| {
            operate(lua, |b| {
                let name = key.as_string().map_or_else(|| describe(&key), |s| s.to_string_lossy());
                b.vertex(this.0, &name).map(|slot| VertexHandle(this.0, slot))
            })
        });
    }
}

impl UserData for VertexHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        add_operators(methods);
    }
}

impl UserData for DimHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        add_operators(methods);
    }
}

impl UserData for TypeHandle {}

/// Arithmetic, also on what is not an expression: there `to_value` says what is wrong.
fn add_operators<T, M: UserDataMethods<T>>(methods: &mut M) {
    let operators = [
        (MetaMethod::Add, Arithmetic::Add),
        (MetaMethod::Sub, Arithmetic::Sub),
        (MetaMethod::Mul, Arithmetic::Mul),
        (MetaMethod::Div, Arithmetic::Div),
        (MetaMethod::Pow, Arithmetic::Pow),
    ];
    for (method, operator) in operators {
        methods.add_meta_function(method, move |lua, (left, right): (LuaValue, LuaValue)| {
            operate(lua, |b| {
                let (left, right) = (to_value(b, &left)?, to_value(b, &right)?);
                b.arithmetic(operator, &left, &right).map(Expression)
            })
        });
    }
    methods.add_meta_function(MetaMethod::Unm, |lua, operand: LuaValue| {
        operate(lua, |b| {
            let operand = to_value(b, &operand)?;
            Ok(Expression(b.negate(&operand)))
        })
    });
}

/// `v(i)` and `v[i]`, counted from 0.
fn channel(lua: &Lua, this: &Expression, key: &LuaValue) -> mlua::Result<Expression> {
    operate(lua, |b| {
        let name = || "Vector".to_owned();
        if let LuaValue::String(member) = key {
            return Err(Fault::NoMember(name(), member.to_string_lossy()));
        }
        let Some(i) = whole(b, key) else {
            return Err(Fault::NotConstant { name: name(), what: "the channel", got: describe(key) });
        };
        let entry = usize::try_from(i).ok().and_then(|i| this.0.channel(i));
        let out_of_range = || Fault::ChannelRange { name: name(), channel: i, channels: this.0.len() };
        entry.map(Expression).ok_or_else(out_of_range)
    })
}
