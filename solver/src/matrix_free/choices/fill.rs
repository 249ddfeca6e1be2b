//! Making the choices: defaults, what is possible at all, and what a user wants instead.

use super::{Choice, ChoiceError, Choices, Of, Overrides, Value, in_place, traffic};
use crate::error::SolveError;
use crate::matrix_free::domain::{layout, mask};
use crate::matrix_free::preconditioner::diagonal;
use crate::matrix_free::schedule::cpu::strip_height;
use crate::matrix_free::schedule::gpu;
use crate::matrix_free::skeleton::{Entries, Space};
use crate::matrix_free::sums::{Share, Sum, count, shares};
use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::{Layout, Target};
use sumsq_energy::dag::{Access, ExprId, Node, Source};
use sumsq_energy::derive::{GroupStores, Kind, Part, Passes, Routines, Site};
use sumsq_energy::model::{ArrayId, ComputedId, Domain, Energy, GraphId, GroupId, SpaceId, UnknownId};

/// Rows read around an element up to which the energy computes arrays in rings: strips of images have some 16 rows or more.
const RING_ROWS: u32 = 4;

/// Planes of a strip for each that it shares with its neighbours, from which on a ring of planes is worth what it computes again: of p,
/// which costs a read of r and of the p before (Laplacian of 128^3, strips of four planes: a fifth of the solve saved) ..
const PLANES_OF_P: usize = 2;

/// .. and of computed arrays, which may be any expression.
const PLANES_OF_ARRAYS: usize = 8;

/// Elements read on either side up to which a tile of p is worth what is computed again around it: with 2 a quarter of it.
const TILE_REACH: u32 = 2;

/// Bytes of shared memory that a tile of p may have: half of what every block of any device may ask for.
const TILE_BYTES: usize = 24 << 10;

/// Letters of an expression that a comment shows.
const NOTE: usize = 60;

/// An energy as derivation leaves it.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The energy, without the computed arrays that are substituted.
    pub energy: Energy,
    /// Storage of its residual groups, by number.
    pub groups: Vec<GroupStores>,
    /// Its routines.
    pub routines: Routines,
    /// The choices that these follow from.
    pub choices: Choices,
}

/// Facts that storage is chosen by.
pub struct Facts<'a> {
    /// The energy.
    pub energy: &'a Energy,
    /// Its routines.
    pub routines: &'a Routines,
    /// Every expression that some pipeline emits, but for computed arrays.
    pub roots: &'a [ExprId],
    /// Per vertex, the channels of what is stored over its graph's hyperedges that J^T J p reads there.
    pub beside: &'a FxHashMap<(GraphId, u16), Vec<usize>>,
    /// Reach of reads around an element, per index space and dim.
    pub reaches: &'a [Vec<u32>],
    /// The machine.
    pub target: &'a Target,
    /// Extents of every index space, if they are known.
    pub extents: Option<&'a [Vec<usize>]>,
    /// Bytes of a scalar of PCG's vectors.
    pub scalar: usize,
}

/// Choices in the making.
struct Filler<'a> {
    given: &'a Overrides,
    choices: Choices,
}

impl Filler<'_> {
    /// Adds a choice: the value that is given, else the first possible one. Returns the value.
    fn choose(&mut self, of: Of, name: &str, possible: &[Value]) -> Result<Value, ChoiceError> {
        let mut choice = Choice {
            of,
            name: name.into(),
            value: possible[0],
            possible: possible.into(),
            note: String::new(),
        };
        match self.given.of(of.word(), name) {
            Some((value, _)) if possible.contains(&value) => choice.value = value,
            // `*` is for those that can.
            None | Some((_, false)) => {}
            Some((value, true)) => {
                let words: Vec<String> = possible.iter().map(Value::to_string).collect();
                let (subject, possible) = (choice.subject(), words.join(", "));
                return Err(ChoiceError::Impossible { subject, value, possible });
            }
        }
        let value = choice.value;
        self.choices.0.push(choice);
        Ok(value)
    }

    fn note(&mut self, note: String) {
        if let Some(last) = self.choices.0.last_mut() {
            last.note = note;
        }
    }
}

