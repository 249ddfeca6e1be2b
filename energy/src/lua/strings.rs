//! Lua's `string` without what one call can make run or grow without end: patterns, which backtrack, and `dump`; `rep` knows the memory.

use crate::budgets::Budget;
use crate::error::Fault;
use crate::lua::state::located;
use mlua::{Lua, LuaString, Table, Value as LuaValue, Variadic};

/// Functions of `string` that take patterns.
const PATTERNS: [&str; 4] = ["match", "gmatch", "gsub", "gfind"];

/// Puts the safe functions in the place of Lua's.
pub(super) fn make_safe(lua: &Lua, memory: u64) -> mlua::Result<()> {
    let string: Table = lua.globals().raw_get("string")?;
    for name in PATTERNS {
        let refused = lua.create_function(|lua, _: Variadic<LuaValue>| refuse(lua, Fault::Pattern))?;
        string.raw_set(name, refused)?;
    }
    let dump = |lua: &Lua, _: Variadic<LuaValue>| refuse(lua, Fault::Forbidden("string.dump".into()));
    string.raw_set("dump", lua.create_function(dump)?)?;
    let rep = lua.create_function(move |lua, (text, count): (LuaString, i64)| {
        let (text, count) = (text.as_bytes(), usize::try_from(count).unwrap_or(0));
        match text.len().checked_mul(count) {
            Some(bytes) if bytes as u64 <= memory / 4 => lua.create_string(text.repeat(count)),
            _ => Err(located(lua, Fault::Budget { budget: Budget::LuaMemory, most: memory, routine: None })),
        }
    })?;
    string.raw_set("rep", rep)?;
    string.raw_set("find", lua.create_function(find)?)
}

fn refuse(lua: &Lua, fault: Fault) -> mlua::Result<()> {
    Err(located(lua, fault))
}

/// `string.find(text, part, first, true)`: where `part` is, as it is written.
fn find(
    lua: &Lua,
    (text, part, first, plain): (LuaString, LuaString, Option<i64>, Option<bool>),
) -> mlua::Result<Variadic<LuaValue>> {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    if plain != Some(true) && part.iter().any(|c| b"^$*+?.([%-".contains(c)) {
        return Err(located(lua, Fault::Pattern));
    }
    let length = text.len() as i64;
    let first = match first.unwrap_or(1) {
        from_end @ ..0 => (length + from_end).max(0),
        from_start => (from_start - 1).max(0),
    };
    let Some(rest) = text.get(first as usize..) else { return Ok(Variadic::from_iter([LuaValue::Nil])) };
    Ok(match memchr::memmem::find(rest, &part) {
        Some(at) => {
            let start = first + at as i64 + 1;
            let end = start + part.len() as i64 - 1;
            [start, end].map(|n| LuaValue::Number(n as f64)).into_iter().collect()
        }
        None => Variadic::from_iter([LuaValue::Nil]),
    })
}
