//! A lens as numbers: spherical surfaces on one axis, media between them, a flat sensor behind the last.

/// A lens. Lengths are in units of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Lens {
    /// 1 / radius of each surface, positive where its centre lies behind it.
    pub curvatures: Vec<f64>,
    /// The distance from each surface to the next, along the axis; the last one to the sensor.
    pub gaps: Vec<f64>,
    /// Refractive index of the medium before the first surface and behind each.
    pub indices: Vec<f64>,
    /// Distance of the entrance pupil behind the first surface.
    pub pupil: f64,
}

/// Radius, distance to the next surface and index behind, of each surface, for a focal length of 1: G. Lange, US patent 2,799,207 (1957), first
/// embodiment, at f/2.8 over 28 degrees to each side. The stop lies in the middle of the fourth gap.
const LANGE: [[f64; 3]; 9] = [
    [0.347219, 0.07573, 1.62041],
    [0.904131, 0.00132, 1.0],
    [0.309462, 0.06236, 1.7552],
    [0.215955, 0.24492, 1.0],
    [-0.228743, 0.01324, 1.71736],
    [1.69089, 0.09492, 1.69067],
    [-0.320794, 0.00132, 1.0],
    [-2.83857, 0.0662, 1.7552],
    [-0.538549, 0.73605, 1.0],
];
/// The image of the stop by the surfaces before it.
const PUPIL: f64 = 0.315666;

impl Lens {
    /// Lange's lens, the sensor at `length` behind its first surface.
    pub fn lange(length: f64) -> Lens {
        let total: f64 = LANGE.iter().map(|[_, gap, _]| gap).sum();
        let scale = length / total;
        Lens {
            curvatures: LANGE.iter().map(|[radius, ..]| 1.0 / (scale * radius)).collect(),
            gaps: LANGE.iter().map(|[_, gap, _]| scale * gap).collect(),
            indices: std::iter::once(1.0).chain(LANGE.iter().map(|[.., n]| *n)).collect(),
            pupil: scale * PUPIL,
        }
    }

    /// Distance from the first surface to the sensor.
    pub fn length(&self) -> f64 {
        self.gaps.iter().sum()
    }

    /// Focal length: that of rays near the axis.
    pub fn focal(&self) -> f64 {
        let (mut height, mut slope) = (1.0, 0.0);
        for (k, curvature) in self.curvatures.iter().enumerate() {
            // The slope is multiplied with the index.
            slope -= height * curvature * (self.indices[k + 1] - self.indices[k]);
            height += self.gaps[k] * slope / self.indices[k + 1];
        }
        -1.0 / slope
    }

    /// Tells of each gap whether it is of glass.
    pub fn is_glass(&self, gap: usize) -> bool {
        self.indices[gap + 1] > 1.0
    }
}

/// The rays by which a lens is judged: each sample of the pupil, of each field.
#[derive(Clone, PartialEq, Debug)]
pub struct Beams {
    /// Points of the entrance pupil, its radius 1.
    pub samples: Vec<[f64; 2]>,
    /// Of each field the tangent of its angle with the axis, and the height of the beam by its width: what is off the axis is narrowed by the
    /// lens's rims.
    pub fields: Vec<[f64; 2]>,
    /// Diameter of the entrance pupil.
    pub aperture: f64,
}

/// Angles in degrees, and heights of beams.
const FIELDS: [[f64; 2]; 4] = [[0.0, 1.0], [10.0, 0.85], [20.0, 0.65], [28.0, 0.45]];
/// Focal length by the pupil's diameter.
pub const F_NUMBER: f64 = 2.8;

impl Beams {
    /// Parallel light from up to 28 degrees off the axis at f/2.8 through rings of equal area, `rings` x `spokes` rays of each field.
    pub fn of(lens: &Lens, rings: usize, spokes: usize) -> Beams {
        let sample = |k: usize| {
            let radius = ((0.5 + (k / spokes) as f64) / rings as f64).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * (0.5 + (k % spokes) as f64) / spokes as f64).sin_cos();
            [radius * cos, radius * sin]
        };
        Beams { samples: (0..rings * spokes).map(sample).collect(), ..Beams::fan(lens, 0) }
    }

    /// The same light in the plane of the drawing: `count` rays of each field.
    pub fn fan(lens: &Lens, count: usize) -> Beams {
        let sample = |k: usize| [0.0, 2.0 * (k as f64 + 0.5) / count as f64 - 1.0];
        Beams {
            samples: (0..count).map(sample).collect(),
            fields: FIELDS.map(|[angle, height]| [angle.to_radians().tan(), height]).to_vec(),
            aperture: lens.focal() / F_NUMBER,
        }
    }
}
