//! Archives whose checksums are right, whatever they hold: so that mutations reach what lies behind.

use crate::mutate;
use sumsq_codegen_testing::rng::Rng;

/// The energy that the archives are bound to.
pub const ENERGY: &str = r#"
    local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local A = Array("A", uint8, {W,H}, 1)
    local Y = Unknown("Y", opt_float, {N}, 2)
    local s = Param("s", opt_float, 3)
    local G = Graph("G", 4, "v0", {N}, 5)
    Energy(X(0,0) - A(0,0), s * Y(G.v0))
"#;

/// Files of an archive: names, contents.
pub type Members = Vec<(String, Vec<u8>)>;

/// Those of an archive that is right.
pub fn members() -> Members {
    vec![
        ("X.npy".to_string(), npy("<f4", "(2, 3, 2)", &[0x3f; 48])),
        ("A.npy".to_string(), npy("|u1", "(2, 3)", &[7; 6])),
        ("Y.npy".to_string(), npy("<f8", "(4,)", &[0x3f; 32])),
        ("s.npy".to_string(), npy("<f8", "()", &[0x3f; 8])),
        ("G.v0.npy".to_string(), npy("<i4", "(2,)", &[1, 0, 0, 0, 2, 0, 0, 0])),
    ]
}

/// An archive that is right but for some changes: of headers, numbers, names, or of the whole.
pub fn archive(rng: &mut Rng) -> Vec<u8> {
    let mut members = members();
    let whole = contents(&members);
    for _ in 0..rng.pick(&[0, 1, 1, 1, 2]) {
        let k = rng.below(members.len());
        change(rng, &mut members[k], &whole);
    }
    let stored = zip(&members);
    if rng.percent(40) { mutate::bytes(rng, &stored, &whole) } else { stored }
}

/// The contents of all members.
pub fn contents(members: &Members) -> Vec<u8> {
    members.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
}

/// Changes one member; `whole` is what pieces are taken from.
pub fn change(rng: &mut Rng, (name, bytes): &mut (String, Vec<u8>), whole: &[u8]) {
    match rng.below(6) {
        0 => *name = String::from_utf8_lossy(&mutate::bytes(rng, name.as_bytes(), b"XAYsG.v0.npy")).into(),
        1 => *bytes = mutate::bytes(rng, bytes, whole),
        2 => {
            let shapes =
                ["(2, 3)", "(0,)", "(4294967296, 4294967296)", "(1000000000, 8)", "((((", "(-1,)", "3"];
            let types = ["<f4", ">f8", "<c16", "|b1", "|O", "<i8", "<u8", "<f2", "<U7", "|V4"];
            let payload = bytes.len().min(16);
            *bytes = npy(rng.pick(&types), rng.pick(&shapes), &bytes.clone()[..payload]);
        }
        // The header's length, and its version.
        3 if bytes.len() > 10 => {
            let at = 6 + rng.below(4);
            bytes[at] = rng.pick(&[0, 1, 2, 3, 0x7f, 0xff]);
        }
        _ if bytes.len() > 10 => {
            let text = String::from_utf8_lossy(&bytes[10..]).into_owned();
            let header =
                mutate::text(rng, &text, "{'descr': '<f4', 'fortran_order': True, 'shape': (((1,)))}");
            bytes.splice(10.., header.into_bytes());
        }
        // An earlier change has left too little.
        _ => (),
    }
}

fn npy(descr: &str, shape: &str, payload: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (text.len() + 11).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((length as u16).to_le_bytes());
    out.extend(format!("{text:<w$}\n", w = length - 1).into_bytes());
    out.extend(payload);
    out
}

/// The members of a zip file as they lie in it, by their own headers, whatever their checksums.
pub fn unzip(mut bytes: &[u8]) -> Members {
    let mut members = vec![];
    while let Some((header, rest)) = bytes.split_at_checked(30).filter(|(h, _)| h.starts_with(b"PK\x03\x04"))
    {
        let number = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (size, name, extra) = (number(18) | number(20) << 16, number(26), number(28));
        let Some((name, rest)) = rest.split_at_checked(name) else { break };
        let Some((content, rest)) = rest.get(extra..).and_then(|r| r.split_at_checked(size)) else { break };
        members.push((String::from_utf8_lossy(name).into(), content.to_vec()));
        bytes = rest;
    }
    members
}

/// A zip file whose members are stored.
pub fn zip(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let start = out.len() as u32;
        let mut entry = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        entry.extend(crc(bytes).to_le_bytes());
        entry.extend((bytes.len() as u32).to_le_bytes());
        entry.extend((bytes.len() as u32).to_le_bytes());
        entry.extend((name.len() as u16).to_le_bytes());
        entry.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&entry);
        out.extend(name.as_bytes());
        out.extend(bytes);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&entry);
        directory.extend([0; 10]);
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    })
}

#[test]
fn archives_without_changes_are_right() {
    let members: Vec<(String, Vec<u8>)> = vec![("s.npy".into(), npy("<f8", "()", &[0; 8]))];
    let read = sumsq_examples::io::npz::Archive::of_bytes("s.npz".as_ref(), zip(&members));
    let arrays = read.and_then(|a| a.read_all()).unwrap();
    assert_eq!(arrays[0].data.doubles(), [0.0]);
}

#[test]
fn members_are_found_again() {
    let stored = zip(&members());
    assert_eq!(unzip(&stored), members());
    for length in 0..stored.len() {
        assert!(unzip(&stored[..length]).len() <= members().len());
    }
}
