//! Mutations of bytes and of texts.

use sumsq_codegen_testing::rng::Rng;

/// Numbers and words at which readers break.
const WORDS: [&str; 38] = [
    "0",
    "-1",
    "1e308",
    "1e999",
    "0/0",
    "2^31",
    "4294967296",
    "9223372036854775808",
    "65",
    "64",
    "1000000",
    "-0",
    "nil",
    "{}",
    "\"\"",
    "true",
    "function() end",
    "(",
    ")",
    "..",
    "==",
    "~=",
    "#",
    "and",
    "or",
    "not",
    "local",
    "end",
    "...",
    "]]",
    "[[",
    "--[[",
    "\0",
    "\n",
    "\u{fffd}",
    "math.huge",
    "X",
    "W",
];

/// The bytes after a few changes: of single ones, of runs, and by runs of another text.
pub fn bytes(rng: &mut Rng, from: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = from.to_vec();
    for _ in 0..rng.pick(&[1, 1, 1, 2, 3, 8]) {
        byte_change(rng, &mut out, other);
    }
    out
}

fn byte_change(rng: &mut Rng, out: &mut Vec<u8>, other: &[u8]) {
    if out.is_empty() {
        out.push(rng.bits() as u8);
        return;
    }
    let at = rng.below(out.len());
    let run = |rng: &mut Rng, of: &[u8]| {
        let start = rng.below(of.len().max(1)).min(of.len());
        let length = rng.pick(&[1, 2, 4, 8, 16, 64]).min(of.len() - start);
        of[start..start + length].to_vec()
    };
    match rng.below(8) {
        0 => out[at] ^= 1 << rng.below(8),
        1 => out[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b'\n', b'"', b'(']),
        2 => out.insert(at, rng.bits() as u8),
        3 => drop(out.remove(at)),
        4 => out.truncate(at),
        5 => {
            let piece = run(rng, other);
            out.splice(at..at, piece);
        }
        6 => {
            let piece = run(rng, &out.clone());
            out.splice(at..at, piece);
        }
        _ => {
            let end = (at + rng.pick(&[1, 2, 4, 8, 32])).min(out.len());
            out.drain(at..end);
        }
    }
}

/// The text after a few changes of its words and lines.
pub fn text(rng: &mut Rng, from: &str, other: &str) -> String {
    let mut tokens: Vec<String> = tokens(from);
    let others = self::tokens(other);
    for _ in 0..rng.pick(&[1, 1, 2, 3, 5]) {
        token_change(rng, &mut tokens, &others);
    }
    tokens.concat()
}

fn token_change(rng: &mut Rng, tokens: &mut Vec<String>, others: &[String]) {
    // Most tokens are blanks; those that are not say more.
    let solid: Vec<usize> = (0..tokens.len()).filter(|&i| !tokens[i].trim().is_empty()).collect();
    if solid.is_empty() || others.is_empty() {
        tokens.push(rng.pick(&WORDS).to_string());
        return;
    }
    let at = rng.pick(&solid);
    match rng.below(9) {
        0 => drop(tokens.remove(at)),
        1 => tokens[at] = rng.pick(&WORDS).to_string(),
        2 => tokens.insert(at, rng.pick(&WORDS).to_string()),
        3 => tokens[at] = tokens[rng.pick(&solid)].clone(),
        4 => tokens[at] = rng.pick(others),
        5 => tokens.swap(at, rng.pick(&solid)),
        6 => {
            let start = rng.below(others.len());
            let end = (start + rng.pick(&[1, 4, 16, 64])).min(others.len());
            tokens.splice(at..at, others[start..end].iter().cloned());
        }
        7 => {
            let end = (at + rng.pick(&[1, 4, 16, 64])).min(tokens.len());
            let run = tokens[at..end].to_vec();
            for _ in 0..rng.pick(&[1, 1, 2, 40]) {
                tokens.splice(at..at, run.iter().cloned());
            }
        }
        _ => {
            let end = (at + rng.pick(&[1, 2, 4, 16])).min(tokens.len());
            tokens.drain(at..end);
        }
    }
}

/// Names, numbers, blanks, and single characters.
fn tokens(text: &str) -> Vec<String> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        ' ' => 1,
        _ => 2,
    };
    let mut all: Vec<String> = Vec::new();
    let mut last = 3;
    for c in text.chars() {
        let this = kind(c);
        match all.last_mut() {
            Some(token) if this == last && this < 2 => token.push(c),
            _ => all.push(c.into()),
        }
        last = this;
    }
    all
}
