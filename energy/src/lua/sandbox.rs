//! The Lua state that an energy file runs in: no files, processes or code loading; bounded time and memory.

use crate::budgets::{Budget, Budgets};
use crate::error::Fault;
use crate::lua::state::{CHUNK, Located, Scope, Shared, current_line, located, operate};
use crate::lua::words::Rewritten;
use crate::lua::{declarations, extensions, functions, strings, words};
use crate::model::SourceFile;
use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, Table, Value as LuaValue, VmState};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Instructions between two looks at what the file has taken: one call of a library function may go over all its memory.
const LOOK_EVERY: u32 = 20;
/// Seconds that a file may run. Its instructions are counted; this is for calls, sorts and concatenations that take long.
const MOST_SECONDS: u64 = 8;

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
/// Longest name that is compared with others.
const LONGEST_NAME: usize = 64;
/// Names of the published language that will not come.
const NEVER: [&str; 1] = ["Stage"];

/// Runs an energy file; `print` is given every line that it prints.
pub(super) fn run(
    source: &Arc<SourceFile>,
    builder: &Shared,
    budgets: &Budgets,
    print: impl Fn(&str) + 'static,
) -> mlua::Result<()> {
    let lua = Lua::new_with(StdLib::MATH | StdLib::STRING | StdLib::TABLE, LuaOptions::default())?;
    lua.set_app_data(Rc::clone(builder));
    for name in FORBIDDEN {
        lua.globals().raw_remove(name)?;
    }
    let scope = Scope { lua: &lua, opt: lua.create_table()? };
    declarations::add(&scope)?;
    functions::add(&scope, print)?;
    extensions::add(&scope)?;
    lua.globals().raw_set("opt", &scope.opt)?;
    report_unknown_names(&lua, &lua.globals(), None)?;
    report_unknown_names(&lua, &scope.opt, Some("opt"))?;
    strings::make_safe(&lua, budgets.lua_memory)?;
    let line = Rc::new(Cell::new(None));
    limit(&lua, budgets, &line)?;
    let chunk =
        |text: &str| lua.load(text).set_name(format!("@{CHUNK}")).set_mode(ChunkMode::Text).into_function();
    // Lua says itself what is no Lua.
    chunk(&source.text)?;
    let unreadable = || located(&lua, Fault::Syntax("syntax error".into()));
    let Rewritten { text, tests } = words::rewrite(&source.text).ok_or_else(unreadable)?;
    words::add(&lua, source, tests)?;
    chunk(&text)?.call(()).map_err(|error| match error {
        // Lua does not say where.
        mlua::Error::MemoryError(_) => {
            let fault = Fault::Budget { budget: Budget::LuaMemory, most: budgets.lua_memory, routine: None };
            mlua::Error::external(Located { fault, line: line.get(), notes: Vec::new() })
        }
        other => other,
    })
}

/// Bounds what the file takes; `line` is kept at the line that ran at the last look.
fn limit(lua: &Lua, budgets: &Budgets, line: &Rc<Cell<Option<u32>>>) -> mlua::Result<()> {
    // Reached by what one call allocates; below it the hook says the line.
    lua.set_memory_limit(usize::try_from(budgets.lua_memory).unwrap_or(usize::MAX).saturating_mul(2))?;
    let Budgets { lua_instructions: instructions, lua_memory: memory, .. } = *budgets;
    let (run, start, line) = (Cell::new(0), Instant::now(), Rc::clone(line));
    let triggers = HookTriggers::new().every_nth_instruction(LOOK_EVERY);
    lua.set_hook(triggers, move |lua, _| {
        run.set(run.get() + u64::from(LOOK_EVERY));
        line.set(current_line(lua));
        let spent = |budget, most| located(lua, Fault::Budget { budget, most, routine: None });
        if run.get() > instructions {
            return Err(spent(Budget::LuaInstructions, instructions));
        }
        if lua.used_memory() as u64 > memory {
            return Err(spent(Budget::LuaMemory, memory));
        }
        if start.elapsed().as_secs() >= MOST_SECONDS {
            return Err(located(lua, Fault::OutOfTime(MOST_SECONDS)));
        }
        Ok(VmState::Continue)
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
    // Names of like length alone: the comparison takes the product of both.
    let similar = candidates
        .filter(|c| c.len().abs_diff(name.len()) <= limit && name.len() <= LONGEST_NAME)
        .map(|c| (strsim::levenshtein(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, c)| c.to_owned());
    Fault::UnknownName { name: name.into(), similar }
}
