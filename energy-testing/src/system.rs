//! All residuals of a case with their derivatives, and what a solver makes of them.

use crate::case::{At, Case, Expr, Field, Kind, Loss, Rho, Source};
use crate::dual::Dual;
use crate::evaluate::{Place, evaluate};
use crate::loss::Shape;
use crate::reads::Reads;
use std::cell::Cell;

/// Rounding of the interpreter's own.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Share by which every result is off, in either direction: to see how far rounding reaches.
    pub share: f64,
    /// The least weight of a residual under a loss that does not vanish: what is smaller may be 0.
    pub least: f64,
    pub seed: u64,
    /// True if what a rounding decides is NaN.
    pub wary: bool,
}

impl Noise {
    pub const NONE: Noise = Noise { share: 0.0, least: 0.0, seed: 0, wary: false };
    /// Exact, but for what is open.
    pub const WARY: Noise = Noise { wary: true, ..Noise::NONE };

    pub const fn new(share: f64, least: f64) -> Noise {
        Noise { share, least, seed: 0, wary: true }
    }

    /// The same size of noise, made from another seed.
    pub fn seeded(self, seed: u64) -> Noise {
        Noise { seed, ..self }
    }
}

/// A residual that counts, under a loss as J^T r and J^T J hold it.
#[derive(Clone, Debug)]
pub struct Row {
    /// As the energy has it, without regard to a loss.
    pub residual: f64,
    /// r~.
    pub weighted: f64,
    /// The row of J~: scalars and slopes.
    pub slopes: Vec<(usize, f64)>,
}

impl Row {
    /// Tells whether neither the residual nor a derivative is inf or NaN.
    pub fn is_finite(&self) -> bool {
        self.residual.is_finite() && self.weighted.is_finite() && self.slopes.iter().all(|s| s.1.is_finite())
    }
}

/// Everything that a solver knows of an energy at one x.
#[derive(Clone, Debug)]
pub struct System {
    /// Templates in the order of the file, the instances of each in order.
    pub rows: Vec<Row>,
    /// E per group.
    pub energies: Vec<f64>,
    /// Per unknown scalar, whether it is free.
    pub free: Vec<bool>,
    /// False if some `Exclude` is NaN: then nothing is said of anything.
    pub known: bool,
}

impl System {
    /// Tells whether no residual and no derivative is inf or NaN.
    pub fn is_finite(&self) -> bool {
        self.energies.iter().all(|e| e.is_finite()) && self.rows.iter().all(Row::is_finite)
    }

    /// J^T r.
    pub fn gradient(&self) -> Vec<f64> {
        self.sum(|row, slope| row.weighted * slope)
    }

    /// diag(J^T J).
    pub fn diagonal(&self) -> Vec<f64> {
        self.sum(|_, slope| slope * slope)
    }

    /// J^T J v.
    pub fn product(&self, v: &[f64]) -> Vec<f64> {
        self.sum(|row, slope| slope * row.slopes.iter().map(|(s, slope)| slope * v[*s]).sum::<f64>())
    }

    fn sum(&self, term: impl Fn(&Row, f64) -> f64) -> Vec<f64> {
        let mut out = vec![0.0; self.free.len()];
        for row in &self.rows {
            row.slopes.iter().for_each(|&(s, slope)| out[s] += term(row, slope));
        }
        out
    }
}

