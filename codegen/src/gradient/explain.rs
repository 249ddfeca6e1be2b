//! Words on why an adjoint is 0, and on why it scatters.

use crate::expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
use crate::func::{Func, Pipeline};
use crate::gradient::support::Stage;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// The reason why nothing is added to the adjoint `d` of `name`: the way to one of `outputs` on which the fewest nodes have no slope, and of these the one
/// next to `name`.
pub(super) fn zero(p: &Pipeline, outputs: &[Name], name: &Name, d: &Name) -> String {
    let Some(way) = way(p, outputs, name) else {
        return format!("{d} is 0: no output with a seed depends on {name}");
    };
    let names: Vec<&str> = way.iter().map(|(n, _)| &**n).collect();
    let names = names.join(" -> ");
    match way.into_iter().find_map(|(_, stop)| stop) {
        Some(stop) => format!("{d} is 0: {stop} has no slope ({names})"),
        None => format!("{d} is 0: where {name} is read, nothing counts ({names})"),
    }
}

/// The reason why an adjoint scatters along dimension `d` of `name`, whose coordinate in `stage` is `arg`; whether that goes along held
/// loops.
pub(super) fn scatter(name: &Name, d: usize, stage: &str, arg: &Expr, is_held: bool) -> String {
    if is_held {
        let why = format!("{stage} is gone back through one iteration after the other");
        return format!("scatters along dimension {d}: {name} is read at {arg}, and {why}");
    }
    let mut node = None;
    crate::expr::walk::visit(arg, &mut |e| {
        let mut of_floats = false;
        e.for_each_child(|c| of_floats |= c.ty().scalar.is_float());
        let is_read = matches!(e.kind(), ExprKind::Call { .. });
        if node.is_none() && (is_read || of_floats && !e.ty().scalar.is_float()) {
            node = Some(word(e));
        }
        node.is_none()
    });
    let why = match node {
        Some(node) => format!("{node} in {stage} is data"),
        None => format!("that is no sum of multiples of loops, or of too many pieces, in {stage}"),
    };
    format!("scatters along dimension {d}: {name} is read at {arg}, and {why}")
}

/// The names from `name` to an output, beside each the node without a slope between it and the next.
fn way(p: &Pipeline, outputs: &[Name], name: &Name) -> Option<Vec<(Name, Option<String>)>> {
    /// The reader of a name, next on its way to an output, and the node without a slope between them.
    type Step = (Option<Name>, Option<String>);
    let mut steps: FxHashMap<Name, (usize, Step)> = FxHashMap::default();
    let mut open: VecDeque<(usize, Name)> = VecDeque::new();
    for o in outputs {
        steps.insert(o.clone(), (0, (None, None)));
        open.push_back((0, o.clone()));
    }
    // Nearest first, where only nodes without a slope are steps.
    while let Some((cost, at)) = open.pop_front() {
        let Some(f) = p.funcs.get(&at).filter(|_| steps[&at].0 == cost && at != *name) else { continue };
        for (read, stop) in reads(f) {
            let next = cost + usize::from(stop.is_some());
            if steps.get(&read).is_some_and(|(known, _)| *known <= next) {
                continue;
            }
            match next == cost {
                true => open.push_front((next, read.clone())),
                false => open.push_back((next, read.clone())),
            }
            steps.insert(read, (next, (Some(at.clone()), stop)));
        }
    }
    let (mut way, mut at) = (vec![], Some(name.clone()));
    while let Some(name) = at {
        let (_, (next, stop)) = steps.get(&name)?.clone();
        way.push((name, stop));
        at = next;
    }
    Some(way)
}

/// All that `f` reads, with the innermost node without a slope above it, if there is one.
fn reads(f: &Func) -> Vec<(Name, Option<String>)> {
    let mut found = vec![];
    for (k, s) in Stage::all(f).iter().enumerate() {
        let stage = stage(&f.name, k);
        let mut seen: FxHashSet<(usize, bool)> = FxHashSet::default();
        let mut stack: Vec<(&Expr, Option<String>)> = s.exprs().map(|e| (e, None)).collect();
        while let Some((e, stop)) = stack.pop() {
            if !seen.insert((e.id(), stop.is_some())) {
                continue;
            }
            let leaf = match e.kind() {
                ExprKind::Call { name, .. } => Some(name),
                ExprKind::Param(param) => param.name(),
                _ => None,
            };
            if let Some(name) = leaf.filter(|n| **n != f.name) {
                found.push((name.clone(), stop.clone()));
            }
            e.for_each_child(|c| {
                let stops = c.ty().scalar.is_float() && !passes(e);
                let stop = if stops { Some(format!("{} in {stage}", word(e))) } else { stop.clone() };
                stack.push((c, stop));
            });
        }
    }
    found
}

/// The definition `k` of a Func, as schedules call it.
pub(super) fn stage(name: &Name, k: usize) -> String {
    match k {
        0 => name.to_string(),
        k => format!("{name}.update({})", k - 1),
    }
}

/// Has a node a slope along its operands?
fn passes(e: &Expr) -> bool {
    use UnaryOp::{Ceil, Floor, Round, Trunc};
    let is_step =
        matches!(e.kind(), ExprKind::Reinterpret(_) | ExprKind::Unary(Floor | Ceil | Round | Trunc, _));
    e.ty().scalar.is_float() && !is_step
}

/// A node without its operands.
fn word(e: &Expr) -> String {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let text = match e.operation() {
        ExprKind::Cast(_) => return format!("cast<{}>", e.ty().scalar.name()),
        ExprKind::Reinterpret(_) => return format!("reinterpret<{}>", e.ty().scalar.name()),
        ExprKind::Call { name, .. } => return name.to_string(),
        ExprKind::Unary(op, _) => op.name(),
        ExprKind::Binary(Eq, ..) => "==",
        ExprKind::Binary(Ne, ..) => "!=",
        ExprKind::Binary(Lt, ..) => "<",
        ExprKind::Binary(Le, ..) => "<=",
        ExprKind::Binary(Gt, ..) => ">",
        ExprKind::Binary(Ge, ..) => ">=",
        _ => return e.to_string(),
    };
    text.into()
}
