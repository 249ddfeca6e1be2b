//! Archives written byte by byte, so that reading is not checked against our own writing alone.

use super::*;
use std::io::Write;

/// A `.npy` of version 1.0 as NumPy writes it.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut dict = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + dict.len() + 1) % 64 != 0 {
        dict.push(' ');
    }
    dict.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(data);
    bytes
}

fn archive(entries: &[(&str, Vec<u8>)], compressed: bool) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    let mut zip = npyz::zip::ZipWriter::new(file.reopen().unwrap());
    for (name, bytes) in entries {
        zip.start_file(format!("{name}.npy"), FileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
    file
}

fn read_one(npy: Vec<u8>) -> Result<NamedArray, String> {
    let file = archive(&[("a", npy)], false);
    Archive::open(file.path()).unwrap().read("a").map_err(|error| error.to_string())
}

fn floats(array: &NamedArray) -> Vec<f64> {
    match &array.data {
        ArrayData::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
        ArrayData::F64(values) => values.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn either_byte_order_stored_or_compressed() {
    let values = [1.5f64, -2.25, f64::INFINITY, 1e-300, 0.0, -0.0];
    let little: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    let single: Vec<u8> = values.iter().flat_map(|&v| (v as f32).to_be_bytes()).collect();
    for compressed in [false, true] {
        let entries = [
            ("little", npy("'<f8'", false, "(2, 3)", &little)),
            ("big", npy("'>f8'", false, "(2, 3)", &big)),
            ("single", npy("'>f4'", false, "(6,)", &single)),
        ];
        let file = archive(&entries, compressed);
        let mut npz = Archive::open(file.path()).unwrap();
        assert_eq!(npz.names(), ["big", "little", "single"]);
        for name in ["little", "big"] {
            let array = npz.read(name).unwrap();
            assert_eq!(array.shape, [2, 3]);
            assert_eq!(floats(&array), values);
        }
        assert_eq!(floats(&npz.read("single").unwrap()), values.map(|v| f64::from(v as f32)));
    }
}

#[test]
fn fortran_order_is_transposed() {
    // a[i][j][k] = 100 i + 10 j + k over (2, 3, 4), first index fastest in the file.
    let mut data = Vec::new();
    for k in 0..4u8 {
        for j in 0..3u8 {
            for i in 0..2u8 {
                data.push(100 * i + 10 * j + k);
            }
        }
    }
    let array = read_one(npy("'|u1'", true, "(2, 3, 4)", &data)).unwrap();
    let expected: Vec<u8> =
        (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| 100 * i + 10 * j + k))).collect();
    assert!(matches!(&array.data, ArrayData::Bytes(values) if *values == expected), "{array:?}");
}

#[test]
fn integers_of_every_width_and_bool() {
    let cases: [(&str, Vec<u8>, Vec<i64>, &str); 8] = [
        ("'|i1'", vec![0x80, 0x7f], vec![-128, 127], "int8"),
        ("'<i2'", vec![0xfe, 0xff, 1, 2], vec![-2, 513], "int16"),
        ("'>i4'", vec![0xff, 0xff, 0xff, 0xfd, 0, 0, 1, 0], vec![-3, 256], "int32"),
        (
            "'<i8'",
            [i64::MIN, i64::MAX].iter().flat_map(|v| v.to_le_bytes()).collect(),
            vec![i64::MIN, i64::MAX],
            "int64",
        ),
        ("'|u1'", vec![0, 255], vec![0, 255], "uint8"),
        ("'>u2'", vec![0xff, 0xfe, 0, 1], vec![65534, 1], "uint16"),
        ("'<u4'", vec![0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0], vec![u32::MAX.into(), 1], "uint32"),
        ("'<u8'", [7u64, 1 << 62].iter().flat_map(|v| v.to_le_bytes()).collect(), vec![7, 1 << 62], "uint64"),
    ];
    for (descr, data, expected, name) in cases {
        let array = read_one(npy(descr, false, "(2,)", &data)).unwrap();
        assert_eq!(array.data.dtype(), name);
        match &array.data {
            ArrayData::Int(values, _) => assert_eq!(values, &expected),
            ArrayData::Bytes(values) => assert!(values.iter().map(|&v| i64::from(v)).eq(expected)),
            other => panic!("{other:?}"),
        }
    }
    let array = read_one(npy("'|b1'", false, "(3,)", &[1, 0, 1])).unwrap();
    assert!(matches!(&array.data, ArrayData::Bool(values) if *values == [true, false, true]));
    let large = read_one(npy("'<u8'", false, "(1,)", &u64::MAX.to_le_bytes())).unwrap_err();
    assert!(large.contains("18446744073709551615"), "{large}");
}

#[test]
fn zero_dimensional_and_empty() {
    let scalar = read_one(npy("'<f4'", false, "()", &2.5f32.to_le_bytes())).unwrap();
    assert_eq!((scalar.shape.len(), floats(&scalar)), (0, vec![2.5]));
    for fortran in [false, true] {
        let empty = read_one(npy("'<f4'", fortran, "(0, 3)", &[])).unwrap();
        assert_eq!((empty.shape.clone(), floats(&empty)), (vec![0, 3], vec![]));
    }
}

#[test]
fn what_is_refused_says_why() {
    let cases = [
        (npy("'|O'", false, "(1,)", b"cos\nsystem\n"), "pickle"),
        (npy("'<f2'", false, "(1,)", &[0, 0]), "f2"),
        (npy("'<c8'", false, "(1,)", &[0; 8]), "c8"),
        (npy("'<U1'", false, "(1,)", &[0; 4]), "U1"),
        (npy("[('x', '<f4')]", false, "(1,)", &[0; 4]), "x"),
        (npy("'<f4'", false, "(4294967296, 4294967296)", &[]), "absurd"),
        (npy("'<f4'", false, "(99999999999999999999999999,)", &[]), "absurd"),
        (npy("'<f4'", false, "(1000000, 1000000)", &[0; 4]), "4000000000000 bytes"),
        (npy("'<f4'", false, "(2,)", &[0; 4]), "needs 8 bytes, the file holds 4"),
        (npy("'<f4'", false, "(-1,)", &[]), "a"),
        (b"\x93NUMPY".to_vec(), "not a .npy"),
        (b"nothing like it".to_vec(), "not a .npy"),
        (Vec::new(), "not a .npy"),
    ];
    for (bytes, said) in cases {
        let error = read_one(bytes).unwrap_err();
        assert!(error.contains(said) && error.contains("array `a`"), "{said}: {error}");
    }
}

#[test]
fn files_that_are_no_archives() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    let error = Archive::open(file.path()).err().unwrap().to_string();
    assert!(error.contains("not an npz archive"), "{error}");
    let error = Archive::open(Path::new("/nonexistent.npz")).err().unwrap().to_string();
    assert!(error.contains("/nonexistent.npz"), "{error}");
}