/// Both values, the default first.
fn two(default: bool, yes: Value, no: Value) -> [Value; 2] {
    if default { [yes, no] } else { [no, yes] }
}

/// Derives the routines of an energy, simplifies them and hoists out what only a linearisation changes of J^T J p: with the choices of
/// residual groups, computed arrays and hoisted parts.
///
/// # Errors
/// A given choice that cannot be, or a budget of the energy that is spent.
pub fn derive(energy: &Energy, passes: Passes, given: &Overrides) -> Result<Derived, SolveError> {
    let mut f = Filler { given, choices: Choices::default() };
    let mut groups = vec![];
    for (id, name) in (0..).map(GroupId).zip(&energy.groups) {
        let both = [Value::Inline, Value::Root];
        let kept = two(!in_place::explodes(energy, id), Value::Inline, Value::Root);
        let residual = f.choose(Of::Residual(id), name, &kept)? == Value::Root;
        let jacobian = f.choose(Of::Jacobian(id), name, &both)? == Value::Root;
        let product = f.choose(Of::Product(id), name, &kept)? == Value::Root;
        // Products hold the elements' own share already.
        let blocks = f.choose(Of::Blocks(id), name, if product { &both[..1] } else { &both })? == Value::Root;
        groups.push(GroupStores { residual, jacobian, product, blocks });
    }
    let mut inline = FxHashSet::default();
    for (id, computed) in (0..).map(ComputedId).zip(&energy.computed) {
        if f.choose(Of::Computed(id), &computed.name, &[Value::Root, Value::Inline])? == Value::Inline {
            inline.insert(&computed.name);
        }
    }
    let energy = match inline.is_empty() {
        true => energy.clone(),
        false => energy.inlined_where(|c| inline.contains(&c.name)),
    };
    let mut routines = Routines::build_with(&energy, passes, &groups)?;
    let name = |space, number| format!("{}.{number}", energy.space_name(space));
    let in_place = |space, number| {
        let wanted = given.of(Of::Hoisted(space, number).word(), &name(space, number));
        wanted.is_some_and(|(value, _)| value == Value::Inline)
    };
    routines.hoist(&energy, passes, &in_place)?;
    for part in routines.parts.clone() {
        hoisted(&mut f, &energy, &routines, part, &name(part.space, part.number))?;
    }
    Ok(Derived { choices: f.choices, energy, groups, routines })
}

fn hoisted(f: &mut Filler, energy: &Energy, r: &Routines, part: Part, name: &str) -> Result<(), ChoiceError> {
    let possible: &[Value] = if part.forced { &[Value::Root] } else { &[Value::Root, Value::Inline] };
    f.choose(Of::Hoisted(part.space, part.number), name, possible)?;
    let text = r.dag.display_with(part.value, energy).replace('\n', "; ");
    let short: String = text.chars().take(NOTE).collect();
    f.note(if short.len() < text.len() { format!("{short} ..") } else { text });
    Ok(())
}

/// Makes the choices of storage, and gives them to the spaces. Returns them with the sums of E, which follow from them.
///
/// # Errors
/// A given choice that cannot be, or that is about nothing that the energy has.
pub fn store(
    of: &Facts,
    spaces: &mut [Space],
    derived: Choices,
    given: &Overrides,
) -> Result<(Choices, Vec<Share>), ChoiceError> {
    let mut f = Filler { given, choices: derived };
    spaces.iter_mut().try_for_each(|space| of_space(&mut f, of, space))?;
    let shares = nests(&mut f, of, spaces)?;
    costs(&mut f, of, &shares)?;
    let narrow = arrays(&mut f, of)?;
    layouts(&mut f, of, spaces, &narrow)?;
    let gathered = |at| !spaces.iter().any(|s| s.scatters && s.slots.contains(at));
    let read = of.beside.iter().filter(|(at, channels)| !channels.is_empty() && gathered(at));
    let mut read: Vec<_> = read.map(|(&at, _)| at).collect();
    read.sort();
    for (graph, vertex) in read {
        let declared = &of.energy.graphs[graph.index()];
        let name = format!("{}.{}", declared.name, declared.vertices[usize::from(vertex)].name);
        f.choose(Of::Entries(graph, vertex), &name, &[Value::Beside, Value::Indirect])?;
    }
    let subjects: Vec<_> = f.choices.0.iter().map(|c| (c.of.word(), c.name.as_str())).collect();
    given.check(&subjects)?;
    Ok((f.choices, shares))
}

