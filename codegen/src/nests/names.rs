//! Names in the body of what is local to a stage.

use crate::analysis::algebra::build::add;
use crate::expr::{Expr, Name};
use crate::plan::plans::{Change, Split, Stage};

/// Loop or bound name in the body: `f.s<k>.<local>`, in special version n of the stage `f.s<k>.v<n>.<local>`.
pub(super) fn full_name(s: &Stage, local: &str) -> Name {
    match s.version {
        0 => format!("{}.s{}.{local}", s.id.func, s.id.stage).into(),
        v => format!("{}.s{}.v{v}.{local}", s.id.func, s.id.stage).into(),
    }
}

/// A local name in terms of the loops and block origins of its stage.
pub(super) fn local_expr(s: &Stage, local: &Name) -> Expr {
    match s.replaced(local) {
        Some(Change::Split(t)) => add(&base_expr(s, t), &local_expr(s, &t.inner)),
        Some(Change::Rename { new, .. }) => local_expr(s, new),
        Some(Change::Fuse(_)) | None => Expr::var(full_name(s, local)),
    }
}

/// `outer * factor + min` of a split: its let-bound name, or the sum itself where `outer` has lanes.
pub(super) fn base_expr(s: &Stage, t: &Split) -> Expr {
    Expr::var(full_name(s, &format!("{}.base", t.old)))
}
