//! Wavefront OBJ, positions and faces only.

use super::Mesh;
use crate::Vec3;

/// Objects of one file are put together; materials are not loaded.
pub fn decode(mut bytes: &[u8]) -> Result<Mesh, String> {
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
