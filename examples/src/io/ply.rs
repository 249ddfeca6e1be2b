//! PLY, text and binary.

use super::Mesh;
use crate::Vec3;
use ply_rs_bw::parser::{ParseError, Parser, Reader};
use ply_rs_bw::ply::{
    Addable, DefaultElement, ElementDef, Encoding, Header, Ply, Property, PropertyAccess,
    PropertyAccessResult, PropertyDef, PropertyType, ScalarType,
};
use ply_rs_bw::writer::Writer;
use std::io;

/// The elements `vertex` (x, y, z) and `face` (`vertex_index` or `vertex_indices`); the rest is skipped.
pub fn decode(bytes: &[u8]) -> Result<Mesh, String> {
    let unreadable = |error: ParseError| format!("not a readable PLY file ({error})");
    let (parser, mut reader) = (Parser::<Item>::new(), Reader::new(bytes));
    let header = parser.read_header(&mut reader).map_err(unreadable)?;
    check_rows(&header, bytes.len())?;
    let payload = parser.read_payload(&mut reader, &header).map_err(unreadable)?;
    let mut mesh = Mesh::default();
    for (row, item) in payload.get("vertex").into_iter().flatten().enumerate() {
        let coordinate = |axis: usize| {
            item.position[axis]
                .ok_or_else(|| format!("vertex {row} has no coordinate {}", ["x", "y", "z"][axis]))
        };
        mesh.positions.push(Vec3::new(coordinate(0)?, coordinate(1)?, coordinate(2)?));
    }
    for (row, item) in payload.get("face").into_iter().flatten().enumerate() {
        let corner = |&i: &i64| u32::try_from(i).map_err(|_| format!("face {row} names vertex {i}"));
        mesh.push_polygon(&item.corners.iter().map(corner).collect::<Result<Vec<u32>, _>>()?);
    }
    Ok(mesh)
}

/// Fails where there are more rows than bytes: one without properties takes none of a binary file, and the parser makes as many as
/// are promised.
fn check_rows(header: &Header, bytes: usize) -> Result<(), String> {
    let rows = header.elements.iter().map(|(_, e)| e.count as u128).sum::<u128>();
    if rows <= bytes as u128 {
        return Ok(());
    }
    Err(format!("not a readable PLY file (its header promises {rows} rows, and there are {bytes} bytes)"))
}

/// A vertex or a face: what of either is there.
struct Item {
    position: [Option<f32>; 3],
    corners: Vec<i64>,
}

impl PropertyAccess for Item {
    fn new() -> Item {
        Item { position: [None; 3], corners: Vec::new() }
    }

    fn set_property(&mut self, name: &str, property: Property) -> PropertyAccessResult {
        match name {
            "x" => self.position[0] = scalar(&property),
            "y" => self.position[1] = scalar(&property),
            "z" => self.position[2] = scalar(&property),
            "vertex_index" | "vertex_indices" => match list(property) {
                Some(corners) => self.corners = corners,
                None => return PropertyAccessResult::UnsupportedType,
            },
            _ => return PropertyAccessResult::Ignored,
        }
        PropertyAccessResult::Set
    }
}

fn scalar(property: &Property) -> Option<f32> {
    match *property {
        Property::Float(value) => Some(value),
        Property::Double(value) => Some(value as f32),
        Property::Int(value) => Some(value as f32),
        Property::Short(value) => Some(value.into()),
        _ => None,
    }
}

fn list(property: Property) -> Option<Vec<i64>> {
    fn wide<T: Into<i64>>(values: Vec<T>) -> Option<Vec<i64>> {
        Some(values.into_iter().map(Into::into).collect())
    }
    match property {
        Property::ListChar(values) => wide(values),
        Property::ListUChar(values) => wide(values),
        Property::ListShort(values) => wide(values),
        Property::ListUShort(values) => wide(values),
        Property::ListInt(values) => wide(values),
        Property::ListUInt(values) => wide(values),
        _ => None,
    }
}

/// A binary little-endian file.
pub fn encode(mesh: &Mesh) -> io::Result<Vec<u8>> {
    let mut vertex = ElementDef::new("vertex".to_string());
    for axis in ["x", "y", "z"] {
        vertex.properties.add(PropertyDef::new(axis.to_string(), PropertyType::Scalar(ScalarType::Float)));
    }
    let mut face = ElementDef::new("face".to_string());
    let corners = PropertyType::List(ScalarType::UChar, ScalarType::Int);
    face.properties.add(PropertyDef::new("vertex_indices".to_string(), corners));

    let mut ply = Ply::<DefaultElement>::new();
    ply.header.encoding = Encoding::BinaryLittleEndian;
    ply.header.elements.add(vertex);
    ply.header.elements.add(face);
    ply.payload.insert("vertex".to_string(), mesh.positions.iter().map(vertex_item).collect());
    ply.payload.insert("face".to_string(), mesh.triangles.iter().map(face_item).collect());
    let mut bytes = Vec::new();
    Writer::new().write_ply(&mut bytes, &mut ply).map_err(io::Error::other)?;
    Ok(bytes)
}

fn vertex_item(position: &Vec3) -> DefaultElement {
    let mut item = DefaultElement::new();
    for (axis, value) in ["x", "y", "z"].into_iter().zip(position) {
        item.insert(axis.to_string(), Property::Float(*value));
    }
    item
}

fn face_item(corners: &[u32; 3]) -> DefaultElement {
    let mut item = DefaultElement::new();
    item.insert("vertex_indices".to_string(), Property::ListInt(corners.map(|c| c as i32).to_vec()));
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_take_no_bytes_are_not_made() {
        let file = |elements: &str| format!("ply\nformat binary_little_endian 1.0\n{elements}end_header\n");
        let promised = |elements| decode(file(elements).as_bytes()).map(|mesh| mesh.positions.len());
        assert_eq!(promised("element vertex 0\n"), Ok(0));
        let unnamed = "element vertex 1000000\n";
        // The second `vertex` takes the place of the first, and the properties go to the element behind it.
        let named_twice = "element vertex 1\nproperty uchar red\nelement y 2\nproperty uchar fa\n\
            element vertex 1000000\nproperty float x\n";
        let shared = "element a 90\nelement b 90\n";
        for (elements, rows) in [(unnamed, 1_000_000), (named_twice, 1_000_002), (shared, 180)] {
            let said = promised(elements).unwrap_err();
            assert!(said.contains(&format!("promises {rows} rows")), "{said}");
        }
    }
}
