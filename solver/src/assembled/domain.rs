//! Locations: elements of index spaces, hyperedges, unknown scalars and the columns of J.
//!
//! x is one flat vector of all unknown scalars: unknowns in order of declaration, each in C order, channels innermost. The
//! columns of J are the free ones among them, in the same order.

use crate::assembled::tape::{Image, Place, Read};
use crate::problem::data::{GraphData, ProblemData};
use std::borrow::Cow;
use std::ops::Range;
use sumsq_energy::dag::{Offset, Source};
use sumsq_energy::model::{Domain, Energy, Field, GraphId, SpaceId, UnknownId};

/// A column number that is none: the scalar is excluded.
const EXCLUDED: u32 = u32::MAX;

/// Extents of an index space, fastest-varying first.
#[derive(Clone, Debug)]
struct Space {
    extents: Vec<i32>,
    elements: usize,
}

/// Positions of the scalars of an unknown or array in its vector.
#[derive(Clone, Copy, Debug)]
struct Strip {
    base: usize,
    channels: usize,
}

/// The geometry of a problem.
pub(super) struct Layout<'a> {
    spaces: Vec<Space>,
    unknowns: Vec<Strip>,
    arrays: Vec<(SpaceId, Strip)>,
    graphs: &'a [GraphData],
    /// Per space: whether each element is free.
    free: Vec<Vec<bool>>,
    /// Per unknown scalar: its column of J, or [`EXCLUDED`].
    columns: Vec<u32>,
    /// Per column: its unknown scalar.
    scalars: Vec<u32>,
}

/// The numbers an evaluation reads.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    /// All unknown scalars.
    pub x: &'a [f64],
    pub arrays: &'a [Cow<'a, [f64]>],
    pub params: &'a [Vec<f64>],
    /// One unknown scalar and what is added to it: finite differences without copies of x.
    pub bump: Option<(usize, f64)>,
}

impl<'a> Layout<'a> {
    /// `free`: per space, whether each element is free.
    pub fn new(energy: &Energy, data: &'a ProblemData<'_>, free: Vec<Vec<bool>>) -> Layout<'a> {
        let space = |s: usize| {
            let extents = data.extents(energy, SpaceId(s as u32));
            Space { elements: extents.iter().product(), extents: extents.iter().map(|&e| e as i32).collect() }
        };
        let spaces: Vec<Space> = (0..energy.spaces.len()).map(space).collect();
        let mut base = 0;
        let mut unknown_strip = |f: &Field| {
            let strip = Strip { base, channels: usize::from(f.channels) };
            base += strip.channels * spaces[f.space.index()].elements;
            strip
        };
        let unknowns = energy.unknowns.iter().map(&mut unknown_strip).collect();
        let array_strip = |f: &Field| (f.space, Strip { base: 0, channels: usize::from(f.channels) });
        let arrays = energy.arrays.iter().map(array_strip).collect();
        let (mut columns, mut scalars) = (Vec::with_capacity(base), Vec::new());
        for f in &energy.unknowns {
            for &is_free in &free[f.space.index()] {
                for _ in 0..f.channels {
                    if is_free {
                        scalars.push(columns.len() as u32);
                        columns.push(scalars.len() as u32 - 1);
                    } else {
                        columns.push(EXCLUDED);
                    }
                }
            }
        }
        Layout { spaces, unknowns, arrays, graphs: data.graphs(), free, columns, scalars }
    }

    /// Number of unknown scalars, excluded ones included.
    pub fn scalars(&self) -> usize {
        self.columns.len()
    }

    /// Per column of J: the unknown scalar.
    pub fn free_scalars(&self) -> &[u32] {
        &self.scalars
    }

    /// The column of an unknown scalar, if it is free.
    pub fn column(&self, scalar: usize) -> Option<u32> {
        let column = self.columns[scalar];
        (column != EXCLUDED).then_some(column)
    }

    /// The unknown scalar of a channel at an element.
    pub fn scalar(&self, unknown: usize, element: usize, channel: usize) -> usize {
        let strip = self.unknowns[unknown];
        strip.base + element * strip.channels + channel
    }

    /// Returns where the scalars of an unknown lie in x.
    pub fn part(&self, unknown: UnknownId) -> Range<usize> {
        let start = self.unknowns[unknown.index()].base;
        let end = self.unknowns.get(unknown.index() + 1).map_or(self.scalars(), |next| next.base);
        start..end
    }

    /// Extents of the index space of an image, fastest-varying first.
    pub fn extents_of(&self, (array, _): Image) -> &[i32] {
        &self.spaces[self.arrays[array.index()].0.index()].extents
    }

    /// Number of elements of an index space.
    pub fn elements(&self, space: SpaceId) -> usize {
        self.spaces[space.index()].elements
    }

    /// Number of instances of a template over `domain`.
    pub fn instances(&self, domain: Domain) -> usize {
        match domain {
            Domain::Space(s) => self.spaces[s.index()].elements,
            Domain::Graph(g) => self.graphs[g.index()].edges,
        }
    }

    /// Instance `number` of a template over `domain`.
    pub fn instance(&self, domain: Domain, number: usize) -> Instance<'_> {
        let (layout, number_left) = (self, number);
        let coordinates = match domain {
            Domain::Space(s) => self.coordinates(s, number_left),
            Domain::Graph(_) => Offset::new(),
        };
        Instance { layout, domain, number, coordinates }
    }

    /// Coordinates of an element, fastest-varying first.
    pub fn coordinates(&self, space: SpaceId, mut element: usize) -> Offset {
        let extents = &self.spaces[space.index()].extents;
        let coordinate = |&extent: &i32| {
            let c = element % extent as usize;
            element /= extent as usize;
            c as i32
        };
        extents.iter().map(coordinate).collect()
    }

    /// The element at an offset from given coordinates; `None` out of the domain.
    fn moved(&self, space: SpaceId, from: &Offset, by: &Offset) -> Option<usize> {
        let (mut element, mut stride) = (0, 1);
        for ((&c, &o), &extent) in from.iter().zip(by).zip(&self.spaces[space.index()].extents) {
            let c = i64::from(c) + i64::from(o);
            if !(0..i64::from(extent)).contains(&c) {
                return None;
            }
            element += c as usize * stride;
            stride *= extent as usize;
        }
        Some(element)
    }

    /// Tells whether the box `[lo, hi]` of offsets around given coordinates lies in the domain.
    fn box_inside(&self, space: SpaceId, at: &Offset, lo: &Offset, hi: &Offset) -> bool {
        let along = at.iter().zip(&self.spaces[space.index()].extents).zip(lo.iter().zip(hi));
        along.into_iter().all(|((&c, &extent), (&lo, &hi))| {
            let c = i64::from(c);
            c + i64::from(lo) >= 0 && c + i64::from(hi) < i64::from(extent)
        })
    }
}

