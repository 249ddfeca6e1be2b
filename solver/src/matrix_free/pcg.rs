//! One PCG iteration as two sweeps.
//!
//! ```text
//! A: z = M^-1 r;  p = z + beta p_old;  q = (J^T J + D) p;  pq = sum p.q;  alpha = rz / pq
//! B: d' = d + alpha p;  r' = r - alpha q;  rz' = sum r'.M^-1 r';  beta = rz' / rz;  stop?
//! ```
//! `p_old` and `p` are two buffers, swapped after each iteration; d and r are one tuple `dr`, updated in place. p is a sweep of its own before A,
//! or, by choice, computed inside the reduction of A, in a ring of rows or a tile, or wherever it is read, and stored to memory once; and in
//! rings or tiles so are the products J p that are stored. The partial sums over hyperedges with their share of pq come before A, or, by
//! choice, A adds hyperedges up element by element, or these add up themselves before A. q is recomputed in B from p and the partial sums, or, by choice, stored by A.
//!
//! Where M has stages of PCG iterations they run behind B, which leaves r.M^-1 r, |r|^2 and the decision to a reduction behind them.
//!
//! Scalars live in two tuples of float64, `state` (carried, ping-ponged) and `alpha` (from A to B). The model value Q = d.(b + r)/2 is carried by
//! Q' = Q + alpha rz / 2, which equals it in exact arithmetic and needs no sweep over b.

use crate::matrix_free::choices::Value;
use crate::matrix_free::draft::{Direction, Draft, all, coordinates, vars};
use crate::matrix_free::pipelines::computed::inside;
use crate::matrix_free::pipelines::gather::{Parts, Sums, by_element, gather, parts, tree};
use crate::matrix_free::pipelines::global::{add_totals, totals};
use crate::matrix_free::pipelines::scatter::scatter;
use crate::matrix_free::preconditioner::{At, M, diagonal};
use crate::matrix_free::scalars::{AlphaScalar, PcgScalar, StartProduct, StartScalar};
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::schedule::{Ring, Strip};
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space, Span, When, packed};
use crate::matrix_free::stages::{Stage, Step, own};
use crate::matrix_free::stop::{self, Progress, is_finite, number};
use crate::matrix_free::vectors::{Over, Role, VectorId, What};
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Routine, Site};
use sumsq_energy::emit::Place;
use sumsq_energy::model::{Domain, GraphId, SpaceId};

/// PCG to its end: the stop rules hold the iteration limit.
pub fn solve(k: &Skeleton, kind: u8) -> Vec<Step> {
    let mut iteration = to_sweep_a(kind);
    iteration.push(Step::Run(Stage::SweepB(kind)));
    iteration.extend(own(k, kind, When::Iteration));
    iteration.push(Step::Run(Stage::Sums(kind)));
    iteration.extend(k.spaces.iter().map(|s| Step::Swap(What::P.of(s.id), What::PNew.of(s.id))));
    iteration.push(Step::Swap(What::State.of(()), What::Next.of(())));
    vec![Step::Until(What::Done.of(()), iteration)]
}

/// An iteration up to alpha.
pub fn to_sweep_a(kind: u8) -> Vec<Step> {
    [Stage::Direction(kind), Stage::Products, Stage::Parts, Stage::SweepA(kind)].map(Step::Run).to_vec()
}

/// Declares vectors of every space; the sweeps compute a diagonal that is not stored.
fn declare(d: &mut Draft, whats: &[What]) {
    d.k.spaces.iter().for_each(|space| declare_of(d, space, whats));
}

/// Declares vectors of a space.
fn declare_of(d: &mut Draft, space: &Space, whats: &[What]) {
    let stored = |what: &&What| !(space.inline_diagonal && matches!(what, What::M { .. } | What::Damp));
    whats.iter().filter(stored).for_each(|what| drop(d.input(what.of(space.id))));
}

/// Field 0 of M^-1.
fn inverse(m: M) -> What {
    What::M { kind: m.kind, field: 0 }
}

