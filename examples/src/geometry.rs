//! Points, directions and colours.

/// A point, direction or colour.
pub type Vec3 = nalgebra::Vector3<f32>;

/// `v` at unit length; zero stays zero.
pub(crate) fn unit(v: Vec3) -> Vec3 {
    v.try_normalize(0.0).unwrap_or(v)
}

/// `v` turned by `angle` (radians, right-handed) about `axis`, of any length but zero (Rodrigues).
pub(crate) fn rotate(axis: Vec3, angle: f32, v: Vec3) -> Vec3 {
    let axis = unit(axis);
    let (sin, cos) = angle.sin_cos();
    cos * v + sin * axis.cross(&v) + axis.dot(&v) * (1.0 - cos) * axis
}

/// The root of the mean squared distance between points of equal number.
pub(crate) fn rms_distance(a: &[Vec3], b: &[Vec3]) -> f64 {
    let squared: f64 = a.iter().zip(b).map(|(a, b)| f64::from((a - b).norm_squared())).sum();
    (squared / a.len().min(b.len()).max(1) as f64).sqrt()
}

/// The coordinates of all points, one point after the other.
pub(crate) fn flat(points: &[Vec3]) -> Vec<f32> {
    points.iter().flatten().copied().collect()
}
