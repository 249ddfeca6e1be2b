//! Choices that a user makes: text, read line by line, or in short.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Every word in front of a name, with what the name is of.
const WORDS: [(&str, &str); 17] = [
    ("r", "residual group"),
    ("J", "residual group"),
    ("Jp", "residual group"),
    ("blocks", "residual group"),
    ("computed", "computed array"),
    ("hoisted", "hoisted part"),
    ("direction", "index space of unknowns"),
    ("products", "index space of stored products"),
    ("parts", "index space of graph vertices"),
    ("q", "index space of unknowns"),
    ("diagonal", "index space of unknowns"),
    ("far", "index space with excluded elements"),
    ("cost", "computed array"),
    ("nests", "domain of many operations"),
    ("layout", "list of records"),
    ("bytes", "array of bytes"),
    ("entries", "vertex whose gather reads what is stored"),
];

/// The value of a choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Value {
    /// Computed, and simplified, where it is read.
    Inline,
    /// A ring of rows inside of the nest that reads it.
    Ring,
    /// A tile, with what is read around it, inside of each block of the nest that reads it.
    Tile,
    /// A Func of its own, stored.
    Root,
    /// A plane per channel.
    Planar,
    /// All channels of an element together.
    Record,
    /// One byte per element.
    Narrow,
    /// The type of what reads it.
    Wide,
    /// Copied in the order in which it is read.
    Beside,
    /// Read through a list of places.
    Indirect,
    /// Added up by what it is made of, in indivisible steps, in any order.
    Atomic,
    /// Computed.
    Kept,
    /// Left out.
    Skipped,
    /// Cut into nests of few operations.
    Split,
    /// In one nest.
    Whole,
}

/// Every value with its word.
const VALUES: [(Value, &str); 15] = [
    (Value::Inline, "inline"),
    (Value::Ring, "ring"),
    (Value::Tile, "tile"),
    (Value::Root, "root"),
    (Value::Planar, "planar"),
    (Value::Record, "record"),
    (Value::Narrow, "narrow"),
    (Value::Wide, "wide"),
    (Value::Beside, "beside"),
    (Value::Indirect, "indirect"),
    (Value::Atomic, "atomic"),
    (Value::Kept, "kept"),
    (Value::Skipped, "skipped"),
    (Value::Split, "split"),
    (Value::Whole, "whole"),
];

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = VALUES.iter().find(|(v, _)| v == self).map_or("", |(_, word)| word);
        f.write_str(word)
    }
}

/// Choices that are taken in place of those that would be made. Read from lines of the text of [`Choices`](crate::Choices): `SUBJECT: VALUE`, with
/// comments from `#` on. `*` stands for all names: `J *: root` is for every residual group that has no line of its own. Of several lines
/// for one subject the last one counts.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Overrides(Vec<Line>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    /// Kind and name: `J reg`.
    subject: String,
    value: Value,
}

/// A choice that cannot be.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// A line that is not `SUBJECT: VALUE`.
    #[error("choices, line {line}: `{text}` is not SUBJECT: VALUE, as in `J reg: root`")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A value that no choice has.
    #[error("choices, line {line}: `{value}` is none of {all}")]
    Value {
        /// The line, from 1.
        line: usize,
        /// The text in place of a value.
        value: String,
        /// All words that are values.
        all: String,
    },
    /// An entry of a short list that is no such.
    #[error("`{0}` is not in_place, or r, j, jp, blocks joined by +")]
    Short(String),
    /// Both `jp` and `blocks` in a short list.
    #[error("jp holds the elements' own share already: store jp or blocks")]
    ProductAndBlocks,
    /// A name that nothing of its kind has.
    #[error("there is no {kind} `{name}`: {has}")]
    Name {
        /// The kind: residual group, computed array, ...
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        has: String,
    },
    /// A word that begins no choice.
    #[error("there is no choice `{word}`, only {all}")]
    Word {
        /// The word.
        word: String,
        /// All of them.
        all: String,
    },
    /// A value that this choice cannot have, given those before it.
    #[error("`{subject}: {value}` is not possible here, only {possible}")]
    Impossible {
        /// The subject.
        subject: String,
        /// The value.
        value: Value,
        /// The values that it can have.
        possible: String,
    },
}

