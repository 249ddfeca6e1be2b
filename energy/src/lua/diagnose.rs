//! From Lua's errors to ours.

use crate::budgets::{Budget, Budgets};
use crate::error::{EnergyError, Fault};
use crate::lua::state::{CHUNK, Located};
use crate::model::SourceFile;
use std::sync::Arc;

/// The error to show for what ended the file.
pub(super) fn diagnose(error: &mlua::Error, source: &Arc<SourceFile>, budgets: &Budgets) -> EnergyError {
    if let Some(l) = error.downcast_ref::<Located>() {
        return EnergyError::in_file(l.fault.clone(), l.line, l.notes.clone(), source);
    }
    let (fault, line) = match error {
        mlua::Error::CallbackError { cause, .. } => return diagnose(cause, source, budgets),
        mlua::Error::SyntaxError { message, .. } => {
            let (line, text) = split_position(message);
            (Fault::Syntax(format!("syntax error: {text}")), line)
        }
        mlua::Error::MemoryError(_) => {
            let fault = Fault::Budget { budget: Budget::LuaMemory, most: budgets.lua_memory, routine: None };
            (fault, None)
        }
        mlua::Error::RuntimeError(message) => {
            let (line, text) = split_position(message);
            (runtime_fault(text), line)
        }
        other => (Fault::Lua(other.to_string()), None),
    };
    EnergyError::in_file(fault, line, Vec::new(), source)
}

fn runtime_fault(text: &str) -> Fault {
    if text.contains("attempt to compare") && text.contains("userdata") {
        return Fault::LuaComparison;
    }
    if text.contains("stack overflow") {
        return Fault::TooDeep;
    }
    Fault::Lua(text.to_owned())
}

/// Line and text of `[string "energy"]:12: text` or `energy:12: text`, without the traceback.
fn split_position(message: &str) -> (Option<u32>, &str) {
    let text = message.split("\nstack traceback:").next().unwrap_or(message);
    let parsed = text.strip_prefix(CHUNK).and_then(|t| t.strip_prefix(':')).and_then(|t| t.split_once(": "));
    match parsed {
        Some((line, rest)) if line.parse::<u32>().is_ok() => (line.parse().ok(), rest),
        _ => (None, text),
    }
}
