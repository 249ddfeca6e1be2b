//! The energies that the routines are tested on.

use super::oracle::Problem;
use crate::dag::{Access, At, Dag, ExprId, Function, Node, Offset, Source};
use crate::model::*;
use std::collections::BTreeMap;

/// Deterministic numbers in [-1, 1].
pub(super) struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 11) as f64 / (1u64 << 53) as f64) * 2.0 - 1.0
    }
    pub fn list(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.next()).collect()
    }
}

/// Builds an energy and its data side by side.
pub(super) struct Builder {
    pub energy: Energy,
    sizes: Vec<usize>,
    params: Vec<Vec<f64>>,
    edges: Vec<Vec<Vec<usize>>>,
}

impl Builder {
    /// Spaces by their extents, each dim its own.
    pub fn new(spaces: &[&[usize]]) -> Builder {
        let energy = Energy { groups: vec!["all".into()], ..Energy::default() };
        let mut b = Builder { energy, sizes: Vec::new(), params: Vec::new(), edges: Vec::new() };
        for extents in spaces {
            let mut dims = Vec::new();
            for &n in *extents {
                dims.push(DimId(b.sizes.len() as u32));
                b.energy.dims.push(Dim {
                    name: format!("D{}", b.sizes.len()),
                    position: b.sizes.len() as i64,
                    fixed: None,
                });
                b.sizes.push(n);
            }
            b.energy.spaces.push(dims);
        }
        b
    }

    fn field(name: &str, channels: u16, space: u32) -> Field {
        let space = SpaceId(space);
        Field {
            name: name.into(),
            channels,
            space,
            element: ElementType::OptFloat,
            position: 0,
            view_of: None,
            line: None,
        }
    }

    pub fn unknown(&mut self, name: &str, channels: u16, space: u32) -> Source {
        self.energy.unknowns.push(Builder::field(name, channels, space));
        Source::Unknown(UnknownId(self.energy.unknowns.len() as u32 - 1))
    }

    pub fn array(&mut self, name: &str, channels: u16, space: u32) -> Source {
        self.energy.arrays.push(Builder::field(name, channels, space));
        Source::Array(ArrayId(self.energy.arrays.len() as u32 - 1))
    }

    pub fn param(&mut self, name: &str, value: f64) -> ExprId {
        self.energy.params.push(Param {
            name: name.into(),
            channels: 1,
            element: ElementType::OptFloat,
            position: 0,
        });
        self.params.push(vec![value]);
        self.energy.dag.param(ParamId(self.params.len() as u32 - 1), 0)
    }

    pub fn graph(&mut self, vertex_spaces: &[u32], edges: &[&[usize]]) -> GraphId {
        let vertex =
            |(i, s): (usize, &u32)| Vertex { name: format!("v{i}"), space: SpaceId(*s), position: 0 };
        let vertices = vertex_spaces.iter().enumerate().map(vertex).collect();
        self.energy.graphs.push(Graph {
            name: "G".into(),
            position: 0,
            vertices,
            neighbours: Default::default(),
        });
        self.edges.push(edges.iter().map(|e| e.to_vec()).collect());
        GraphId(self.edges.len() as u32 - 1)
    }

    pub fn dag(&mut self) -> &mut Dag {
        &mut self.energy.dag
    }

    pub fn read(&mut self, source: Source, channel: u16, o: &[i32]) -> ExprId {
        self.energy.dag.access(Access { source, channel, at: At::Offset(o.iter().copied().collect()) })
    }

    pub fn vertex(&mut self, source: Source, channel: u16, g: GraphId, slot: u16) -> ExprId {
        self.energy.dag.access(Access { source, channel, at: At::Vertex(g, slot) })
    }

    /// Adds a residual; over a space, with the boundary rule unless it uses InBounds.
    pub fn residual(&mut self, domain: Domain, value: ExprId) {
        let dag = &self.energy.dag;
        let reads = dag.accesses(value);
        let lifted = dag.reachable(&[value]).iter().any(|&n| matches!(dag.node(n), Node::InBounds { .. }));
        let guard = match domain {
            Domain::Space(s) if !lifted => {
                let dims = self.energy.spaces[s.index()].len();
                let offsets = || {
                    reads.iter().filter_map(|a| match &a.at {
                        At::Offset(o) => Some(o),
                        At::Vertex(..) | At::Edge(_) | At::Global => None,
                    })
                };
                let corner = |pick: fn(i32, i32) -> i32| -> Offset {
                    (0..dims).map(|d| offsets().map(|o| o[d]).fold(0, pick)).collect()
                };
                Some((corner(i32::min), corner(i32::max)))
            }
            _ => None,
        };
        let unknown_reads = reads.into_iter().filter(|a| matches!(a.source, Source::Unknown(_))).collect();
        self.energy.residuals.push(Residual {
            value,
            domain,
            guard,
            unknown_reads,
            group: GroupId(0),
            block: None,
            line: None,
        });
    }

