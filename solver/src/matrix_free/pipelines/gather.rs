//! Graph gathers: sums over the hyperedges at a vertex.
//!
//! The hyperedges at the vertices of one slot are laid out as *rows* of at most 64 incidences: a vertex of degree 0 has none, one of
//! degree 100,000 has many. Rows are sorted by length and packed in blocks of as many as there are lanes, columns contiguous per
//! lane. `part` computes one sum per row, over (lane, block); the vertex adds up its rows in order. See [`crate::matrix_free::domain::incidence`] for the lists.
//!
//! Neighbours that hyperedges reach through computed arrays have no rows of their own: those of their vertex hold a sum for each.
//!
//! By choice elements add up their hyperedges in a loop of their own ([`by_element`]): nothing is stored between. Elements with several rows
//! still have sums of these, since one loop over 100,000 incidences would hold up all others. These are the leaves of a [`tree`]: the sums of 64
//! consecutive rows of an element are added up by a thread each, so that of 100,000 incidences no thread adds up more than 64. So it is where
//! all elements have sums of their rows ([`stored_sums`]), as for g, of those with several.

use crate::matrix_free::draft::{Direction, Draft, all, coordinates};
use crate::matrix_free::params::Size;
use crate::matrix_free::pipelines::invariant;
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::schedule::reduce::Points;
use crate::matrix_free::skeleton::{Skeleton, Space};
use crate::matrix_free::vectors::What;
use rustc_hash::FxHashMap;
use sumsq_codegen::{Expr, Func, Name, RDom, Var};
use sumsq_energy::dag::{Access, Dag, ExprId, Node, Source};
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{Domain, Energy, GraphId};

/// Sums over the hyperedges of a graph at its vertices of one slot.
pub struct Parts<'a> {
    pub graph: GraphId,
    pub slot: u16,
    /// Contributions of every hyperedge, one per component.
    pub contributions: &'a [ExprId],
    pub direction: Direction<'a>,
}

/// Of every vertex, the channels that J^T J p reads of what is stored over the hyperedges, ascending.
pub fn beside(energy: &Energy, r: &Routines) -> FxHashMap<(GraphId, u16), Vec<usize>> {
    let mut roots: FxHashMap<(GraphId, u16), Vec<ExprId>> = FxHashMap::default();
    for r in r.of(Kind::JtJp) {
        let Site::Slot(graph, slot) = r.site else { continue };
        let vertex = energy.graphs[graph.index()].vertex_of(slot).0;
        roots.entry((graph, vertex)).or_default().extend(&r.roots);
    }
    roots.into_iter().map(|(at, roots)| (at, channels(&r.dag, at.0, &roots))).collect()
}

/// The channels of what is stored over the hyperedges of `graph` that `roots` read, ascending.
pub fn channels(dag: &Dag, graph: GraphId, roots: &[ExprId]) -> Vec<usize> {
    let read = dag.reachable(roots).into_iter().filter_map(|n| match dag.node(n) {
        Node::Access(Access { source: Source::Hoisted(d), channel, .. }) if *d == Domain::Graph(graph) => {
            Some(usize::from(*channel))
        }
        _ => None,
    });
    let read: std::collections::BTreeSet<usize> = read.collect();
    read.into_iter().collect()
}

/// The Funcs of the sums over the rows of a slot, not yet scheduled.
pub struct Rows {
    /// Per row, over (lane, block), the sum of the contributions.
    pub part: Func,
    sum: Func,
    own: Option<Func>,
}

impl Rows {
    /// Stored at root, blocks in parallel.
    pub fn at_root(self, d: &mut Draft) -> Func {
        d.map_rows(&self.part);
        self.sums_in(d, &self.part);
        self.part
    }

    /// Stored block by block in the nest of `reader`, where something else uses them, too.
    pub fn within(self, d: &mut Draft, reader: &Func) {
        d.store_in(reader, &self.part);
        self.sums_in(d, reader);
    }

    fn sums_in(&self, d: &mut Draft, reader: &Func) {
        for f in self.own.iter().chain([&self.sum]) {
            d.registers_in(reader, f);
        }
    }
}