/// (J^T J + D) p at `at`: the stencils' share.
fn apply(d: &Draft, space: &Space, at: &[Expr], direction: Direction) -> Vec<Expr> {
    let k = d.k;
    let damp: Vec<Expr> = match space.inline_diagonal {
        true => diagonal::computed(d, space, at).damp,
        false => d.all(What::Damp.of(space.id), at),
    };
    let mut damped: Vec<Expr> =
        damp.into_iter().enumerate().map(|(c, d)| d * direction(space.id, c, at)).collect();
    if k.stores_blocks(space) {
        let block = |i| d.element(What::StoredBlocks.of(space.id), at, i);
        for (c, q) in damped.iter_mut().enumerate() {
            for d in 0..space.components {
                *q = q.clone() + block(packed(c, d)) * direction(space.id, d, at);
            }
        }
    }
    let roots = k.routines.roots(Kind::JtJp, Site::Element(space.id));
    let q = d.emit(roots, Place::Element(space.id, at.to_vec()), direction);
    q.into_iter().zip(damped).map(|(q, d)| q + d).collect()
}

/// `value` where scalar c takes part, else 0: q is meaningless elsewhere, possibly NaN. A computed diagonal has no
/// excluded elements, and where it is 0 so are J, r and q.
fn where_active(m: M, at: &At, c: usize, value: Expr) -> Expr {
    if at.space().inline_diagonal {
        return value;
    }
    let zero = Expr::float(value.ty().scalar, 0.0);
    Expr::select(m.of.takes_part(at, c), value, zero)
}

impl Skeleton {
    /// The products J p that are stored over domains where they are a sweep of their own, or where they are not.
    fn products(&self, rolling: bool) -> impl Iterator<Item = &Routine> {
        let rolls = |d: Domain| self.spaces.iter().any(|s| s.rolls_products && d == Domain::Space(s.id));
        self.routines.of(Kind::Product).filter(move |r| rolls(r.site.domain(&self.energy)) == rolling)
    }
}

/// The vertices whose rows are summed before sweep A, with their share of p.q.
fn row_sums(space: &Space) -> &[(GraphId, u16)] {
    if space.by_element || space.scatters { &[] } else { &space.slots }
}

/// Adds a Func that is M^-1 r + beta p_old.
fn new_direction(d: &mut Draft, m: M, space: &Space, name: String) -> Func {
    let k = d.k;
    let beta = k.scalar(PcgScalar::Beta).cast(k.linear);
    let vars = vars(space.dims);
    let at = coordinates(&vars);
    let r = d.all(What::DR.of(space.id), &at).split_off(space.components);
    let (old, z) = (d.all(What::P.of(space.id), &at), m.of.apply(&m.at(d, space, &at), &r));
    let values = z.into_iter().zip(old).map(|(z, old)| z + &beta * &old).collect();
    d.p.func(Func::new(name, &vars, values))
}

/// Adds Func `PNew` as an output.
fn stored_direction(d: &mut Draft, m: M, space: &Space) -> Func {
    let id = What::PNew.of(space.id);
    let f = new_direction(d, m, space, id.to_string());
    d.output(&f, id);
    f
}

/// The direction as sweep A reads it over a space.
struct NewDirection {
    space: SpaceId,
    /// The Func behind it, where that is computed there.
    func: Option<Func>,
}

impl NewDirection {
    /// That of a space, computed where the space's choice says.
    fn of(d: &mut Draft, m: M, space: &Space) -> NewDirection {
        let func = match space.direction {
            Value::Root => None,
            Value::Inline => Some(new_direction(d, m, space, format!("pi{}", space.id.0))),
            _ => Some(stored_direction(d, m, space)),
        };
        NewDirection { space: space.id, func }
    }

    /// A component of a space at some coordinates; of other spaces as it is stored.
    fn read(&self, k: &Skeleton, space: SpaceId, c: usize, at: &[Expr]) -> Expr {
        match &self.func {
            Some(f) if space == self.space => f.at(at, c),
            _ => k.direction_in(What::PNew)(space, c, at),
        }
    }