/// The choices of what is too long for one nest. Returns the sums of E.
fn nests(f: &mut Filler, of: &Facts, spaces: &[Space]) -> Result<Vec<Share>, ChoiceError> {
    let (energy, r) = (of.energy, of.routines);
    let split = shares(energy, r, |_| false);
    let sums: Vec<Domain> = split.iter().flat_map(|share| &share.sums).map(|sum| sum.domain).collect();
    let mut domains = sums.clone();
    domains.extend(spaces.iter().map(|space| Domain::Space(space.id)));
    let mut seen = FxHashSet::default();
    domains.retain(|domain| seen.insert(*domain));
    for &domain in &domains {
        let own = spaces.iter().find(|space| Domain::Space(space.id) == domain);
        let gradient = own.map_or(1, |s| count(&r.dag, &s.gradient_roots(r, Site::Element(s.id))));
        let cost = sums.iter().filter(|of| **of == domain).count();
        if cost > 1 || gradient > 1 {
            let name = match domain {
                Domain::Space(space) => energy.space_name(space),
                Domain::Graph(graph) => energy.graphs[graph.index()].name.clone(),
            };
            f.choose(Of::Nests(domain), &name, &[Value::Split, Value::Whole])?;
            f.note(format!("E in {cost}, J^T r in {gradient}"));
        }
    }
    let whole = |domain| f.choices.is(Of::Nests(domain), Value::Whole);
    Ok(if domains.into_iter().any(whole) { shares(energy, r, whole) } else { split })
}

/// The choices of a space with unknowns.
fn of_space(f: &mut Filler, of: &Facts, space: &mut Space) -> Result<(), ChoiceError> {
    let (energy, r, id) = (of.energy, of.routines, space.id);
    let name = energy.space_name(id);
    let grid = space.dims >= 2 && space.slots.is_empty() && !energy.is_global(id);
    let inside = if of.target.gpu.is_some() { Value::Tile } else { Value::Ring };
    let has_products = r.of(Kind::Product).any(|r| r.site.domain(energy) == Domain::Space(id));
    let computable = space.kept == Entries::Diagonal
        && !space.bounded
        && !energy.is_global(id)
        && diagonal::is_computable(r, space);
    let direction = match grid && reads_stay_inside(energy, r, id, true) {
        true => of.directions(space, has_products, space.components == 1 && !computable),
        false => vec![Value::Root],
    };
    space.direction = f.choose(Of::Direction(id), &name, &direction)?;
    if has_products {
        let products: &[Value] = match space.rolls() {
            true => &[inside],
            false if grid && reads_stay_inside(energy, r, id, false) => &[Value::Root, inside],
            false => &[Value::Root],
        };
        space.rolls_products = f.choose(Of::Products(id), &name, products)? == inside;
    }
    if !space.slots.is_empty() {
        // Blocks of a GPU run by the thousand: what would be stored between two of its kernels costs more than sums of their own save.
        let parts: &[Value] = match of.target.gpu {
            Some(_) => &[Value::Inline, Value::Root, Value::Atomic],
            None => &[Value::Root],
        };
        let value = f.choose(Of::Parts(id), &name, parts)?;
        (space.by_element, space.scatters) = (value == Value::Inline, value == Value::Atomic);
    }
    let diagonal: &[Value] = match computable {
        true => &two(traffic::keeps_diagonal(r, space), Value::Root, Value::Inline),
        false => &[Value::Root],
    };
    space.inline_diagonal = f.choose(Of::Diagonal(id), &name, diagonal)? == Value::Inline;
    let q: &[Value] = match () {
        // Sweep B does not have the products.
        () if space.rolls_products || space.by_element || space.scatters => &[Value::Root],
        () if energy.is_global(id) => &[Value::Inline],
        () => &two(traffic::keeps_q(energy, r, space), Value::Root, Value::Inline),
    };
    space.stores_q = f.choose(Of::Q(id), &name, q)? == Value::Root;
    if mask::can_skip(energy, id) {
        let far = f.choose(Of::Skip(id), &name, &[Value::Skipped, Value::Kept])?;
        space.skips = far == Value::Skipped;
    }
    Ok(())
}