impl Skeleton {
    /// All rows of a slot, blocks last, in strips as [`Rows::at_root`] has them.
    pub fn row_points(&self, graph: GraphId, slot: u16) -> Points {
        let blocks = Size::Rows(graph, slot).expr() / i64::from(self.target.lanes);
        let lanes = Expr::from(self.target.lanes);
        let rdom = RDom::new([("rlane", Expr::from(0), lanes), ("rblock", Expr::from(0), blocks)]);
        let coordinates = vec![rdom.var(0), rdom.var(1)];
        Points { rdom, coordinates, strip: Strip::Blocks }
    }

    /// The block of a row that is summed on its own; of others that or the last one of such.
    fn summed_block(&self, (graph, slot): (GraphId, u16), row: &Expr) -> Expr {
        let lanes = i64::from(self.target.lanes);
        (row / lanes).min(Size::Summed(graph, slot).expr() / lanes - 1)
    }

    /// The element of the row at (lane, block).
    pub fn row_element(&self, (graph, slot): (GraphId, u16), at: &[Expr]) -> Vec<Expr> {
        let row = &at[1] * i64::from(self.target.lanes) + &at[0];
        self.listed(What::RowElement, (graph, slot), slot, &row)
    }

    /// Entry `at` of a list of elements at vertex `of`.
    pub fn listed(&self, what: What, (graph, slot): (GraphId, u16), of: u16, at: &Expr) -> Vec<Expr> {
        let space = self.slot_space(graph, of);
        let dims = self.energy.spaces[space.index()].len();
        names::listed_coordinates(&what.of((graph, slot)).to_string(), dims, space, at)
    }
}

/// Adds Func `name` = per row the sum of the contributions.
pub fn parts(d: &mut Draft, name: &str, of: Parts) -> Rows {
    let Parts { graph, slot, contributions, direction } = of;
    let (k, of) = (d.k, (graph, slot));
    let (block, length) = (d.input(What::RowBlock.of(of)), d.input(What::RowLength.of(of)));
    d.input(What::RowElement.of(of));

    let vars = [Var::new("lane"), Var::new("block")];
    let at = coordinates(&vars);
    let (lane, b, lanes) = (&at[0], &at[1], i64::from(k.target.lanes));
    let row = [b * lanes + lane];
    let rdom = RDom::new([("i", Expr::from(0), length.at(&row, 0))]);
    // One after the other in the lanes.
    let entry = block.at(std::slice::from_ref(b), 0) + rdom.var(0) * lanes + lane;
    let terms = terms(d, &Parts { graph, slot, contributions, direction }, &k.row_element(of, &at), &entry);
    let (own, terms) = apart(d, &format!("{name}_own"), &vars, terms, &rdom);
    let sum = d.p.func(Func::sum(format!("{name}_sum"), &vars, rdom, terms));
    let part = d.p.func(Func::new(name, &vars, all(&sum, &at)));
    Rows { part, sum, own }
}

/// Rows of which one thread adds up the sums.
const FAN: i64 = 64;

/// Funcs that [`gather`] adds up at a slot.
pub struct Sums {
    /// Of every row.
    rows: Name,
    /// See [`tree`].
    tree: Option<Name>,
}

impl Sums {
    /// Those of all rows of an element.
    pub fn of_rows(rows: impl Into<Name>) -> Sums {
        Sums { rows: rows.into(), tree: None }
    }

    /// The Funcs to read at an element with `n` rows, each with the numbers of the rows that it adds up: so many, one in so many.
    fn at(&self, n: &Expr) -> Vec<(&Name, Expr, i64)> {
        let Some(tree) = &self.tree else { return vec![(&self.rows, n.clone(), 1)] };
        let (none, several) = (Expr::from(0), n.gt(Expr::from(1)));
        let alone = Expr::select(several.clone(), none.clone(), n.clone());
        vec![(&self.rows, alone, 1), (tree, Expr::select(several, (n + (FAN - 1)) / FAN, none), FAN)]
    }
}

