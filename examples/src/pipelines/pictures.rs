//! Pictures as pipelines take them: planes of samples.

use crate::io::picture;
use image::{ColorType, DynamicImage, ImageBuffer, ImageFormat, Luma, LumaA, Rgb, Rgba};
use std::io::Cursor;
use std::path::Path;

/// A picture of 8 or 16 bits a sample: plane after plane, each row after row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// 1: gray, 2: gray and transparency, 3: red, green, blue, 4: and transparency.
    pub channels: usize,
    /// 8 or 16.
    pub bits: u32,
    /// `width * height` for each channel.
    pub samples: Vec<u16>,
}

/// Reasons why a picture cannot be taken or made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PictureError {
    /// A picture without pixels.
    #[error("the picture has {width} x {height} pixels")]
    Empty {
        /// In pixels.
        width: usize,
        /// In pixels.
        height: usize,
    },
    /// As many channels as no picture has.
    #[error("a picture has 1 to 4 channels, not {0}")]
    Channels(usize),
    /// It could not be encoded.
    #[error("cannot encode the picture: {0}")]
    Encode(String),
}

impl Picture {
    /// From the bytes of a PNG or JPEG file. Samples are those of the file; where it has floats, they become 16 bits.
    ///
    /// # Errors
    /// In words: what is no picture.
    pub fn decode(bytes: &[u8]) -> Result<Picture, String> {
        Picture::of(&picture::decode(bytes)?).map_err(|e| e.to_string())
    }

    fn of(image: &DynamicImage) -> Result<Picture, PictureError> {
        let (width, height) = (image.width() as usize, image.height() as usize);
        if width == 0 || height == 0 {
            return Err(PictureError::Empty { width, height });
        }
        let bits = match image.color() {
            ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8 => 8,
            _ => 16,
        };
        let channels = image.color().channel_count() as usize;
        // Every sample of 8 bits is that of 16 bits divided by 257, exactly.
        let pixels: Vec<u16> = match channels {
            1 => image.to_luma16().into_raw(),
            2 => image.to_luma_alpha16().into_raw(),
            3 => image.to_rgb16().into_raw(),
            _ => image.to_rgba16().into_raw(),
        };
        let scale = if bits == 8 { 257 } else { 1 };
        let plane = |c: usize| pixels.iter().skip(c).step_by(channels).map(move |v| v / scale);
        let samples = (0..channels).flat_map(plane).collect();
        Ok(Picture { width, height, channels, bits, samples })
    }

    /// The greatest sample.
    pub fn white(&self) -> u16 {
        ((1u32 << self.bits) - 1) as u16
    }

    /// The samples of one channel.
    pub fn plane(&self, channel: usize) -> &[u16] {
        let n = self.width * self.height;
        &self.samples[channel * n..(channel + 1) * n]
    }

    /// The bytes of a PNG file.
    ///
    /// # Errors
    /// A picture without pixels, or of more than 4 channels.
    pub fn encode_png(&self) -> Result<Vec<u8>, PictureError> {
        let (w, h) = (self.width as u32, self.height as u32);
        if w == 0 || h == 0 {
            return Err(PictureError::Empty { width: self.width, height: self.height });
        }
        let n = self.width * self.height;
        let pixels = (0..n).flat_map(|i| (0..self.channels).map(move |c| self.samples[c * n + i]));
        macro_rules! image {
            ($pixel:ident, $dynamic8:ident, $dynamic16:ident) => {
                if self.bits == 8 {
                    let raw = pixels.map(|v| v.min(255) as u8).collect();
                    ImageBuffer::<$pixel<u8>, _>::from_raw(w, h, raw).map(DynamicImage::$dynamic8)
                } else {
                    let raw = pixels.collect();
                    ImageBuffer::<$pixel<u16>, _>::from_raw(w, h, raw).map(DynamicImage::$dynamic16)
                }
            };
        }
        let image = match self.channels {
            1 => image!(Luma, ImageLuma8, ImageLuma16),
            2 => image!(LumaA, ImageLumaA8, ImageLumaA16),
            3 => image!(Rgb, ImageRgb8, ImageRgb16),
            4 => image!(Rgba, ImageRgba8, ImageRgba16),
            n => return Err(PictureError::Channels(n)),
        };
        let image = image.ok_or(PictureError::Channels(self.channels))?;
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, ImageFormat::Png).map_err(|e| PictureError::Encode(e.to_string()))?;
        Ok(bytes.into_inner())
    }

    /// Reads a PNG or JPEG file, told apart by its contents.
    ///
    /// # Errors
    /// What cannot be read, or is no picture; the message names the file.
    pub fn read(path: &Path) -> Result<Picture, crate::io::FileError> {
        let image = picture::read(path)?;
        Picture::of(&image).map_err(|e| crate::io::FileError::format(path, e))
    }
}
