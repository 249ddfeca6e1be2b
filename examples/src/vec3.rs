//! Vectors of three numbers.

/// A point, direction or colour.
pub(crate) type Vec3 = [f32; 3];

pub(crate) fn add(a: Vec3, b: Vec3) -> Vec3 {
    [0, 1, 2].map(|i| a[i] + b[i])
}

pub(crate) fn sub(a: Vec3, b: Vec3) -> Vec3 {
    [0, 1, 2].map(|i| a[i] - b[i])
}

pub(crate) fn scale(s: f32, a: Vec3) -> Vec3 {
    a.map(|x| s * x)
}

pub(crate) fn dot(a: Vec3, b: Vec3) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(crate) fn length(a: Vec3) -> f32 {
    dot(a, a).sqrt()
}

/// Unit length; zero stays zero.
pub(crate) fn normalize(a: Vec3) -> Vec3 {
    let length = length(a);
    if length > 0.0 { a.map(|x| x / length) } else { a }
}

/// `v` turned by `angle` (radians, right-handed) about `axis`, of any length but zero (Rodrigues).
pub(crate) fn rotate(axis: Vec3, angle: f32, v: Vec3) -> Vec3 {
    let axis = normalize(axis);
    let (sin, cos) = angle.sin_cos();
    let along = dot(axis, v) * (1.0 - cos);
    let across = cross(axis, v);
    [0, 1, 2].map(|i| cos * v[i] + sin * across[i] + along * axis[i])
}

/// The root of the mean squared distance between points of equal number.
pub(crate) fn rms_distance(a: &[Vec3], b: &[Vec3]) -> f64 {
    let squared: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(dot(sub(a, b), sub(a, b)))).sum();
    (squared / a.len().min(b.len()).max(1) as f64).sqrt()
}