    /// Adds the nest of its Func in the loops of `sum`, which reads p at its own element as it is stored, and its output.
    fn place(&self, d: &mut Draft, space: &Space, sum: &Func) {
        let (Some(p), k) = (&self.func, d.k) else { return };
        if space.direction != Value::Inline {
            d.ring_in(&sum.name, p, Ring { reach: reach(k, space), stored: true });
            d.skip_unless(p, k.live_at(space.id, &coordinates(&p.vars)));
            return;
        }
        d.inline(p);
        let (id, at) = (What::PNew.of(space.id), coordinates(&p.vars));
        let stored = d.func(id, &p.vars, all(p, &at));
        d.output(&stored, id);
        d.store_in(sum, &stored);
    }
}

/// Rows of p that are read on either side of an element.
fn reach(k: &Skeleton, space: &Space) -> Option<u32> {
    k.halos[space.id.index()].last().copied()
}

/// The new direction, where A does not compute it: outputs `PNew`.
pub fn direction(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("pcg_p"), Role::Linear);
    let own = || k.spaces.iter().filter(|space| !space.rolls());
    own().for_each(|space| declare_of(&mut d, space, &[What::DR, What::P, inverse(m)]));
    d.input(What::State.of(()));
    for space in own() {
        let f = stored_direction(&mut d, m, space);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.skip_unless(&f, k.live_at(space.id, &coordinates(&f.vars)));
    }
    d.finish()
}

/// The products J p that are stored: outputs `Product`.
pub fn products(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "pcg_jp", Role::Linear);
    for space in k.spaces.iter().filter(|space| !space.rolls()) {
        declare_of(&mut d, space, &[What::PNew]);
    }
    for r in k.products(false) {
        let domain = r.site.domain(&k.energy);
        let f = product(&mut d, domain, &r.roots, false);
        d.map(&f, Strip::Of(domain));
        d.output(&f, What::Product.of(domain));
    }
    d.finish()
}

/// Adds Func `Product`. Inside of sweep A it is computed beyond the domain, too: it is 0 there, as the halos of what is stored are.
fn product(d: &mut Draft, domain: Domain, roots: &[ExprId], rolls: bool) -> Func {
    let k = d.k;
    let vars = k.vars_over(domain);
    let at = coordinates(&vars);
    let mut values = d.emit(roots, k.place(domain, at.clone()), &k.direction_in(What::PNew));
    if let (Domain::Space(space), true) = (domain, rolls) {
        let (inside, zero) = (inside(space, &at), Expr::float(d.ty(), 0.0));
        values = values.into_iter().map(|v| Expr::select(inside.clone(), v, zero.clone())).collect();
    }
    d.func(What::Product.of(domain), &vars, values)
}

/// Sweep A. Outputs: `PNew` where p rolls, `Alpha`.
pub fn sweep_a(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("pcg_a"), Role::Linear);
    d.input(What::State.of(()));
    for space in &k.spaces {
        let read: &[What] = if space.rolls() { &[What::DR, What::P] } else { &[What::PNew] };
        declare_of(&mut d, space, &[read, &[inverse(m), What::Damp]].concat());
    }
    let mut pq = number(0.0);
    for &of in k.spaces.iter().flat_map(row_sums) {
        pq = pq + d.input(What::PartProduct.of(of)).at(&[], 0);
    }
    for space in &k.spaces {
        pq = pq + space_product(&mut d, m, space);
    }
    let ok = pq.gt(number(0.0)).and(is_finite(&pq));
    let alpha = Expr::select(ok.clone(), k.scalar(PcgScalar::Rz) / &pq, number(0.0));
    let ok = Expr::select(ok, number(1.0), number(0.0));
    let value = |s: AlphaScalar| match s {
        AlphaScalar::Alpha => alpha.clone(),
        AlphaScalar::Pq => pq.clone(),
        AlphaScalar::Positive => ok.clone(),
    };
    let f = d.func(What::Alpha.of(()), &[], AlphaScalar::ALL.map(value).to_vec());
    d.output(&f, What::Alpha.of(()));
    d.finish()
}

