//! Derivative images against the images that they are said to be derivatives of, where residuals sample them.
//!
//! They need not be what differences see: they may be smoothed, central, one-sided. But one that is no better than zeros would be is wrong:
//! two in the wrong order, a wrong sign, a factor.

use crate::assembled::Explicit;
use crate::assembled::eval::{self, Sampled, Workspace};
use crate::assembled::tape::Image;
use rustc_hash::FxHashMap;
use sumsq_energy::dag::interpolate;

/// A derivative image at the places where residuals sample it.
#[derive(Clone, PartialEq, Debug)]
pub struct DerivativeImage {
    /// The array of the image and its channel.
    pub image: (String, u16),
    /// The array of the derivative image and its channel.
    pub partial: (String, u16),
    /// The coordinate that it is the derivative by, 0 being the fastest-varying.
    pub along: usize,
    /// Sampled places a pixel or more inside the image.
    pub places: usize,
    /// 2-norm of its distance from differences of the image over one pixel, over the norm of these; central or one-sided,
    /// whichever is nearer. Zeros are at 1.
    pub off: f64,
}

/// Sums of squares: of the central, forward and backward differences, and of what the derivative image is off them.
#[derive(Default)]
struct Sums {
    places: usize,
    slopes: [f64; 3],
    off: [f64; 3],
}

impl Explicit<'_> {
    /// Compares each derivative image that some derivative of a residual is made of; those read nowhere inside their images are missing.
    pub(crate) fn derivative_images(&self, x: &[f64]) -> Vec<DerivativeImage> {
        let point = self.point(x);
        let mut all: FxHashMap<(Image, Image, usize), Sums> = FxHashMap::default();
        let mut work = Workspace::default();
        for (template, at) in self.chunks.iter().flat_map(|chunk| self.instances(chunk)) {
            if template.is_cut(&at) {
                continue;
            }
            for Sampled { image, partials, place } in eval::samples(&template.tape, &at, &point, &mut work) {
                let extents = self.layout.extents_of(image);
                let inside = |(c, extent): (&f64, &i32)| *c >= 1.0 && *c <= f64::from(extent - 2);
                if !place.iter().zip(extents).all(inside) {
                    continue;
                }
                let read =
                    |image: Image, place: &[f64]| interpolate(place, &mut |tap| at.tap(image, tap, &point));
                let here = read(image, &place);
                for (along, &partial) in partials.iter().enumerate() {
                    let beside = |by: f64| {
                        let mut moved = place.clone();
                        moved[along] += by;
                        read(image, &moved)
                    };
                    let (before, after) = (beside(-1.0), beside(1.0));
                    let given = read(partial, &place);
                    all.entry((image, partial, along))
                        .or_default()
                        .add(given, [0.5 * (after - before), after - here, here - before]);
                }
            }
        }
        let name = |(array, channel): Image| (self.energy.arrays[array.index()].name.clone(), channel);
        let mut verdicts: Vec<((Image, Image, usize), Sums)> = all.into_iter().collect();
        verdicts.sort_by_key(|(key, _)| *key);
        let verdict = |((image, partial, along), sums): ((Image, Image, usize), Sums)| DerivativeImage {
            image: name(image),
            partial: name(partial),
            along,
            places: sums.places,
            off: sums.off(),
        };
        verdicts.into_iter().map(verdict).collect()
    }
}

impl Sums {
    /// Adds a place; one that is not finite says nothing.
    fn add(&mut self, given: f64, slopes: [f64; 3]) {
        if !given.is_finite() || slopes.iter().any(|s| !s.is_finite()) {
            return;
        }
        self.places += 1;
        for (k, slope) in slopes.into_iter().enumerate() {
            self.slopes[k] += slope * slope;
            self.off[k] += (given - slope).powi(2);
        }
    }

    fn off(&self) -> f64 {
        let ratio = |(off, slope): (&f64, &f64)| if *off == 0.0 { 0.0 } else { (off / slope).sqrt() };
        self.off.iter().zip(&self.slopes).map(ratio).fold(f64::INFINITY, f64::min)
    }
}
