//! Tokens of schedule text.

use crate::expr::Name;
use crate::types::ScalarType;

/// A token. Names may hold letters, digits, `_`, `$` and, inside, dots.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Name(Name),
    /// An integer without its sign.
    Int(i128),
    /// A number with a point, an exponent or an `f` at its end, which makes it an f32.
    Float(f64, ScalarType),
    Symbol(&'static str),
    /// A character that starts no token.
    Unknown(char),
    End,
}

/// Symbols, longest first.
const SYMBOLS: [&str; 28] = [
    "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "(", ")", ",", ":", "<", ">", "+", "-", "*", "/", "%",
    "|", "^", "&", "!", ".", ";", "{", "}", "=",
];

/// A text with one token of look-ahead.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Start and end of the look-ahead, and end of the token before it.
    start: usize,
    end: usize,
    previous_end: usize,
    token: Token,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        let mut lexer = Lexer { text, start: 0, end: 0, previous_end: 0, token: Token::End };
        lexer.advance();
        lexer
    }

    /// The next token.
    pub(super) fn peek(&self) -> &Token {
        &self.token
    }

    /// Byte offset of the next token.
    pub(super) fn position(&self) -> usize {
        self.start
    }

    /// The text from `start` to the last token taken (at least the one at `start`).
    pub(super) fn text_from(&self, start: usize) -> &'a str {
        &self.text[start..self.previous_end.max(if start == self.start { self.end } else { start })]
    }

    /// Line number of an offset, from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// Takes the next token.
    pub(super) fn advance(&mut self) -> Token {
        self.previous_end = self.end;
        let rest = &self.text[self.end..];
        let skipped = blank(rest);
        self.start = self.end + skipped;
        let (token, len) = token(&rest[skipped..]);
        self.end = self.start + len;
        std::mem::replace(&mut self.token, token)
    }

    /// Takes the next token if it is `symbol`.
    pub(super) fn accept(&mut self, symbol: &str) -> bool {
        let is = matches!(&self.token, Token::Symbol(s) if *s == symbol);
        if is {
            self.advance();
        }
        is
    }

    /// Does `%k =` come next?
    pub(super) fn starts_definition(&self) -> bool {
        let mut ahead = self.clone();
        ahead.accept("%") && ahead.unsigned().is_ok() && ahead.accept("=")
    }

    /// Takes `symbol` or says what is there instead.
    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.accept(symbol) {
            Ok(())
        } else {
            Err(format!("expected `{symbol}`, not {}", self.describe()))
        }
    }

    /// Takes a name.
    pub(super) fn name(&mut self) -> Result<Name, String> {
        match &self.token {
            Token::Name(n) => {
                let n = n.clone();
                self.advance();
                Ok(n)
            }
            _ => Err(format!("expected a name, not {}", self.describe())),
        }
    }

    /// Takes an integer from 0 to 2^32 - 1.
    pub(super) fn unsigned(&mut self) -> Result<u32, String> {
        match self.token {
            Token::Int(v) if u32::try_from(v).is_ok() => {
                self.advance();
                Ok(v as u32)
            }
            _ => Err(format!("expected a number, not {}", self.describe())),
        }
    }

    /// Reads an i32.
    pub(super) fn signed(&mut self) -> Result<i32, String> {
        let negative = self.accept("-");
        let Token::Int(v) = self.token else {
            return Err(format!("expected a number, not {}", self.describe()));
        };
        let v = i32::try_from(if negative { -v } else { v }).map_err(|_| "not an i32".to_string())?;
        self.advance();
        Ok(v)
    }

    /// The next token for a message.
    pub(super) fn describe(&self) -> String {
        match self.token {
            Token::End => "the end".into(),
            _ => format!("`{}`", &self.text[self.start..self.end]),
        }
    }
}

/// Length of the white space and comments that a text starts with.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        match rest.strip_prefix("//") {
            Some(comment) => rest = &comment[comment.find('\n').unwrap_or(comment.len())..],
            None => return text.len() - rest.len(),
        }
    }
}

/// The token that a text starts with, and its length.
fn token(text: &str) -> (Token, usize) {
    let Some(first) = text.chars().next() else { return (Token::End, 0) };
    if first.is_ascii_digit() {
        return number(text);
    }
    if is_name_char(first) {
        let len = text.find(|c: char| !is_name_char(c) && c != '.').unwrap_or(text.len());
        return (Token::Name(text[..len].into()), len);
    }
    match SYMBOLS.iter().find(|s| text.starts_with(**s)) {
        Some(symbol) => (Token::Symbol(symbol), symbol.len()),
        None => (Token::Unknown(first), first.len_utf8()),
    }
}

/// The number that a text starts with, as constants print: `3`, `0.5`, `1e-7`, `3f`, `0.5f`.
fn number(text: &str) -> (Token, usize) {
    let digits = |at: usize| text[at..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| at + n);
    let starts = |at: usize, symbols: &[char]| text[at..].starts_with(symbols);
    let whole = digits(0);
    let mut end = whole;
    if starts(end, &['.']) && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if starts(end, &['e']) {
        let exponent = end + 1 + starts(end + 1, &['+', '-']) as usize;
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    let single = starts(end, &['f']) && !text[end + 1..].starts_with(is_name_char);
    let token = match (single, end > whole) {
        (true, _) => text[..end].parse().ok().map(|v: f32| Token::Float(v as f64, ScalarType::F32)),
        (_, true) => text[..end].parse().ok().map(|v| Token::Float(v, ScalarType::F64)),
        _ => text[..end].parse().ok().map(Token::Int),
    };
    (token.unwrap_or(Token::Unknown('0')), end + single as usize)
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}