/// The share of p.q that stencils and globals have over a space, with `Q` inside of it, and p and J p where they are rings of rows.
fn space_product(d: &mut Draft, m: M, space: &Space) -> Expr {
    let k = d.k;
    let p = NewDirection::of(d, m, space);
    let mut products = vec![];
    for r in k.products(true).filter(|r| r.site.domain(&k.energy) == Domain::Space(space.id)) {
        products.push(product(d, Domain::Space(space.id), &r.roots, true));
    }
    let direction: Direction = &|space, c, at| p.read(k, space, c, at);
    let vars = vars(space.dims);
    let at = coordinates(&vars);
    let mut sums = vec![];
    for (i, site) in k.globals(space.id) {
        let roots = k.routines.roots(Kind::JtJp, site);
        let f = totals(d, &total(i).to_string(), site, roots, direction);
        d.output(&f, total(i));
        sums.push(f.name);
    }
    let start = add_totals(apply(d, space, &at, direction), &sums);
    let mut inside = vec![];
    let values = match space {
        Space { scatters: true, .. } => {
            let edges = d.input(What::Scattered.of(space.id));
            start.into_iter().enumerate().map(|(c, sum)| sum + edges.at(&at, c)).collect()
        }
        Space { by_element: true, .. } => {
            inside = by_element(d, &format!("qs{}", space.id.0), space, &vars, start, direction);
            all(&inside[0], &at)
        }
        _ => start,
    };
    let q = d.func(What::Q.of(space.id), &vars, values);
    if space.stores_q {
        d.output(&q, What::Q.of(space.id));
    }
    let points = k.points(Domain::Space(space.id));
    let at = &points.coordinates;
    let (here, stored) = (m.at(d, space, at), k.direction_in(What::PNew));
    let terms = (0..space.components).map(|c| {
        let product = stored(space.id, c, at) * q.at(at, c);
        where_active(m, &here, c, product).cast(ScalarType::F64)
    });
    let term = terms.reduce(|a, b| a + b).expect("at least one component");
    let f = d.reduce(&format!("pq{}", space.id.0), &points, vec![(Op::Add, term)]);
    d.skip_unless(&f, k.live_at(space.id, at));
    p.place(d, space, &f);
    for jp in products {
        d.ring_in(&f.name, &jp, Ring { reach: reach(k, space), stored: false });
    }
    if space.stores_q {
        d.store_in(&f, &q);
    } else {
        d.inline(&q);
    }
    inside.iter().for_each(|of| d.registers_in(&f, of));
    f.at(&[], 0)
}

/// The share of a domain's instances in J^T J p of the globals.
fn total(i: usize) -> VectorId {
    What::Total.of(Over::Globals(i))
}

