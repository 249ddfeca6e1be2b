//! Wavefront OBJ, positions and faces only.

use super::Mesh;
use crate::Vec3;

/// Objects of one file are put together; materials are not loaded.
pub fn decode(mut bytes: &[u8]) -> Result<Mesh, String> {
    check_indices(bytes)?;
    let options = tobj::LoadOptions {
        triangulate: true,
        ignore_points: true,
        ignore_lines: true,
        ..Default::default()
    };
    let (models, _) = tobj::load_obj_buf(&mut bytes, &options, |_| Ok(Default::default()))
        .map_err(|error| format!("not a readable OBJ file ({error})"))?;
    let mut mesh = Mesh::default();
    for model in models {
        let first = mesh.positions.len() as u32;
        mesh.positions.extend(model.mesh.positions.chunks_exact(3).map(Vec3::from_column_slice));
        mesh.triangles
            .extend(model.mesh.indices.chunks_exact(3).map(|t| [t[0] + first, t[1] + first, t[2] + first]));
    }
    Ok(mesh)
}

/// Fails at an index that is no number of a vertex: the parser computes with indices before it looks at them.
fn check_indices(bytes: &[u8]) -> Result<(), String> {
    // Vertices, texture coordinates and normals so far: what negative indices count back from.
    let mut given = [0i64; 3];
    for (number, line) in bytes.split(|&b| b == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        match words.next() {
            Some("v") => given[0] += 1,
            Some("vt") => given[1] += 1,
            Some("vn") => given[2] += 1,
            Some("f" | "l") => {
                let indices = words.flat_map(|corner| corner.split('/').zip(given));
                for (index, given) in indices.filter(|(index, _)| !index.is_empty()) {
                    // One may be named before it is given.
                    let right = |i: i64| i != 0 && -given <= i && i <= i64::from(u32::MAX);
                    if !index.parse().is_ok_and(right) {
                        return Err(format!(
                            "line {}: `{index}` is no index, or before the first",
                            number + 1
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_checked_before_anything_is_computed_with_them() {
        let file =
            |face: &str| format!("v 0 0 0\nv 1 0 0\nvt 0 0\nv 0 1 0\n# corners\n{face}\n").into_bytes();
        for right in ["f 1 2 3", "f -1 -2 -3", "f 1/1 2/1 3/-1", "f 1// 2 3"] {
            assert_eq!(decode(&file(right)).map(|m| m.triangles.len()), Ok(1), "{right}");
        }
        let wrong = [
            ("f 1 2 0", "0"),
            ("f -4 2 3", "-4"),
            ("f 1/-2 2 3", "-2"),
            ("f 1/9223372036854775807 2 3", "9223372036854775807"),
            ("f 1//-9223372036854775808 2 3", "-9223372036854775808"),
            ("f 1 2 18446744073709551615", "18446744073709551615"),
            ("l 1 4294967296", "4294967296"),
            ("f 1 2 x", "x"),
        ];
        for (line, index) in wrong {
            let said = decode(&file(line)).unwrap_err();
            assert!(said.starts_with(&format!("line 6: `{index}` ")), "{line}: {said}");
        }
        assert!(decode(&file("f 1 2 9")).is_err());
    }
}
