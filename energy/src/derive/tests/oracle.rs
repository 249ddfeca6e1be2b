//! A tiny problem with data, evaluated by brute force.

use crate::dag::{Access, At, Env, ExprId, Offset, Source};
use crate::model::*;
use std::collections::BTreeMap;

/// An energy with sizes and data. Fields are stored element-major, elements with the first dim fastest.
pub(super) struct Problem {
    pub energy: Energy,
    pub sizes: Vec<usize>,
    pub unknowns: Vec<Vec<f64>>,
    pub arrays: Vec<Vec<f64>>,
    pub directions: Vec<Vec<f64>>,
    pub params: Vec<Vec<f64>>,
    /// Per graph, per hyperedge, the element at each slot.
    pub edges: Vec<Vec<Vec<usize>>>,
    /// Per domain, hoisted channels: element-major.
    pub hoisted: BTreeMap<Domain, (usize, Vec<f64>)>,
}

/// An element or hyperedge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    Element(SpaceId, usize),
    Edge(GraphId, usize),
}

impl Problem {
    pub fn extents(&self, s: SpaceId) -> Vec<usize> {
        self.energy.spaces[s.index()].iter().map(|d| self.sizes[d.index()]).collect()
    }

    pub fn elements(&self, s: SpaceId) -> usize {
        self.extents(s).iter().product()
    }

    fn coordinates(&self, s: SpaceId, mut element: usize) -> Vec<i64> {
        let split = |n: usize| {
            let c = element % n;
            element /= n;
            c as i64
        };
        self.extents(s).into_iter().map(split).collect()
    }

    /// The element at an offset, if it is in the domain.
    pub fn neighbour(&self, s: SpaceId, element: usize, o: &[i32]) -> Option<usize> {
        let mut stride = 1;
        let mut out = 0;
        for ((c, n), o) in self.coordinates(s, element).iter().zip(self.extents(s)).zip(o) {
            let c = usize::try_from(c + i64::from(*o)).ok().filter(|c| *c < n)?;
            out += c * stride;
            stride *= n;
        }
        Some(out)
    }

    pub fn domain(&self, d: Domain) -> Vec<Place> {
        match d {
            Domain::Space(s) => (0..self.elements(s)).map(|e| Place::Element(s, e)).collect(),
            Domain::Graph(g) => (0..self.edges[g.index()].len()).map(|e| Place::Edge(g, e)).collect(),
        }
    }

    /// The element that `at` means from `place`.
    pub fn target(&self, place: Place, at: &At) -> Option<usize> {
        match (place, at) {
            (Place::Element(s, e), At::Offset(o)) => self.neighbour(s, e, o),
            (Place::Edge(g, e), At::Vertex(h, slot)) if g == *h => {
                Some(self.edges[g.index()][e][usize::from(*slot)])
            }
            _ => panic!("{at:?} read from {place:?}"),
        }
    }

    pub fn eval(&self, e: ExprId, place: Place) -> f64 {
        self.energy.dag.eval(e, &View { problem: self, place })
    }

    pub fn excluded(&self, s: SpaceId, element: usize) -> bool {
        let mut own = self.energy.excludes.iter().filter(|(space, _)| *space == s);
        own.any(|(_, e)| self.eval(*e, Place::Element(s, element)) != 0.0)
    }

    /// Tells whether an instance is counted, by the rules of the language.
    fn counts(&self, r: &Residual, place: Place) -> bool {
        let guard = match (&r.guard, place) {
            (Some((lo, hi)), Place::Element(s, e)) => {
                self.neighbour(s, e, lo).is_some() && self.neighbour(s, e, hi).is_some()
            }
            _ => true,
        };
        guard && self.reads_free(r, place)
    }

    /// Tells whether an instance reads an unknown at a free element.
    pub fn reads_free(&self, r: &Residual, place: Place) -> bool {
        r.unknown_reads.iter().any(|a| {
            let Source::Unknown(u) = a.source else { panic!("not an unknown") };
            let s = self.energy.unknowns[u.index()].space;
            self.target(place, &a.at).is_some_and(|t| !self.excluded(s, t))
        })
    }