/// The partial sums of J^T J p over the rows of every graph vertex, for each place that is reached from there, and their share of p.q:
/// outputs `Part`, `PartProduct`. Where p = 0 the share is 0, whatever q is: excluded elements may have q = NaN. Where sweep A has the
/// elements' sums, outputs `Part` of the rows of those that have several; where hyperedges add up themselves, `Scattered`.
pub fn graph_parts(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "pcg_parts", Role::Linear);
    declare(&mut d, &[What::PNew]);
    let direction = k.direction_in(What::PNew);
    for space in k.spaces.iter().filter(|s| s.scatters) {
        let (id, roots) = (What::Scattered.of(space.id), |site| k.routines.roots(Kind::JtJp, site).to_vec());
        let f = scatter(&mut d, &id.to_string(), space, (space.components, &roots), &direction);
        d.output(&f, id);
    }
    let gathered = k.spaces.iter().filter(|s| !s.scatters);
    let slots = gathered.flat_map(|space| space.slots.iter().map(move |&slot| (space, slot)));
    for (space, (graph, slot)) in slots {
        let contributions = k.contributions(Kind::JtJp, graph, slot);
        let of = Parts { graph, slot, contributions: &contributions, direction: &direction };
        let (part, name) = (What::Part.of((graph, slot)), What::Part.of((graph, slot)).to_string());
        if space.by_element {
            let leaves = parts(&mut d, &format!("{name}_rows"), of).at_root(&mut d);
            let sums = tree(&mut d, &name, (graph, slot), &leaves);
            d.output(&sums.part, part);
            sums.at_root(&mut d);
            continue;
        }
        let rows = parts(&mut d, &name, of);
        d.output(&rows.part, part);
        let points = k.row_points(graph, slot);
        let at = &points.coordinates;
        let element = k.row_element((graph, slot), at);
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
        let share = What::PartProduct.of((graph, slot));
        let pq = d.reduce(&share.to_string(), &points, vec![(Op::Add, term)]);
        d.output(&pq, share);
        rows.within(&mut d, &pq);
    }
    let always = k.spaces.iter().any(|s| s.scatters || !row_sums(s).is_empty());
    let span = if always { Span::Once } else { Span::SeveralRows };
    d.finish().into_iter().map(|pipeline| Scheduled { span, ..pipeline }).collect()
}

/// Sweep B. `DR` in place; `Next` and `Done`, unless M has stages to run before.
pub fn sweep_b(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("pcg_b"), Role::LinearB);
    declare(&mut d, &[What::DR, What::P, inverse(m), What::Damp]);
    d.input(What::State.of(()));
    d.input(What::Alpha.of(()));
    for &of in k.spaces.iter().flat_map(row_sums) {
        d.input(What::Part.of(of));
    }
    let mut sums = [number(0.0), number(0.0)];
    for space in &k.spaces {
        let (q, drn) = update(&mut d, m, space, &k.direction_in(What::P));
        let nest = if m.has_iteration_stages() {
            d.map_over(&drn, Strip::Of(Domain::Space(space.id)), What::DR.of(space.id));
            d.skip_unless(&drn, k.live_at(space.id, &coordinates(&drn.vars)));
            drn.clone()
        } else {
            let f = sum_space(&mut d, m, space, &mut sums, &|_, at| all(&drn, at));
            d.store_over(&f, &drn, What::DR.of(space.id));
            f
        };
        d.output(&drn, What::DR.of(space.id));
        d.gathered_in(&nest, &q);
    }
    if !m.has_iteration_stages() {
        decide(&mut d, m, sums);
    }
    d.finish()
}

/// The end of an iteration where M has stages of its own behind sweep B: outputs `Next` and `Done`.
pub fn sums(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("pcg_c"), Role::Linear);
    if !m.has_iteration_stages() {
        return vec![];
    }
    declare(&mut d, &[What::DR]);
    d.input(What::State.of(()));
    d.input(What::Alpha.of(()));
    let mut sums = [number(0.0), number(0.0)];
    for space in &k.spaces {
        sum_space(&mut d, m, space, &mut sums, &|d, at| d.all(What::DR.of(space.id), at));
    }
    decide(&mut d, m, sums);
    d.finish()
}

/// d' and r' of one space, and q, which they read.
fn update(d: &mut Draft, m: M, space: &Space, direction: Direction) -> (Func, Func) {
    let k = d.k;
    let vars = vars(space.dims);
    let at = coordinates(&vars);
    let mut sums = vec![];
    for (i, _) in k.globals(space.id) {
        sums.push(d.input(total(i)).name);
    }
    let start = match space.stores_q {
        true => {
            d.input(What::Q.of(space.id));
            d.all(What::Q.of(space.id), &at)
        }
        false => add_totals(apply(d, space, &at, direction), &sums),
    };
    let rest = Space { slots: row_sums(space).to_vec(), ..space.clone() };
    let parts: Vec<Sums> =
        rest.slots.iter().map(|&of| Sums::of_rows(What::Part.of(of).to_string())).collect();
    let q = gather(d, &format!("qb{}", space.id.0), &rest, &vars, start, &parts);
    let alpha = k.scalar(AlphaScalar::Alpha).cast(k.linear);
    let ok = k.scalar(AlphaScalar::Positive).ne_(number(0.0));
    let mut old = d.all(What::DR.of(space.id), &at);
    let r = old.split_off(space.components);
    let here = m.at(d, space, &at);
    let step = |c: usize| {
        Expr::select(ok.clone(), &old[c] + &(&alpha * &direction(space.id, c, &at)), old[c].clone())
    };
    let rest = |c: usize| where_active(m, &here, c, &r[c] - &(&alpha * &q.at(&at, c)));
    let values = (0..space.components).map(step).chain((0..space.components).map(rest)).collect();
    let drn = d.p.func(Func::new(format!("drn{}", space.id.0), &vars, values));
    (q, drn)
}

