//! Values of inputs and outputs between arrays, pictures and buffers.

use super::run::PipelineError;
use sumsq::codegen::runtime::{Buffer, BufferSpec, Element, Wide};
use sumsq::codegen::{Layout, ScalarType};
use sumsq::{ArrayData, NamedArray};

/// Values of an input or output: dense in memory, the first dimension the fastest.
#[derive(Clone, PartialEq, Debug)]
pub struct Planar {
    /// Number of coordinates of each dimension, from 0 on.
    pub extents: Vec<i32>,
    /// The values.
    pub values: Values,
}

/// Values as they came, or are handed out.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Int(Vec<i64>),
}

/// Calls `$run` with the values as a slice of their type.
macro_rules! with_values {
    ($values:expr, $v:ident => $run:expr) => {
        match $values {
            Values::U8($v) => $run,
            Values::U16($v) => $run,
            Values::F32($v) => $run,
            Values::F64($v) => $run,
            Values::Int($v) => $run,
        }
    };
}

impl Values {
    pub(super) fn extend(&mut self, more: Values) {
        match (self, more) {
            (Values::U8(a), Values::U8(b)) => a.extend(b),
            (Values::U16(a), Values::U16(b)) => a.extend(b),
            (Values::F32(a), Values::F32(b)) => a.extend(b),
            (Values::F64(a), Values::F64(b)) => a.extend(b),
            (Values::Int(a), Values::Int(b)) => a.extend(b),
            // All planes of an output have one type.
            _ => {}
        }
    }

