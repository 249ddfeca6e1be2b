//! Reads of an expression as it is written, channel by channel, and the box of that.

use crate::case::{At, Case, Expr, Loss, Op, Rho, Source};
use std::collections::BTreeSet;

/// One scalar read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    pub source: Source,
    pub at: At,
    pub channel: usize,
}

/// Reads of one channel of an expression.
#[derive(Clone, Default, Debug)]
pub struct Reads {
    pub all: BTreeSet<Access>,
    /// True if `InBounds` or `InBoundsExpanded` is written in it.
    pub bounds: bool,
    /// True if `Index` is.
    pub index: bool,
}

impl Reads {
    /// The reads of both.
    pub fn with(mut self, other: &Reads) -> Reads {
        self.all.extend(other.all.iter().cloned());
        self.bounds |= other.bounds;
        self.index |= other.index;
        self
    }
}

/// The smallest box around offset 0 and what is read: lower and upper corner.
pub type Reach = (Vec<i64>, Vec<i64>);

impl Case {
    /// Reads of each channel.
    pub fn reads(&self, e: &Expr) -> Vec<Reads> {
        let (op, operands) = match e {
            Expr::Call(op, operands) => (op, operands),
            Expr::Read(source, at, [first, end]) => {
                let access = |channel| Access { source: *source, at: at.clone(), channel };
                return (*first..*end)
                    .map(|c| Reads { all: [access(c)].into(), ..Reads::default() })
                    .collect();
            }
            Expr::InBounds(..) => return vec![Reads { bounds: true, ..Reads::default() }],
            Expr::Index(_) => return vec![Reads { index: true, ..Reads::default() }],
            _ => return vec![Reads::default(); self.width(e)],
        };
        let parts: Vec<Vec<Reads>> = operands.iter().map(|o| self.reads(o)).collect();
        let together = |of: &mut dyn Iterator<Item = &Reads>| of.fold(Reads::default(), |a, b| a.with(b));
        let everything = || together(&mut parts.iter().flatten());
        let width = self.width(e);
        match op {
            Op::Gone => {
                let bounds = |r: &Reads| Reads { bounds: r.bounds, ..Reads::default() };
                parts[0].iter().map(bounds).collect()
            }
            Op::Vector => parts.concat(),
            Op::Channel(c) => vec![parts[0][*c].clone()],
            Op::Sum | Op::Norm | Op::Normalize | Op::Length | Op::Dot | Op::All | Op::Any | Op::Rotate2D => {
                vec![everything(); width]
            }
            Op::Sample(..) => vec![everything(); width],
            Op::Matrix3x3Mul => {
                let row = |r: usize| together(&mut parts[0][3 * r..3 * r + 3].iter().chain(&parts[1]));
                (0..3).map(row).collect()
            }
            // The rotation about z leaves z as it is.
            Op::Rotate3D => {
                let z = together(&mut parts[0][..2].iter().chain(&parts[1]));
                vec![everything(), everything(), z]
            }
            Op::LP(..) => {
                let weight = together(&mut parts[1].iter());
                parts[0].iter().map(|r| r.clone().with(&weight)).collect()
            }
            // Channel by channel; one of one channel goes with all.
            _ => {
                let own = |c: usize| {
                    let entries = parts.iter().map(|p| if p.len() == 1 { &p[0] } else { &p[c] });
                    together(&mut entries.into_iter())
                };
                (0..width).map(own).collect()
            }
        }
    }

    /// Reads of the scale of a loss, which belong to each residual under it.
    pub fn scale_reads(&self, loss: Option<&Loss>) -> Reads {
        match loss.map(|l| &l.rho) {
            Some(Rho::Scaled(_, scale)) => self.reads(scale).swap_remove(0),
            _ => Reads::default(),
        }
    }

    /// The box of reads in a space; a computed array brings its own.
    pub fn reach(&self, reads: &Reads, dims: usize) -> Reach {
        let (mut lo, mut hi) = (vec![0; dims], vec![0; dims]);
        for access in &reads.all {
            let At::Offset(offset) = &access.at else { continue };
            let own = match access.source {
                Source::Field(_) => (vec![0; dims], vec![0; dims]),
                Source::Computed(c) => self.computed_reach(c),
            };
            for d in 0..dims {
                lo[d] = lo[d].min(offset[d] + own.0[d]);
                hi[d] = hi[d].max(offset[d] + own.1[d]);
            }
        }
        (lo, hi)
    }

    /// The box of a computed array: of all its channels, and of the element alone if it uses `InBounds`.
    pub fn computed_reach(&self, computed: usize) -> Reach {
        let dims = self.spaces[self.computed[computed].space].len();
        let all = self.all_reads(computed);
        if all.bounds { (vec![0; dims], vec![0; dims]) } else { self.reach(&all, dims) }
    }

    /// Reads of all channels of a computed array.
    pub fn all_reads(&self, computed: usize) -> Reads {
        let channels = self.reads(&self.computed[computed].value);
        channels.iter().fold(Reads::default(), |a, b| a.with(b))
    }

    /// Reads of unknowns, also through computed arrays: the field, where the chain of reads starts, and the offset from there.
    pub fn unknown_reads(&self, reads: &Reads) -> Vec<(usize, At, Vec<i64>)> {
        let mut found = Vec::new();
        for access in &reads.all {
            match access.source {
                Source::Field(f) if self.is_unknown(f) => found.push((f, access.at.clone(), vec![])),
                Source::Field(_) => {}
                Source::Computed(c) => {
                    for (field, at, _) in self.moved_reads(c) {
                        let offset = match &at {
                            At::Offset(offset) => offset.clone(),
                            _ => vec![],
                        };
                        let start = if at == At::Global { At::Global } else { access.at.clone() };
                        found.push((field, start, offset));
                    }
                }
            }
        }
        found
    }

    /// Reads of unknowns of a computed array, at offsets from its element.
    fn moved_reads(&self, computed: usize) -> Vec<(usize, At, Vec<i64>)> {
        let all = self.unknown_reads(&self.all_reads(computed));
        let moved = |(field, at, by): (usize, At, Vec<i64>)| match at {
            At::Offset(o) if !by.is_empty() => {
                (field, At::Offset(o.iter().zip(&by).map(|(a, b)| a + b).collect()), vec![])
            }
            at => (field, at, vec![]),
        };
        all.into_iter().map(moved).collect()
    }
}