    pub fn finish(self, seed: u64) -> Problem {
        let mut noise = Noise(seed);
        let Builder { energy, sizes, params, edges } = self;
        let mut p = Problem {
            energy,
            sizes,
            params,
            edges,
            unknowns: Vec::new(),
            arrays: Vec::new(),
            directions: Vec::new(),
            hoisted: BTreeMap::new(),
        };
        for u in p.energy.unknowns.clone() {
            let n = p.elements(u.space) * usize::from(u.channels);
            p.unknowns.push(noise.list(n));
            p.directions.push(noise.list(n));
        }
        for a in p.energy.arrays.clone() {
            let n = p.elements(a.space) * usize::from(a.channels);
            p.arrays.push(noise.list(n));
        }
        // The direction is 0 at excluded elements: a storage invariant of the solver.
        for u in 0..p.unknowns.len() {
            let (channels, space) = (usize::from(p.energy.unknowns[u].channels), p.energy.unknowns[u].space);
            for e in (0..p.elements(space)).filter(|&e| p.excluded(space, e)).collect::<Vec<_>>() {
                p.directions[u][e * channels..(e + 1) * channels].fill(0.0);
            }
        }
        p
    }
}

const GRID: Domain = Domain::Space(SpaceId(0));

/// Fit plus first differences, with the boundary rule.
pub(super) fn laplacian() -> Problem {
    let mut b = Builder::new(&[&[5, 4]]);
    let (x, a) = (b.unknown("X", 1, 0), b.array("A", 1, 0));
    let w = b.param("w", 0.3);
    let (centre, data) = (b.read(x, 0, &[0, 0]), b.read(a, 0, &[0, 0]));
    let fit = b.dag().sub(centre, data);
    let fit = b.dag().mul(w, fit);
    b.residual(GRID, fit);
    for o in [[1, 0], [0, 1]] {
        let other = b.read(x, 0, &o);
        let r = b.dag().sub(centre, other);
        b.residual(GRID, r);
    }
    b.finish(1)
}

/// As-rigid-as-possible image deformation: positions and an angle per pixel, a mask of pixels held fixed, and constraints
/// that hold no data at some pixels.
pub(super) fn arap_image() -> Problem {
    let mut b = Builder::new(&[&[5, 4]]);
    let (offset, angle) = (b.unknown("Offset", 2, 0), b.unknown("Angle", 1, 0));
    let (shape, constraints) = (b.array("UrShape", 2, 0), b.array("Constraints", 2, 0));
    let mask = b.array("Mask", 1, 0);
    let (w_fit, w_reg) = (b.param("w_fit", 1.7), b.param("w_reg", 0.4));
    let zero = b.dag().constant(0.0);
    let here = b.read(mask, 0, &[0, 0]);
    let held = b.dag().equal(here, zero);
    let held = b.dag().not(held);
    b.energy.excludes.push((SpaceId(0), held));
    let a = b.read(angle, 0, &[0, 0]);
    let (cos, sin) = (b.dag().call(Function::Cos, &[a]), b.dag().call(Function::Sin, &[a]));
    for o in [[1, 0], [-1, 0], [0, 1], [0, -1]] {
        let there = b.read(mask, 0, &o);
        let step: Offset = o.iter().copied().collect();
        let inside = b.dag().in_bounds(&step, &step);
        let off = b.dag().equal(there, zero);
        let valid = b.dag().mul(inside, off);
        let du: Vec<ExprId> = (0..2).map(|c| difference(&mut b, shape, c, &o)).collect();
        let dx: Vec<ExprId> = (0..2).map(|c| difference(&mut b, offset, c, &o)).collect();
        for (c, dx) in dx.into_iter().enumerate() {
            let dag = b.dag();
            let rotated = match c {
                0 => {
                    let (p, q) = (dag.mul(cos, du[0]), dag.mul(sin, du[1]));
                    dag.sub(p, q)
                }
                _ => {
                    let (p, q) = (dag.mul(sin, du[0]), dag.mul(cos, du[1]));
                    dag.add(p, q)
                }
            };
            let r = dag.sub(dx, rotated);
            let r = dag.mul(w_reg, r);
            let r = dag.mul(valid, r);
            b.residual(GRID, r);
        }
    }
    for c in 0..2 {
        let (x, goal) = (b.read(offset, c, &[0, 0]), b.read(constraints, c, &[0, 0]));
        let dag = b.dag();
        let valid = dag.greater_eq(goal, zero);
        let r = dag.sub(x, goal);
        let r = dag.product(1.0, &[(valid, 1), (w_fit, 1), (r, 1)]);
        b.residual(GRID, r);
    }
    let mut p = b.finish(2);
    for (i, m) in p.arrays[2].iter_mut().enumerate() {
        *m = if i % 4 == 1 || i == 12 { 255.0 } else { 0.0 };
    }
    // "No data" is minus infinity and NaN: both fail `>= 0`.
    for (i, c) in p.arrays[1].iter_mut().enumerate() {
        *c = [*c, f64::NEG_INFINITY, f64::NAN, c.abs()][i % 4];
    }
    for e in (0..20).filter(|&e| p.excluded(SpaceId(0), e)).collect::<Vec<_>>() {
        p.directions[0][2 * e..2 * e + 2].fill(0.0);
        p.directions[1][e] = 0.0;
    }
    p
}

