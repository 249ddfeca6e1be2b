//! Handles: parts of a shape that are posed by hand.

use crate::geometry::{Vec3, rotate};

/// Points near a centre, moved together: turned by `angle` (radians) about an axis through the centre, then shifted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub centre: Vec3,
    pub radius: f32,
    pub axis: Vec3,
    pub angle: f32,
    pub shift: Vec3,
}

/// Defaults of a handle: it stays where it is.
pub(super) const HELD: Handle =
    Handle { centre: ORIGIN, radius: 0.0, axis: Vec3::new(0.0, 1.0, 0.0), angle: 0.0, shift: ORIGIN };

const ORIGIN: Vec3 = Vec3::new(0.0, 0.0, 0.0);

impl Handle {
    /// Returns where the point at `p` goes, if it belongs to this handle.
    pub fn target(&self, p: Vec3) -> Option<Vec3> {
        let arm = p - self.centre;
        let inside = arm.norm_squared() <= self.radius * self.radius;
        inside.then(|| self.centre + self.shift + rotate(self.axis, self.angle, arm))
    }
}

/// Returns where the first handle that holds a point takes it, for each point.
pub(super) fn targets(handles: &[Handle], points: &[Vec3]) -> Vec<Option<Vec3>> {
    points.iter().map(|&p| handles.iter().find_map(|handle| handle.target(p))).collect()
}

/// Targets as the energies take them: -inf where there is none.
pub(super) fn constraints(targets: &[Option<Vec3>]) -> Vec<f32> {
    let nowhere = Vec3::repeat(f32::NEG_INFINITY);
    targets.iter().flat_map(|target| <[f32; 3]>::from(target.unwrap_or(nowhere))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_move_rigidly() {
        let handle = Handle {
            centre: Vec3::new(0.37, 0.0, 0.69),
            radius: 0.06,
            axis: Vec3::new(0.0, -0.5, -1.0),
            angle: 0.55,
            shift: Vec3::new(-0.03, -0.06, 0.03),
        };
        let points = [[0.37, 0.01, 0.70], [0.36, -0.02, 0.68], [0.39, 0.0, 0.69]].map(Vec3::from);
        let moved = points.map(|p| handle.target(p).unwrap());
        for (i, j) in [(0, 1), (1, 2), (2, 0)] {
            let change = (points[i] - points[j]).norm() - (moved[i] - moved[j]).norm();
            assert!(change.abs() < 1e-6);
        }
        assert_eq!(handle.target(ORIGIN), None);
    }

    #[test]
    fn a_quarter_turn() {
        let handle =
            Handle { centre: Vec3::new(1.0, 0.0, 0.0), radius: 2.0, axis: Vec3::new(0.0, 0.0, 3.0), ..HELD };
        let turned = Handle { angle: std::f32::consts::FRAC_PI_2, shift: Vec3::new(0.0, 0.0, 5.0), ..handle };
        let moved = turned.target(Vec3::new(2.0, 0.0, 0.0)).unwrap();
        assert!((moved - Vec3::new(1.0, 1.0, 5.0)).norm() < 1e-6, "{moved:?}");
    }

    #[test]
    fn held_points_stay_exactly() {
        let (centre, p) = (Vec3::new(-0.53, 0.08, 0.01), Vec3::new(-0.53, 0.075, 0.02));
        let held = Handle { centre, radius: 0.045, ..HELD };
        assert_eq!(held.target(p), Some(centre + (p - centre)));
    }
}
