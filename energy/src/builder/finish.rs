//! The last checks, on the energy as a whole.

use crate::builder::Builder;
use crate::dag::Source;
use crate::error::Fault;
use crate::model::{Energy, SourceFile, UnknownId};
use std::sync::Arc;

/// A fault of the finished energy, with the line to show.
#[derive(Debug)]
pub(crate) struct Failure {
    pub fault: Fault,
    pub line: Option<u32>,
}

impl Builder {
    /// The finished energy.
    pub(crate) fn finish(mut self, source: Option<Arc<SourceFile>>) -> Result<Energy, Failure> {
        if self.energy.unknowns.is_empty() {
            return Err(Failure { fault: Fault::NoUnknowns, line: None });
        }
        for (i, unknown) in self.energy.unknowns.iter().enumerate() {
            if !self.is_read(Source::Unknown(UnknownId(i as u32))) {
                let fault = Fault::UnreadUnknown(unknown.name.clone());
                return Err(Failure { fault, line: unknown.line });
            }
        }
        self.energy.source = source;
        Ok(self.energy)
    }
}
