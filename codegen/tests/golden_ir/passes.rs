//! The statement after every pass.
//!
//! `tests/golden/passes/<case>.ir` holds the schedule, the plan that comes of it, and then the statement after each pass that
//! changed it. Every pass changes some case.

use crate::pipelines::*;
use crate::{Case, compare, dumps};
use std::fmt::Write;

const CASES: [Case; 21] = [
    (
        "sliding_strips",
        blur,
        "out: split(y, yo, yi, 8, predicate) split(x, xo, xi, 4, predicate) vectorize(xi) parallel(yo)
         bx: store_at(out, yo) compute_at(out, yi) fold_storage(y, 4) split(x, xo, xi, 4, predicate) vectorize(xi)",
    ),
    (
        "fused_tiles",
        blur,
        "out: split(x, xo, xi, 4, shift_inwards) split(y, yo, yi, 2, shift_inwards) reorder(xi, yi, xo, yo)
              fuse(xo, yo, tile) unroll(yi) vectorize(xi)
         bx: compute_at(out, tile) reorder_storage(y, x)",
    ),
    (
        "versions",
        row,
        "out: specialize(scale == 1) { split(x, xo, xi, 4, auto) vectorize(xi) } bound_extent(x, 64)
         in: in_(f, as copy)
         copy: compute_root split(_0, a, b, 8, round_up) vectorize(b)
         f: compute_root",
    ),
    (
        "strip_sums",
        total,
        "sum.update(0): split(ry, strip, row, 4, predicate) rfactor(strip as s, into parts)
         parts.update(0): split(rx, rxo, rxi, 4, predicate) parallel(s) rfactor(rxi as l, into lanes)
         lanes: compute_at(parts.update(0), s) store_in(register) vectorize(l)
         lanes.update(0): reorder(l, rxo, row) vectorize(l)",
    ),
    (
        "atomic_lanes",
        histogram,
        "hist.update(0): atomic split(r, ro, ri, 4, predicate) vectorize(ri) parallel(ro)",
    ),
    (
        "factored_bins",
        histogram,
        "hist.update(0): split(r, ro, ri, 64, guard) rfactor(ro as k, into parts)
         parts.update(0): parallel(k)",
    ),
    // expand_math makes polynomials of the sine; hoist takes the root out of both loops.
    ("sine_rows", waves, "out: split(x, xo, xi, 4, predicate) vectorize(xi) parallel(y)"),
    // interleave stores even and odd columns at once.
    (
        "interleaved_columns",
        row,
        "out: split(x, xo, xi, 8, guard) split(xi, lane, odd, 2, guard) reorder(odd, lane, xo) unroll(odd) vectorize(lane)",
    ),
    // known_params takes the product out of the version.
    ("known_scale", row, "out: specialize(scale == 1) { vectorize(x, 8) }"),
    // residues reads even and odd lanes as rows.
    ("enlarged", enlarged, "out: bound_extent(x, 64) vectorize(x, 8)"),
    // masks reads rows of what is beyond the edges, too.
    ("zeros_around", zeros, "out: bound_extent(x, 64) vectorize(x, 8)"),
    // build_nests folds the storage of f by itself.
    ("ring", row, "out: split(x, xo, xi, 64, guard) f: store_at(out, xo) compute_at(out, xi)"),
    // narrow halves the indices of the gather.
    (
        "stack_table",
        lookup,
        "table: compute_root bound(j, 0, 4) bound(k, 0, 16) store_in(stack)
         out: split(x, xo, xi, 4, predicate) vectorize(xi)",
    ),
    // dead_allocations takes f away.
    ("unread_values", late, "f: compute_root out: bound(x, 0, 8)"),
    // skip_stages computes f where it is asked for.
    ("skipped_stage", asked, "f: compute_root"),
    ("two_together", pair, "g: compute_with(f, x)"),
    ("fetched_ahead", pair, "f: split(x, xo, xi, 16, guard) prefetch(in, xo, 2)"),
    // partition gives tiles an inner body without clamps, which the last simplify cleans up.
    (
        "clamped_interior",
        edges,
        "out: split(x, xo, xi, 4, guard) unroll(xi)",
    ),
    // tails has one loop for the rows of the last block.
    ("unrolled_rows", blur, "out: split(y, yo, yi, 4, guard) reorder(yi, x, yo) unroll(yi)"),
    // separable sums rows first.
    ("binomial", binomial, "out: vectorize(x, 8)"),
    ("clones", blur, "bx: clone_in(out, as twin) twin: compute_at(out, y) store_in(heap)"),
];

/// The passes: `lower` logs these.
const PASSES: [&str; 22] = [
    "apply_schedule",
    "build_nests",
    "skip_stages",
    "trim",
    "simplify",
    "separable",
    "flatten",
    "known_params",
    "expand_math",
    "tails",
    "unroll",
    "vectorize",
    "simplify",
    "dead_allocations",
    "hoist",
    "partition",
    "masks",
    "simplify",
    "interleave",
    "residues",
    "narrow",
    "addresses",
];

/// The schedule, and the statement after each pass that changed it.
fn passes(case: &Case) -> String {
    let (mut text, files) = dumps(case);
    let mut before = String::new();
    for (name, after) in files {
        let Some((_, pass)) = name.split_once("_after_") else { continue };
        match after == before {
            true => writeln!(text, "\n; {pass}: no change"),
            false => write!(text, "\n; {pass}\n{after}"),
        }
        .expect("a String");
        before = after;
    }
    text
}

#[test]
fn every_pass_leaves_the_statement_that_is_on_file() {
    let (mut all, mut changed) = (vec![], [false; PASSES.len()]);
    for case in &CASES {
        let came = passes(case);
        let headings: Vec<&str> = came.lines().filter_map(|l| l.strip_prefix("; ")).collect();
        assert_eq!(headings.iter().map(|h| h.trim_end_matches(": no change")).collect::<Vec<_>>(), PASSES);
        changed.iter_mut().zip(headings).for_each(|(c, h)| *c |= !h.ends_with(": no change"));
        all.push((case.0, came));
    }
    compare("passes", "ir", &all);
    let idle: Vec<_> = PASSES.iter().zip(changed).filter(|(_, changed)| !changed).map(|(p, _)| p).collect();
    assert!(idle.is_empty(), "no case shows what these passes do: {idle:?}");
}
