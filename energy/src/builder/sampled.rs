//! Sampled images: arrays read at real coordinates.

use crate::builder::value::{Scalar, Value};
use crate::builder::{Builder, FieldRef};
use crate::dag::{ExprId, Node, Source};
use crate::error::Fault;
use crate::model::ArrayId;

/// An array to be sampled, with the images of its derivative along each dim, if there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SampledRef {
    image: FieldRef,
    partials: Vec<FieldRef>,
}

impl Builder {
    /// `SampledImage(im)`, `SampledImage(im, dx, dy)`.
    pub(crate) fn sampled(&mut self, image: FieldRef, partials: &[FieldRef]) -> Result<SampledRef, Fault> {
        let name = self.field_name(image);
        for &field in [&image].into_iter().chain(partials) {
            if !matches!(field.source, Source::Array(_)) {
                return Err(Fault::SampledSource(self.field_name(field)));
            }
        }
        let dims = self.dims_of(image);
        if !partials.is_empty() && partials.len() != dims {
            return Err(Fault::PartialCount { name, dims, got: partials.len() });
        }
        let space = self.energy.space_of(image.source);
        for p in partials {
            if p.channels != image.channels || self.energy.space_of(p.source) != space {
                return Err(Fault::PartialShape { name, partial: self.field_name(*p) });
            }
        }
        Ok(SampledRef { image, partials: partials.to_vec() })
    }

    /// `S(u, v)`, `S(u, v, c)`.
    pub(crate) fn sample(
        &mut self,
        sampled: &SampledRef,
        at: &[&Value],
        channel: Option<i64>,
    ) -> Result<Value, Fault> {
        let FieldRef { channels, .. } = sampled.image;
        let range = match channel {
            None => 0..channels,
            Some(c) if (0..i64::from(channels)).contains(&c) => c as u16..c as u16 + 1,
            Some(c) => {
                let name = self.field_name(sampled.image);
                return Err(Fault::ChannelRange { name, channel: c, channels: usize::from(channels) });
            }
        };
        let mut coordinates: Vec<ExprId> = Vec::new();
        let mut uses_bounds = false;
        for (i, v) in at.iter().enumerate() {
            let [s] = v.scalars() else {
                let function = self.field_name(sampled.image);
                return Err(Fault::NotScalar { function, position: i + 1, got: v.len() });
            };
            coordinates.push(s.id);
            uses_bounds |= s.uses_bounds;
        }
        let entry = |field: &FieldRef, c: u16| (array_of(field.source), field.first + c);
        let dag = &mut self.energy.dag;
        Ok(range
            .map(|c| {
                let partials: Vec<_> = sampled.partials.iter().map(|p| entry(p, c)).collect();
                let id = dag.sample(entry(&sampled.image, c), &partials, &coordinates);
                Scalar { id, uses_bounds }
            })
            .collect())
    }

    /// Number of coordinates that a sampled image is read with.
    pub(crate) fn sampled_dims(&self, sampled: &SampledRef) -> (String, usize) {
        (self.field_name(sampled.image), self.dims_of(sampled.image))
    }

    /// Coordinates that read an unknown need derivative images.
    pub(super) fn check_samples(&self, id: ExprId) -> Result<(), Fault> {
        let dag = &self.energy.dag;
        for n in dag.reachable(&[id]) {
            let Node::Sample { image, partials, at } = dag.node(n) else { continue };
            if !partials.is_empty() {
                continue;
            }
            for &coordinate in at {
                if let Some(read) = self.unknown_reads(&dag.accesses(coordinate)).first() {
                    let image = self.energy.arrays[image.0.index()].name.clone();
                    return Err(Fault::NoDerivativeImage {
                        image,
                        unknown: self.source_name(read.source).into(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn array_of(source: Source) -> ArrayId {
    match source {
        Source::Array(a) => a,
        _ => unreachable!("only arrays are sampled: checked by `sampled`"),
    }
}
