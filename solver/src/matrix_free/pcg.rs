//! One PCG iteration as two sweeps over memory.
//!
//! ```text
//! A: z = M^-1 r;  p = z + beta p_old;  q = (J^T J + D) p;  pq = sum p.q;  alpha = rz / pq
//! B: d' = d + alpha p;  r' = r - alpha q;  rz' = sum r'.M^-1 r';  beta = rz' / rz;  stop?
//! ```
//! `p_old` and `p` are two buffers, swapped after each iteration; d and r are one tuple `dr`, updated in place. Over a grid of two dims without
//! graphs p is computed row by row inside the reduction of A, in a ring of rows, and stored to memory once; elsewhere it is a sweep of its own
//! before A, and so are the products J p that are stored and the partial sums over hyperedges with their share of pq. q is recomputed in B from
//! p and these, or stored by A where that costs more than memory.
//!
//! Scalars live in two tuples of float64, `state` (carried, ping-ponged) and `alpha` (from A to B). The model value Q = d.(b + r)/2 is carried by
//! Q' = Q + alpha rz / 2, which equals it in exact arithmetic and needs no sweep over b.

use crate::matrix_free::domain::fields::{all, over, over_domain, vars};
use crate::matrix_free::domain::layout::record;
use crate::matrix_free::pipelines::damping::{apply_inverse, inverse_diagonal};
use crate::matrix_free::pipelines::gather::{Parts, at_vector, element, gather, parts, row_points};
use crate::matrix_free::pipelines::global::{add_totals, totals};
use crate::matrix_free::schedule::reduce::{Loops, Op, map_root, reduce, sink, skip_unless, strip_name};
use crate::matrix_free::{LANES, Scheduled, Skeleton, Space, packed};
use sumsq_codegen::{Expr, Func, Input, Layout, Pipeline, ScalarType, Schedule, Tail, Var};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::Place;
use sumsq_energy::model::{Domain, GraphId, SpaceId};

/// Elements of the tuple `state`.
pub mod state {
    /// r . M^-1 r.
    pub const RZ: usize = 0;
    /// Factor of the old direction.
    pub const BETA: usize = 1;
    /// |r|^2.
    pub const RR: usize = 2;
    /// d.(b + r)/2.
    pub const Q: usize = 3;
    /// Iterations done.
    pub const K: usize = 4;
    /// 0 while running, else one of the stop codes.
    pub const STOP: usize = 5;
    /// Number of elements.
    pub const LEN: usize = 6;
}

/// Stop codes in `state`.
pub mod stop {
    /// |r| <= tau |b|.
    pub const TOLERANCE: f64 = 1.0;
    /// k (Q_k - Q_{k-1}) <= zeta Q_k.
    pub const MODEL: f64 = 2.0;
    /// The iteration limit.
    pub const LIMIT: f64 = 3.0;
    /// p.Ap <= 0.
    pub const INDEFINITE: f64 = 4.0;
    /// A scalar is not finite.
    pub const NOT_FINITE: f64 = 5.0;
}

fn scalar(name: &str, i: usize) -> Expr {
    Expr::call(name, ScalarType::F64, vec![], i)
}

fn number(v: f64) -> Expr {
    Expr::float(ScalarType::F64, v)
}

fn is_finite(e: &Expr) -> Expr {
    e.abs().lt(number(f64::INFINITY))
}

impl Skeleton {
    fn vector(&self, prefix: &str, space: &Space, at: &[Expr]) -> Vec<Expr> {
        let (name, first) = match prefix {
            "d" => ("dr", 0),
            "r" => ("dr", space.components),
            name => (name, 0),
        };
        let element = |c| Expr::call(over(name, space.id), self.linear, at.to_vec(), first + c);
        (0..space.components).map(element).collect()
    }

    fn inverse_at(&self, space: &Space, at: &[Expr]) -> Vec<Expr> {
        if space.inline_diagonal {
            return self.computed_diagonal(space, at).minv;
        }
        let entries = self.block_entries(space);
        (0..entries).map(|c| Expr::call(over("minv", space.id), self.linear, at.to_vec(), c)).collect()
    }

