//! Values with expressions in them as text that is read back.
//!
//! As in [`exact`](super::exact) the text begins with a list of nodes, each once and behind its operands, a line each; in the value behind them
//! an expression is the number of its node. So neither the depth of an expression matters nor what its parts share, and a derived
//! `Serialize` is enough for a type to be part of it.

use super::{Expr, ExprKind};
use crate::types::Type;
use rustc_hash::FxHashMap;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;

thread_local! {
    static WRITTEN: RefCell<Option<Written>> = const { RefCell::new(None) };
    static READ: RefCell<Vec<Expr>> = const { RefCell::new(vec![]) };
}

/// The nodes of the text that is being written.
#[derive(Default)]
struct Written {
    /// By address.
    numbers: FxHashMap<usize, u32>,
    /// Keeps the addresses taken.
    alive: Vec<Expr>,
    text: String,
}

/// The text of a value; none if some part of it has none.
pub(crate) fn write(value: &impl Serialize) -> Option<String> {
    WRITTEN.set(Some(Written::default()));
    let own = serde_json::to_string(value);
    let Written { text, .. } = WRITTEN.take()?;
    Some(text + &own.ok()?)
}

/// The value of a text, if it is one.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    READ.set(vec![]);
    let mut lines = text.lines();
    let own = lines.next_back()?;
    let whole = lines.try_for_each(|line| {
        let (kind, ty): (ExprKind, Type) = serde_json::from_str(line)?;
        READ.with_borrow_mut(|nodes| nodes.push(Expr::new(kind, ty)));
        Ok::<(), serde_json::Error>(())
    });
    let mut own = serde_json::Deserializer::from_str(own);
    // What is nested, as statements are, may be nested deeply.
    own.disable_recursion_limit();
    let value = whole.and_then(|()| T::deserialize(&mut own)).ok().filter(|_| own.end().is_ok());
    READ.set(vec![]);
    value
}

fn number(e: &Expr) -> Option<u32> {
    WRITTEN.with_borrow(|w| w.as_ref()?.numbers.get(&e.id()).copied())
}

/// Its number, once it and what it is made of are listed.
impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if WRITTEN.with_borrow(Option::is_none) {
            return Err(S::Error::custom("an expression outside of a list"));
        }
        let mut stack = vec![(self, false)];
        while let Some((node, operands_are_listed)) = stack.pop() {
            if number(node).is_some() {
                continue;
            }
            if !operands_are_listed {
                stack.push((node, true));
                node.for_each_child(|c| stack.push((c, false)));
                continue;
            }
            let line = serde_json::to_string(&(node.kind(), node.ty())).map_err(S::Error::custom)?;
            WRITTEN.with_borrow_mut(|w| {
                let Some(w) = w else { return };
                w.numbers.insert(node.id(), w.alive.len() as u32);
                w.alive.push(node.clone());
                w.text.push_str(&line);
                w.text.push('\n');
            });
        }
        serializer.serialize_u32(number(self).ok_or_else(|| S::Error::custom("a node that is not listed"))?)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expr, D::Error> {
        let n = u32::deserialize(deserializer)? as usize;
        let node = READ.with_borrow(|nodes| nodes.get(n).cloned());
        node.ok_or_else(|| D::Error::custom("an expression that is not listed"))
    }
}

/// Floats by their bits: NaN and infinities too.
pub(crate) mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(v: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(v.to_bits())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::exact::exact_text;
    use crate::expr::{Flat, Param};
    use crate::types::ScalarType;

    #[test]
    fn what_is_written_is_read_back() {
        let x = || Expr::var("x");
        let load = ExprKind::Load {
            buffer: Flat::plane("f", 2),
            index: x().cast(ScalarType::I64),
            predicate: Some(x().lt(3)),
        };
        let all = vec![
            (x() + 1) * (x() + 1),
            Expr::param(Param::parse("n"), ScalarType::I32) % 7,
            Expr::param(Param::parse("f.extent.1"), ScalarType::I32),
            Expr::float(ScalarType::F32, -0.0),
            Expr::float(ScalarType::F64, f64::NAN),
            Expr::float(ScalarType::F64, 0.1).sqrt(),
            Expr::call("f", ScalarType::F32, vec![x(), x() - 1], 1),
            Expr::new(load, Type::of(ScalarType::F64)),
        ];
        let read: Vec<Expr> = read(&write(&all).unwrap()).unwrap();
        assert_eq!(exact_text(&read), exact_text(&all));
    }

    #[test]
    fn neither_depth_nor_sharing_matters() {
        let mut e = Expr::var("x");
        for _ in 0..100_000 {
            e = &e * &e;
        }
        let text = write(&(e.clone(), &e)).unwrap();
        assert_eq!(text.lines().count(), 100_002);
        let (a, b): (Expr, Expr) = read(&text).unwrap();
        assert!(a == e && a.id() == b.id());
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let text = write(&(Expr::var("x") + 1)).unwrap();
        assert!(read::<Expr>(&text).is_some());
        let lines: Vec<&str> = text.lines().collect();
        // Without a node, and before its operands.
        for wrong in
            [lines[1..].join("\n"), [lines[2], lines[0], lines[1], lines[3]].join("\n"), String::new()]
        {
            assert_eq!(read::<Expr>(&wrong), None, "{wrong}");
        }
        assert!(serde_json::to_string(&Expr::var("x")).is_err());
    }
}