/// The system of a case at x.
pub fn system(case: &Case, x: &[f64], noise: Noise) -> System {
    let seed = Cell::new(noise.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let parts = case.parts();
    let world = World { case, x, parts: &parts, noise, seed: &seed };
    // What is excluded is no matter of rounding.
    let (masks, known) = World { noise: Noise::WARY, ..world }.masks();
    let free = world.free(&masks);
    let (mut rows, mut energies) = (Vec::new(), Vec::new());
    for of in &case.groups {
        let mut energy = 0.0;
        for value in &of.values {
            let block = world.block(value, of.loss.as_ref(), &masks);
            energy += world.add_block(block, of.loss.as_ref(), &free, &mut rows);
        }
        energies.push(energy);
    }
    System { rows, energies, free, known }
}

/// The bounds of every unknown scalar; NaN where they are open.
pub fn bounds(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let (seed, parts) = (Cell::new(1), case.parts());
    let x = case.x();
    let world = World { case, x: &x, parts: &parts, noise: Noise::WARY, seed: &seed };
    let scalars = x.len();
    let mut all = (vec![f64::NEG_INFINITY; scalars], vec![f64::INFINITY; scalars]);
    for (field, lower, upper) in &case.bounds {
        let (space, channels) = (case.fields[*field].space, case.fields[*field].channels);
        for (side, into) in [(lower, &mut all.0), (upper, &mut all.1)] {
            for element in 0..case.elements(space) {
                let values = evaluate(case, side, &world.at(Domain::Space(space), element));
                for c in 0..channels {
                    let value = if values.len() == 1 { &values[0] } else { &values[c] };
                    into[parts[*field].start + element * channels + c] = value.value;
                }
            }
        }
    }
    all
}

/// The instances of a residual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Domain {
    Space(usize),
    Graph(usize),
}

/// A scalar residual at an instance where it counts.
struct Counted {
    instance: usize,
    /// True if its box leaves the domain.
    cut: bool,
    value: Dual,
}

/// The channels of one value: per channel that is a residual its domain, and the instances that count.
type Block = Vec<(Domain, Vec<Counted>)>;

#[derive(Clone, Copy)]
struct World<'a> {
    case: &'a Case,
    x: &'a [f64],
    parts: &'a [std::ops::Range<usize>],
    noise: Noise,
    seed: &'a Cell<u64>,
}