    fn declare_vectors(&self, p: &mut Pipeline, names: &[&str]) {
        for space in &self.spaces {
            for &name in names {
                if space.inline_diagonal && matches!(name, "minv" | "damp") {
                    continue;
                }
                let n = match name {
                    "minv" => self.block_entries(space),
                    "dr" => 2 * space.components,
                    _ => space.components,
                };
                let layout = match name {
                    "p" | "pn" => self.vector_layout(space.id, Source::Direction),
                    _ => Layout::Planar,
                };
                let field = self.field(over(name, space.id), &vec![self.linear; n], space.id);
                p.input(Input { layout, ..field });
            }
        }
    }

    /// (J^T J + D) p at `at`: the stencils' share.
    fn apply(
        &self,
        space: &Space,
        at: &[Expr],
        direction: &dyn Fn(SpaceId, usize, &[Expr]) -> Expr,
    ) -> Vec<Expr> {
        let damp: Vec<Expr> = match space.inline_diagonal {
            true => self.computed_diagonal(space, at).damp,
            false => (0..space.components)
                .map(|c| Expr::call(over("damp", space.id), self.linear, at.to_vec(), c))
                .collect(),
        };
        let mut damped: Vec<Expr> =
            damp.into_iter().enumerate().map(|(c, d)| d * direction(space.id, c, at)).collect();
        if self.stores_blocks(space) {
            let block = |i| Expr::call(over("bd", space.id), self.linear, at.to_vec(), i);
            for (c, q) in damped.iter_mut().enumerate() {
                for d in 0..space.components {
                    *q = q.clone() + block(packed(c, d)) * direction(space.id, d, at);
                }
            }
        }
        let roots = self.routines.roots(Kind::JtJp, Site::Element(space.id));
        let q = self.emit(roots, self.linear, Place::Element(space.id, at.to_vec()), direction);
        q.into_iter().zip(damped).map(|(q, d)| q + d).collect()
    }

    /// `value` where scalar c takes part, else 0: q is meaningless where M^-1 = 0, possibly NaN. A computed diagonal has no
    /// excluded elements, and where it is 0 so are J, r and q.
    fn where_active(&self, space: &Space, minv: &[Expr], c: usize, value: Expr) -> Expr {
        if space.inline_diagonal {
            return value;
        }
        let zero = || Expr::float(self.linear, 0.0);
        Expr::select(inverse_diagonal(space, minv, c).ne_(zero()), value, zero())
    }

    fn rolls(&self) -> bool {
        rolls(&self.routines, &self.spaces)
    }
}

/// Whether p and the products J p are computed inside A's reduction: one grid of two dims, read by stencils alone.
pub fn rolls(r: &Routines, spaces: &[Space]) -> bool {
    let [space] = spaces else { return false };
    let own = Site::Instance(Domain::Space(space.id));
    space.dims == 2 && space.slots.is_empty() && r.of(Kind::Product).all(|r| r.site == own)
}

/// Name of the partial sums of a slot in J^T J p.
pub fn part_name(graph: GraphId, slot: u16) -> String {
    format!("part_g{}s{slot}", graph.0)
}

/// Name of p . q over the partial sums of a slot.
fn part_product(graph: GraphId, slot: u16) -> String {
    format!("{}_pq", part_name(graph, slot))
}

/// Name of what the instances of a domain give the globals in J^T J p.
fn total_name(i: usize) -> String {
    format!("total{i}")
}

/// Adds Func `pn<s>` = M^-1 r + beta p_old as an output.
fn new_direction(k: &Skeleton, p: &mut Pipeline, space: &Space) -> Func {
    let beta = scalar("state", state::BETA).cast(k.linear);
    let vars = vars(space.dims);
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let (r, old, minv) = (k.vector("r", space, &at), k.vector("p", space, &at), k.inverse_at(space, &at));
    let values =
        (0..space.components).map(|c| apply_inverse(space, &minv, &r, c) + &beta * &old[c]).collect();
    let f = p.func(Func::new(over("pn", space.id), &vars, values));
    let layout = k.vector_layout(space.id, Source::Direction);
    p.output_with(&f, layout, k.halos[space.id.index()].clone());
    f
}

