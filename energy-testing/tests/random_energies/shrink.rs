//! Smaller cases that fail too.

use std::time::{Duration, Instant};
use sumsq_energy_testing::case::{Case, Expr, Field, Group, Kind, Loss, Source};

/// No more smaller cases are tried after this.
const LIMIT: Duration = Duration::from_secs(60);

/// The smallest case that fails among those that come of leaving out one thing after the other.
pub fn shrink(case: &Case, fails: impl Fn(&Case) -> bool) -> Case {
    let (mut best, started) = (case.clone(), Instant::now());
    'again: loop {
        for smaller in smaller(&best) {
            if started.elapsed() > LIMIT {
                return best;
            }
            if fails(&smaller) {
                best = smaller;
                continue 'again;
            }
        }
        return best;
    }
}

/// Cases with one thing less, the largest steps first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut copy = case.clone();
        change(&mut copy);
        out.push(copy);
    };
    for g in 0..case.groups.len() {
        if case.groups.len() > 1 {
            with(&|c| drop(c.groups.remove(g)));
        }
        with(&|c| c.groups[g].loss = None);
        with(&|c| c.groups[g].loss.iter_mut().for_each(|l| l.second_order = false));
        for v in 0..case.groups[g].values.len() {
            if case.groups[g].values.len() > 1 {
                with(&|c| drop(c.groups[g].values.remove(v)));
            }
        }
    }
    for k in 0..case.excludes.len() {
        with(&|c| drop(c.excludes.remove(k)));
    }
    for k in 0..case.near_nulls.len() {
        with(&|c| drop(c.near_nulls.remove(k)));
    }
    for k in 0..case.bounds.len() {
        with(&|c| drop(c.bounds.remove(k)));
    }
    if unused_computed(case) {
        with(&|c| drop(c.computed.pop()));
    }
    for d in 0..case.extents.len() {
        for extent in [1, 2, case.extents[d].saturating_sub(1)] {
            if 0 < extent && extent < case.extents[d] {
                with(&|c| resize(c, d, extent));
            }
        }
    }
    for g in 0..case.graphs.len() {
        for e in 0..case.graphs[g].edges.len() {
            with(&|c| drop(c.graphs[g].edges.remove(e)));
        }
    }
    expressions(case, &mut out);
    let before = size(case);
    out.retain(|c| size(c) < before);
    out
}

/// A measure that every step makes smaller.
fn size(case: &Case) -> usize {
    let mut nodes = 0;
    let mut count = |e: &Expr| {
        e.walk(&mut |e| nodes += 2 + usize::from(!matches!(e, Expr::Number(v) if *v == 1.0)));
    };
    let mut copy = case.clone();
    all_expressions(&mut copy).into_iter().for_each(|e| count(e));
    let edges: usize = case.graphs.iter().map(|g| g.edges.len()).sum();
    let losses = case.groups.iter().filter_map(|g| g.loss.as_ref());
    let losses: usize = losses.map(|l| 1 + usize::from(l.second_order)).sum();
    nodes + edges + losses + case.groups.len() + case.computed.len() + case.extents.iter().sum::<usize>()
}

fn unused_computed(case: &Case) -> bool {
    let Some(last) = case.computed.len().checked_sub(1) else { return false };
    let mut used = false;
    let mut copy = case.clone();
    for e in all_expressions(&mut copy) {
        e.walk(&mut |e| used |= matches!(e, Expr::Read(Source::Computed(c), ..) if *c == last));
    }
    !used
}

/// A case whose dim has another extent: what lies beyond is cut off, vertices move to the last element.
fn resize(case: &mut Case, dim: usize, extent: usize) {
    let old = case.clone();
    case.extents[dim] = extent;
    let copy = case.clone();
    for (field, before) in case.fields.iter_mut().zip(&old.fields) {
        if matches!(field.kind, Kind::View(_)) {
            continue;
        }
        let Field { space, channels, .. } = *before;
        let elements = (0..copy.elements(space)).map(|e| old.element(space, &copy.coordinates(space, e)));
        field.values =
            elements.flatten().flat_map(|e| before.values[e * channels..][..channels].to_vec()).collect();
    }
    for graph in &mut case.graphs {
        let spaces = graph.spaces.clone();
        for (vertex, &space) in graph.edges.iter_mut().flat_map(|e| e.iter_mut().zip(&spaces)) {
            let mut at = old.coordinates(space, *vertex);
            for (c, &d) in at.iter_mut().zip(&copy.spaces[space]) {
                *c = (*c).min(copy.extents[d] as i64 - 1);
            }
            *vertex = copy.element(space, &at).unwrap_or(0);
        }
    }
}

/// Cases in which one expression is replaced by one of its operands, or by 1.
fn expressions(case: &Case, out: &mut Vec<Case>) {
    let mut copy = case.clone();
    let roots = all_expressions(&mut copy).len();
    for root in 0..roots {
        let mut nodes = 0;
        all_expressions(&mut copy)[root].walk(&mut |_| nodes += 1);
        for node in 0..nodes {
            for choice in 0.. {
                let mut smaller = case.clone();
                let mut at = node;
                let widths = case.clone();
                if !replace(&widths, all_expressions(&mut smaller).swap_remove(root), &mut at, choice) {
                    break;
                }
                out.push(smaller);
            }
        }
    }
}

/// Replaces the `at`-th node by its `choice`-th operand of as many channels, or by 1; false if there is no such.
fn replace(case: &Case, e: &mut Expr, at: &mut usize, choice: usize) -> bool {
    if *at > 0 {
        *at -= 1;
        let Expr::Call(_, operands) = e else { return false };
        for operand in operands {
            let mut nodes = 0;
            operand.walk(&mut |_| nodes += 1);
            if *at < nodes {
                return replace(case, operand, at, choice);
            }
            *at -= nodes;
        }
        return false;
    }
    let width = case.width(e);
    let mut by: Vec<Expr> = match e {
        Expr::Call(_, operands) => operands.iter().filter(|o| case.width(o) == width).cloned().collect(),
        _ => vec![],
    };
    if width == 1 {
        by.push(Expr::Number(1.0));
    }
    match by.get(choice) {
        Some(new) => {
            *e = new.clone();
            true
        }
        None => false,
    }
}

fn all_expressions(case: &mut Case) -> Vec<&mut Expr> {
    let computed = case.computed.iter_mut().map(|c| &mut c.value);
    let excludes = case.excludes.iter_mut().map(|(_, e)| e);
    let bounds = case.bounds.iter_mut().flat_map(|(_, l, u)| [l, u]);
    let near_nulls = case.near_nulls.iter_mut().map(|(_, e)| e);
    fn of_group(g: &mut Group) -> impl Iterator<Item = &mut Expr> {
        g.values.iter_mut().chain(g.loss.iter_mut().flat_map(Loss::parts_mut))
    }
    let groups = case.groups.iter_mut().flat_map(of_group);
    groups.chain(computed).chain(excludes).chain(bounds).chain(near_nulls).collect()
}