impl Overrides {
    /// Reads a short list: `jp`, or `fit=in_place,reg=j+jp,B=recomputed`. An entry without a name is for all residual groups that
    /// the list does not name; r, J, J p and blocks are stored where it says `r`, `j`, `jp`, `blocks`. `stored` and `recomputed` are for computed
    /// arrays.
    ///
    /// # Errors
    /// An entry that is no such.
    pub fn short(list: &str) -> Result<Overrides, ChoiceError> {
        let mut all = Overrides::default();
        for entry in list.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            match entry.split_once('=') {
                None => all.group("*", entry)?,
                Some((name, "stored")) => all.push("computed", name, Value::Root),
                Some((name, "recomputed")) => all.push("computed", name, Value::Inline),
                Some((name, stores)) => all.group(name, stores)?,
            }
        }
        Ok(all)
    }

    /// These, and after them those of `later`.
    pub fn then(mut self, later: Overrides) -> Overrides {
        self.0.extend(later.0);
        self
    }

    /// These, and after them the value of one choice.
    pub fn with(mut self, subject: String, value: Value) -> Overrides {
        self.0.push(Line { subject, value });
        self
    }

    fn push(&mut self, word: &str, name: &str, value: Value) {
        self.0.push(Line { subject: format!("{word} {name}"), value });
    }

    fn group(&mut self, name: &str, stores: &str) -> Result<(), ChoiceError> {
        let parts: Vec<&str> = if stores == "in_place" { vec![] } else { stores.split('+').collect() };
        if parts.iter().any(|part| !["r", "j", "jp", "blocks"].contains(part)) {
            return Err(ChoiceError::Short(stores.into()));
        }
        if parts.contains(&"jp") && parts.contains(&"blocks") {
            return Err(ChoiceError::ProductAndBlocks);
        }
        for (word, part) in [("r", "r"), ("J", "j"), ("Jp", "jp"), ("blocks", "blocks")] {
            self.push(word, name, if parts.contains(&part) { Value::Root } else { Value::Inline });
        }
        Ok(())
    }

    /// The value that is wanted of a subject, and whether that has a line of its own.
    pub(crate) fn of(&self, word: &str, name: &str) -> Option<(Value, bool)> {
        let last = |name: &str| {
            let subject = format!("{word} {name}");
            self.0.iter().rfind(|l| l.subject == subject).map(|l| l.value)
        };
        last(name).map(|v| (v, true)).or_else(|| last("*").map(|v| (v, false)))
    }

    /// Fails at a line whose subject is none of those of `choices`, words and names.
    pub(crate) fn check(&self, choices: &[(&str, &str)]) -> Result<(), ChoiceError> {
        for line in &self.0 {
            let (word, name) = line.subject.split_once(' ').unwrap_or((&line.subject, ""));
            let Some((_, kind)) = WORDS.iter().find(|(w, _)| *w == word) else {
                let all: Vec<&str> = WORDS.iter().map(|(w, _)| *w).collect();
                return Err(ChoiceError::Word { word: word.into(), all: all.join(", ") });
            };
            let own = choices.iter().filter(|(w, _)| *w == word);
            let names: Vec<&str> = own.map(|(_, name)| *name).collect();
            if name != "*" && !names.contains(&name) {
                let has = if names.is_empty() { "the energy has none".into() } else { names.join(", ") };
                return Err(ChoiceError::Name { kind, name: name.into(), has });
            }
        }
        Ok(())
    }
}

impl FromStr for Overrides {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Overrides, ChoiceError> {
        let mut all = Overrides::default();
        for (number, text) in (1..).zip(text.lines()) {
            let bare = if text.trim_start().starts_with('#') { "" } else { text };
            let bare = bare.split(" #").next().unwrap_or_default().trim();
            if bare.is_empty() {
                continue;
            }
            let syntax = || ChoiceError::Syntax { line: number, text: bare.into() };
            let (subject, value) = bare.rsplit_once(':').ok_or_else(syntax)?;
            let (word, name) = subject.trim().split_once(' ').ok_or_else(syntax)?;
            let value = value.trim();
            let known = VALUES.iter().find(|(_, word)| *word == value).map(|(v, _)| *v);
            let known = known.ok_or_else(|| {
                let words: Vec<&str> = VALUES.iter().map(|(_, word)| *word).collect();
                ChoiceError::Value { line: number, value: value.into(), all: words.join(", ") }
            })?;
            all.push(word, name.trim(), known);
        }
        Ok(all)
    }
}

impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|l| writeln!(f, "{}: {}", l.subject, l.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "J reg: root\nhoisted {W,H}.0: inline\nlayout x {N}: record\n";
        let read: Overrides =
            "# mine\nJ reg:root  # or inline\n\n hoisted  {W,H}.0: inline\nlayout x {N}: record"
                .parse()
                .unwrap();
        assert_eq!(read.to_string(), text);
        assert_eq!(text.parse::<Overrides>().unwrap(), read);
    }

    #[test]
    fn short_lists_are_lines() {
        let lines = |list| Overrides::short(list).unwrap().to_string();
        assert_eq!(lines("fit=j"), "r fit: inline\nJ fit: root\nJp fit: inline\nblocks fit: inline\n");
        assert_eq!(
            lines("jp, B=recomputed"),
            "r *: inline\nJ *: inline\nJp *: root\nblocks *: inline\ncomputed B: inline\n"
        );
        assert_eq!(Overrides::short("jtj"), Err(ChoiceError::Short("jtj".into())));
        assert_eq!(Overrides::short("jp+blocks"), Err(ChoiceError::ProductAndBlocks));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| text.parse::<Overrides>().unwrap_err().to_string();
        assert!(error("\nJ reg = root").contains("line 2: `J reg = root` is not"));
        assert!(
            error("J reg: somewhere").contains("line 1: `somewhere` is none of inline, ring, tile, root")
        );
    }
}