/// Adds Func `name` of the sums over the rows of a slot, at root; where rows of an element that has several follow each other, their [`tree`], too.
pub fn stored_sums(d: &mut Draft, name: &str, space: &Space, of: Parts) -> Sums {
    let at = (of.graph, of.slot);
    let rows = parts(d, name, of).at_root(d);
    let of_several = |d: &mut Draft| tree(d, &format!("{name}_tree"), at, &rows).at_root(d).name;
    let tree = space.by_element.then(|| of_several(d));
    Sums { rows: rows.name, tree }
}

/// Adds Func `name` = per row of an element that has several: of the first, and of every `FAN`th behind it, the sum of `rows` from there to the
/// next such; of others 0. Those of an element follow each other.
pub fn tree(d: &mut Draft, name: &str, of: (GraphId, u16), rows: &Func) -> Rows {
    let (k, lanes) = (d.k, i64::from(d.k.target.lanes));
    let [first, count, row_of, _] =
        [What::FirstRow, What::RowCount, What::RowOf, What::RowElement].map(|what| d.input(what.of(of)));
    let vars = [Var::new("lane"), Var::new("block")];
    let at = coordinates(&vars);
    let row = &at[1] * lanes + &at[0];
    let element = k.row_element(of, &at);
    let before = &row - &row_of.at(&[first.at(&element, 0)], 0);
    let behind = (count.at(&element, 0) - before.clone()).min(Expr::from(FAN as i32)).max(Expr::from(0));
    // Rows of padding name element 0, whose own may lie behind them.
    let leads = before.ge(Expr::from(0)).and((&before % FAN).eq_(Expr::from(0)));
    let rdom = RDom::new([("i", Expr::from(0), Expr::select(leads, behind, Expr::from(0)))]);
    let other = &row + &rdom.var(0);
    let other = [&other % lanes, k.summed_block(of, &other)];
    let sum = d.p.func(Func::sum(format!("{name}_sum"), &vars, rdom, all(rows, &other)));
    let part = d.p.func(Func::new(name, &vars, all(&sum, &at)));
    Rows { part, sum, own: None }
}

/// The contributions of the hyperedge of an entry, at whose vertex an element is.
fn terms(d: &Draft, of: &Parts, element: &[Expr], entry: &Expr) -> Vec<Expr> {
    let Parts { graph, slot, contributions, direction } = *of;
    let (k, of, at) = (d.k, (graph, slot), std::slice::from_ref(entry));
    let known = (0..k.energy.graphs[graph.index()].vertices.len() as u16).map(|v| {
        let element = match v == slot {
            true => element.to_vec(),
            false => k.listed(What::RowVertex(v), of, v, entry),
        };
        (v, element)
    });
    let known = known.collect();
    let place = Place::Edge { graph, edge: d.element(What::RowEdge.of(of), at, 0), known };
    let beside = &k.beside[&of];
    let stored = |domain: Domain, channel: usize| {
        let i = beside.iter().position(|&c| c == channel).filter(|_| domain == Domain::Graph(graph))?;
        Some(d.element(What::RowHoisted.of(of), at, i))
    };
    d.emit_reading(contributions, place, direction, &stored)
}

/// Terms of a sum, and a Func over `vars` of what they read of the vertex itself: that is computed once before the loop over its incidences.
fn apart(
    d: &mut Draft,
    name: &str,
    vars: &[Var],
    terms: Vec<Expr>,
    over: &RDom,
) -> (Option<Func>, Vec<Expr>) {
    let at = coordinates(vars);
    let stand_in = |i: usize, e: &Expr| Expr::call(name, e.ty().scalar, at.clone(), i);
    let invariant::Split { invariants, terms } = invariant::split(&terms, &over.var(0), stand_in);
    let own = (!invariants.is_empty()).then(|| d.p.func(Func::new(name, vars, invariants)));
    (own, terms)
}