/// The new direction, where A does not compute it: outputs `pn<s>`.
pub fn direction(k: &Skeleton) -> Option<Scheduled> {
    if k.rolls() {
        return None;
    }
    let (mut p, mut s) = (Pipeline::new("pcg_p"), Schedule::new());
    k.declare_vectors(&mut p, &["dr", "p", "minv"]);
    state_input(&mut p, "state", state::LEN);
    for space in &k.spaces {
        let f = new_direction(k, &mut p, space);
        let level = map_root(&mut s, &f, &Expr::param(strip_name(Domain::Space(space.id)), ScalarType::I32));
        let at: Vec<Expr> = vars(space.dims).iter().map(Var::expr).collect();
        skip_unless(&mut s, &level, k.live_at(space.id, &at));
    }
    k.complete(&mut p, &mut s, k.linear);
    Some((p, s))
}

/// What is stored of J p: outputs `jp<s>` over spaces, `jpg<g>` over hyperedges.
pub fn products(k: &Skeleton) -> Option<Scheduled> {
    if !k.routines.has(Kind::Product) || k.rolls() {
        return None;
    }
    let (mut p, mut s) = (Pipeline::new("pcg_jp"), Schedule::new());
    k.declare_vectors(&mut p, &["pn"]);
    for r in k.routines.of(Kind::Product) {
        let domain = r.site.domain(&k.energy);
        let f = product(k, &mut p, domain, &r.roots);
        map_root(&mut s, &f, &Expr::param(strip_name(domain), ScalarType::I32));
        p.output_with(&f, Layout::Planar, k.domain_halo(domain));
    }
    k.complete(&mut p, &mut s, k.linear);
    Some((p, s))
}

/// Adds Func `jp<s>` or `jpg<g>`.
fn product(k: &Skeleton, p: &mut Pipeline, domain: Domain, roots: &[ExprId]) -> Func {
    let direction =
        |space: SpaceId, c: usize, at: &[Expr]| Expr::call(over("pn", space), k.linear, at.to_vec(), c);
    let vars: Vec<Var> = k.domain_vars(domain).0.iter().map(|&v| Var::new(v)).collect();
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let values = k.emit(roots, k.linear, k.place(domain, at), &direction);
    p.func(Func::new(over_domain("jp", domain), &vars, values))
}

/// Sweep A. Outputs: `pn<s>` where p rolls, `alpha` = (alpha, p.q, 1 if p.q > 0 and finite).
pub fn sweep_a(k: &Skeleton) -> Scheduled {
    let (mut p, mut s) = (Pipeline::new("pcg_a"), Schedule::new());
    state_input(&mut p, "state", state::LEN);
    if k.rolls() {
        k.declare_vectors(&mut p, &["dr", "p", "minv", "damp"]);
        k.spaces.iter().for_each(|space| drop(new_direction(k, &mut p, space)));
        for r in k.routines.of(Kind::Product) {
            product(k, &mut p, r.site.domain(&k.energy), &r.roots);
        }
    } else {
        k.declare_vectors(&mut p, &["pn", "minv", "damp"]);
    }
    let mut pq = number(0.0);
    for &(graph, slot) in k.spaces.iter().flat_map(|space| &space.slots) {
        state_input(&mut p, &part_product(graph, slot), 1);
        pq = pq + scalar(&part_product(graph, slot), 0);
    }
    for space in &k.spaces {
        pq = pq + space_product(k, &mut p, &mut s, space);
    }
    let ok = pq.gt(number(0.0)).and(is_finite(&pq));
    let alpha = Expr::select(ok.clone(), scalar("state", state::RZ) / &pq, number(0.0));
    let ok = Expr::select(ok, number(1.0), number(0.0));
    let f = p.func(Func::new("alpha", &[], vec![alpha, pq, ok]));
    p.output(&f);
    k.complete(&mut p, &mut s, k.linear);
    (p, s)
}