fn difference(b: &mut Builder, source: Source, channel: u16, o: &[i32; 2]) -> ExprId {
    let (here, there) = (b.read(source, channel, &[0, 0]), b.read(source, channel, o));
    b.dag().sub(here, there)
}

/// Hyperedges over two index spaces with coinciding vertices, duplicates, an isolated element and excluded ones, beside a
/// stencil term.
pub(super) fn graph() -> Problem {
    let mut b = Builder::new(&[&[6], &[3], &[8]]);
    let (x, y) = (b.unknown("X", 2, 0), b.unknown("Y", 1, 1));
    let held = b.array("Held", 1, 0);
    let edges: [&[usize]; 8] = [
        &[0, 1, 2, 0],
        &[1, 1, 2, 1],
        &[2, 2, 2, 2],
        &[3, 0, 3, 0],
        &[0, 1, 2, 0],
        &[0, 1, 2, 0],
        &[4, 3, 0, 1],
        &[4, 4, 4, 1],
    ];
    let g = b.graph(&[0, 0, 0, 1], &edges);
    let [p0, q0] = [0, 1].map(|c| b.vertex(x, c, g, 0));
    let [p1, q1] = [0, 1].map(|c| b.vertex(x, c, g, 1));
    let p2 = b.vertex(x, 0, g, 2);
    let t = b.vertex(y, 0, g, 3);
    let dag = b.dag();
    let sin = dag.call(Function::Sin, &[p0]);
    let first = dag.mul(sin, q1);
    let square = dag.powi(p1, 2);
    let r1 = dag.sum(0.2, &[(1.0, first), (-1.5, square), (0.7, t)]);
    let product = dag.product(1.0, &[(p0, 1), (p1, 1), (p2, 1), (t, 1)]);
    let r2 = dag.sum(0.0, &[(1.0, product), (-0.3, q0)]);
    b.residual(Domain::Graph(g), r1);
    b.residual(Domain::Graph(g), r2);
    let (here, next) = (b.read(x, 1, &[0]), b.read(x, 1, &[1]));
    let r3 = b.dag().mul(here, next);
    b.residual(GRID, r3);
    let h = b.read(held, 0, &[0]);
    let zero = b.dag().constant(0.0);
    let exclude = b.dag().greater(h, zero);
    b.energy.excludes.push((SpaceId(0), exclude));
    let mut p = b.finish(3);
    p.arrays[0] = vec![-1.0, -1.0, -1.0, 1.0, -1.0, -1.0];
    p.directions[0][6..8].fill(0.0);
    p
}

/// Residuals that use InBounds: no boundary rule, reads outside the domain are 0, values there differ from `f(0)`.
pub(super) fn lifted() -> Problem {
    let mut b = Builder::new(&[&[5, 4]]);
    let x = b.unknown("X", 2, 0);
    let u = b.read(x, 0, &[0, 0]);
    let right = b.read(x, 0, &[1, 0]);
    let far = b.read(x, 1, &[-2, 1]);
    let v = b.read(x, 1, &[0, 1]);
    let o = |x: i32, y: i32| -> Offset { [x, y].into_iter().collect() };
    let dag = b.dag();
    let inside = dag.in_bounds(&o(1, 0), &o(1, 0));
    let expanded = dag.in_bounds(&o(-1, -1), &o(1, 1));
    let product = dag.mul(u, right);
    let two = dag.constant(2.0);
    let chosen = dag.select(inside, product, two);
    let square = dag.powi(far, 2);
    let cos = dag.call(Function::Cos, &[v]);
    let index = dag.index(0);
    let swing = dag.product(0.1, &[(cos, 1), (index, 1), (u, 1)]);
    let r1 = dag.sum(0.0, &[(1.0, chosen), (1.0, square), (1.0, swing)]);
    let exp = dag.call(Function::Exp, &[right]);
    let nested = dag.select(inside, exp, v);
    let r2 = dag.select(expanded, nested, u);
    b.residual(GRID, r1);
    b.residual(GRID, r2);
    b.finish(4)
}