    /// Every counted instance: `(residual, place)`.
    pub fn instances(&self) -> Vec<(usize, Place)> {
        let mut out = Vec::new();
        for (k, r) in self.energy.residuals.iter().enumerate() {
            out.extend(self.domain(r.domain).into_iter().filter(|p| self.counts(r, *p)).map(|p| (k, p)));
        }
        out
    }

    pub fn residuals(&self) -> Vec<f64> {
        self.instances().iter().map(|(k, p)| self.eval(self.energy.residuals[*k].value, *p)).collect()
    }

    /// Dense Jacobian: `[unknown][scalar][instance]`; columns of excluded elements are 0.
    pub fn jacobian(&mut self) -> Vec<Vec<Vec<f64>>> {
        let h = 1e-3;
        let rows = self.instances().len();
        let mut out = Vec::new();
        for u in 0..self.unknowns.len() {
            let (channels, space) = {
                let field = &self.energy.unknowns[u];
                (usize::from(field.channels), field.space)
            };
            let mut columns = Vec::new();
            for i in 0..self.unknowns[u].len() {
                if self.excluded(space, i / channels) {
                    columns.push(vec![0.0; rows]);
                    continue;
                }
                let x = self.unknowns[u][i];
                let mut at = |d: f64| {
                    self.unknowns[u][i] = x + d;
                    self.residuals()
                };
                let (a, b, c, d) = (at(-2.0 * h), at(-h), at(h), at(2.0 * h));
                self.unknowns[u][i] = x;
                let slope = |k: usize| (a[k] - 8.0 * b[k] + 8.0 * c[k] - d[k]) / (12.0 * h);
                columns.push((0..rows).map(slope).collect());
            }
            out.push(columns);
        }
        out
    }
}

/// The problem seen from one place.
pub(super) struct View<'a> {
    pub problem: &'a Problem,
    pub place: Place,
}

impl Env for View<'_> {
    fn access(&self, a: &Access) -> f64 {
        let p = self.problem;
        let Some(element) = p.target(self.place, &a.at) else { return 0.0 };
        let (data, channels) = match a.source {
            Source::Unknown(u) => (&p.unknowns[u.index()], p.energy.unknowns[u.index()].channels.into()),
            Source::Direction(u) => (&p.directions[u.index()], p.energy.unknowns[u.index()].channels.into()),
            Source::Array(k) => (&p.arrays[k.index()], p.energy.arrays[k.index()].channels.into()),
            Source::Computed(_) | Source::Partial(_) => panic!("these problems compute no arrays"),
            Source::Hoisted(d) => (&p.hoisted[&d].1, p.hoisted[&d].0),
            Source::Squared => panic!("a loss is taken of the squared norm itself"),
            Source::Residual(_) | Source::Product(_) => panic!("these problems store neither r nor J p"),
        };
        data[element * channels + usize::from(a.channel)]
    }
    fn tap(&self, _: (ArrayId, u16), _: &[i64]) -> f64 {
        panic!("these problems sample nothing")
    }
    fn param(&self, p: ParamId, channel: u16) -> f64 {
        self.problem.params[p.index()][usize::from(channel)]
    }
    fn index(&self, dim: u16) -> f64 {
        let Place::Element(s, e) = self.place else { panic!("Index at a hyperedge") };
        self.problem.coordinates(s, e)[usize::from(dim)] as f64
    }
    fn in_bounds(&self, lo: &Offset, hi: &Offset) -> bool {
        let Place::Element(s, e) = self.place else { panic!("InBounds at a hyperedge") };
        self.problem.neighbour(s, e, lo).is_some() && self.problem.neighbour(s, e, hi).is_some()
    }
    fn free(&self, s: SpaceId, at: &At) -> bool {
        self.problem.target(self.place, at).is_some_and(|t| !self.problem.excluded(s, t))
    }
    fn in_bounds_at(&self, _: GraphId, _: u16, _: &Offset, _: &Offset) -> bool {
        panic!("these problems have no neighbours of vertices")
    }
    fn index_at(&self, _: GraphId, _: u16, _: u16) -> f64 {
        panic!("these problems have no neighbours of vertices")
    }
    fn same_vertex(&self, g: GraphId, a: u16, b: u16) -> bool {
        let Place::Edge(own, e) = self.place else { panic!("vertices of an element") };
        assert_eq!(own, g);
        let edge = &self.problem.edges[g.index()][e];
        edge[usize::from(a)] == edge[usize::from(b)]
    }
}