#[test]
fn writing_and_reading_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.npz");
    let array = |name: &str, shape: &[usize], data| NamedArray {
        name: name.to_string(),
        shape: shape.to_vec(),
        data,
    };
    let arrays = [
        array("G.v0", &[2], ArrayData::Int(vec![1, -4], "int32")),
        array("X", &[2, 1, 2], ArrayData::F64(vec![1e-300, -1.0, 3.5, f64::INFINITY])),
        array("Y", &[3], ArrayData::F32(vec![0.1, -0.0, 7e30])),
        array("s", &[], ArrayData::F32(vec![2.0])),
    ];
    write(&path, &arrays).unwrap();
    let read = Archive::open(&path).unwrap().read_all().unwrap();
    assert_eq!(read.len(), arrays.len());
    for (read, wrote) in read.iter().zip(&arrays) {
        assert_eq!((&read.name, &read.shape), (&wrote.name, &wrote.shape));
        match (&read.data, &wrote.data) {
            (ArrayData::Int(a, dtype), ArrayData::Int(b, _)) => assert_eq!((a, *dtype), (b, "int64")),
            (ArrayData::F32(a), ArrayData::F32(b)) => assert_eq!(a, b),
            (ArrayData::F64(a), ArrayData::F64(b)) => assert_eq!(a, b),
            other => panic!("{other:?}"),
        }
    }
}
