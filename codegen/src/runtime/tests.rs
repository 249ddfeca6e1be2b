use super::*;
use crate::func::Layout;
use crate::types::ScalarType;

const TYPES: [ScalarType; 4] = [ScalarType::U8, ScalarType::I32, ScalarType::F32, ScalarType::F64];

/// Shapes around every boundary of the layout rules.
fn specs() -> Vec<BufferSpec> {
    let shapes: [&[i32]; 9] =
        [&[], &[1], &[17], &[100, 7], &[1024, 3], &[1008, 5], &[16, 4, 3], &[512, 2, 2], &[0, 4]];
    let mut specs = vec![];
    for ty in TYPES {
        for extents in shapes {
            for halo in [0, 1, 5] {
                let halo = vec![halo; extents.len()];
                for (layout, channels) in
                    [(Layout::Planar, 1), (Layout::Planar, 3), (Layout::Record(4), 3), (Layout::Record(8), 8)]
                {
                    specs.push(BufferSpec {
                        ty,
                        channels,
                        layout,
                        min: vec![0; extents.len()],
                        extents: extents.to_vec(),
                        halo: halo.clone(),
                    });
                }
            }
        }
    }
    specs
}

#[test]
fn layout_guarantees() {
    for spec in specs() {
        let b = Buffer::new(spec.clone()).unwrap();
        let size = spec.ty.bytes() as i64;
        let planes = if spec.layout == Layout::Planar { spec.channels } else { 1 };
        for k in 0..planes {
            assert_eq!(b.plane_ptr(k) as usize % 64, 0, "{spec:?}");
        }
        if planes > 1 {
            let distance = b.plane_ptr(1) as usize - b.plane_ptr(0) as usize;
            assert_ne!(distance % 4096, 0, "{spec:?}");
        }
        for (d, s) in b.strides().iter().enumerate().skip(1) {
            assert_eq!((s % 16, s * size % 64), (0, 0), "{spec:?}");
            assert!(d != 1 || s * size <= 4096 || s * size % 4096 != 0, "{spec:?}");
        }
    }
}

/// All coordinates of domain and halo.
fn coordinates(spec: &BufferSpec) -> Vec<Vec<i32>> {
    let mut all = vec![vec![]];
    for (&e, &h) in spec.extents.iter().zip(&spec.halo) {
        let range = -(h as i32)..e + h as i32;
        all =
            all.into_iter().flat_map(|c| range.clone().map(move |x| [c.clone(), vec![x]].concat())).collect();
    }
    all
}

#[test]
fn every_value_has_a_place_of_its_own() {
    for spec in specs().into_iter().filter(|s| s.ty == ScalarType::I32) {
        let b = Buffer::new(spec.clone()).unwrap();
        let coordinates = coordinates(&spec);
        let mut n = 0;
        for at in &coordinates {
            for c in 0..spec.channels {
                assert_eq!(b.get::<i32>(at, c), Some(0), "zero at first");
                n += 1;
                assert!(b.set(at, c, n));
            }
        }
        let mut n = 0;
        for at in &coordinates {
            for c in 0..spec.channels {
                n += 1;
                assert_eq!(b.get(at, c), Some(n), "{spec:?} at {at:?}");
            }
        }
        // Vectors may touch 64 elements on either side of the outermost values: inside the memory.
        let (base, bytes) = b.whole();
        let address = |at: &[i32], c: i64| {
            let offset: i64 = at.iter().zip(b.strides()).map(|(&x, s)| x as i64 * s).sum();
            b.plane_ptr(0) as i64 + 4 * (offset + c * b.channel_step())
        };
        if let (Some(first), Some(last)) = (coordinates.first(), coordinates.last()) {
            assert!(address(first, 0) - 256 >= base as i64, "{spec:?}");
            assert!(
                address(last, spec.channels as i64 - 1) + 4 + 256 <= base as i64 + bytes as i64,
                "{spec:?}"
            );
        }
    }
}

#[test]
fn copies_are_interleaved_c_order() {
    for spec in specs() {
        let b = Buffer::new(spec.clone()).unwrap();
        let values: Vec<f64> = (0..spec.len() * spec.channels).map(|i| (i % 200) as f64).collect();
        b.copy_from(&values).unwrap();
        assert_eq!(b.to_vec::<f64>(), values, "{spec:?}");
        let mut at = vec![0; spec.extents.len()];
        for chunk in values.chunks(spec.channels) {
            for (c, v) in chunk.iter().enumerate() {
                assert_eq!(b.get::<f64>(&at, c), Some(*v));
            }
            // The next coordinate, dimension 0 fastest.
            for (x, e) in at.iter_mut().zip(&spec.extents) {
                *x += 1;
                if *x < *e {
                    break;
                }
                *x = 0;
            }
        }
        for at in coordinates(&spec) {
            let inside = at.iter().zip(&spec.extents).all(|(x, e)| (0..*e).contains(x));
            assert!(inside || b.get::<f64>(&at, 0) == Some(0.0), "halo of {spec:?}");
        }
    }
}

