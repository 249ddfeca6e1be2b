//! Rust source as tokens: without comments, without the contents of literals, without what only tests see.

/// A piece of source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// A name, a whole literal (as `"`), `::`, or one other character.
    pub text: String,
    /// Line, from 0 on.
    pub line: usize,
}

/// A source file, read.
#[derive(Debug, Default)]
pub struct Source {
    /// Tokens without those of tests.
    pub tokens: Vec<Token>,
    /// Modules that only tests see.
    pub tests: Vec<String>,
}

impl Source {
    /// Reads the text of a file.
    pub fn read(text: &str) -> Source {
        without_tests(tokens(text))
    }

    /// Lines that hold code: no blanks, no comments, no tests.
    pub fn code_lines(&self) -> usize {
        let mut lines: Vec<usize> = self.tokens.iter().map(|t| t.line).collect();
        lines.dedup();
        lines.len()
    }
}

/// Splits text into tokens.
fn tokens(text: &str) -> Vec<Token> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, line: 0, tokens: vec![] };
    while scanner.at < scanner.text.len() {
        scanner.step();
    }
    scanner.tokens
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Moves on by `n` bytes, counting lines; every line of a literal holds code.
    fn skip(&mut self, n: usize, is_literal: bool) {
        for _ in 0..n {
            if self.peek(0) == b'\n' {
                self.line += 1;
                if is_literal {
                    self.push("\"");
                }
            }
            self.at += 1;
        }
    }

    fn push(&mut self, text: &str) {
        self.tokens.push(Token { text: text.to_string(), line: self.line });
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (b'/', b'/') => {
                let n = self.text[self.at..].iter().take_while(|&&c| c != b'\n').count();
                self.skip(n, false);
            }
            (b'/', b'*') => self.block_comment(),
            (b'"', _) => self.string(),
            (b'r', b'"' | b'#') if self.raw_hashes().is_some() => self.raw_string(),
            (b'\'', _) => self.character(),
            (b':', b':') => {
                self.push("::");
                self.at += 2;
            }
            (c, _) if is_word(c) => {
                let n = self.text[self.at..].iter().take_while(|&&c| is_word(c)).count();
                let word = String::from_utf8_lossy(&self.text[self.at..self.at + n]).into_owned();
                self.push(&word);
                self.at += n;
            }
            (c, _) => {
                if !c.is_ascii_whitespace() {
                    self.push(&char::from(c).to_string());
                }
                self.skip(1, false);
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => depth += 1,
                (b'*', b'/') => depth -= 1,
                (0, _) => return,
                _ => {
                    self.skip(1, false);
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.push("\"");
        self.at += 1;
        while !matches!(self.peek(0), b'"' | 0) {
            let n = if self.peek(0) == b'\\' { 2 } else { 1 };
            self.skip(n, true);
        }
        self.at += 1;
    }

    /// Hashes of the raw string that starts here, if one does.
    fn raw_hashes(&self) -> Option<usize> {
        let n = self.text[self.at + 1..].iter().take_while(|&&c| c == b'#').count();
        (self.peek(1 + n) == b'"').then_some(n)
    }

    fn raw_string(&mut self) {
        let end = format!("\"{}", "#".repeat(self.raw_hashes().unwrap_or(0)));
        self.push("\"");
        self.at += 1 + end.len();
        while self.at < self.text.len() && !self.text[self.at..].starts_with(end.as_bytes()) {
            self.skip(1, true);
        }
        self.at += end.len();
    }

    /// A character, or the quote of a lifetime.
    fn character(&mut self) {
        let closing = if self.peek(1) == b'\\' {
            (3..12).find(|&n| self.peek(n) == b'\'')
        } else {
            (2..6).find(|&n| self.peek(n) == b'\'').filter(|&n| n == 2 || self.peek(1) >= 0x80)
        };
        self.push("\"");
        self.at += closing.map_or(1, |n| n + 1);
    }
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80
}

/// Drops the items under `#[cfg(test)]`.
fn without_tests(tokens: Vec<Token>) -> Source {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut source = Source::default();
    let mut at = 0;
    while at < tokens.len() {
        let marked = MARK.iter().enumerate().all(|(k, m)| tokens.get(at + k).is_some_and(|t| t.text == *m));
        if !marked {
            source.tokens.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let from = at + MARK.len();
        at = item_end(&tokens, from);
        let named = tokens[from..at].windows(3).find(|w| w[0].text == "mod" && w[2].text == ";");
        source.tests.extend(named.map(|w| w[1].text.clone()));
    }
    source
}

/// Behind the item that starts at `from`: its semicolon, or the end of its braces.
fn item_end(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0;
    for (k, t) in tokens.iter().enumerate().skip(from) {
        match t.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && (t.text == ";" || t.text == "}") {
            return k + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Source::read(text).tokens.into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_literals_say_nothing() {
        let text = "/* a /* b */ */ f(\"use x; // {\", '{', '\\'', r#\"}\"\"#); // use y;";
        assert_eq!(words(text).join(" "), "f ( \" , \" , \" , \" ) ;");
        assert_eq!(words("fn f<'a>(x: &'a str)").join(" "), "fn f < \" a > ( x : & \" a str )");
    }

    #[test]
    fn tests_are_left_out() {
        let text =
            "use a;\n#[cfg(test)]\nmod tests {\n  use b; fn f() {}\n}\n#[cfg(test)]\npub mod more;\nuse c;";
        let source = Source::read(text);
        assert_eq!(words(text).join(" "), "use a ; use c ;");
        assert_eq!(source.tests, ["more"]);
    }

    #[test]
    fn lines_of_code() {
        let text = "//! Doc.\n\nuse a; // one\nlet s = \"two\n  three\";\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(Source::read(text).code_lines(), 3);
    }
}