impl<'a> World<'a> {
    fn at(self, domain: Domain, instance: usize) -> Here<'a> {
        let coordinates = match domain {
            Domain::Space(s) => self.case.coordinates(s, instance),
            Domain::Graph(_) => vec![],
        };
        Here { world: self, domain, instance, coordinates }
    }

    /// Per space, whether each element is free; and whether that is known of all.
    fn masks(self) -> (Vec<Vec<bool>>, bool) {
        let spaces = 0..self.case.spaces.len();
        let mut masks: Vec<Vec<bool>> = spaces.map(|s| vec![true; self.case.elements(s)]).collect();
        let mut known = true;
        for (space, condition) in &self.case.excludes {
            for (element, free) in masks[*space].iter_mut().enumerate() {
                let values = evaluate(self.case, condition, &self.at(Domain::Space(*space), element));
                *free &= !values.iter().any(Dual::holds);
                known &= values.iter().all(|v| !v.value.is_nan());
            }
        }
        (masks, known)
    }

    fn free(self, masks: &[Vec<bool>]) -> Vec<bool> {
        let unknowns = self.case.fields.iter().filter(|f| matches!(f.kind, Kind::Unknown(_)));
        let scalars = |f: &Field| {
            masks[f.space].iter().flat_map(|&m| std::iter::repeat_n(m, f.channels)).collect::<Vec<_>>()
        };
        unknowns.flat_map(scalars).collect()
    }

    /// The domain of a residual: where it reads anything that is no global, else the only element of the globals.
    fn domain(self, reads: &Reads) -> Domain {
        let placed = reads.all.iter().find_map(|a| match &a.at {
            At::Offset(_) => Some(Domain::Space(self.case.space(a.source))),
            At::Vertex(g, _) => Some(Domain::Graph(*g)),
            At::Global => None,
        });
        placed.unwrap_or(Domain::Space(0))
    }

    fn instances(self, domain: Domain) -> usize {
        match domain {
            Domain::Space(s) => self.case.elements(s),
            Domain::Graph(g) => self.case.graphs[g].edges.len(),
        }
    }

    /// Evaluates what counts of a value. A channel that reads no unknown is a constant and left out. What the scale of a loss reads is
    /// read with each channel.
    fn block(self, value: &Expr, loss: Option<&Loss>, masks: &[Vec<bool>]) -> Block {
        let mut block = Vec::new();
        let of_scale = self.case.scale_reads(loss);
        for (channel, reads) in self.case.reads(value).into_iter().enumerate() {
            let unknowns = self.case.unknown_reads(&reads);
            if unknowns.is_empty() {
                continue;
            }
            let reads = reads.with(&of_scale);
            let domain = self.domain(&reads);
            let guard = match domain {
                Domain::Space(s) if !reads.bounds => Some(self.case.reach(&reads, self.case.spaces[s].len())),
                _ => None,
            };
            let mut instances = Vec::new();
            for instance in 0..self.instances(domain) {
                let here = self.at(domain, instance);
                let counts = unknowns.iter().any(|(field, at, by)| {
                    let element = here.element(Source::Field(*field), at, by);
                    element.is_some_and(|e| masks[self.case.fields[*field].space][e])
                });
                if !counts {
                    continue;
                }
                let cut = guard.as_ref().is_some_and(|(lo, hi)| !here.inside(lo, hi));
                let value = match cut {
                    true => Dual::number(0.0),
                    false => self.rounded(evaluate(self.case, value, &here).swap_remove(channel)),
                };
                instances.push(Counted { instance, cut, value });
            }
            block.push((domain, instances));
        }
        block
    }

    /// Adds the rows of a value and returns its share of E.
    fn add_block(self, block: Block, loss: Option<&Loss>, free: &[bool], rows: &mut Vec<Row>) -> f64 {
        let Some(&(domain, _)) = block.first() else { return 0.0 };
        let shapes = self.shapes(&block, domain, loss);
        let instances = shapes.len();
        // Sums over the rows of a block: r^T J, scalar by scalar.
        let mut bends: Vec<Vec<(usize, f64)>> = vec![vec![]; instances];
        for Counted { instance: i, value: r, .. } in block.iter().flat_map(|(_, counted)| counted) {
            let sum = Dual { slopes: std::mem::take(&mut bends[*i]), ..Dual::default() };
            bends[*i] = Dual::chain(0.0, [(1.0, &sum), (r.value, r)]).slopes;
        }
        let mut energy = 0.0;
        let mut seen = vec![false; instances];
        for (_, counted) in block {
            for Counted { instance: i, value: r, .. } in counted {
                if !std::mem::replace(&mut seen[i], true) {
                    energy += shapes[i].rho;
                }
                let Shape { root, alpha, bend, .. } = shapes[i];
                let bent = Dual { slopes: bends[i].clone(), ..Dual::default() };
                let slopes = match bend == 0.0 {
                    true => r.slopes.clone(),
                    false => Dual::chain(0.0, [(1.0, &r), (-bend * r.value, &bent)]).slopes,
                };
                let weigh = |w: f64, v: f64| if w == 0.0 { 0.0 } else { w * v };
                rows.push(Row {
                    residual: r.value,
                    weighted: weigh(root / (1.0 - alpha), r.value),
                    slopes: slopes
                        .into_iter()
                        .filter(|(s, _)| free[*s])
                        .map(|(s, v)| (s, weigh(root, v)))
                        .collect(),
                });
            }
        }
        energy
    }

    /// The weights of a block at each instance of its domain.
    fn shapes(self, block: &Block, domain: Domain, loss: Option<&Loss>) -> Vec<Shape> {
        let instances = block.iter().map(|(domain, _)| self.instances(*domain)).max().unwrap_or(0);
        let mut squares = vec![0.0; instances];
        let mut all_cut = vec![true; squares.len()];
        for Counted { instance, cut, value } in block.iter().flat_map(|(_, counted)| counted) {
            squares[*instance] += value.value * value.value;
            all_cut[*instance] &= cut;
        }
        let shape = |(instance, &q): (usize, &f64)| {
            let Some(loss) = loss else { return Shape::plain(q) };
            let scale = match &loss.rho {
                // Outside of the box nothing is read; rho(0) is 0 whatever the scale.
                Rho::Scaled(..) if all_cut[instance] => return Shape::plain(0.0),
                Rho::Scaled(_, scale) => evaluate(self.case, scale, &self.at(domain, instance))[0].value,
                _ => f64::NAN,
            };
            Shape::new(self.case, loss, scale, q, self.noise.least, &|| self.off())
        };
        squares.iter().enumerate().map(shape).collect()
    }

    fn rounded(self, mut result: Dual) -> Dual {
        if self.noise.share > 0.0 {
            result.value *= self.off();
            let terms = result.slopes.iter_mut().zip(&result.sizes);
            terms.for_each(|(slope, size)| slope.1 += (self.off() - 1.0) * size);
        }
        result
    }

    /// 1 and a little, in either direction.
    fn off(self) -> f64 {
        // xorshift64.
        let mut s = self.seed.get();
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        self.seed.set(s);
        1.0 + self.noise.share * ((s >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    }
}

/// One instance of a domain.
struct Here<'a> {
    world: World<'a>,
    domain: Domain,
    instance: usize,
    coordinates: Vec<i64>,
}

