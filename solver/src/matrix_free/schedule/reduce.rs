//! Reductions over a domain, the same for any number of threads.
//!
//! The domain is cut along its last dim into strips, whose height comes from sizes alone; strips run in parallel, each with one
//! accumulator per vector lane; lanes, then strips, are summed in a fixed order. All accumulators are float64.

use crate::matrix_free::domain::fields::all;
use crate::matrix_free::{LANES, Skeleton};
use sumsq_codegen::{Expr, Func, LoopLevel, Memory, Pipeline, RDom, ScalarType, Schedule, StageId, Tail};
use sumsq_energy::model::Domain;

/// Operator of one element of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Sum from 0.
    Add,
    /// Maximum from 0.
    Max,
}

/// The points of a domain to reduce over.
pub struct Points {
    /// The reduction domain.
    pub rdom: RDom,
    /// Its variables as expressions: the coordinates of a point.
    pub coordinates: Vec<Expr>,
    /// Run-time height of a strip.
    pub strip: Expr,
}

/// Name of the run-time strip height of a domain.
pub fn strip_name(domain: Domain) -> String {
    match domain {
        Domain::Space(s) => format!("strip.s{}", s.0),
        Domain::Graph(g) => format!("strip.g{}", g.0),
    }
}

impl Skeleton {
    /// All points of a domain.
    pub fn points(&self, domain: Domain) -> Points {
        let (vars, extents) = self.domain_vars(domain);
        let vars = vars.into_iter().zip(extents).map(|(v, n)| (format!("r{v}"), Expr::from(0), n));
        let rdom = RDom::new(vars);
        let coordinates = (0..rdom.vars.len()).map(|d| rdom.var(d)).collect();
        Points { rdom, coordinates, strip: Expr::param(strip_name(domain), ScalarType::I32) }
    }
}

/// Names that the schedule of a reduction introduces.
pub struct Loops {
    /// The innermost loop outside of the vector: where producers of single vectors are computed.
    pub vector: LoopLevel,
    /// The loop over rows of a strip (equal to `strip` in one dimension).
    pub row: LoopLevel,
    /// The parallel loop over strips.
    pub strip: LoopLevel,
}

/// Skips vectors, of which `vector` is the loop, for which `live`, an expression in the coordinates of the points, is false.
pub fn skip_unless(s: &mut Schedule, vector: &LoopLevel, live: Option<Expr>) {
    let Some(live) = live else { return };
    let StageId { func, stage } = &vector.stage;
    let stage = match stage {
        0 => s.func(func),
        update => s.update(func, update - 1),
    };
    stage.skip_unless(&vector.var, live);
}

/// Computes an output vector by vector inside of the reduction that reads it, and stores it there.
pub fn sink(s: &mut Schedule, f: &Func, vector: &LoopLevel) {
    s.func(&f.name).relaxed().compute_at(vector.clone()).vectorize("x", LANES, Tail::Predicate).sink();
}

/// Adds the scalar tuple Func `name` that reduces `terms` (float64 each) over `points`, scheduled at root.
pub fn reduce(
    p: &mut Pipeline,
    s: &mut Schedule,
    name: &str,
    points: &Points,
    terms: Vec<(Op, Expr)>,
) -> (Func, Loops) {
    let init = terms.iter().map(|_| Expr::float(ScalarType::F64, 0.0)).collect();
    let f = Func::new(name, &[], init);
    let values = all(&f, &[]).into_iter().zip(terms).map(|(old, (op, t))| match op {
        Op::Add => old + t,
        Op::Max => old.max(t),
    });
    let values = values.collect();
    let f = p.func(f.update(vec![], values, points.rdom.clone()));
    (f, schedule(s, name, points))
}

fn schedule(s: &mut Schedule, name: &str, points: &Points) -> Loops {
    let (strips, lanes) = (format!("{name}_s"), format!("{name}_sl"));
    let vars: Vec<&str> = points.rdom.vars.iter().map(|v| &*v.name).collect();
    let last = vars[vars.len() - 1];
    // In one dimension the vector loop is split from inside the strip.
    let first = if vars.len() == 1 { "row" } else { vars[0] };
    s.func(name).compute_root().relaxed();
    s.update(name, 0)
        .split(last, "strip", "row", points.strip.clone(), Tail::Predicate)
        .split(first, "vec", "lane", LANES, Tail::Predicate)
        .rfactor(&[("strip", "s")], &strips);
    s.func(&strips).compute_root();
    s.update(&strips, 0).rfactor(&[("lane", "l")], &lanes).parallel("s").vectorize_loop("lane");
    let strip = LoopLevel::update(&strips, 0, "s");
    s.func(&lanes).compute_at(strip.clone()).store_in(Memory::Register).vectorize_loop("l");
    let mut order = vec!["l", "vec"];
    order.extend(vars[..vars.len() - 1].iter().skip(1));
    if vars.len() > 1 {
        order.push("row");
    }
    order.push("s");
    s.update(&lanes, 0).reorder(&order).vectorize_loop("l");
    let row = if vars.len() == 1 { strip.clone() } else { LoopLevel::update(&lanes, 0, "row") };
    Loops { vector: LoopLevel::update(&lanes, 0, "vec"), row, strip }
}

/// Schedules an output over a space at root: strips in parallel, vectors along dim 0. Returns the loop outside of the vector.
pub fn map_root(s: &mut Schedule, f: &Func, strip: &Expr) -> LoopLevel {
    let vars: Vec<&str> = f.vars.iter().map(|v| &*v.0).collect();
    let last = vars[vars.len() - 1];
    let first = if vars.len() == 1 { "row" } else { vars[0] };
    s.func(&f.name)
        .compute_root()
        .relaxed()
        .split(last, "strip", "row", strip.clone(), Tail::Predicate)
        .split(first, "vec", "lane", LANES, Tail::Predicate)
        .parallel("strip")
        .vectorize_loop("lane");
    LoopLevel::pure(&f.name, "vec")
}
