//! The tokens of Lua 5.1.

use std::ops::Range;

/// A token with its place in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A name that is no keyword.
    Name(Range<usize>),
    Number(Range<usize>),
    String(Range<usize>),
    /// A keyword, operator or bracket.
    Symbol(Range<usize>),
}

impl Token {
    pub fn span(&self) -> Range<usize> {
        match self {
            Token::Name(s) | Token::Number(s) | Token::String(s) | Token::Symbol(s) => s.clone(),
        }
    }
}

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];
/// Longest first.
const SYMBOLS: [&str; 26] = [
    "...", "..", "==", "~=", "<=", ">=", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=", "(", ")", "{",
    "}", "[", "]", ";", ":", ",", ".",
];

/// The tokens of a text without its comments; `None` if it is no Lua.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(&first) = bytes.get(at) {
        let rest = &text[at..];
        let token: fn(Range<usize>) -> Token;
        let length = match first {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'-' if rest.starts_with("--") => {
                at += 2 + comment(&rest[2..])?;
                continue;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = rest.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
                token = if KEYWORDS.contains(&&rest[..length]) { Token::Symbol } else { Token::Name };
                length
            }
            b'0'..=b'9' | b'.' if first != b'.' || rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => {
                token = Token::Number;
                number(rest.as_bytes())
            }
            b'"' | b'\'' => {
                token = Token::String;
                quoted(rest.as_bytes())?
            }
            b'[' if long_bracket(rest).is_some() => {
                token = Token::String;
                long(rest)?
            }
            _ => {
                token = Token::Symbol;
                SYMBOLS.iter().find(|s| rest.starts_with(**s))?.len()
            }
        };
        out.push(token(at..at + length));
        at += length;
    }
    Some(out)
}

/// Length of a comment behind its dashes.
fn comment(rest: &str) -> Option<usize> {
    match long_bracket(rest) {
        Some(_) => long(rest),
        None => Some(rest.find('\n').unwrap_or(rest.len())),
    }
}

/// Number of `=` in an opening long bracket.
fn long_bracket(rest: &str) -> Option<usize> {
    let level = rest.strip_prefix('[')?.bytes().take_while(|c| *c == b'=').count();
    (rest.as_bytes().get(1 + level) == Some(&b'[')).then_some(level)
}

/// Length of what is in long brackets, with them.
fn long(rest: &str) -> Option<usize> {
    let level = long_bracket(rest)?;
    let close = format!("]{}]", "=".repeat(level));
    let start = level + 2;
    Some(start + rest[start..].find(&close)? + close.len())
}

/// Length of a string in quotes, which ends in its line.
fn quoted(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            c if c == bytes[0] => return Some(at + 1),
            b'\\' => at += 2,
            b'\n' => return None,
            _ => at += 1,
        }
    }
}

/// Length of a number, as Lua reads it before it asks whether it is one.
fn number(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|c| c.is_ascii_digit() || **c == b'.').count();
    let mut end = digits;
    if bytes.get(end).is_some_and(|c| c.eq_ignore_ascii_case(&b'e')) {
        end += 1;
        end += usize::from(bytes.get(end).is_some_and(|c| matches!(c, b'+' | b'-')));
    }
    end + bytes[end..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count()
}