/// The share of p.q that stencils and globals have over a space: `pq<s>`, with `q<s>` inside of it.
fn space_product(k: &Skeleton, p: &mut Pipeline, s: &mut Schedule, space: &Space) -> Expr {
    let direction =
        |space: SpaceId, c: usize, at: &[Expr]| Expr::call(over("pn", space), k.linear, at.to_vec(), c);
    let vars = vars(space.dims);
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let totals: Vec<Func> = k
        .globals(space.id)
        .map(|(i, site)| {
            let roots = k.routines.roots(Kind::JtJp, site);
            let f = totals(k, p, s, (&total_name(i), site), (roots, k.linear), &direction);
            p.output(&f);
            f
        })
        .collect();
    let start = add_totals(k.apply(space, &at, &direction), &totals);
    let q = p.func(Func::new(over("q", space.id), &vars, start));
    if space.stores_q {
        p.output_with(&q, Layout::Planar, k.halos[space.id.index()].clone());
    }
    let points = k.points(Domain::Space(space.id));
    let at = &points.coordinates;
    let minv = k.inverse_at(space, at);
    let terms = (0..space.components).map(|c| {
        let product = direction(space.id, c, at) * q.at(at, c);
        k.where_active(space, &minv, c, product).cast(ScalarType::F64)
    });
    let term = terms.reduce(|a, b| a + b).expect("at least one component");
    let (f, loops) = reduce(p, s, &over("pq", space.id), &points, vec![(Op::Add, term)]);
    skip_unless(s, &loops.vector, k.live_at(space.id, at));
    if k.rolls() {
        roll(k, s, space, &loops);
    }
    if space.stores_q {
        sink(s, &q, &loops.vector);
    } else {
        s.func(&q.name).inline();
    }
    f.at(&[], 0)
}

fn state_input(p: &mut Pipeline, name: &str, n: usize) {
    p.input(sumsq_codegen::Input::new(name, &vec![ScalarType::F64; n], 0));
}

/// The partial sums of J^T J p over the rows of every graph vertex, for each place that is reached from there, and their share of p.q:
/// outputs `part_g<g>s<slot>`, `part_g<g>s<slot>_pq`. Where p = 0 the share is 0, whatever q is: excluded elements may have q = NaN.
pub fn graph_parts(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("pcg_parts"), Schedule::new());
    k.declare_vectors(&mut p, &["pn"]);
    let direction =
        |space: SpaceId, c: usize, at: &[Expr]| Expr::call(over("pn", space), k.linear, at.to_vec(), c);
    let slots = k.spaces.iter().flat_map(|space| space.slots.iter().map(move |&slot| (space, slot)));
    for (space, (graph, slot)) in slots {
        let contributions = k.contributions(Kind::JtJp, graph, slot);
        let of = Parts { graph, slot, contributions: &contributions, ty: k.linear, direction: &direction };
        let rows = parts(k, &mut p, &part_name(graph, slot), of);
        p.output_with(&rows.part, record(rows.part.values.len()), vec![LANES as u32, 0]);
        let points = row_points(graph, slot);
        let at = &points.coordinates;
        let element = element(k, (graph, slot), at);
        let zero = || Expr::float(k.linear, 0.0);
        let product = |(i, p): (usize, Expr)| {
            Expr::select(p.ne_(zero()), &p * &rows.part.at(at, i), zero()).cast(ScalarType::F64)
        };
        let of_place = |slot| {
            let there = k.place_at(graph, slot, &element);
            (0..space.components).map(|c| direction(space.id, c, &there)).collect::<Vec<Expr>>()
        };
        let components = k.places(graph, slot).flat_map(of_place).enumerate();
        let term = components.map(product).reduce(|a, b| a + b).expect("at least one component");
        let (pq, loops) = reduce(&mut p, &mut s, &part_product(graph, slot), &points, vec![(Op::Add, term)]);
        p.output(&pq);
        rows.within(&mut s, loops.vector);
    }
    k.complete(&mut p, &mut s, k.linear);
    (!p.outputs.is_empty()).then_some((p, s))
}

