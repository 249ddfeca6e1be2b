//! Energy files: the Opt language in Lua 5.1.
//!
//! A file is run once, in a sandbox, with the language's names in scope; what it calls drives the same
//! builder as the Rust front end. Every error carries the line that was running.

mod access;
mod arguments;
mod declarations;
mod diagnose;
mod extensions;
mod functions;
mod handles;
mod sandbox;
mod state;
mod strings;
mod tokens;
mod values;
mod words;

use crate::budgets::{Budget, Budgets};
use crate::builder::Builder;
use crate::error::{EnergyError, Fault};
use crate::model::{Energy, SourceFile};
use std::cell::RefCell;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

impl Energy {
    /// Loads an energy file.
    ///
    /// # Errors
    /// If the file cannot be read, or whatever is wrong in it, with the line.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Energy, EnergyError> {
        Energy::from_file_within(path, Budgets::default(), |_| ())
    }

    /// Loads an energy file that may take so much; `print` is given every line that the file prints, which otherwise nobody sees.
    ///
    /// # Errors
    /// As for [`Energy::from_file`].
    pub fn from_file_within(
        path: impl AsRef<Path>,
        budgets: Budgets,
        print: impl Fn(&str) + 'static,
    ) -> Result<Energy, EnergyError> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        // One byte more than there may be, which is enough to refuse it.
        let most = budgets.lua_memory.saturating_add(1);
        let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|e| {
            let fault = Fault::Unreadable { path: path.display().to_string(), reason: e.to_string() };
            EnergyError::in_rust(fault, None)
        })?;
        // Comments may be in any encoding; names and code are ASCII.
        let text = String::from_utf8_lossy(&bytes);
        Energy::from_text_within(&path.display().to_string(), &text, budgets, print)
    }

    /// Builds an energy from the text of an energy file; `name` stands for the file in messages.
    ///
    /// # Errors
    /// Whatever is wrong in it, with the line.
    pub fn from_text(name: &str, text: &str) -> Result<Energy, EnergyError> {
        Energy::from_text_within(name, text, Budgets::default(), |_| ())
    }

    /// The same of a text that may take so much; `print` is given every line that it prints.
    ///
    /// # Errors
    /// As for [`Energy::from_text`].
    pub fn from_text_within(
        name: &str,
        text: &str,
        budgets: Budgets,
        print: impl Fn(&str) + 'static,
    ) -> Result<Energy, EnergyError> {
        if text.len() as u64 > budgets.lua_memory {
            let fault = Fault::Budget { budget: Budget::LuaMemory, most: budgets.lua_memory, routine: None };
            return Err(EnergyError::in_rust(fault, None));
        }
        let source = Arc::new(SourceFile { name: name.to_owned(), text: text.to_owned() });
        let builder = Rc::new(RefCell::new(Builder::within(budgets)));
        sandbox::run(&source, &builder, &budgets, print)
            .map_err(|e| diagnose::diagnose(&e, &source, &budgets))?;
        let builder = builder.take();
        builder
            .finish(Some(source.clone()))
            .map_err(|f| EnergyError::in_file(f.fault, f.line, Vec::new(), &source))
    }
}
