//! Regions of Funcs at the levels where they are computed and stored.
//!
//! `tests/golden/regions/<case>.txt` holds what the case shows, the schedule, the plan that comes of it, and the table of regions.

use crate::pipelines::*;
use crate::{Case, compare, dumps};

/// Cases, with what each shows.
const CASES: [(&str, Case); 14] = [
    (
        "bounds inference: a tile of f covers what all points of a tile of out read, which the domain cuts off",
        (
            "tiles",
            corners,
            "out: split(x, xo, xi, 8, guard) split(y, yo, yi, 4, guard) reorder(xi, yi, xo, yo)
             f: compute_at(out, xo)",
        ),
    ),
    (
        "bounds inference: f covers what its update writes and reads of it, besides what out reads",
        ("updates", running_sum, "f: compute_root"),
    ),
    (
        "bounds inference: a coordinate that is data lies where it is clamped to",
        ("gathers", lookup, "table: compute_root"),
    ),
    (
        "bounds inference: a special version has regions of its own, under what its condition says",
        (
            "versions",
            corners,
            "out: split(y, yo, yi, 8, guard) specialize(out.extent.1 <= 8) { parallel(x) } f: compute_at(out, yo)",
        ),
    ),
    (
        "sliding: the region rises, so its start moves behind the end of the last one",
        ("rising", rising, "out: split(x, xo, xi, 16, guard) f: store_at(out, xo) compute_at(out, xi)"),
    ),
    (
        "sliding: the region falls, so its end moves in front of the start of the last one",
        ("falling", falling, "out: split(x, xo, xi, 16, guard) f: store_at(out, xo) compute_at(out, xi)"),
    ),
    (
        "sliding: the region jumps, so nothing in between is computed",
        ("jumping", jumping, "out: split(x, xo, xi, 16, guard) f: store_at(out, xo) compute_at(out, xi)"),
    ),
    (
        "folding: rows of f are a ring; the columns, along which out runs as lanes, stay dense",
        (
            "ring_of_rows",
            corners,
            "out: split(y, yo, yi, 16, guard) split(x, xo, xi, 4, predicate) vectorize(xi)
             f: store_at(out, yo) compute_at(out, yi)",
        ),
    ),
    (
        "folding: a schedule turns it off, and slides all the same",
        (
            "whole",
            rising,
            "out: split(x, xo, xi, 16, guard) f: store_at(out, xo) compute_at(out, xi) store_whole",
        ),
    ),
    (
        "joint nests: f is computed once for both stages, over the union of what an iteration of either reads",
        ("joint", fork, "h: compute_with(g, x) f: compute_at(g, x)"),
    ),
    (
        "allocation bounds: storage on the stack has the constant size that is proved of a tile",
        (
            "stack",
            corners,
            "out: split(x, xo, xi, 8, guard) split(y, yo, yi, 4, guard) reorder(xi, yi, xo, yo)
             f: compute_at(out, xo) store_in(stack)",
        ),
    ),
    (
        "allocation bounds: storage holds the blocks that RoundUp and align_bounds add",
        ("rounded", rising, "out: align_bounds(x, 4) f: compute_root split(x, xo, xi, 8, round_up)"),
    ),
    (
        "sinks: g is computed over what a block of h reads, and stored where the block is its own",
        ("sink", chain, "h: split(x, xo, xi, 8, guard) g: compute_at(h, xo) sink"),
    ),
    (
        "sinks: an output that is read beyond its domain has storage besides its buffer",
        ("beyond_the_domain", chain, "g: compute_root"),
    ),
];

/// The idea, the schedule, the plan and the regions.
fn regions(idea: &str, case: &Case) -> String {
    let (schedule, files) = dumps(case);
    let file = |end: &str| files.iter().find(|f| f.0.ends_with(end)).map_or("", |f| &f.1);
    let (plan, table) = (file("_after_apply_schedule"), file("_regions"));
    format!("; {idea}\n\n; schedule\n{schedule}\n; plan\n{plan}\n; regions\n{table}")
}

#[test]
fn regions_are_those_that_are_on_file() {
    let all: Vec<_> = CASES.iter().map(|(idea, case)| (case.0, regions(idea, case))).collect();
    compare("regions", "txt", &all);
}