#[test]
fn large_buffers_are_zero_and_aligned() {
    let spec = BufferSpec::new(ScalarType::F32, &[1500, 1200]).halo(&[2, 2]);
    let b = Buffer::new(spec.clone()).unwrap();
    assert!(b.bytes() > 4 << 20);
    assert!(b.to_vec::<f32>().iter().all(|&v| v == 0.0));
    let values: Vec<f32> = (0..spec.len()).map(|i| i as f32).collect();
    b.copy_from(&values).unwrap();
    assert_eq!(b.to_vec::<f32>(), values);
    b.fill(2.5f64);
    assert!(b.to_vec::<f32>().iter().all(|&v| v == 2.5));
    assert_eq!(b.get::<f32>(&[-1, 0], 0), Some(0.0));
}

#[test]
fn conversions_saturate_and_wrap_like_as() {
    let b = Buffer::new(BufferSpec::new(ScalarType::U8, &[4])).unwrap();
    b.copy_from(&[-1.5f64, 300.0, f64::NAN, 7.9]).unwrap();
    assert_eq!(b.to_vec::<i32>(), [0, 255, 0, 7]);
    b.copy_from(&[-1i32, 256, 257, 7]).unwrap();
    assert_eq!(b.to_vec::<i32>(), [255, 0, 1, 7]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let new = |spec| Buffer::new(spec).err().unwrap().to_string();
    let f32s = |extents: &[i32]| BufferSpec::new(ScalarType::F32, extents);
    assert_eq!(new(f32s(&[3, -1])), "negative extent -1");
    assert_eq!(new(f32s(&[3]).halo(&[1, 1])), "2 halo widths for 1 dimensions");
    assert_eq!(
        new(f32s(&[3]).layout(Layout::Record(4)).channels(5)),
        "5 channels do not fit in a record of 4"
    );
    assert!(new(f32s(&[i32::MAX, i32::MAX, i32::MAX])).contains("too large"));
    assert!(new(f32s(&[i32::MAX, 1 << 28])).contains("not enough memory"));
    let mut a = Buffer::new(f32s(&[3])).unwrap();
    let mut b = Buffer::new(f32s(&[4])).unwrap();
    assert!(a.swap(&mut b).is_err());
    assert!(a.copy_from(&[1.0f32]).is_err());
    assert_eq!((a.get::<f32>(&[3], 0), a.get::<f32>(&[0], 1), a.get::<f32>(&[0, 0], 0)), (None, None, None));
}

#[test]
fn channels_are_copied_from_views_and_back() {
    let pool = Pool::new(3);
    for layout in [Layout::Planar, Layout::Record(4)] {
        let spec = BufferSpec::new(ScalarType::F32, &[5, 3]).channels(3).layout(layout).halo(&[16, 1]);
        let b = Buffer::new(spec).unwrap();
        // Two channels of bytes, rows upside down.
        let bytes: Vec<u8> = (0..30).collect();
        let dims = [Dimension::new(0, 2, 1), Dimension::new(0, 5, 2), Dimension::new(0, 3, -10)];
        let view = View::reading(&bytes, &dims).unwrap();
        b.copy_channels(1, &view, &pool).unwrap();
        for (x, y, c) in [(0, 0, 0), (4, 2, 1), (2, 1, 0)] {
            let expected = 10 * (2 - y) + 2 * x + c;
            assert_eq!(b.get::<i32>(&[x, y], 1 + c as usize), Some(expected));
        }
        assert_eq!((b.get::<f64>(&[1, 1], 0), b.get::<f64>(&[-1, 1], 1)), (Some(0.0), Some(0.0)));
        let mut back = vec![0.0f64; 30];
        b.copy_channels_to(1, 2, &mut back, &pool).unwrap();
        let rows: Vec<f64> = bytes.chunks(10).rev().flatten().map(|&v| f64::from(v)).collect();
        assert_eq!(back, rows);
        assert!(
            b.copy_channels(2, &view, &pool).is_err() && b.copy_channels_to(0, 3, &mut back, &pool).is_err()
        );
    }
}

/// A list is one row, copied in pieces; a picture is copied in rows.
#[test]
fn long_lists_are_copied_whole() {
    let pool = Pool::new(3);
    for (extents, layout) in [
        (vec![200_001], Layout::Planar),
        (vec![100_003], Layout::Record(4)),
        (vec![301, 7, 3], Layout::Planar),
        (vec![], Layout::Planar),
    ] {
        let halo = vec![2; extents.len()];
        let spec = BufferSpec::new(ScalarType::I32, &extents).channels(3).layout(layout).halo(&halo);
        let (b, twin) = (Buffer::new(spec.clone()).unwrap(), Buffer::new(spec).unwrap());
        b.generate(&pool, |element, channel| (3 * element + channel) as i32).unwrap();
        let all: Vec<i32> = (0..3 * b.spec().len() as i32).collect();
        assert_eq!(b.to_vec::<i32>(), all);
        let dims = [&[3], &extents[..]].concat();
        twin.copy_channels(0, &View::reading(&all, &Dimension::dense(&dims)).unwrap(), &pool).unwrap();
        assert_eq!(twin.to_vec::<i32>(), all);
        let mut back = vec![0; all.len()];
        twin.copy_channels_to(0, 3, &mut back, &pool).unwrap();
        assert_eq!(back, all);
    }
}