fn parts_of(space: &Space, parts: &[Func]) -> Vec<Func> {
    let names: Vec<String> = space.slots.iter().map(|&(g, slot)| part_name(g, slot)).collect();
    names.iter().map(|n| parts.iter().find(|f| *f.name == **n).expect("one part per slot").clone()).collect()
}

/// p row by row inside the reduction of A, in a ring of rows.
fn roll(k: &Skeleton, s: &mut Schedule, space: &Space, loops: &Loops) {
    let reach = k.halos[space.id.index()][1];
    let stage = s
        .func(&over("pn", space.id))
        .relaxed()
        .store_at(loops.strip.clone())
        .compute_at(loops.row.clone())
        .fold_storage("y", (2 * reach + 1).next_power_of_two())
        .align_bounds("x", LANES as u32)
        .vectorize("x", LANES, Tail::Predicate)
        .sink()
        .non_temporal(Expr::param("streaming", ScalarType::I32));
    let at: Vec<Expr> = vars(space.dims).iter().map(Var::expr).collect();
    if let Some(live) = k.live_at(space.id, &at) {
        stage.skip_unless("xo", live);
    }
    for domain in k.routines.of(Kind::Product).map(|r| r.site.domain(&k.energy)) {
        s.func(&over_domain("jp", domain))
            .relaxed()
            .store_at(loops.strip.clone())
            .compute_at(loops.row.clone())
            .fold_storage("y", (2 * reach + 1).next_power_of_two())
            .align_bounds("x", LANES as u32)
            .vectorize("x", LANES, Tail::Predicate);
    }
}

/// Sweep B. In place: `drn<s>` over `dr<s>`. Outputs `next` (the new state) and `done`.
pub fn sweep_b(k: &Skeleton) -> Scheduled {
    let (mut p, mut s) = (Pipeline::new("pcg_b"), Schedule::new());
    k.declare_vectors(&mut p, &["dr", "p", "minv", "damp"]);
    state_input(&mut p, "state", state::LEN);
    state_input(&mut p, "alpha", 3);
    let direction =
        |space: SpaceId, c: usize, at: &[Expr]| Expr::call(over("p", space), k.linear, at.to_vec(), c);
    let parts = stored_parts(k, &mut p);
    let mut sums = [number(0.0), number(0.0)];
    for space in &k.spaces {
        let f = update_space(k, &mut p, &mut s, space, &parts, &direction);
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = sum.clone() + f.at(&[], i);
        }
    }
    let [rz, rr] = sums;
    decide(&mut p, rz, rr);
    k.complete(&mut p, &mut s, k.linear);
    (p, s)
}

/// The partial sums that [`graph_parts`] stored, as inputs; the Funcs only carry their names and types.
fn stored_parts(k: &Skeleton, p: &mut Pipeline) -> Vec<Func> {
    let mut out = vec![];
    for space in &k.spaces {
        for &(graph, slot) in &space.slots {
            let n = space.components * k.places(graph, slot).count();
            let mut i = Input::new(part_name(graph, slot), &vec![k.linear; n], 2);
            (i.halo[0], i.trusted, i.layout) = (LANES as u32, true, record(n));
            let i = p.input(i);
            let values = vec![Expr::float(k.linear, 0.0); n];
            out.push(Func::new(i.name, &[Var::new("lane"), Var::new("block")], values));
        }
    }
    out
}

