//! Tokens of PTX text.

use crate::error::{LoadError, Refusal};

/// A piece of text between blanks and comments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A name, a directive or an instruction with its modifiers: `%r1`, `.reg`, `ld.global.b32`, `$L__BB0_1`.
    Word(&'a str),
    /// Digits in any base, without the sign.
    Number(&'a str),
    /// The inside of a pair of quotes.
    Quoted(&'a str),
    /// Anything else, one character each.
    Mark(char),
}

/// Tokens with the lines on which they stand, counted from one.
pub fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>, LoadError> {
    let mut rest = text;
    let mut line = 1;
    let mut found = vec![];
    loop {
        let blank = blank(rest).ok_or_else(|| Refusal::Text("a comment without an end".into()).at(line))?;
        line += newlines(&rest[..blank]);
        rest = &rest[blank..];
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let (token, length) = match first {
            '"' => {
                let end = rest[1..]
                    .find('"')
                    .ok_or_else(|| Refusal::Text("a quote without an end".into()).at(line))?;
                (Token::Quoted(&rest[1..1 + end]), end + 2)
            }
            '0'..='9' => {
                let n = length(rest, |c| c.is_ascii_alphanumeric() || c == '.');
                (Token::Number(&rest[..n]), n)
            }
            'a'..='z' | 'A'..='Z' | '_' | '$' | '%' | '.' => {
                let n = length(rest, |c| c.is_ascii_alphanumeric() || "_$%.".contains(c));
                (Token::Word(&rest[..n]), n)
            }
            mark => (Token::Mark(mark), mark.len_utf8()),
        };
        found.push((token, line));
        rest = &rest[length..];
    }
}

/// Bytes of blanks and comments at the start; `None` where a comment does not end.
fn blank(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/")? + 2;
        } else {
            match length(rest, |c| c.is_ascii_whitespace()) {
                0 => return Some(at),
                n => at += n,
            }
        }
    }
}

fn length(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn newlines(text: &str) -> u32 {
    text.bytes().filter(|b| *b == b'\n').count() as u32
}
