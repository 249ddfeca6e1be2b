//! Arrays and scalars that pipelines are given, and whether what they write agrees.

use crate::yardstick::memory;

/// Calls `$run` with the elements as a vector of their type.
macro_rules! with_elements {
    ($elements:expr, $v:ident => $run:expr) => {
        match $elements {
            $crate::suite::pipeline_arrays::Elements::U8($v) => $run,
            $crate::suite::pipeline_arrays::Elements::U16($v) => $run,
            $crate::suite::pipeline_arrays::Elements::I32($v) => $run,
            $crate::suite::pipeline_arrays::Elements::F32($v) => $run,
        }
    };
}
pub(super) use with_elements;

/// Elements of an array.
#[derive(Clone, PartialEq, Debug)]
pub enum Elements {
    /// Of u8.
    U8(Vec<u8>),
    /// Of u16.
    U16(Vec<u16>),
    /// Of i32.
    I32(Vec<i32>),
    /// Of f32.
    F32(Vec<f32>),
}

impl Elements {
    fn len(&self) -> usize {
        with_elements!(self, v => v.len())
    }

    /// So many of them, from where `next` says.
    fn picked(&self, len: usize, mut next: impl FnMut() -> usize) -> Elements {
        match self {
            Elements::U8(v) => Elements::U8(filled(len, || v[next()])),
            Elements::U16(v) => Elements::U16(filled(len, || v[next()])),
            Elements::I32(v) => Elements::I32(filled(len, || v[next()])),
            Elements::F32(v) => Elements::F32(filled(len, || v[next()])),
        }
    }

    fn reals(&self) -> Vec<f64> {
        with_elements!(self, v => v.iter().map(|&v| f64::from(v)).collect())
    }
}

/// Types of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 32 bits.
    I32,
    /// Single precision.
    F32,
}

/// A dense array, the first dimension the fastest, or the last one where it is packed.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// As in the description.
    pub name: &'static str,
    /// First coordinates.
    pub min: Vec<i32>,
    /// Numbers of coordinates.
    pub extents: Vec<i32>,
    /// `extents` multiplied.
    pub elements: Elements,
    /// Do all elements that differ in the last coordinate alone lie beside each other, as channels of a pixel?
    pub packed: bool,
}

/// An argument of a pipeline.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// An array that is read.
    Input(Array),
    /// A whole number.
    Whole(&'static str, i32),
    /// A real number.
    Real(&'static str, f32),
    /// An array that is written.
    Output(Array),
}

/// Bounds of the differences of outputs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// The same values.
    Exact,
    /// Integers within 1, floats within 1e-4 of the range.
    Near,
    /// As `Near`, but for one of 10000 elements.
    Decisions,
}

impl Array {
    /// Its values by their coordinates; the domain has `(min, extent)` per dimension.
    pub fn new(
        name: &'static str,
        kind: Kind,
        domain: &[(i32, i32)],
        mut value: impl FnMut(&[i32]) -> f32,
    ) -> Array {
        let (min, extents): (Vec<i32>, Vec<i32>) = domain.iter().copied().unzip();
        let len = extents.iter().map(|&n| n as usize).product();
        let mut at = min.clone();
        let mut next = || {
            let v = value(&at);
            for (d, c) in at.iter_mut().enumerate() {
                *c += 1;
                if *c < min[d] + extents[d] {
                    break;
                }
                *c = min[d];
            }
            v
        };
        let elements = match kind {
            Kind::U8 => Elements::U8(filled(len, || next() as u8)),
            Kind::U16 => Elements::U16(filled(len, || next() as u16)),
            Kind::I32 => Elements::I32(filled(len, || next() as i32)),
            Kind::F32 => Elements::F32(filled(len, &mut next)),
        };
        Array { name, min, extents, elements, packed: false }
    }

    /// The same values, packed.
    pub fn packed(self) -> Array {
        let channels = self.extents.last().map_or(1, |&n| n as usize);
        let (len, pixels) = (self.elements.len(), self.elements.len() / channels.max(1));
        let mut places = (0..pixels).flat_map(|i| (0..channels).map(move |c| c * pixels + i));
        let elements = self.elements.picked(len, || places.next().unwrap_or_default());
        Array { elements, packed: true, ..self }
    }