impl Here<'_> {
    /// The element of a read, and from there by an offset; none outside of the domain.
    fn element(&self, source: Source, at: &At, by: &[i64]) -> Option<usize> {
        let case = self.world.case;
        let from = match (at, self.domain) {
            (At::Global, _) => return Some(0),
            (At::Vertex(g, v), _) => {
                let graph = &case.graphs[*g];
                case.coordinates(graph.spaces[*v], graph.edges[self.instance][*v])
            }
            (At::Offset(o), Domain::Space(_)) => self.coordinates.iter().zip(o).map(|(c, o)| c + o).collect(),
            (At::Offset(_), Domain::Graph(_)) => unreachable!("a hyperedge has no neighbours"),
        };
        let moved: Vec<i64> = (0..from.len()).map(|d| from[d] + by.get(d).unwrap_or(&0)).collect();
        let space = match (source, at) {
            (Source::Field(f), _) => case.fields[f].space,
            (source, _) => case.space(source),
        };
        case.element(space, &moved)
    }
}

impl Place for Here<'_> {
    fn read(&self, source: Source, at: &At, channel: usize) -> Dual {
        let case = self.world.case;
        let Some(element) = self.element(source, at, &[]) else { return Dual::number(0.0) };
        let field = match source {
            Source::Field(f) => f,
            Source::Computed(c) => {
                let there = self.world.at(Domain::Space(case.computed[c].space), element);
                return evaluate(case, &case.computed[c].value, &there).swap_remove(channel);
            }
        };
        let of = &case.fields[field];
        let scalar = element * of.channels + channel;
        match of.kind {
            Kind::Unknown(_) => {
                let scalar = self.world.parts[field].start + scalar;
                Dual { slopes: vec![(scalar, 1.0)], ..Dual::number(self.world.x[scalar]) }
            }
            Kind::Array(_) => Dual::number(of.values[scalar]),
            Kind::View(of) => Dual::number(case.fields[of].values[scalar]),
        }
    }

    fn tap(&self, field: usize, channel: usize, at: &[i64]) -> f64 {
        let (case, of) = (self.world.case, &self.world.case.fields[field]);
        case.element(of.space, at).map_or(0.0, |e| of.values[e * of.channels + channel])
    }

    fn index(&self, dim: usize) -> f64 {
        self.coordinates[dim] as f64
    }

    fn inside(&self, lo: &[i64], hi: &[i64]) -> bool {
        let Domain::Space(space) = self.domain else { return true };
        let corner = |offset: &[i64]| {
            let at: Vec<i64> = self.coordinates.iter().zip(offset).map(|(c, o)| c + o).collect();
            self.world.case.element(space, &at).is_some()
        };
        corner(lo) && corner(hi)
    }

    fn rounded(&self, result: Dual) -> Dual {
        self.world.rounded(result)
    }

    fn is_wary(&self) -> bool {
        self.world.noise.wary
    }
}