/// As [`gather`] of `Part`, but for elements with one row, whose contributions to J^T J p are added one by one. Behind the Func come those
/// that it reads at its own element.
pub fn by_element(
    d: &mut Draft,
    name: &str,
    space: &Space,
    vars: &[Var],
    start: Vec<Expr>,
    direction: Direction,
) -> Vec<Func> {
    let (k, at) = (d.k, coordinates(vars));
    let (lanes, ty) = (i64::from(k.target.lanes), d.ty());
    let mut f = Func::new(name, vars, start);
    let (n, mut own) = (f.values.len(), vec![]);
    for &(graph, slot) in &space.slots {
        let of = (graph, slot);
        let lists =
            [What::FirstEntry, What::EntryCount, What::FirstRow, What::RowCount, What::RowOf, What::Part];
        let [entry, entries, first, rows, row_of, _] = lists.map(|what| d.input(what.of(of)));
        for (i, place) in k.places(graph, slot).enumerate() {
            let vertex = k.vertex_at(graph, place, &at);
            let in_row = entries.at(&vertex, 0);
            let rdom = RDom::new([(format!("e{}", f.updates.len()), Expr::from(0), in_row.clone())]);
            let contributions = k.routines.roots(Kind::JtJp, Site::Slot(graph, place));
            let of = Parts { graph, slot, contributions, direction };
            let terms = terms(d, &of, &vertex, &(entry.at(&vertex, 0) + rdom.var(0) * lanes));
            let (apart, terms) = apart(d, &format!("{name}_own{}", f.updates.len()), vars, terms, &rdom);
            own.extend(apart);
            let values = (0..n).zip(terms).map(|(c, term)| f.at(&at, c) + term).collect();
            f = f.update(at.clone(), values, rdom);
            // Those with several rows.
            let sums = (rows.at(&vertex, 0) + (FAN - 1)) / FAN;
            let several = Expr::select(in_row.eq_(Expr::from(0)), sums, Expr::from(0));
            let rdom = RDom::new([(format!("i{}", f.updates.len()), Expr::from(0), several)]);
            let row = row_of.at(&[first.at(&vertex, 0) + rdom.var(0) * FAN], 0);
            let row = [&row % lanes, &row / lanes];
            let part = What::Part.of((graph, slot)).to_string();
            let part = |c| Expr::call(part.as_str(), ty, row.to_vec(), i * n + c);
            let values = (0..n).map(|c| f.at(&at, c) + part(c)).collect();
            f = f.update(at.clone(), values, rdom);
        }
    }
    let mut all = vec![d.p.func(f)];
    all.append(&mut own);
    all
}

/// Sums of what hyperedges give the elements at `vars`: Func `name` = `start` + the sum of `sums` over all rows, of every graph vertex
/// that points into `space`, at the elements that the ones at `vars` are or are neighbours of; outside the domain the count of rows is 0.
/// Inlined if no graph reads the space.
pub fn gather(
    d: &mut Draft,
    name: &str,
    space: &Space,
    vars: &[Var],
    start: Vec<Expr>,
    sums: &[Sums],
) -> Func {
    let (k, at) = (d.k, coordinates(vars));
    let (lanes, ty) = (i64::from(k.target.lanes), d.ty());
    let mut f = Func::new(name, vars, start);
    for (&(graph, slot), sums) in space.slots.iter().zip(sums) {
        let [first, number, of] = [What::FirstRow, What::RowCount, What::RowOf];
        let [first, number, of] = [first, number, of].map(|what| d.input(what.of((graph, slot))));
        for (i, place) in k.places(graph, slot).enumerate() {
            let vertex = k.vertex_at(graph, place, &at);
            for (sum, number, apart) in sums.at(&number.at(&vertex, 0)) {
                let rdom = RDom::new([(format!("i{}", f.updates.len()), Expr::from(0), number)]);
                let row = of.at(&[first.at(&vertex, 0) + rdom.var(0) * apart], 0);
                let block = if apart > 1 { k.summed_block((graph, slot), &row) } else { &row / lanes };
                let row = [&row % lanes, block];
                let n = f.values.len();
                let part = |c| Expr::call(sum.clone(), ty, row.to_vec(), i * n + c);
                let values = (0..n).map(|c| f.at(&at, c) + part(c)).collect();
                f = f.update(at.clone(), values, rdom);
            }
        }
    }
    d.p.func(f)
}
