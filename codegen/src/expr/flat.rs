//! Flat buffers of lowered code, as data.

use super::{Expr, ExprKind, Name};
use crate::types::Type;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A one-dimensional buffer of lowered code: a plane, or the records, of an input, of an output or of intermediate storage.
///
/// Equal ones are the same memory; different ones are different memory, unless they are declared to be aliases. The text is for people.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Flat {
    /// The Func or input that it belongs to.
    pub of: Name,
    /// True for the output buffer of a Func that has intermediate storage besides.
    pub is_output: bool,
    /// The part of it.
    pub content: Content,
}

/// Parts of a Func or input that a flat buffer holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Content {
    /// This tuple element.
    Plane(usize),
    /// All tuple elements, as records.
    Records,
}

impl Flat {
    /// Tuple element `k` of an input, of intermediate storage, or of an output without any.
    pub fn plane(of: impl Into<Name>, k: usize) -> Flat {
        Flat { of: of.into(), is_output: false, content: Content::Plane(k) }
    }

    /// The records of an input, or of an output without intermediate storage.
    pub fn records(of: impl Into<Name>) -> Flat {
        Flat { of: of.into(), is_output: false, content: Content::Records }
    }
}

impl Expr {
    /// Elements `index` of a flat buffer, in all lanes.
    pub(crate) fn load(buffer: impl Into<Flat>, index: Expr, ty: Type) -> Expr {
        Expr::new(ExprKind::Load { buffer: buffer.into(), index, predicate: None }, ty)
    }
}

/// The buffer with this text: for tests and other readers of printed code.
impl From<&str> for Flat {
    fn from(text: &str) -> Flat {
        let plane = text.rsplit_once('.').and_then(|(rest, k)| Some((rest, Content::Plane(k.parse().ok()?))));
        let (rest, content) = plane.unwrap_or((text, Content::Records));
        let of = rest.strip_suffix(".out");
        Flat { of: of.unwrap_or(rest).into(), is_output: of.is_some(), content }
    }
}

impl fmt::Display for Flat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let out = if self.is_output { ".out" } else { "" };
        match self.content {
            Content::Plane(k) => write!(f, "{}{out}.{k}", self.of),
            Content::Records => write!(f, "{}{out}", self.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_back() {
        for text in ["f.0", "f.out.12", "f", "f.out", "a.b.1", "a.b"] {
            assert_eq!(Flat::from(text).to_string(), text);
        }
        assert_eq!(Flat::from("f.1"), Flat::plane("f", 1));
        assert_eq!(Flat::from("f"), Flat::records("f"));
    }
}
