//! Triangle meshes.

use super::{FileError, obj, ply, save};
use crate::Vec3;
use std::path::Path;

/// A triangle mesh; every index is in range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// Vertex positions.
    pub positions: Vec<Vec3>,
    /// Vertices of each triangle, counter-clockwise seen from outside.
    pub triangles: Vec<[u32; 3]>,
}

impl Mesh {
    /// Reads a `.ply` or `.obj` file; polygons become fans.
    pub fn read(path: &Path) -> Result<Mesh, FileError> {
        let bytes = std::fs::read(path).map_err(|source| FileError::read(path, source))?;
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        let mesh = match extension.as_deref() {
            Some("ply") => Mesh::from_ply(&bytes),
            Some("obj") => Mesh::from_obj(&bytes),
            _ => Err("not a mesh format that is read here: give .ply or .obj".to_string()),
        };
        mesh.map_err(|problem| FileError::format(path, problem))
    }

    /// From the bytes of a PLY file.
    pub fn from_ply(bytes: &[u8]) -> Result<Mesh, String> {
        ply::decode(bytes)?.checked()
    }

    /// From the bytes of a Wavefront OBJ file.
    pub fn from_obj(bytes: &[u8]) -> Result<Mesh, String> {
        obj::decode(bytes)?.checked()
    }

    /// Writes a binary little-endian PLY file.
    pub fn write_ply(&self, path: &Path) -> Result<(), FileError> {
        save(path, &self.encode_ply().map_err(|source| FileError::write(path, source))?)
    }

    /// The bytes of a binary little-endian PLY file.
    pub fn encode_ply(&self) -> std::io::Result<Vec<u8>> {
        ply::encode(self)
    }

    fn checked(self) -> Result<Mesh, String> {
        let vertices = self.positions.len();
        match self.triangles.iter().flatten().find(|&&v| v as usize >= vertices) {
            Some(v) => Err(format!("a face names vertex {v}, but there are {vertices} vertices")),
            None => Ok(self),
        }
    }

    /// Adds a polygon as a fan around its first corner.
    pub(super) fn push_polygon(&mut self, corners: &[u32]) {
        for pair in corners.windows(2).skip(1) {
            self.triangles.push([corners[0], pair[0], pair[1]]);
        }
    }