    /// Distance of neighbours in elements, in each dimension.
    pub fn strides(&self) -> Vec<i64> {
        let mut order: Vec<usize> = (0..self.extents.len()).collect();
        if self.packed {
            order.rotate_right(1);
        }
        let (mut strides, mut stride) = (vec![0; order.len()], 1);
        for d in order {
            strides[d] = stride;
            stride *= i64::from(self.extents[d]);
        }
        strides
    }

    /// First coordinate and number of coordinates of each dimension.
    pub fn domain(&self) -> Vec<(i32, i32)> {
        self.min.iter().copied().zip(self.extents.iter().copied()).collect()
    }

    /// Extends it to this region, first and last coordinates, with the values at its edges.
    pub fn grow(&mut self, region: &[(i64, i64)]) {
        let mut domain = self.domain();
        for ((min, extent), &(first, last)) in domain.iter_mut().zip(region) {
            let end = i64::from(*min + *extent).max(last + 1);
            *min = i64::from(*min).min(first) as i32;
            *extent = end as i32 - *min;
        }
        if domain == self.domain() {
            return;
        }
        // From the first dimension to the last: where the values of all coordinates so far lie.
        let mut places = vec![0];
        for ((d, &(min, extent)), stride) in domain.iter().enumerate().zip(self.strides()) {
            let near = |c: i32| (c - self.min[d]).clamp(0, self.extents[d] - 1) as usize * stride as usize;
            places = (min..min + extent).flat_map(|c| places.iter().map(move |p| p + near(c))).collect();
        }
        let mut places = places.into_iter();
        let elements = self.elements.picked(places.len(), || places.next().unwrap_or_default());
        let (min, extents) = domain.into_iter().unzip();
        let planar = Array { name: self.name, min, extents, elements, packed: false };
        *self = if self.packed { planar.packed() } else { planar };
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        with_elements!(&self.elements, v => size_of_val(&v[..]))
    }

    /// Sets all elements to what no pipeline computes everywhere, so that one that writes nothing is found out.
    pub fn spoil(&mut self) {
        match &mut self.elements {
            Elements::U8(v) => v.fill(0xA5),
            Elements::U16(v) => v.fill(0xA5A5),
            Elements::I32(v) => v.fill(-7),
            Elements::F32(v) => v.fill(f32::NAN),
        }
    }
}

/// `len` values on huge pages.
fn filled<T>(len: usize, value: impl FnMut() -> T) -> Vec<T> {
    let mut v = Vec::with_capacity(len);
    memory::advise(v.spare_capacity_mut());
    v.extend(std::iter::repeat_with(value).take(len));
    v
}

/// The least that a run has to do.
pub struct Work {
    /// Bytes of all arrays.
    pub bytes: f64,
    /// Millions of pixels of the first output: elements of its first two dimensions; of four, of all.
    pub megapixels: f64,
}

impl Work {
    /// Of these arguments.
    pub fn of(arguments: &[Argument]) -> Work {
        let mut work = Work { bytes: 0.0, megapixels: 0.0 };
        for argument in arguments {
            let (Argument::Input(array) | Argument::Output(array)) = argument else { continue };
            work.bytes += array.bytes() as f64;
            if matches!(argument, Argument::Output(_)) && work.megapixels == 0.0 {
                let dims = if array.extents.len() == 4 { 4 } else { 2 };
                work.megapixels =
                    array.extents.iter().take(dims).map(|&n| f64::from(n)).product::<f64>() / 1e6;
            }
        }
        work
    }
}

/// Says whether outputs are near enough; if not, where.
pub fn agree(a: &[Elements], b: &[Elements], tolerance: Tolerance) -> Result<(), String> {
    a.iter().zip(b).enumerate().try_for_each(|(i, (a, b))| {
        let (worst, outside, limit) = distance(a, b, tolerance);
        let allowed = if tolerance == Tolerance::Decisions { a.len() / 10_000 } else { 0 };
        let counts = format!("output {i}: {outside} of {} elements differ by more than {limit}", a.len());
        if outside <= allowed { Ok(()) } else { Err(format!("{counts}, one by {worst}")) }
    })
}

