//! Parser of PTX text: all of it is understood or refused.

use super::lexer::{Token, tokens};
use super::*;
use crate::error::{LoadError, Refusal};

/// Reads a translation unit.
///
/// # Errors
/// Returns the first text that this grammar does not hold, with its line.
pub fn parse(text: &str) -> Result<Text<'_>, LoadError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut unit = Text::default();
    while parser.at < parser.tokens.len() {
        parser.declaration(&mut unit)?;
    }
    if unit.version == (0, 0) || unit.target == 0 {
        return Err(Refusal::Text("no .version and .target".into()).at(1));
    }
    Ok(unit)
}

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32)>,
    at: usize,
}

type Parsed<T> = Result<T, LoadError>;

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.0)
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.1)
    }

    fn unexpected<T>(&self) -> Parsed<T> {
        let text = match self.peek() {
            None => "the text ends too early".into(),
            Some(Token::Word(w) | Token::Number(w) | Token::Quoted(w)) => {
                format!("`{w}` is not expected here")
            }
            Some(Token::Mark(c)) => format!("`{c}` is not expected here"),
        };
        Err(Refusal::Text(text).at(self.line()))
    }

    /// Steps over a mark if it stands here.
    fn eat(&mut self, mark: char) -> bool {
        let here = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(here);
        here
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let here = self.peek() == Some(Token::Word(word));
        self.at += usize::from(here);
        here
    }

    fn expect(&mut self, mark: char) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { self.unexpected() }
    }

    fn word(&mut self) -> Parsed<&'a str> {
        let Some(Token::Word(word)) = self.peek() else { return self.unexpected() };
        self.at += 1;
        Ok(word)
    }

    fn count(&mut self) -> Parsed<usize> {
        let Some(n) = self.number_here().and_then(|n| usize::try_from(n).ok()) else {
            return self.unexpected();
        };
        self.at += 1;
        Ok(n)
    }

    /// Bits of the number at this place.
    fn number_here(&self) -> Option<u64> {
        let Some(Token::Number(text)) = self.peek() else { return None };
        let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
        match text.get(..2) {
            Some("0f" | "0F") if text.len() == 10 => hex(&text[2..]),
            Some("0d" | "0D") if text.len() == 18 => hex(&text[2..]),
            Some("0x" | "0X") => hex(text[2..].trim_end_matches('U')),
            _ => text.trim_end_matches('U').parse().ok(),
        }
    }

    fn declaration(&mut self, unit: &mut Text<'a>) -> Parsed<()> {
        match self.word()? {
            ".version" => {
                let Some(Token::Number(text)) = self.peek() else { return self.unexpected() };
                let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let Some(version) = parts else { return self.unexpected() };
                unit.version = version;
                self.at += 1;
            }
            ".target" => {
                let line = self.line();
                let name = self.word()?;
                let digits = name.strip_prefix("sm_").map(|d| d.trim_end_matches(['a', 'f']));
                unit.target = digits
                    .and_then(|d| d.parse().ok())
                    .ok_or_else(|| Refusal::Text(format!("target `{name}`")).at(line))?;
            }
            ".address_size" => {
                if self.number_here() != Some(64) {
                    return self.unexpected();
                }
                self.at += 1;
            }
            ".visible" | ".extern" | ".weak" | ".common" => {}
            ".entry" => unit.functions.push(self.function(true)?),
            ".func" => unit.functions.push(self.function(false)?),
            directive => {
                self.at -= 1;
                let Some(space) = space(directive) else { return self.unexpected() };
                let variable = self.variable(space)?;
                self.expect(';')?;
                unit.variables.push(variable);
            }
        }
        Ok(())
    }

    /// A function behind `.entry` or `.func`.
    fn function(&mut self, kernel: bool) -> Parsed<Function<'a>> {
        let results = if self.peek() == Some(Token::Mark('(')) { self.params()? } else { vec![] };
        let line = self.line();
        let name = self.word()?;
        let params = if self.peek() == Some(Token::Mark('(')) { self.params()? } else { vec![] };
        let mut f =
            Function { name, kernel, params, results, reqntid: None, maxntid: None, body: None, line };
        loop {
            match self.peek() {
                Some(Token::Word(".noreturn")) => self.at += 1,
                Some(Token::Word(".minnctapersm")) => {
                    self.at += 1;
                    self.count()?;
                }
                Some(Token::Word(".reqntid")) => f.reqntid = Some(self.sizes()?),
                Some(Token::Word(".maxntid")) => f.maxntid = Some(self.sizes()?),
                Some(Token::Mark(';')) => {
                    self.at += 1;
                    return Ok(f);
                }
                Some(Token::Mark('{')) => {
                    f.body = Some(self.body()?);
                    return Ok(f);
                }
                _ => return self.unexpected(),
            }
        }
    }

    /// Up to three sizes behind a directive.
    fn sizes(&mut self) -> Parsed<[u32; 3]> {
        self.at += 1;
        let mut sizes = [1; 3];
        for (k, size) in sizes.iter_mut().enumerate() {
            if k > 0 && !self.eat(',') {
                break;
            }
            *size = self.count()? as u32;
        }
        Ok(sizes)
    }

    fn params(&mut self) -> Parsed<Vec<Variable<'a>>> {
        self.expect('(')?;
        let mut params = vec![];
        if self.eat(')') {
            return Ok(params);
        }
        loop {
            if self.peek() != Some(Token::Word(".param")) {
                return self.unexpected();
            }
            params.push(self.variable(Space::Param)?);
            if self.eat(')') {
                return Ok(params);
            }
            self.expect(',')?;
        }
    }

    /// A variable from its state space on, without the semicolon.
    fn variable(&mut self, space: Space) -> Parsed<Variable<'a>> {
        self.at += 1;
        let line = self.line();
        let (mut align, mut element, mut pointer) = (None, None, false);
        let name = loop {
            match self.word()? {
                ".align" => {
                    let n = self.count()?;
                    // Behind `.ptr` it tells about the memory that is pointed at.
                    align = align.or((!pointer).then_some(n));
                }
                ".ptr" => pointer = true,
                ".global" | ".shared" | ".const" | ".local" if pointer => {}
                word if word.starts_with('.') => {
                    let Some(bytes) = element_bytes(word) else {
                        self.at -= 1;
                        return self.unexpected();
                    };
                    element = Some(bytes);
                }
                name => break name,
            }
        };
        let Some(element) = element else { return self.unexpected() };
        let mut count = 1;
        while self.eat('[') {
            count *= self.count()?;
            self.expect(']')?;
        }
        let init = if self.eat('=') { self.initialiser(element)? } else { vec![] };
        let size = element * count;
        if !init.is_empty() && !matches!(space, Space::Global | Space::Const) {
            return Err(
                Refusal::Text(format!("`{name}` starts with values, which its space does not take")).at(line)
            );
        }
        if init.len() > size {
            return Err(Refusal::Text(format!("`{name}` has more values than elements")).at(line));
        }
        Ok(Variable { space, name, align: align.unwrap_or(element), size, init, line })
    }

    fn initialiser(&mut self, element: usize) -> Parsed<Vec<u8>> {
        let list = self.eat('{');
        let mut bytes = vec![];
        loop {
            let negative = self.eat('-');
            let Some(value) = self.number_here() else { return self.unexpected() };
            self.at += 1;
            let value = if negative { value.wrapping_neg() } else { value };
            bytes.extend(&value.to_le_bytes()[..element]);
            if !list {
                return Ok(bytes);
            }
            if self.eat('}') {
                return Ok(bytes);
            }
            self.expect(',')?;
        }
    }

    fn body(&mut self) -> Parsed<Vec<Statement<'a>>> {
        self.expect('{')?;
        let mut all = vec![];
        let mut depth = 1;
        loop {
            let line = self.line();
            let kind = match self.peek() {
                Some(Token::Mark('{')) => {
                    self.at += 1;
                    depth += 1;
                    StatementKind::Open
                }
                Some(Token::Mark('}')) => {
                    self.at += 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(all);
                    }
                    StatementKind::Close
                }
                // A statement of nothing.
                Some(Token::Mark(';')) => {
                    self.at += 1;
                    continue;
                }
                Some(Token::Word(".pragma")) => {
                    self.at += 1;
                    if self.peek() != Some(Token::Quoted("nounroll")) {
                        return self.unexpected();
                    }
                    self.at += 1;
                    self.expect(';')?;
                    continue;
                }
                _ => self.statement()?,
            };
            all.push(Statement { line, kind });
        }
    }

    fn statement(&mut self) -> Parsed<StatementKind<'a>> {
        if let (Some(Token::Word(word)), Some((Token::Mark(':'), _))) =
            (self.peek(), self.tokens.get(self.at + 1))
        {
            self.at += 2;
            if !self.eat_word(".branchtargets") {
                return Ok(StatementKind::Label(word));
            }
            let mut targets = vec![self.word()?];
            while self.eat(',') {
                targets.push(self.word()?);
            }
            self.expect(';')?;
            return Ok(StatementKind::Targets(word, targets));
        }
        let kind = match self.peek() {
            Some(Token::Word(".reg")) => {
                self.at += 1;
                let class = self.word()?;
                let Some(bits) = register_bits(class) else {
                    self.at -= 1;
                    return self.unexpected();
                };
                let name = self.word()?;
                let mut count = None;
                if self.eat('<') {
                    count = Some(self.count()? as u32);
                    self.expect('>')?;
                }
                StatementKind::Registers { bits, name, count }
            }
            Some(Token::Word(word)) if word.starts_with('.') => {
                let Some(space) = space(word) else { return self.unexpected() };
                StatementKind::Variable(self.variable(space)?)
            }
            _ => StatementKind::Instruction(self.instruction()?),
        };
        self.expect(';')?;
        Ok(kind)
    }

    /// An instruction without its semicolon.
    fn instruction(&mut self) -> Parsed<Instruction<'a>> {
        let mut guard = None;
        if self.eat('@') {
            let negated = self.eat('!');
            guard = Some((self.word()?, negated));
        }
        let op = self.word()?;
        let mut operands = vec![];
        while self.peek() != Some(Token::Mark(';')) {
            if !operands.is_empty() {
                self.expect(',')?;
            }
            operands.push(self.operand()?);
        }
        Ok(Instruction { guard, op, operands })
    }

    fn operand(&mut self) -> Parsed<Operand<'a>> {
        if self.eat('{') {
            return Ok(Operand::Vector(self.list('}')?));
        }
        if self.eat('(') {
            return Ok(Operand::Group(self.list(')')?));
        }
        if self.eat('[') {
            let base = match self.peek() {
                Some(Token::Word(name)) => {
                    self.at += 1;
                    Some(name)
                }
                _ => None,
            };
            let offset = if base.is_none() || self.eat('+') { self.integer()? as i64 } else { 0 };
            self.expect(']')?;
            return Ok(Operand::Address(base, offset));
        }
        if self.eat('!') {
            return Ok(Operand::Not(self.word()?));
        }
        let Some(Token::Word(name)) = self.peek() else { return Ok(Operand::Literal(self.integer()?)) };
        self.at += 1;
        if self.eat('|') { Ok(Operand::Pair(name, self.word()?)) } else { Ok(Operand::Name(name)) }
    }

    fn list(&mut self, end: char) -> Parsed<Vec<Operand<'a>>> {
        let mut all = vec![];
        if self.eat(end) {
            return Ok(all);
        }
        loop {
            all.push(self.operand()?);
            if self.eat(end) {
                return Ok(all);
            }
            self.expect(',')?;
        }
    }

    fn integer(&mut self) -> Parsed<u64> {
        let negative = self.eat('-');
        let Some(value) = self.number_here() else { return self.unexpected() };
        self.at += 1;
        Ok(if negative { value.wrapping_neg() } else { value })
    }
}

fn space(directive: &str) -> Option<Space> {
    Some(match directive {
        ".global" => Space::Global,
        ".shared" => Space::Shared,
        ".local" => Space::Local,
        ".const" => Space::Const,
        ".param" => Space::Param,
        _ => return None,
    })
}

fn element_bytes(class: &str) -> Option<usize> {
    Some(match class {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        _ => return None,
    })
}

fn register_bits(class: &str) -> Option<u32> {
    if class == ".pred" {
        return Some(1);
    }
    // The narrowest registers have 16 bits.
    element_bytes(class).map(|bytes| bytes.max(2) as u32 * 8)
}
