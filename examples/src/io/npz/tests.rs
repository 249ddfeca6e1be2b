//! Archives written byte by byte, so that reading is not checked against our own writing alone.

use super::*;
use std::io::Write;
use sumsq::ArrayData;

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

/// A member of an archive as zip files hold it.
struct Packed {
    name: String,
    /// 0: stored, 8: deflated.
    method: u16,
    crc: u32,
    packed: Vec<u8>,
    size: u32,
}

fn packed(name: &str, bytes: &[u8], compressed: bool) -> Packed {
    let (method, packed) = match compressed {
        false => (0, bytes.to_vec()),
        true => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(bytes).unwrap();
            (8, encoder.finish().unwrap())
        }
    };
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    Packed { name: format!("{name}.npy"), method, crc: crc.sum(), packed, size: bytes.len() as u32 }
}

/// A zip file of members that do what they like.
fn zipped(members: &[Packed]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for m in members {
        let mut common = vec![20, 0, 0, 0];
        common.extend(m.method.to_le_bytes());
        common.extend([0; 4]);
        common.extend(m.crc.to_le_bytes());
        common.extend((m.packed.len() as u32).to_le_bytes());
        common.extend(m.size.to_le_bytes());
        common.extend((m.name.len() as u16).to_le_bytes());
        common.extend([0; 2]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((file.len() as u32).to_le_bytes());
        directory.extend(m.name.as_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(m.name.as_bytes());
        file.extend(&m.packed);
    }
    let start = file.len() as u32;
    file.extend(&directory);
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    file.extend([members.len() as u16; 2].map(u16::to_le_bytes).as_flattened());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

fn archive(entries: &[(&str, Vec<u8>)], compressed: bool) -> Vec<u8> {
    zipped(&entries.iter().map(|(name, bytes)| packed(name, bytes, compressed)).collect::<Vec<_>>())
}

fn open(bytes: Vec<u8>) -> Result<Archive, String> {
    Archive::of_bytes(Path::new("test.npz"), bytes).map_err(|error| error.to_string())
}

fn read_all(bytes: Vec<u8>) -> Result<Vec<NamedArray>, String> {
    open(bytes)?.read_all().map_err(|error| error.to_string())
}

fn read_one(npy: Vec<u8>) -> Result<NamedArray, String> {
    open(archive(&[("a", npy)], false))?.read("a").map_err(|error| error.to_string())
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
        let npz = open(archive(&entries, compressed)).unwrap();
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
        (npy("[('x', '<f4')]", false, "(1,)", &[0; 4]), "several fields"),
        (npy("'<f4'", false, "(4294967296, 4294967296)", &[]), "absurd"),
        (npy("'<f4'", false, "(99999999999999999999999999,)", &[]), "absurd"),
        (npy("'<f4'", false, "(1000000, 1000000)", &[0; 4]), "4000000000000 bytes"),
        (npy("'<f4'", false, "(2,)", &[0; 4]), "needs 8 bytes, the file holds 4"),
        (npy("'<f4'", false, "(-1,)", &[]), "expected a number"),
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

/// A small archive of two arrays, one of them deflated.
fn small() -> Vec<u8> {
    let numbers: Vec<u8> = (0..24).flat_map(|i| (i as f64).sqrt().to_le_bytes()).collect();
    let edges: Vec<u8> = (0..40i32).flat_map(|i| (i % 3).to_le_bytes()).collect();
    zipped(&[
        packed("X", &npy("'<f8'", false, "(4, 6)", &numbers), false),
        packed("G.v0", &npy("'<i4'", false, "(40,)", &edges), true),
    ])
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    for good in [small(), encode(&read_all(small()).unwrap()).unwrap()] {
        let expected = format!("{:?}", read_all(good.clone()).unwrap());
        assert!(good.len() < 2000, "{}", good.len());
        let mut refused = 0;
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match read_all(bad) {
                Err(_) => refused += 1,
                Ok(arrays) => assert_eq!(format!("{arrays:?}"), expected, "bit {bit}"),
            }
        }
        // What may change is dates, versions and the like.
        assert!(refused > 5 * good.len(), "{refused} of {} bits", 8 * good.len());
    }
}

#[test]
fn every_shorter_archive_is_refused() {
    let good = small();
    for length in 0..good.len() {
        assert!(read_all(good[..length].to_vec()).is_err(), "{length}");
    }
}

#[test]
fn every_shorter_and_longer_member_is_refused() {
    let whole = npy("'<f4'", false, "(3,)", &[1; 12]);
    for compressed in [false, true] {
        for length in 0..whole.len() {
            assert!(read_all(archive(&[("a", whole[..length].to_vec())], compressed)).is_err(), "{length}");
        }
        let longer = [&whole[..], &[7]].concat();
        let error = read_all(archive(&[("a", longer)], compressed)).unwrap_err();
        assert!(error.contains("needs 12 bytes, the file holds 13"), "{error}");
    }
    // Sizes that are not those of the contents.
    for off in [-1, 1, 5] {
        let mut member = packed("a", &whole, true);
        member.size = member.size.wrapping_add_signed(off);
        assert!(read_all(zipped(&[member])).is_err(), "{off}");
        let cut = npy("'<f4'", false, "(3,)", &[1; 12])[..whole.len() - 4].to_vec();
        let mut member = packed("a", &[&cut[..], &[1; 8]].concat(), true);
        member.size = whole.len() as u32;
        let error = read_all(zipped(&[member])).unwrap_err();
        assert!(error.contains("damaged"), "{error}");
    }
    let mut member = packed("a", &whole, true);
    member.packed.push(0);
    let error = read_all(zipped(&[member])).unwrap_err();
    assert!(error.contains("its contents end after"), "{error}");
}

#[test]
fn a_checksum_that_differs_is_said() {
    for compressed in [false, true] {
        let mut member = packed("a", &npy("'<f4'", false, "(3,)", &[1; 12]), compressed);
        member.crc ^= 1;
        let error = read_all(zipped(&[member])).unwrap_err();
        assert!(error.contains("test.npz: array `a`: the archive is damaged"), "{error}");
    }
}

#[test]
fn a_name_that_comes_twice_is_refused() {
    let one = |value| ("a", npy("'|u1'", false, "(1,)", &[value]));
    let error = open(archive(&[one(1), one(2)], false)).err().unwrap();
    assert!(error.contains("`a` is there twice"), "{error}");
}

#[test]
fn a_member_with_two_names_is_refused() {
    let mut bytes = archive(&[("a", npy("'|u1'", false, "(1,)", &[1]))], false);
    let at = bytes.windows(5).position(|w| w == b"a.npy").unwrap();
    bytes[at] = b'b';
    let error = open(bytes).err().unwrap();
    assert!(error.contains("damaged") && error.contains("`a.npy` differ"), "{error}");
}

/// Nothing is inflated that a header does not promise, nor before the promise is looked at.
#[test]
fn a_bomb_is_refused_by_its_header() {
    let zeros = vec![0; 50 << 20];
    for (shape, said) in
        [("(2,)", "needs 8 bytes, the file holds 52428800"), ("(1000000, 1000000)", "4000000000000")]
    {
        let bomb = archive(&[("a", npy("'<f4'", false, shape, &zeros))], true);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let error = read_all(bomb).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    // A directory that agrees with the header, where the contents are far too few.
    let mut member = packed("a", &npy("'<f4'", false, "(500000000,)", &[0; 4]), true);
    member.size = member.size - 4 + 2_000_000_000;
    let error = read_all(zipped(&[member])).unwrap_err();
    assert!(error.contains("cannot come of"), "{error}");
    // A large shape is known without its elements.
    let large = archive(&[("a", npy("'|u1'", false, "(10240, 5120)", &zeros))], true);
    assert_eq!(open(large).unwrap().shape("a").unwrap(), [10240, 5120]);
}

#[test]
fn headers_are_read_in_linear_time() {
    for text in
        ["(".repeat(60_000), "{".repeat(60_000), "[".repeat(60_000), format!("({}", "1,".repeat(30_000))]
    {
        let error = read_one(npy("'<f4'", false, &text, &[])).unwrap_err();
        assert!(error.contains("its header is not as expected"), "{error}");
    }
}

#[test]
fn headers_that_are_refused() {
    let cases = [
        ("", "expected {"),
        ("{}", "expected 'descr'"),
        ("{'descr': '<f4', 'fortran_order': False}", "expected 'descr', 'fortran_order' and 'shape'"),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "twice"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "expected one of"),
        ("{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}", "expected True or False"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", "expected , or )"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "expected a number"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} 1", "expected its end"),
        ("{'descr': '<f4' 'fortran_order': False, 'shape': ()}", "expected , or }"),
        ("{'descr': '<f4", "expected the end of a string"),
        ("{'descr': '|f4', 'fortran_order': False, 'shape': ()}", "|f4"),
    ];
    for (text, said) in cases {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        let error = read_one(bytes).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
    let twin = "{\"shape\":(2,),\"fortran_order\":True,\"descr\":\">u2\",}";
    let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
    bytes.extend((twin.len() as u32).to_le_bytes());
    bytes.extend(twin.as_bytes());
    bytes.extend([0, 1, 1, 0]);
    let array = read_one(bytes).unwrap();
    assert!(matches!(&array.data, ArrayData::Int(values, "uint16") if *values == [1, 256]), "{array:?}");
}