/// One element of an index space, or one hyperedge, seen from a template.
pub(super) struct Instance<'a> {
    layout: &'a Layout<'a>,
    domain: Domain,
    number: usize,
    /// Empty for hyperedges.
    coordinates: Offset,
}

impl Instance<'_> {
    /// The element that a place means; `None` out of the domain.
    pub fn element(&self, place: &Place) -> Option<usize> {
        match (place, self.domain) {
            (Place::Global, _) => Some(0),
            (Place::Stencil(offset), Domain::Space(s)) => self.layout.moved(s, &self.coordinates, offset),
            (Place::Vertex(slot), Domain::Graph(g)) => Some(self.vertex(g, *slot)),
            (Place::Neighbour(slot, space, offset), Domain::Graph(g)) => {
                let vertex = self.layout.coordinates(*space, self.vertex(g, *slot));
                self.layout.moved(*space, &vertex, offset)
            }
            // The tape has checked every place against its domain.
            _ => None,
        }
    }

    fn vertex(&self, graph: GraphId, slot: u16) -> usize {
        self.layout.graphs[graph.index()].vertices[usize::from(slot)][self.number] as usize
    }

    /// An array at whole coordinates of its own index space; 0 out of it.
    pub fn tap(&self, (array, channel): Image, coordinates: &[i64], point: &Point<'_>) -> f64 {
        let (space, strip) = self.layout.arrays[array.index()];
        let (mut element, mut stride) = (0, 1);
        for (&c, &extent) in coordinates.iter().zip(&self.layout.spaces[space.index()].extents) {
            if !(0..i64::from(extent)).contains(&c) {
                return 0.0;
            }
            element += c as usize * stride;
            stride *= extent as usize;
        }
        point.arrays[array.index()][element * strip.channels + usize::from(channel)]
    }

    /// The value there; 0 out of the domain.
    pub fn read(&self, read: &Read, point: &Point<'_>) -> f64 {
        let Some(element) = self.element(&read.place) else { return 0.0 };
        let at = |strip: Strip| strip.base + element * strip.channels + usize::from(read.channel);
        match read.source {
            Source::Unknown(u) => {
                let scalar = at(self.layout.unknowns[u.index()]);
                match point.bump {
                    Some((bumped, by)) if bumped == scalar => point.x[scalar] + by,
                    _ => point.x[scalar],
                }
            }
            Source::Array(a) => point.arrays[a.index()][at(self.layout.arrays[a.index()].1)],
            // The tape holds no other reads.
            _ => 0.0,
        }
    }

    /// The column of J of an unknown read; `None` out of the domain, where excluded, and for arrays.
    pub fn column(&self, read: &Read) -> Option<u32> {
        let Source::Unknown(u) = read.source else { return None };
        let element = self.element(&read.place)?;
        self.layout.column(self.layout.scalar(u.index(), element, usize::from(read.channel)))
    }

    /// True if the element there is in the domain and not excluded.
    pub fn is_free(&self, space: SpaceId, place: &Place) -> bool {
        self.element(place).is_some_and(|e| self.layout.free[space.index()][e])
    }

    /// The element's coordinate along dim `d`.
    pub fn coordinate(&self, d: u16) -> i32 {
        self.coordinates.get(usize::from(d)).copied().unwrap_or(0)
    }

    /// Tells whether the box `[lo, hi]` of offsets lies in the domain; always so for hyperedges.
    pub fn box_inside(&self, lo: &Offset, hi: &Offset) -> bool {
        let Domain::Space(s) = self.domain else { return true };
        self.layout.box_inside(s, &self.coordinates, lo, hi)
    }

    /// The same around a place of the hyperedge, an element of `space`.
    pub fn box_inside_at(&self, space: SpaceId, place: &Place, lo: &Offset, hi: &Offset) -> bool {
        let coordinates = self.element(place).map(|e| self.layout.coordinates(space, e));
        coordinates.is_some_and(|at| self.layout.box_inside(space, &at, lo, hi))
    }

    /// The coordinate of a place of the hyperedge, an element of `space`, along dim `d`.
    pub fn coordinate_at(&self, space: SpaceId, place: &Place, d: u16) -> i32 {
        let coordinates = self.element(place).map(|e| self.layout.coordinates(space, e));
        coordinates.and_then(|at| at.get(usize::from(d)).copied()).unwrap_or(0)
    }

    /// Tells whether two places of the hyperedge are the same element.
    pub fn same_vertex(&self, a: &Place, b: &Place) -> bool {
        let (a, b) = (self.element(a), self.element(b));
        a.is_some() && a == b
    }
}
