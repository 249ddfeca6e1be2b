//! The Lua state that an energy file runs in: no files, processes or code loading; bounded time and memory.

use crate::error::Fault;
use crate::lua::state::{CHUNK, Located, MEMORY_LIMIT, Scope, Shared, current_line, operate};
use crate::lua::{declarations, extensions, functions};
use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, Table, Value as LuaValue, VmState};
use std::cell::Cell;
use std::rc::Rc;

/// Instructions an energy file may run.
const INSTRUCTION_LIMIT: u64 = 5_000_000;
/// Instructions between two looks at the count.
const INSTRUCTION_STEP: u32 = 10_000;

/// Names of Lua that a file may not use. With protected calls a loop would outlive any limit.
const FORBIDDEN: [&str; 21] = [
    "require",
    "module",
    "package",
    "load",
    "loadstring",
    "loadfile",
    "dofile",
    "io",
    "os",
    "debug",
    "collectgarbage",
    "gcinfo",
    "getfenv",
    "setfenv",
    "newproxy",
    "pcall",
    "xpcall",
    "coroutine",
    "ffi",
    "jit",
    "arg",
];
/// Names of the published language that will not come.
const NEVER: [&str; 1] = ["Stage"];

/// Runs an energy file.
pub(super) fn run(text: &str, builder: &Shared) -> mlua::Result<()> {
    let lua = Lua::new_with(StdLib::MATH | StdLib::STRING | StdLib::TABLE, LuaOptions::default())?;
    lua.set_app_data(Rc::clone(builder));
    for name in FORBIDDEN {
        lua.globals().raw_remove(name)?;
    }
    let scope = Scope { lua: &lua, opt: lua.create_table()? };
    declarations::add(&scope)?;
    functions::add(&scope)?;
    extensions::add(&scope)?;
    lua.globals().raw_set("opt", &scope.opt)?;
    report_unknown_names(&lua, &lua.globals(), None)?;
    report_unknown_names(&lua, &scope.opt, Some("opt"))?;
    limit(&lua)?;
    lua.load(text).set_name(format!("@{}", CHUNK)).set_mode(ChunkMode::Text).exec()
}

fn limit(lua: &Lua) -> mlua::Result<()> {
    lua.set_memory_limit(MEMORY_LIMIT)?;
    let run = Cell::new(0);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTION_STEP);
    lua.set_hook(triggers, move |lua, _| {
        run.set(run.get() + u64::from(INSTRUCTION_STEP));
        if run.get() <= INSTRUCTION_LIMIT {
            return Ok(VmState::Continue);
        }
        let (fault, line) = (Fault::Runaway(INSTRUCTION_LIMIT), current_line(lua));
        Err(mlua::Error::external(Located { fault, line, notes: Vec::new() }))
    })
}

/// Makes the use of a name that is not there an error at once, instead of a `nil` that fails elsewhere.
fn report_unknown_names(lua: &Lua, table: &Table, owner: Option<&'static str>) -> mlua::Result<()> {
    let known: Vec<String> =
        table.pairs::<LuaValue, LuaValue>().filter_map(|p| p.ok()?.0.to_string().ok()).collect();
    let index = lua.create_function(move |lua, (_, key): (LuaValue, LuaValue)| {
        let LuaValue::String(key) = key else { return Ok(LuaValue::Nil) };
        let key = key.to_string_lossy();
        operate(lua, |builder| {
            let candidates = known.iter().map(String::as_str).chain(builder.declared_names());
            Err(unknown_name(&key, candidates, owner))
        })
    })?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", index)?;
    // Out of the file's reach: getmetatable gives this instead, and setmetatable refuses.
    metatable.raw_set("__metatable", false)?;
    table.set_metatable(Some(metatable))
}

fn unknown_name<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
    owner: Option<&'static str>,
) -> Fault {
    if FORBIDDEN.contains(&name) {
        return Fault::Forbidden(name.into());
    }
    if NEVER.contains(&name) {
        return Fault::NotSupported(name.into());
    }
    if let Some(channels) = declarations::float_channels(name) {
        return Fault::ChannelCount { name: name.into(), channels };
    }
    if let Some(owner) = owner {
        return Fault::NoMember(owner.into(), name.into());
    }
    // Short names differ by their case at most, or everything is similar.
    let limit = match name.chars().count() {
        0..3 => 0,
        3..5 => 1,
        _ => 2,
    };
    let similar = candidates
        .map(|c| (strsim::levenshtein(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, c)| c.to_owned());
    Fault::UnknownName { name: name.into(), similar }
}
