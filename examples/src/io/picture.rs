//! Pictures: PNG and JPEG in, PNG out.

use super::{FileError, save};
use image::{DynamicImage, ImageFormat, RgbImage};
use std::io::Cursor;
use std::path::Path;

/// Reads a PNG or JPEG file, told apart by its contents.
pub fn read(path: &Path) -> Result<DynamicImage, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::read(path, source))?;
    decode(&bytes).map_err(|error| FileError::format(path, error))
}

/// From the bytes of a PNG or JPEG file.
pub fn decode(bytes: &[u8]) -> Result<DynamicImage, String> {
    image::load_from_memory(bytes).map_err(|error| error.to_string())
}

/// Refuses a name for a picture that says another format than PNG, which is what is written.
pub fn check_name(path: &Path) -> Result<(), FileError> {
    match ImageFormat::from_path(path) {
        Ok(format) if format != ImageFormat::Png => {
            Err(FileError::format(path, "pictures are written as PNG: end the name with .png"))
        }
        _ => Ok(()),
    }
}

/// Writes a PNG file.
pub fn write_png(path: &Path, picture: &RgbImage) -> Result<(), FileError> {
    save(path, &encode_png(picture).map_err(|source| FileError::write(path, source))?)
}

/// The bytes of a PNG file.
pub fn encode_png(picture: &RgbImage) -> std::io::Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).map_err(std::io::Error::other)?;
    Ok(bytes.into_inner())
}

/// Two pictures of equal height side by side, with a white gap.
pub fn side_by_side(left: &RgbImage, right: &RgbImage, gap: u32) -> RgbImage {
    let height = left.height().max(right.height());
    let mut both = RgbImage::from_pixel(left.width() + gap + right.width(), height, image::Rgb([255; 3]));
    image::imageops::replace(&mut both, left, 0, 0);
    image::imageops::replace(&mut both, right, i64::from(left.width() + gap), 0);
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Rgb;

    fn ramp() -> RgbImage {
        RgbImage::from_fn(5, 3, |x, y| Rgb([(50 * x) as u8, (80 * y) as u8, 7]))
    }

    #[test]
    fn png_round_trip_is_exact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ramp.png");
        write_png(&path, &ramp()).unwrap();
        assert_eq!(read(&path).unwrap().to_rgb8(), ramp());
    }

    #[test]
    fn names_say_png_or_nothing() {
        for name in ["a.png", "a.PNG", "a", "a.b", "/dev/full"] {
            check_name(Path::new(name)).unwrap();
        }
        for name in ["a.jpg", "a.png.JPEG", "a.tiff", "a.webp"] {
            let error = check_name(Path::new(name)).unwrap_err().to_string();
            assert_eq!(error, format!("{name}: pictures are written as PNG: end the name with .png"));
        }
    }

    #[test]
    fn jpeg_is_read_whatever_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flat.png");
        let flat = RgbImage::from_pixel(16, 8, Rgb([200, 100, 50]));
        flat.save_with_format(&path, ImageFormat::Jpeg).unwrap();
        let read = read(&path).unwrap().to_rgb8();
        assert_eq!(read.dimensions(), (16, 8));
        let error = read.get_pixel(3, 3).0.iter().zip([200, 100, 50]).map(|(a, b)| a.abs_diff(b)).max();
        assert!(error.unwrap() <= 4, "a flat JPEG keeps its colour");
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text.png");
        assert!(read(&path).unwrap_err().to_string().contains("text.png"));
        std::fs::write(&path, "no picture").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("text.png"));
    }

    #[test]
    fn beside_each_other() {
        let both = side_by_side(&ramp(), &ramp(), 2);
        assert_eq!(both.dimensions(), (12, 3));
        assert_eq!(both.get_pixel(7 + 4, 2), ramp().get_pixel(4, 2));
        assert_eq!(both.get_pixel(5, 0), &Rgb([255; 3]));
    }
}