/// d', r' and the sums (r'.M^-1 r', |r'|^2) of one space, in one nest.
fn update_space(
    k: &Skeleton,
    p: &mut Pipeline,
    s: &mut Schedule,
    space: &Space,
    parts: &[Func],
    direction: &dyn Fn(SpaceId, usize, &[Expr]) -> Expr,
) -> Func {
    let vars = vars(space.dims);
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let totals: Vec<Func> = k
        .globals(space.id)
        .map(|(i, _)| {
            let f = Func::new(total_name(i), &[], vec![number(0.0); space.components]);
            state_input(p, &f.name, space.components);
            f
        })
        .collect();
    let start = match space.stores_q {
        true => {
            p.input(k.field(over("q", space.id), &vec![k.linear; space.components], space.id));
            (0..space.components).map(|c| Expr::call(over("q", space.id), k.linear, at.clone(), c)).collect()
        }
        false => add_totals(k.apply(space, &at, direction), &totals),
    };
    let q = gather(k, p, &over("qb", space.id), space, &vars, start, &parts_of(space, parts));
    let alpha = scalar("alpha", 0).cast(k.linear);
    let ok = scalar("alpha", 2).ne_(number(0.0));
    let (d, r, minv) = (k.vector("d", space, &at), k.vector("r", space, &at), k.inverse_at(space, &at));
    let step =
        |c: usize| Expr::select(ok.clone(), &d[c] + &(&alpha * &direction(space.id, c, &at)), d[c].clone());
    let rest = |c: usize| k.where_active(space, &minv, c, &r[c] - &(&alpha * &q.at(&at, c)));
    let values = (0..space.components).map(step).chain((0..space.components).map(rest)).collect();
    let drn = p.func(Func::new(over("drn", space.id), &vars, values));

    let points = k.points(Domain::Space(space.id));
    let rc = all(&drn, &points.coordinates).split_off(space.components);
    let minv = k.inverse_at(space, &points.coordinates);
    let f64 = |e: &Expr| e.cast(ScalarType::F64);
    let sum =
        |terms: &mut dyn Iterator<Item = Expr>| terms.reduce(|a, b| a + b).expect("at least one component");
    let z = |c: usize| apply_inverse(space, &minv, &rc, c);
    let rz = sum(&mut (0..space.components).map(|c| f64(&(&rc[c] * &z(c)))));
    let rr = sum(&mut rc.iter().map(|r| f64(&(r * r))));
    let (f, loops) = reduce(p, s, &over("acc", space.id), &points, vec![(Op::Add, rz), (Op::Add, rr)]);
    p.output_with(&drn, Layout::Planar, k.halos[space.id.index()].clone());
    sink(s, &drn, &loops.vector);
    s.func(&drn.name).in_place_of(&over("dr", space.id));
    skip_unless(s, &loops.vector, k.live_at(space.id, &points.coordinates));
    at_vector(s, &q, loops.vector);
    f
}

/// The scalars at the end of an iteration.
fn decide(p: &mut Pipeline, rz: Expr, rr: Expr) {
    let old = |i| scalar("state", i);
    let option = |name: &str| Expr::param(name, ScalarType::F64);
    let gain = number(0.5) * scalar("alpha", 0) * old(state::RZ);
    let q = old(state::Q) + &gain;
    let count = old(state::K) + number(1.0);
    let beta = Expr::select(old(state::RZ).gt(number(0.0)), &rz / &old(state::RZ), number(0.0));
    let enough = (&count * &gain).le(option("zeta") * q.clone()).and(count.ge(number(2.0)));
    let rules = [
        (scalar("alpha", 2).eq_(number(0.0)), {
            let finite = is_finite(&scalar("alpha", 1));
            Expr::select(finite, number(stop::INDEFINITE), number(stop::NOT_FINITE))
        }),
        (is_finite(&rz).and(is_finite(&rr)).not_(), number(stop::NOT_FINITE)),
        (rr.le(option("tolerance")), number(stop::TOLERANCE)),
        (rr.eq_(number(0.0)).or(rz.eq_(number(0.0))), number(stop::TOLERANCE)),
        (enough, number(stop::MODEL)),
        (count.ge(option("limit")), number(stop::LIMIT)),
    ];
    let running = number(0.0);
    let code = rules.into_iter().rev().fold(running, |code, (rule, value)| Expr::select(rule, value, code));
    let next = p.func(Func::new("next", &[], vec![rz, beta, rr, q, count, code]));
    p.output(&next);
    let done = Expr::select(next.at(&[], state::STOP).ne_(number(0.0)), Expr::from(1), Expr::from(0));
    let done = p.func(Func::new("done", &[], vec![done]));
    p.output(&done);
}
