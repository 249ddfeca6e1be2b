//! Two directives in one: a split, and the way in which one of its loops runs. The outer loop keeps the name of the one that is split.

use crate::expr::{Expr, Name};
use crate::schedule::{Directive, ForKind, Tail};

/// `parallel(v, n)`: tasks of n iterations. The inner loop is `vi`.
pub(crate) fn parallel(var: &str, n: Expr, tail: Tail) -> [Directive; 2] {
    split(var, 'i', n, tail, |outer, _| Directive::Kind { var: outer, kind: ForKind::Parallel })
}

/// `vectorize(v, n)`: vectors of n lanes. The inner loop is `vi`.
pub(crate) fn vectorize(var: &str, n: Expr, tail: Tail) -> [Directive; 2] {
    split(var, 'i', n, tail, |_, inner| Directive::Kind { var: inner, kind: ForKind::Vectorized })
}

/// `unroll(v, n)`: n copies of the body. The inner loop is `vu`, so that vectors may be unrolled.
pub(crate) fn unroll(var: &str, n: Expr, tail: Tail) -> [Directive; 2] {
    split(var, 'u', n, tail, |_, inner| Directive::Kind { var: inner, kind: ForKind::Unrolled })
}

/// A split of `var` into loops `var` and `var` with a letter behind it, and the `mark` of one of them.
fn split(
    var: &str,
    letter: char,
    factor: Expr,
    tail: Tail,
    mark: fn(Name, Name) -> Directive,
) -> [Directive; 2] {
    let (outer, inner): (Name, Name) = (var.into(), format!("{var}{letter}").into());
    let split =
        Directive::Split { old: outer.clone(), outer: outer.clone(), inner: inner.clone(), factor, tail };
    [split, mark(outer, inner)]
}
