//! Doc comments begin with a noun or a verb: `cargo xtask lint` refuses those that begin with a question word.

use crate::process::{Failure, root, task};
use std::fs;

/// Words that leave open what is documented.
const QUESTIONS: [&str; 8] = ["What", "Whether", "Where", "Which", "Who", "When", "Why", "How"];

/// Checks every Rust file that git knows.
pub fn prose() -> Result<(), Failure> {
    let files = task(&["git", "ls-files", "*.rs"]).output();
    let files = files.ok_or_else(|| Failure("git does not list the files of the tree".into()))?;
    let mut found = vec![];
    for file in files.lines() {
        // A file that was removed and not yet committed is still listed.
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        found.extend(questions(&text).into_iter().map(|(at, line)| format!("{file}:{at}: {line}")));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("doc comments that begin with no noun and no verb:\n{}", found.join("\n"))))
}

/// First lines of doc comments that begin with a question word, with their numbers.
fn questions(text: &str) -> Vec<(usize, &str)> {
    let doc = |line: &'_ str| -> Option<String> {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!")).map(|l| l.trim_start().to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: usize| at == 0 || doc(lines[at - 1]).is_none();
    let asks =
        |line: &str| doc(line).is_some_and(|l| QUESTIONS.iter().any(|q| l.split(' ').next() == Some(q)));
    (0..lines.len())
        .filter(|&at| begins(at) && asks(lines[at]))
        .map(|at| (at + 1, lines[at].trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_alone_count() {
        let text = "//! A module.\n//! Where it is used.\n\n/// What it is.\n/// Whether so.\nfn f() {}\n// Which is free.\n    /// Whoever.\n";
        assert_eq!(questions(text), [(4, "/// What it is.")]);
    }
}
