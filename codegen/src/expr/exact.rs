//! Values with expressions in them as text that tells any two of them apart, and that is as long as what they share.
//!
//! While [`exact_text`] formats a value, the `Debug` of an expression is the number of its node; the nodes are listed in front, each once. So
//! a derived `Debug` is enough for a type to be part of it, and no field is forgotten.

use super::Expr;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt::{self, Debug, Write};

thread_local! {
    static NODES: RefCell<Option<Nodes>> = const { RefCell::new(None) };
}

/// The nodes met so far.
#[derive(Default)]
struct Nodes {
    /// By address.
    numbers: FxHashMap<usize, usize>,
    /// Keeps the addresses taken.
    alive: Vec<Expr>,
    text: String,
}

/// The text of a value.
pub(crate) fn exact_text(value: &impl Debug) -> String {
    NODES.set(Some(Nodes::default()));
    let mut own = String::new();
    let written = write!(own, "{value:?}");
    let nodes = NODES.take().unwrap_or_default();
    written.expect("no `Debug` of ours fails");
    nodes.text + &own
}

/// Writes the number of an expression, if some [`exact_text`] is under way on this thread.
pub(super) fn numbered(e: &Expr, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
    let known = |e: &Expr| NODES.with_borrow(|n| n.as_ref().map(|n| n.numbers.get(&e.id()).copied()));
    known(e)?;
    let mut stack = vec![(e.clone(), false)];
    while let Some((node, operands_are_numbers)) = stack.pop() {
        if known(&node)?.is_some() {
            continue;
        }
        if !operands_are_numbers {
            stack.push((node.clone(), true));
            node.for_each_child(|c| stack.push((c.clone(), false)));
            continue;
        }
        let line = format!("{:?} {:?}\n", node.ty(), node.kind());
        NODES.with_borrow_mut(|n| {
            let Some(n) = n else { return };
            n.numbers.insert(node.id(), n.alive.len());
            n.alive.push(node);
            n.text.push_str(&line);
        });
    }
    Some(write!(f, "#{}", known(e)??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType;

    #[test]
    fn what_differs_differs_in_text() {
        let x = || Expr::var("x");
        let all = [
            x() + 1,
            x() + 2,
            x() - 1,
            (x() + 1).cast(ScalarType::I64),
            Expr::float(ScalarType::F32, 0.0),
            Expr::float(ScalarType::F32, -0.0),
            Expr::float(ScalarType::F64, 0.0),
            Expr::call("f", ScalarType::F32, vec![x()], 0),
            Expr::call("f", ScalarType::F32, vec![x()], 1),
        ];
        let texts: std::collections::BTreeSet<String> = all.iter().map(exact_text).collect();
        assert_eq!(texts.len(), all.len());
        assert_eq!(exact_text(&(x() + 1)), exact_text(&all[0]));
    }

    #[test]
    fn what_is_shared_is_written_once() {
        let mut e = Expr::var("x");
        for _ in 0..200 {
            e = &e * &e;
        }
        assert!(exact_text(&vec![e.clone(), e]).len() < 20_000);
    }
}
