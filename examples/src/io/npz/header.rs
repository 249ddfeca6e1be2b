//! Headers of `.npy` files: magic, version, length, and a Python dictionary of three keys.
//!
//! ```text
//! header = "{" [ entry { "," entry } [ "," ] ] "}" padding
//! entry  = "'descr'" ":" string | "'fortran_order'" ":" ( "True" | "False" ) | "'shape'" ":" tuple
//! tuple  = "(" [ number { "," number } [ "," ] ] ")"
//! ```
//!
//! with either quote, and blanks between words. Each key comes once. This is all that NumPy writes for plain numbers; it is read in one
//! pass, without recursion.

use super::elements::Element;
use super::error::MemberError;
use std::io::Read;

/// Longest header that is read, in bytes. NumPy itself writes some hundred.
const LONGEST: u32 = 1 << 16;

/// Most dims of an array, as of NumPy.
const MOST_DIMS: usize = 64;

/// The meaning of a header.
#[derive(Clone, PartialEq, Debug)]
pub struct Header {
    /// Type of the elements.
    pub element: Element,
    /// True where the first index is the fastest.
    pub fortran: bool,
    /// Extents, slowest first.
    pub shape: Vec<usize>,
    /// Number of elements.
    pub elements: usize,
    /// Bytes of the elements.
    pub bytes: usize,
    /// Bytes before them.
    pub start: usize,
}

impl Header {
    /// Reads a header, and nothing behind it.
    pub fn read(npy: &mut impl Read) -> Result<Header, MemberError> {
        let mut fixed = [0; 8];
        npy.read_exact(&mut fixed).map_err(|_| MemberError::NotNpy("it ends before its header"))?;
        if &fixed[..6] != b"\x93NUMPY" {
            return Err(MemberError::NotNpy("its first bytes are others"));
        }
        let width = match fixed[6] {
            1 => 2,
            2 | 3 => 4,
            _ => return Err(MemberError::NotNpy("its version is neither 1, 2 nor 3")),
        };
        let ended = |_| MemberError::NotNpy("it ends within its header");
        let mut length = [0; 4];
        npy.read_exact(&mut length[..width]).map_err(ended)?;
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return Err(MemberError::NotNpy("its header has more than 64 KiB"));
        }
        let mut text = vec![0; length as usize];
        npy.read_exact(&mut text).map_err(ended)?;
        Header::parse(&text, fixed.len() + width + text.len())
    }

    fn parse(text: &[u8], start: usize) -> Result<Header, MemberError> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        let mut words = Words { text, at: 0 };
        words.expect(b'{')?;
        while !words.take(b'}') {
            let key = words.string()?;
            words.expect(b':')?;
            let again = match key {
                b"descr" => descr.replace(words.element()?).is_some(),
                b"fortran_order" => fortran.replace(words.boolean()?).is_some(),
                b"shape" => shape.replace(words.tuple()?).is_some(),
                _ => return Err(words.error("expected one of 'descr', 'fortran_order', 'shape'")),
            };
            if again {
                return Err(words.error("a key comes twice"));
            }
            if !words.take(b',') {
                words.expect(b'}')?;
                break;
            }
        }
        words.skip_blanks();
        if words.at != text.len() {
            return Err(words.error("expected its end"));
        }
        let (Some(element), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
            return Err(words.error("expected 'descr', 'fortran_order' and 'shape'"));
        };
        let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        let bytes = elements.and_then(|n| n.checked_mul(element.size)).filter(|&n| n < isize::MAX as usize);
        match (elements, bytes) {
            (Some(elements), Some(bytes)) => Ok(Header { element, fortran, shape, elements, bytes, start }),
            _ => Err(MemberError::Absurd { shape }),
        }
    }
}

/// The text of a header from a place on.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    fn error(&self, expected: &'static str) -> MemberError {
        let text = String::from_utf8_lossy(&self.text[..self.text.len().min(200)]).trim().to_string();
        MemberError::Header { expected, at: self.at, text }
    }

    fn skip_blanks(&mut self) {
        self.run(|c| c.is_ascii_whitespace());
    }

    /// The bytes from here on for which `belongs` holds.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|&c| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Passes `sign` if it comes next.
    fn take(&mut self, sign: u8) -> bool {
        self.skip_blanks();
        let there = self.text.get(self.at) == Some(&sign);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: u8) -> Result<(), MemberError> {
        let expected = match sign {
            b'{' => "expected {",
            b'}' => "expected , or }",
            b':' => "expected :",
            b'(' => "expected (",
            _ => "expected , or )",
        };
        if self.take(sign) { Ok(()) } else { Err(self.error(expected)) }
    }

    /// A string without escapes, in either quote.
    fn string(&mut self) -> Result<&'a [u8], MemberError> {
        let quote = if self.take(b'"') {
            b'"'
        } else if self.take(b'\'') {
            b'\''
        } else {
            return Err(self.error("expected a string"));
        };
        let string = self.run(|c| c != quote);
        if self.text.get(self.at) != Some(&quote) {
            return Err(self.error("expected the end of a string"));
        }
        self.at += 1;
        Ok(string)
    }

    /// A type of elements. Structured ones are lists, which are not read.
    fn element(&mut self) -> Result<Element, MemberError> {
        if self.take(b'[') {
            return Err(MemberError::Dtype { descr: "of several fields".to_string() });
        }
        Element::of(self.string()?)
    }

    fn boolean(&mut self) -> Result<bool, MemberError> {
        self.skip_blanks();
        match self.run(|c| c.is_ascii_alphabetic()) {
            b"True" => Ok(true),
            b"False" => Ok(false),
            _ => Err(self.error("expected True or False")),
        }
    }

    fn tuple(&mut self) -> Result<Vec<usize>, MemberError> {
        self.expect(b'(')?;
        let mut extents = Vec::new();
        while !self.take(b')') {
            self.skip_blanks();
            let digits = self.run(|c| c.is_ascii_digit());
            if digits.is_empty() {
                return Err(self.error("expected a number"));
            }
            let push = |n: usize, c: &u8| n.checked_mul(10)?.checked_add(usize::from(c - b'0'));
            extents.push(digits.iter().try_fold(0, push).ok_or_else(|| self.error("absurd extent"))?);
            if extents.len() > MOST_DIMS {
                return Err(self.error("more than 64 dims"));
            }
            if !self.take(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(extents)
    }
}