/// Tells whether J^T J p over a space alone reads what is computed for each direction over it: p, if `direction`, and products J p.
fn reads_stay_inside(energy: &Energy, r: &Routines, id: SpaceId, direction: bool) -> bool {
    let own = [Site::Element(id), Site::Instance(Domain::Space(id))];
    let others = r.table.iter().filter(|r| r.kind.reads_direction() && !own.contains(&r.site));
    let roots: Vec<ExprId> = others.flat_map(|r| r.roots.iter().copied()).collect();
    let reads = |n: &ExprId| match r.dag.node(*n) {
        Node::Access(Access { source: Source::Direction(u), .. }) => {
            direction && energy.unknowns[u.index()].space == id
        }
        Node::Access(Access { source: Source::Product(d), .. }) => *d == Domain::Space(id),
        _ => false,
    };
    !r.dag.reachable(&roots).iter().any(reads)
}

impl Facts<'_> {
    /// The places where p of a grid may be computed, the default first. `cheap`: z costs little more than its reads.
    fn directions(&self, space: &Space, has_products: bool, cheap: bool) -> Vec<Value> {
        let reach = &self.reaches[space.id.index()];
        let fields = space.components * self.scalar;
        if self.target.gpu.is_none() {
            let rows = reach.last().copied().unwrap_or(0);
            return two(self.ring_pays(space.id, rows, fields, PLANES_OF_P), Value::Ring, Value::Root).into();
        }
        let most = reach.iter().max().copied().unwrap_or(0);
        let near = most == 1 && !has_products;
        let pays = space.dims == 2 && most <= TILE_REACH;
        let fits = gpu::tile_elements(reach, space.components) * fields <= TILE_BYTES;
        let mut values = vec![];
        values.extend((near && pays && cheap).then_some(Value::Inline));
        values.extend((pays && fits).then_some(Value::Tile));
        values.push(Value::Root);
        let others = [(near, Value::Inline), (fits, Value::Tile)];
        for (possible, value) in others {
            if possible && !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// Tells whether a ring of rows is worth what it computes again, of which `rows` are read on either side and which hold `bytes` per
    /// element. The rows that a strip shares with its neighbours are few in images; of a volume, where a row is a plane, the sizes tell.
    fn ring_pays(&self, space: SpaceId, rows: u32, bytes: usize, planes: usize) -> bool {
        let dims = self.energy.spaces[space.index()].len();
        let (Some(all), true) = (self.extents, dims > 2) else { return dims == 2 };
        let (extents, rows) = (&all[space.index()], rows as usize);
        let element = bytes * (2 * rows + 1).next_power_of_two();
        let ring = extents[..dims - 1].iter().try_fold(element, |n, &extent| n.checked_mul(extent));
        ring.is_some_and(|ring| ring <= self.target.caches.l2 / 2)
            && strip_height(extents, self.target) >= planes * 2 * rows
    }
}

/// The choices of computed arrays in the energy at x + d.
fn costs(f: &mut Filler, of: &Facts, shares: &[Share]) -> Result<(), ChoiceError> {
    let energy = of.energy;
    // Where this is the only nest, what is computed over its space is read there alone.
    let sums: Vec<&Sum> = shares.iter().flat_map(|s| &s.sums).collect();
    let nest = if let [only] = sums[..] { Some(only.domain) } else { None };
    // An array is read by later ones: by those that are stored, it is read outside of the sum.
    let mut read = FxHashSet::default();
    for (number, computed) in energy.computed.iter().enumerate().rev() {
        let id = ComputedId(number as u32);
        let (space, dims) = (computed.space, energy.spaces[computed.space.index()].len());
        let rows = of.reaches[space.index()].last().copied().unwrap_or(0);
        let alone = nest == Some(Domain::Space(space)) && !read.contains(&id);
        let possible: &[Value] = match alone && dims >= 2 {
            // Of a GPU blocks run in any order: there is no row before.
            true if of.target.gpu.is_none() => {
                let pays = of.ring_pays(space, rows, computed.values.len() * of.scalar, PLANES_OF_ARRAYS);
                &two(rows <= RING_ROWS && pays, Value::Ring, Value::Root)
            }
            _ => &[Value::Root],
        };
        if f.choose(Of::Cost(id), &computed.name, possible)? == Value::Root {
            read.extend(reads_of(of.routines, id, computed.values.len()));
        }
    }
    Ok(())
}

/// The computed arrays that the `values` of one of them read.
fn reads_of(r: &Routines, id: ComputedId, values: usize) -> impl Iterator<Item = ComputedId> {
    let nodes = r.dag.reachable(&r.roots(Kind::Computed, Site::Array(id))[..values]);
    nodes.into_iter().filter_map(|n| match r.dag.node(n) {
        Node::Access(Access { source: Source::Computed(c), .. }) => Some(*c),
        _ => None,
    })
}

/// The choices of the types of arrays; returns those that stay bytes.
fn arrays(f: &mut Filler, of: &Facts) -> Result<FxHashSet<ArrayId>, ChoiceError> {
    let mut narrow = layout::bytes(of.energy, of.routines, of.roots);
    for (id, array) in (0..).map(ArrayId).zip(&of.energy.arrays) {
        let possible = narrow.contains(&id);
        if possible && f.choose(Of::Bytes(id), &array.name, &[Value::Narrow, Value::Wide])? == Value::Wide {
            narrow.remove(&id);
        }
    }
    Ok(narrow)
}

/// The choices of layouts: of lists that could be records, but for those in `narrow`.
fn layouts(
    f: &mut Filler,
    of: &Facts,
    spaces: &[Space],
    narrow: &FxHashSet<ArrayId>,
) -> Result<(), ChoiceError> {
    let energy = of.energy;
    let at_vertices = layout::at_vertices(of.routines, of.roots);
    let mut choose = |what: Of, name: &str, space: SpaceId, channels: usize, sources: &[Source]| {
        let list = energy.spaces[space.index()].len() == 1 && !energy.is_global(space);
        if !list || layout::record(channels) == Layout::Planar {
            return Ok(());
        }
        let read = sources.iter().any(|s| at_vertices.contains(s));
        f.choose(what, name, &two(read, Value::Record, Value::Planar)).map(drop)
    };
    for space in spaces {
        let ids = (0..energy.unknowns.len() as u32).map(UnknownId);
        let own: Vec<UnknownId> = ids.filter(|u| energy.unknowns[u.index()].space == space.id).collect();
        let sources = |of: fn(UnknownId) -> Source| own.iter().map(|&u| of(u)).collect::<Vec<_>>();
        let (id, name, n) = (space.id, energy.space_name(space.id), space.components);
        choose(Of::UnknownLayout(id), &format!("x {name}"), id, n, &sources(Source::Unknown))?;
        choose(Of::DirectionLayout(id), &format!("p {name}"), id, n, &sources(Source::Direction))?;
    }
    for r in of.routines.of(Kind::Stored) {
        if let Domain::Space(s) = r.site.domain(energy) {
            let name = format!("stored {}", energy.space_name(s));
            choose(Of::StoredLayout(s), &name, s, r.roots.len(), &[Source::Hoisted(Domain::Space(s))])?;
        }
    }
    // The processor gathers no bytes.
    let arrays = (0..).map(ArrayId).zip(&energy.arrays);
    for (id, array) in arrays.filter(|(id, array)| array.view_of.is_none() && !narrow.contains(id)) {
        let channels = usize::from(array.channels);
        choose(Of::ArrayLayout(id), &array.name, array.space, channels, &[Source::Array(id)])?;
    }
    Ok(())
}
