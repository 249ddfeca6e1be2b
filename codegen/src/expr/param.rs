//! Run-time scalars of a pipeline, as data.

use super::Name;
use crate::types::Type;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A scalar that is known when a pipeline runs: a parameter that it declares, or a part of what a bound buffer looks like.
///
/// Two of them are the same scalar exactly if they are equal; their text is for people. A pipeline declares no parameter whose name reads
/// as a part of a buffer, so that [`Param::parse`] gives back what was printed.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Param {
    /// Declared by the pipeline, given by whoever runs it.
    Named(Name),
    /// Of the buffer bound to this input, or to the output of this Func.
    Of(Name, Part),
}

/// A number that describes one dimension of a buffer, or where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Number of coordinates, i32.
    Extent(usize),
    /// First coordinate of a strided buffer, i32.
    Min(usize),
    /// Distance of neighbours in a planar or record buffer, dimension 1 or later, in elements, i64: a multiple of the pitch
    /// that flattening counts on.
    Stride(usize),
    /// Distance of neighbours in a strided buffer in elements, i64: any number.
    Step(usize),
    /// Of an output, i64: 0 if the first elements of all its planes lie at multiples of 64 bytes. The code itself knows it, of its pointers.
    Phase,
}

impl Part {
    /// Its type.
    pub const fn ty(self) -> Type {
        match self {
            Part::Extent(_) | Part::Min(_) => Type::I32,
            Part::Stride(_) | Part::Step(_) | Part::Phase => Type::I64,
        }
    }

    /// The dimension that it describes: the first if it is one of all.
    pub const fn dimension(self) -> usize {
        match self {
            Part::Extent(d) | Part::Min(d) | Part::Stride(d) | Part::Step(d) => d,
            Part::Phase => 0,
        }
    }

    /// Returns what it is called in messages.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Part::Extent(_) => "extent",
            Part::Min(_) => "minimum",
            Part::Stride(_) | Part::Step(_) => "stride",
            Part::Phase => "phase",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Part::Extent(_) => "extent",
            Part::Min(_) => "min",
            Part::Stride(_) => "stride",
            Part::Step(_) => "step",
            Part::Phase => "phase",
        }
    }
}

impl Param {
    /// The scalar with this text: for parsers, and for names that must not be taken for parts of buffers.
    pub fn parse(text: &str) -> Param {
        Param::part_of(text).unwrap_or_else(|| Param::Named(text.into()))
    }

    fn part_of(text: &str) -> Option<Param> {
        let (rest, d) = text.rsplit_once('.')?;
        let (of, word) = rest.rsplit_once('.')?;
        let d = d.parse().ok()?;
        let mut parts =
            [Part::Extent(d), Part::Min(d), Part::Stride(d), Part::Step(d), Part::Phase].into_iter();
        let part = parts.find(|part| part.word() == word && part.dimension() == d)?;
        Some(Param::Of(of.into(), part))
    }

    /// The name, if the pipeline declares it.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Param::Named(name) => Some(name),
            Param::Of(..) => None,
        }
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Named(name) => f.write_str(name),
            Param::Of(of, part) => write!(f, "{of}.{}.{}", part.word(), part.dimension()),
        }
    }
}

impl From<&str> for Param {
    fn from(name: &str) -> Param {
        Param::Named(name.into())
    }
}
impl From<String> for Param {
    fn from(name: String) -> Param {
        Param::Named(name.into())
    }
}
impl From<Name> for Param {
    fn from(name: Name) -> Param {
        Param::Named(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_back() {
        let parts = [Part::Extent(0), Part::Min(1), Part::Stride(12), Part::Step(2), Part::Phase];
        let all = parts.map(|part| Param::Of("f.g".into(), part)).into_iter();
        for p in all.chain(["gain", "w0.1", "f.extent", "f.extent.x", ".", "f.width.0"].map(Param::from)) {
            assert_eq!(Param::parse(&p.to_string()), p);
        }
    }
}