/// The largest difference, the number of elements that differ by more than is allowed, and how much that is.
fn distance(a: &Elements, b: &Elements, tolerance: Tolerance) -> (f64, usize, f64) {
    let (a, b) = (a.reals(), b.reals());
    let (low, high) = a.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    let whole = a.iter().all(|v| v.fract() == 0.0) && b.iter().all(|v| v.fract() == 0.0);
    let limit = match tolerance {
        Tolerance::Exact => 0.0,
        _ if whole => 1.0,
        _ => 1e-4 * (high - low),
    };
    let apart = a.iter().zip(&b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    // A number that is none is apart from all.
    let outside = apart.clone().filter(|d| d.is_nan() || *d > limit).count() + a.len().abs_diff(b.len());
    (apart.fold(0.0, |worst, d| if d.is_nan() { f64::INFINITY } else { d.max(worst) }), outside, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_run_from_the_first_dimension_on() {
        let array = Array::new("a", Kind::I32, &[(3, 2), (5, 2)], |at| (10 * at[0] + at[1]) as f32);
        assert_eq!(array.elements, Elements::I32(vec![35, 45, 36, 46]));
    }

    #[test]
    fn arrays_grow_by_their_edges() {
        let mut array = Array::new("a", Kind::U8, &[(0, 2), (0, 2)], |at| (10 * at[0] + at[1]) as f32);
        array.grow(&[(-1, 1), (0, 2)]);
        assert_eq!(array.domain(), [(-1, 3), (0, 3)]);
        assert_eq!(array.elements, Elements::U8(vec![0, 0, 10, 1, 1, 11, 1, 1, 11]));
    }

    #[test]
    fn packed_arrays_have_their_channels_side_by_side() {
        let planar = Array::new("a", Kind::U8, &[(0, 2), (0, 2), (0, 3)], |at| {
            (at[0] + 10 * at[1] + 100 * at[2]) as f32
        });
        assert_eq!(planar.strides(), [1, 2, 4]);
        let mut packed = planar.packed();
        assert_eq!(packed.strides(), [3, 6, 1]);
        assert_eq!(packed.elements, Elements::U8(vec![0, 100, 200, 1, 101, 201, 10, 110, 210, 11, 111, 211]));
        packed.grow(&[(0, 2), (0, 1), (0, 2)]);
        assert_eq!((packed.strides(), packed.domain()), (vec![3, 9, 1], vec![(0, 3), (0, 2), (0, 3)]));
        let Elements::U8(v) = packed.elements else { panic!("of bytes") };
        assert_eq!(v[3..9], [1, 101, 201, 1, 101, 201]);
    }

    #[test]
    fn outputs_agree_within_their_tolerance_alone() {
        use Tolerance::{Decisions, Exact, Near};
        let words = |v: &[u16]| [Elements::U16(v.to_vec())];
        let reals = |v: &[f32]| [Elements::F32(v.to_vec())];
        assert!(agree(&words(&[7, 9]), &words(&[8, 9]), Near).is_ok());
        assert!(agree(&words(&[7, 9]), &words(&[8, 9]), Exact).is_err());
        assert!(agree(&words(&[7, 9]), &words(&[9, 9]), Near).is_err());
        assert!(agree(&reals(&[0.0, 0.50]), &reals(&[0.00004, 0.5]), Near).is_ok());
        assert!(agree(&reals(&[0.0, 0.50]), &reals(&[0.00006, 0.5]), Near).is_err());
        assert!(agree(&reals(&[0.0, 0.5]), &reals(&[f32::NAN, 0.5]), Near).is_err());
        let mut many = vec![0.25; 20_000];
        let (same, one) = (many.clone(), {
            many[7] = 0.5;
            many.clone()
        });
        many[8..10].fill(0.5);
        assert!(agree(&reals(&same), &reals(&one), Decisions).is_ok());
        assert!(agree(&reals(&same), &reals(&one), Near).is_err());
        assert!(agree(&reals(&same), &reals(&many), Decisions).is_err());
    }
}
