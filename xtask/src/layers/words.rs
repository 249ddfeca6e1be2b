//! Words of the language that only some folders may use: what prints, what reads the command line, what touches raw memory.

use super::source::Token;
use super::table::{Confined, QUIET};
use super::{Failure, modules};
use std::path::Path;

/// Uses of words where the table does not allow them.
pub fn faults(root: &Path, table: &[Confined]) -> Result<Vec<String>, Failure> {
    let mut faults = vec![];
    for folder in QUIET {
        for (module, source) in modules(&root.join(folder).join("src"))? {
            let place = format!("{folder}/src/{}", module.join("/"));
            faults.extend(table.iter().flat_map(|rule| faults_of(rule, &place, &source.tokens)));
        }
    }
    Ok(faults)
}

fn faults_of(rule: &Confined, place: &str, tokens: &[Token]) -> Vec<String> {
    if rule.to.iter().any(|folder| place == *folder || place.starts_with(&format!("{folder}/"))) {
        return vec![];
    }
    let stands = |phrase: &str, at: usize| {
        phrase.split(' ').enumerate().all(|(k, word)| tokens.get(at + k).is_some_and(|t| t.text == word))
    };
    let found = |at: usize| rule.words.iter().find(|phrase| stands(phrase, at)).map(|phrase| (at, phrase));
    let found = (0..tokens.len()).filter_map(found);
    found
        .map(|(at, phrase)| {
            format!("{place}, line {}: `{}`: {}", tokens[at].line + 1, phrase.replace(' ', ""), rule.reason)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    #[test]
    fn words_are_confined() {
        let rule = Confined { words: &["print !", "unsafe"], to: &["house/src/cellar"], reason: "not here" };
        let text = "fn print() {}\n// print!(1)\nfn f() { print!(\"print!\"); }\n#[cfg(test)]\nmod t { fn g() { unsafe {} } }";
        let tokens = Source::read(text).tokens;
        assert_eq!(
            faults_of(&rule, "house/src/attic/roof", &tokens),
            ["house/src/attic/roof, line 3: `print!`: not here"]
        );
        assert!(faults_of(&rule, "house/src/cellar/wine", &tokens).is_empty());
        assert_eq!(faults_of(&rule, "house/src/cellars", &tokens).len(), 1);
    }
}