    /// Each edge once in each direction, sorted.
    pub fn directed_edges(&self) -> Vec<[u32; 2]> {
        let mut edges: Vec<[u32; 2]> = self
            .triangles
            .iter()
            .flat_map(|&[a, b, c]| [[a, b], [b, a], [b, c], [c, b], [c, a], [a, c]])
            .collect();
        edges.retain(|[a, b]| a != b);
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Each edge of two triangles, once, as [from, to, left, right]: its ends, and the corners opposite to it in the triangle
    /// that runs along it and in the one that runs against it.
    pub fn wedges(&self) -> Vec<[u32; 4]> {
        let corners = self.triangles.iter().flat_map(|&[a, b, c]| [([a, b], c), ([b, c], a), ([c, a], b)]);
        let opposite: std::collections::BTreeMap<[u32; 2], u32> = corners.collect();
        let both_sides = opposite.iter().filter(|([from, to], _)| from < to);
        both_sides
            .filter_map(|(&[from, to], &left)| Some([from, to, left, *opposite.get(&[to, from])?]))
            .collect()
    }

    /// Per vertex: true if, seen along z, a triangle lies more than `margin` before it (at larger z).
    pub(crate) fn covered(&self, margin: f32) -> Vec<bool> {
        let corners = self.triangles.iter().map(|t| t.map(|v| self.positions[v as usize]));
        let corners: Vec<[Vec3; 3]> = corners.collect();
        let covers = |p: Vec3, &[a, b, c]: &[Vec3; 3]| {
            let across = |u: Vec3, v: Vec3| u.x * v.y - u.y * v.x;
            let whole = across(b - a, c - a);
            let (s, t) = (across(p - a, c - a) / whole, across(b - a, p - a) / whole);
            let above = a.z + s * (b.z - a.z) + t * (c.z - a.z);
            s >= 0.0 && t >= 0.0 && s + t <= 1.0 && above > p.z + margin
        };
        self.positions.iter().map(|&p| corners.iter().any(|triangle| covers(p, triangle))).collect()
    }

    /// Per vertex: whether it lies on an edge of one triangle only.
    pub(crate) fn rim(&self) -> Vec<bool> {
        let edges = self.triangles.iter().flat_map(|&[a, b, c]| [[a, b], [b, c], [c, a]]);
        let edges: std::collections::BTreeSet<[u32; 2]> = edges.collect();
        let mut rim = vec![false; self.positions.len()];
        for &[a, b] in edges.iter().filter(|&&[a, b]| !edges.contains(&[b, a])) {
            (rim[a as usize], rim[b as usize]) = (true, true);
        }
        rim
    }

    /// The same surface with four triangles for each: the midpoint of every edge is a vertex, behind those that there are.
    pub fn subdivided(&self) -> Mesh {
        let mut positions = self.positions.clone();
        let mut known = std::collections::BTreeMap::new();
        let mut middle = |a: u32, b: u32| {
            *known.entry([a.min(b), a.max(b)]).or_insert_with(|| {
                positions.push((self.positions[a as usize] + self.positions[b as usize]) * 0.5);
                positions.len() as u32 - 1
            })
        };
        let parts = self.triangles.iter().flat_map(|&[a, b, c]| {
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
        });
        let triangles = parts.collect();
        Mesh { positions, triangles }
    }

    /// The same triangles with other positions of as many vertices.
    pub fn at(&self, positions: Vec<Vec3>) -> Mesh {
        Mesh { positions, triangles: self.triangles.clone() }
    }

    /// The normal of a triangle, as long as twice its area.
    pub(crate) fn face_normal(&self, corners: &[u32; 3]) -> Vec3 {
        let [a, b, c] = corners.map(|v| self.positions[v as usize]);
        (b - a).cross(&(c - a))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit square of two triangles and a spare vertex.
    fn square() -> Mesh {
        let corners = [[0., 0., 0.], [1., 0., 0.], [1., 1., 0.], [0., 1., 0.25], [1e-7, -3e8, 1. / 3.]];
        Mesh { positions: corners.map(Vec3::from).to_vec(), triangles: vec![[0, 1, 2], [0, 2, 3]] }
    }

    #[test]
    fn ply_round_trip_is_exact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("square.ply");
        square().write_ply(&path).unwrap();
        assert_eq!(Mesh::read(&path).unwrap(), square());
    }

    #[test]
    fn ply_text_with_either_name_of_the_face_list() {
        for (name, index) in [("vertex_index", "uint"), ("vertex_indices", "short")] {
            let text = format!(
                "ply\nformat ascii 1.0\ncomment by hand\nelement vertex 4\nproperty double x\nproperty double y\n\
                 property double z\nproperty uchar red\nelement face 1\nproperty list uchar {index} {name}\nend_header\n\
                 0 0 0 9\n1 0 0 9\n1 1 0 9\n0 1 0.25 9\n4 0 1 2 3\n"
            );
            let mesh = Mesh::from_ply(text.as_bytes()).unwrap();
            assert_eq!(mesh.positions, square().positions[..4]);
            assert_eq!(mesh.triangles, square().triangles);
        }
    }

    #[test]
    fn obj_quads_relative_indices_and_normals() {
        let text = "mtllib absent.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0.25\nvn 0 0 1\nf 1//1 2//1 3//1 4//1\nf -4 -3 -2\n";
        let mesh = Mesh::from_obj(text.as_bytes()).unwrap();
        assert_eq!(mesh.positions, square().positions[..4]);
        assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3], [0, 1, 2]]);
    }

    #[test]
    fn a_finer_mesh_has_the_same_surface() {
        let (coarse, fine) = (square(), square().subdivided());
        let inner = coarse.directed_edges().len() / 2;
        assert_eq!(fine.positions.len(), coarse.positions.len() + inner);
        let area = |mesh: &Mesh| mesh.triangles.iter().map(|t| mesh.face_normal(t).norm()).sum::<f32>();
        assert!((area(&fine) - area(&coarse)).abs() < 1e-6);
        // Of 5 edges each has two halves; three edges are new in each of two triangles.
        assert_eq!((fine.triangles.len(), fine.directed_edges().len() / 2), (8, 5 * 2 + 2 * 3));
        assert!(fine.triangles.iter().all(|t| fine.face_normal(t).z > 0.0), "the same side is outside");
    }

    #[test]
    fn bad_meshes_are_errors() {
        let beyond = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n\
                      element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n3 0 0 7\n";
        assert!(Mesh::from_ply(beyond.as_bytes()).unwrap_err().contains("vertex 7"));
        let negative = beyond.replace("0 0 7", "0 0 -7");
        assert!(Mesh::from_ply(negative.as_bytes()).unwrap_err().contains("-7"));
        let no_z = beyond.replace("property float z\n", "").replace("0 0 0\n3", "0 0\n3");
        assert!(Mesh::from_ply(no_z.as_bytes()).unwrap_err().contains("z"));
        assert!(Mesh::from_ply(b"solid").is_err());
        assert!(Mesh::from_ply(&beyond.as_bytes()[..beyond.len() - 9]).is_err(), "cut short");
        assert!(Mesh::from_obj(b"v 0 0 0\nf 1 2 3\n").is_err());
        let said = Mesh::read(Path::new("Cargo.toml")).unwrap_err().to_string();
        assert!(said.contains("Cargo.toml") && said.contains(".obj"), "{said}");
    }

    #[test]
    fn edges_go_both_ways_once() {
        let edges = square().directed_edges();
        assert_eq!(edges, [[0, 1], [0, 2], [0, 3], [1, 0], [1, 2], [2, 0], [2, 1], [2, 3], [3, 0], [3, 2]]);
    }

    #[test]
    fn an_inner_edge_has_a_corner_on_either_side() {
        assert_eq!(square().wedges(), [[0, 2, 3, 1]]);
        assert_eq!(square().rim(), [true, true, true, true, false]);
    }

    #[test]
    fn what_lies_behind_a_triangle_is_covered() {
        let at = |x: f32, y: f32, z: f32| Vec3::new(x, y, z);
        let triangle = [at(0.0, 0.0, 1.0), at(4.0, 0.0, 1.0), at(0.0, 4.0, 3.0)];
        let others = [at(1.0, 1.0, 0.0), at(1.0, 1.0, 1.45), at(1.0, 1.0, 2.0), at(3.0, 3.0, 0.0)];
        let mesh = Mesh { positions: [&triangle[..], &others].concat(), triangles: vec![[0, 2, 1]] };
        assert_eq!(mesh.covered(0.1), [false, false, false, true, false, false, false]);
        assert!(mesh.covered(0.01)[4], "the triangle is at 1.5 there");
    }
}
