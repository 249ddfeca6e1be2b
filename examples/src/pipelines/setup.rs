//! Setting up an application: values of its parameters, the depth of its pictures.

use std::collections::BTreeMap;
use sumsq::codegen::ScalarType;

/// A parameter of an application. One that the pipeline declares, too, is bound when it runs; the others are constants of the code.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, with its unit.
    pub about: &'static str,
    /// Its values.
    pub kind: Kind,
}

/// Values that a parameter may have.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A whole number between two ends.
    Whole {
        /// Taken if none is given.
        default: i64,
        /// The least.
        least: i64,
        /// The greatest.
        most: i64,
    },
    /// A finite number between two ends.
    Real {
        /// Taken if none is given.
        default: f64,
        /// The least.
        least: f64,
        /// The greatest.
        most: f64,
    },
    /// One of some words, the first if none is given.
    Word(&'static [&'static str]),
}

impl Parameter {
    /// A whole number in `[least, most]`.
    pub const fn whole(name: &'static str, about: &'static str, default: i64, least: i64, most: i64) -> Self {
        Parameter { name, about, kind: Kind::Whole { default, least, most } }
    }

    /// A number in `[least, most]`.
    pub const fn real(name: &'static str, about: &'static str, default: f64, least: f64, most: f64) -> Self {
        Parameter { name, about, kind: Kind::Real { default, least, most } }
    }

    /// One of some words.
    pub const fn word(name: &'static str, about: &'static str, words: &'static [&'static str]) -> Self {
        Parameter { name, about, kind: Kind::Word(words) }
    }

    /// The value if none is given, as it would be written.
    pub fn default(&self) -> String {
        match self.kind {
            Kind::Whole { default, .. } => default.to_string(),
            Kind::Real { default, .. } => default.to_string(),
            Kind::Word(words) => words.first().copied().unwrap_or_default().to_string(),
        }
    }

    fn read(&self, text: &str) -> Result<Value, SetupError> {
        let refused =
            |expected: String| SetupError::Value { parameter: self.name, came: text.to_string(), expected };
        match self.kind {
            Kind::Whole { least, most, .. } => match text.parse::<i64>() {
                Ok(v) if (least..=most).contains(&v) => Ok(Value::Number(v as f64)),
                _ => Err(refused(format!("a whole number from {least} to {most}"))),
            },
            Kind::Real { least, most, .. } => match text.parse::<f64>() {
                Ok(v) if (least..=most).contains(&v) => Ok(Value::Number(v)),
                _ => Err(refused(format!("a number from {least} to {most}"))),
            },
            Kind::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Word(word)),
                None => Err(refused(words.join(" or "))),
            },
        }
    }
}

/// The type of a layer's arrays.
pub(crate) const FLOATS: Parameter = Parameter::word("type", "of all arrays", &["f32", "f64"]);

/// The parameter by which an application's schedule by hand is `packed`: unless its value is the first word.
pub(super) const LAYOUT: &str = "layout";

#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Number(f64),
    Word(&'static str),
}

/// Reasons why an application cannot be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetupError {
    /// A parameter that the application does not have.
    #[error("{application} has no parameter {name}; it has {known}")]
    Unknown {
        /// The application.
        application: &'static str,
        /// The name that came.
        name: String,
        /// The names of its parameters.
        known: String,
    },
    /// A value that a parameter does not take.
    #[error("parameter {parameter}: expected {expected}, came {came}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// As it came.
        came: String,
        /// In words.
        expected: String,
    },
}

/// Values that a pipeline is built for.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    values: BTreeMap<&'static str, Value>,
    /// Bits of the samples of its pictures: 8 or 16 as files have them, or fewer where values are known to be smaller.
    pub bits: u32,
}

impl Setup {
    /// The defaults of these parameters, but for those that are given as text, for pictures of `bits` bits.
    pub(super) fn new(
        application: &'static str,
        parameters: &'static [Parameter],
        given: &[(String, String)],
        bits: u32,
    ) -> Result<Setup, SetupError> {
        let mut values = BTreeMap::new();
        for parameter in parameters {
            values.insert(parameter.name, parameter.read(&parameter.default())?);
        }
        for (name, text) in given {
            let parameter = parameters.iter().find(|p| p.name == name).ok_or_else(|| {
                let names: Vec<&str> = parameters.iter().map(|p| p.name).collect();
                let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
                SetupError::Unknown { application, name: name.clone(), known }
            })?;
            values.insert(parameter.name, parameter.read(text)?);
        }
        Ok(Setup { values, bits })
    }

    /// The value of a parameter that is a number; 0 if there is none.
    pub fn real(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(Value::Number(v)) => *v,
            _ => 0.0,
        }
    }

    /// The value of a parameter that is a whole number.
    pub fn whole(&self, name: &str) -> i32 {
        self.real(name) as i32
    }

    /// The value of a parameter that is a word; empty if there is none.
    pub fn word(&self, name: &str) -> &'static str {
        match self.values.get(name) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// The type that [`FLOATS`] says.
    pub(crate) fn floats(&self) -> ScalarType {
        if self.word(FLOATS.name) == "f64" { ScalarType::F64 } else { ScalarType::F32 }
    }

    /// The unsigned type that samples of the pictures have in files: u8 or u16.
    pub fn sample(&self) -> ScalarType {
        if self.bits <= 8 { ScalarType::U8 } else { ScalarType::U16 }
    }

    /// The greatest sample, which is white.
    pub fn white(&self) -> i32 {
        (1 << self.bits.min(16)) - 1
    }
}