/// Adds the nest of r.z and |r|^2 over a space, and them to `sums`; `dr` gives d and r at an element.
fn sum_space(
    d: &mut Draft,
    m: M,
    space: &Space,
    sums: &mut [Expr; 2],
    dr: &dyn Fn(&Draft, &[Expr]) -> Vec<Expr>,
) -> Func {
    let points = d.k.points(Domain::Space(space.id));
    let at = &points.coordinates;
    let r = dr(d, at).split_off(space.components);
    let rz = m.of.product(&r, &m.of.apply_own(&m.at(d, space, at), &r));
    // Squares of b leave the range of float32 where those of J do not.
    let rr = r.iter().map(|r| r.cast(ScalarType::F64) * r.cast(ScalarType::F64));
    let rr = rr.reduce(|a, b| a + b).expect("at least one component");
    let f = d.reduce(&format!("acc{}", space.id.0), &points, vec![(Op::Add, rz), (Op::Add, rr)]);
    d.skip_unless(&f, d.k.live_at(space.id, at));
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = sum.clone() + f.at(&[], i);
    }
    if let Some(rest) = m.of.product_of_levels(d, m.kind, space) {
        sums[0] = sums[0].clone() + rest;
    }
    f
}

/// The scalars at the end of an iteration, from r.z and |r|^2.
fn decide(d: &mut Draft, m: M, [rz, rr]: [Expr; 2]) {
    let k = d.k;
    let old = k.scalar(PcgScalar::Rz);
    let gain = number(0.5) * k.scalar(AlphaScalar::Alpha) * old.clone();
    let beta = Expr::select(old.gt(number(0.0)), &rz / &old, number(0.0));
    let progress = Progress {
        pq: k.scalar(AlphaScalar::Pq),
        positive: k.scalar(AlphaScalar::Positive),
        first_rz: match m.follows_damping() {
            true => k.scalar(StartProduct),
            false => k.scalar(StartScalar::Rz),
        },
        q: k.scalar(PcgScalar::Q) + &gain,
        count: k.scalar(PcgScalar::K) + number(1.0),
        rz,
        rr,
        bb: k.scalar(StartScalar::Bb),
        gain,
    };
    // What has ended before it began stays so.
    let before = k.scalar(PcgScalar::Stop);
    let code = Expr::select(before.ne_(number(0.0)), before, stop::code(m.of.rules(&progress)));
    let value = |s: PcgScalar| match s {
        PcgScalar::Rz => progress.rz.clone(),
        PcgScalar::Beta => beta.clone(),
        PcgScalar::Rr => progress.rr.clone(),
        PcgScalar::Q => progress.q.clone(),
        PcgScalar::K => progress.count.clone(),
        PcgScalar::Stop => code.clone(),
    };
    let next = d.func(What::Next.of(()), &[], PcgScalar::ALL.map(value).to_vec());
    d.output(&next, What::Next.of(()));
    let stopped = next.at(&[], PcgScalar::Stop as usize).ne_(number(0.0));
    let done = d.func(What::Done.of(()), &[], vec![Expr::select(stopped, Expr::from(1), Expr::from(0))]);
    d.output(&done, What::Done.of(()));
}