    /// Adds floats to floats.
    pub(super) fn add(&mut self, more: &Values) {
        match (self, more) {
            (Values::F32(a), Values::F32(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (Values::F64(a), Values::F64(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            // Slopes are floats of one type.
            _ => {}
        }
    }

    /// Bits of the samples of pictures that have such values.
    pub fn bits(&self) -> u32 {
        if matches!(self, Values::U8(_)) { 8 } else { 16 }
    }
}

impl Planar {
    /// Plane `c` of the third dimension, or the last one.
    pub(super) fn plane(&self, c: usize) -> Planar {
        let extents: Vec<i32> = self.extents.iter().copied().take(2).collect();
        let n = extents.iter().map(|&n| n.max(0) as usize).product::<usize>();
        let of = with_values!(&self.values, v => v.len().checked_div(n).unwrap_or(1).saturating_sub(1));
        let part = c.min(of) * n..(c.min(of) + 1) * n;
        let values = match &self.values {
            Values::U8(v) => Values::U8(v[part].to_vec()),
            Values::U16(v) => Values::U16(v[part].to_vec()),
            Values::F32(v) => Values::F32(v[part].to_vec()),
            Values::F64(v) => Values::F64(v[part].to_vec()),
            Values::Int(v) => Values::Int(v[part].to_vec()),
        };
        Planar { extents, values }
    }

    /// The values of a buffer.
    pub(super) fn of(buffer: &Buffer) -> Planar {
        let spec = buffer.spec();
        let values = match spec.ty {
            ScalarType::U8 => Values::U8(buffer.to_vec()),
            ScalarType::U16 => Values::U16(buffer.to_vec()),
            ScalarType::F32 => Values::F32(buffer.to_vec()),
            ScalarType::F64 | ScalarType::F16 => Values::F64(buffer.to_vec()),
            _ => Values::Int(buffer.to_vec()),
        };
        Planar { extents: spec.extents.clone(), values }
    }

    /// Slopes over the domain of `spec` as those of an input of these extents, whose edge was repeated.
    pub(super) fn folded(self, extents: &[i32], spec: &BufferSpec) -> Planar {
        let domain: Vec<(i32, i32)> = spec.min.iter().copied().zip(self.extents.iter().copied()).collect();
        let values = match self.values {
            Values::F32(v) => Values::F32(folded(&v, extents, &domain)),
            Values::F64(v) => Values::F64(folded(&v, extents, &domain)),
            // Slopes are floats.
            values => values,
        };
        Planar { extents: extents.to_vec(), values }
    }

    /// An array by its shape: the last axis the fastest; of a picture the channels, which come last, the slowest.
    ///
    /// # Errors
    /// An array on a device.
    pub fn of_array(array: &NamedArray, picture: bool) -> Result<Planar, PipelineError> {
        let values = match &array.data {
            ArrayData::F32(v) => Values::F32(v.clone()),
            ArrayData::F64(v) => Values::F64(v.clone()),
            ArrayData::Bytes(v) => Values::U8(v.clone()),
            ArrayData::Int(v, _) => Values::Int(v.clone()),
            ArrayData::Bool(v) => Values::U8(v.iter().map(|&b| u8::from(b)).collect()),
            ArrayData::Device(_) => {
                return Err(PipelineError::Given("arrays on a device are not taken".into()));
            }
        };
        let mut extents: Vec<i32> =
            array.shape.iter().rev().map(|&n| i32::try_from(n).unwrap_or(i32::MAX)).collect();
        if !picture || extents.len() != 3 {
            return Ok(Planar { extents, values });
        }
        let channels = extents.remove(0) as usize;
        extents.push(channels as i32);
        let values = match values {
            Values::U8(v) => Values::U8(apart(&v, channels)),
            Values::U16(v) => Values::U16(apart(&v, channels)),
            Values::F32(v) => Values::F32(apart(&v, channels)),
            Values::F64(v) => Values::F64(apart(&v, channels)),
            Values::Int(v) => Values::Int(apart(&v, channels)),
        };
        Ok(Planar { extents, values })
    }

    /// The array of this name that it is, of a picture H x W x C.
    pub fn into_array(self, name: &str, picture: bool) -> NamedArray {
        let shape = shape(&self.extents, picture);
        let mut values = self.values;
        if picture && shape.len() == 3 {
            let pixels = shape[..2].iter().product::<usize>();
            // Planes taken apart into as many pieces as there are pixels: pixel after pixel.
            values = match values {
                Values::U8(v) => Values::U8(apart(&v, pixels)),
                Values::U16(v) => Values::U16(apart(&v, pixels)),
                Values::F32(v) => Values::F32(apart(&v, pixels)),
                Values::F64(v) => Values::F64(apart(&v, pixels)),
                Values::Int(v) => Values::Int(apart(&v, pixels)),
            };
        }
        let data = match values {
            Values::U8(v) => ArrayData::Bytes(v),
            Values::U16(v) => ArrayData::Int(v.into_iter().map(i64::from).collect(), "uint16"),
            Values::F32(v) => ArrayData::F32(v),
            Values::F64(v) => ArrayData::F64(v),
            Values::Int(v) => ArrayData::Int(v, "int64"),
        };
        NamedArray { name: name.to_string(), shape, data }
    }

    /// Input `name` as a buffer of type `ty` over `domain`, `(min, extent)` per dimension; beyond its own ends the nearest values.
    ///
    /// # Errors
    /// A value that the type does not have.
    pub(super) fn buffer(
        &self,
        name: &str,
        ty: ScalarType,
        domain: &[(i32, i32)],
    ) -> Result<Buffer, PipelineError> {
        with_values!(&self.values, v => check_held(name, v, ty)?);
        let (min, extents): (Vec<i32>, Vec<i32>) = domain.iter().copied().unzip();
        let spec = BufferSpec::new(ty, &extents).layout(Layout::Strided).starting_at(&min);
        let buffer = Buffer::new(spec)?;
        with_values!(&self.values, v => if min.iter().all(|&m| m == 0) && extents == self.extents {
            buffer.copy_from(v)?;
        } else {
            buffer.copy_from(&continued(v, &self.extents, domain))?;
        });
        Ok(buffer)
    }
}

/// Buffers convert as `as` does, and nobody wants a picture of zeros because its values were from 0 to 1: integers take whole numbers that they
/// have, floats take integers that they have and other floats as the nearest one.
fn check_held<T: Element>(name: &str, values: &[T], ty: ScalarType) -> Result<(), PipelineError> {
    if T::TYPE == ty {
        return Ok(());
    }
    let is_held = |v: Wide| match v {
        Wide::Int(v) if ty.is_float() => ty.round(v as f64) as i128 == i128::from(v),
        Wide::Int(v) => ty.has(v),
        Wide::Float(v) if ty.is_float() => ty.round(v).is_finite() || !v.is_finite(),
        // Not by way of an i64, where 2^63 would be its greatest.
        Wide::Float(v) => (v as i128) as f64 == v && i64::try_from(v as i128).is_ok_and(|v| ty.has(v)),
    };
    let Some(odd) = values.iter().map(|v| v.widen()).find(|&v| !is_held(v)) else { return Ok(()) };
    let (came, is_integer) = match odd {
        Wide::Int(v) => (v.to_string(), true),
        Wide::Float(v) => (v.to_string(), false),
    };
    let expected = match (ty.is_float(), is_integer) {
        (true, true) => format!("integers that {} holds exactly", ty.name()),
        (true, false) => format!("values of {}", ty.name()),
        (false, _) => {
            format!("whole numbers from {} to {} ({})", ty.least(), ty.greatest() as u64, ty.name())
        }
    };
    Err(PipelineError::Given(format!("{name}: expected {expected}, came {came}")))
}

/// The shape of an array of these extents: the last axis the fastest; of a picture H x W x C.
pub(super) fn shape(extents: &[i32], picture: bool) -> Vec<usize> {
    let mut shape: Vec<usize> = extents.iter().rev().map(|&n| n.max(0) as usize).collect();
    if picture && shape.len() == 3 {
        shape.rotate_left(1);
    }
    shape
}

/// Each `count`-th value, then each one after those, and so on: a transpose.
fn apart<T: Copy>(values: &[T], count: usize) -> Vec<T> {
    (0..count).flat_map(|c| values.iter().skip(c).step_by(count.max(1)).copied()).collect()
}

/// Values over a larger domain: outside of their own the nearest.
fn continued<T: Element>(values: &[T], extents: &[i32], domain: &[(i32, i32)]) -> Vec<T> {
    places(extents, domain).into_iter().map(|o| values[o]).collect()
}

/// For each point of a larger domain the place of the nearest one of `extents`.
fn places(extents: &[i32], domain: &[(i32, i32)]) -> Vec<usize> {
    let mut offsets = vec![0usize];
    let mut stride = 1;
    // From the first dimension to the last: the offsets of all points of the dimensions so far.
    for (&n, &(min, extent)) in extents.iter().zip(domain) {
        let place = |x: i32| x.clamp(0, (n - 1).max(0)) as usize * stride;
        offsets = (min..min + extent).flat_map(|x| offsets.iter().map(move |o| o + place(x))).collect();
        stride *= n.max(0) as usize;
    }
    offsets
}

/// The transpose of [`continued`]: values over `domain` onto those of `extents`, each beyond an end added to the nearest.
fn folded<T: Copy + std::ops::AddAssign + Default>(
    values: &[T],
    extents: &[i32],
    domain: &[(i32, i32)],
) -> Vec<T> {
    let mut sums = vec![T::default(); extents.iter().map(|&n| n.max(0) as usize).product()];
    for (&v, to) in values.iter().zip(places(extents, domain)) {
        sums[to] += v;
    }
    sums
}
