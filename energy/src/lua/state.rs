//! State that functions of the language share while a file runs: the builder, the names in scope, the line.

use crate::builder::Builder;
use crate::error::{Fault, Note};
use mlua::{Lua, Table};
use std::cell::RefCell;
use std::rc::Rc;

/// Chunk name in Lua's own messages, which start with `CHUNK:LINE:`.
pub(super) const CHUNK: &str = "energy";

/// A fault raised by one of our functions, on its way through Lua.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{fault}")]
pub(super) struct Located {
    pub fault: Fault,
    pub line: Option<u32>,
    pub notes: Vec<Note>,
}

/// The builder that a Lua state works on.
pub(super) type Shared = Rc<RefCell<Builder>>;

/// Does one operation of the file: `f` on the builder, at the line that is running.
pub(super) fn operate<R>(lua: &Lua, f: impl FnOnce(&mut Builder) -> Result<R, Fault>) -> mlua::Result<R> {
    let line = current_line(lua);
    let shared = lua.app_data_ref::<Shared>().map(|s| Rc::clone(&s));
    let shared = shared.ok_or_else(|| mlua::Error::runtime("no energy is being built"))?;
    // Taken only if Lua code could run inside an operation, through a metamethod of a list that it reads.
    let mut builder = shared.try_borrow_mut().map_err(mlua::Error::external)?;
    builder.set_line(line);
    let result = f(&mut builder);
    builder.check_budgets().and(result).map_err(|fault| {
        let notes = builder.take_notes();
        mlua::Error::external(Located { fault, line, notes })
    })
}

/// A fault at the line that is running, where the builder is not asked.
pub(super) fn located(lua: &Lua, fault: Fault) -> mlua::Error {
    mlua::Error::external(Located { fault, line: current_line(lua), notes: Vec::new() })
}

/// The innermost line of the file that is running.
pub(super) fn current_line(lua: &Lua) -> Option<u32> {
    for level in 0.. {
        // The binding has Lua helpers of its own; only lines of the file count. `None`: past the outermost frame.
        let line = lua.inspect_stack(level, |frame| {
            let ours = frame.source().source.is_some_and(|s| s.strip_prefix('@') == Some(CHUNK));
            frame.current_line().filter(|_| ours)
        })?;
        if let Some(line) = line {
            return u32::try_from(line).ok();
        }
    }
    None
}

/// The names in scope: each is a global and a member of `opt`.
pub(super) struct Scope<'a> {
    pub lua: &'a Lua,
    pub opt: Table,
}

impl Scope<'_> {
    pub(super) fn set(&self, name: &str, value: impl mlua::IntoLua) -> mlua::Result<()> {
        let value = value.into_lua(self.lua)?;
        self.opt.raw_set(name, &value)?;
        self.lua.globals().raw_set(name, value)
    }
}
