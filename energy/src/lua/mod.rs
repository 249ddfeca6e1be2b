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
mod values;

use crate::builder::Builder;
use crate::error::{EnergyError, Fault};
use crate::model::{Energy, SourceFile};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

impl Energy {
    /// Loads an energy file.
    ///
    /// # Errors
    /// If the file cannot be read, or whatever is wrong in it, with the line.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Energy, EnergyError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| {
            let fault = Fault::Unreadable { path: path.display().to_string(), reason: e.to_string() };
            EnergyError::in_rust(fault, None)
        })?;
        // Comments may be in any encoding; names and code are ASCII.
        Energy::from_text(&path.display().to_string(), &String::from_utf8_lossy(&bytes))
    }

    /// Builds an energy from the text of an energy file; `name` stands for the file in messages.
    ///
    /// # Errors
    /// Whatever is wrong in it, with the line.
    pub fn from_text(name: &str, text: &str) -> Result<Energy, EnergyError> {
        let source = Arc::new(SourceFile { name: name.to_owned(), text: text.to_owned() });
        let builder = Rc::new(RefCell::new(Builder::default()));
        sandbox::run(text, &builder).map_err(|e| diagnose::diagnose(&e, &source))?;
        let builder = builder.take();
        builder
            .finish(Some(source.clone()))
            .map_err(|f| EnergyError::in_file(f.fault, f.line, Vec::new(), &source))
    }
}
