//! Pictures beside each other, each with a caption.

use crate::plot::{self, PlotError};
use image::{Rgb, RgbImage};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height of a caption, and the gap between pictures.
const CAPTION: u32 = 34;
const GAP: u32 = 8;

/// One row of pictures of equal height with their captions below.
pub fn row(panels: &[(&str, &RgbImage)]) -> Result<RgbImage, PlotError> {
    let height = panels.iter().map(|(_, picture)| picture.height()).max().unwrap_or(0) + CAPTION;
    let width: u32 = panels.iter().map(|(_, picture)| picture.width() + GAP).sum();
    let mut row = RgbImage::from_pixel(width.saturating_sub(GAP).max(1), height, Rgb([255; 3]));
    let mut captions = Vec::new();
    let mut left = 0;
    for (caption, picture) in panels {
        image::imageops::replace(&mut row, *picture, i64::from(left), 0);
        captions.push((*caption, (left + picture.width() / 2, height - CAPTION / 2)));
        left += picture.width() + GAP;
    }
    write_captions(row, &captions)
}

/// Rows of equal width under each other.
pub fn column(rows: &[RgbImage]) -> RgbImage {
    let width = rows.iter().map(RgbImage::width).max().unwrap_or(1);
    let height: u32 = rows.iter().map(RgbImage::height).sum();
    let mut column = RgbImage::from_pixel(width, height.max(1), Rgb([255; 3]));
    let mut top = 0;
    for row in rows {
        image::imageops::replace(&mut column, row, 0, top);
        top += i64::from(row.height());
    }
    column
}

fn write_captions(picture: RgbImage, captions: &[(&str, (u32, u32))]) -> Result<RgbImage, PlotError> {
    plot::register_font()?;
    let (width, height) = picture.dimensions();
    let mut bytes = picture.into_raw();
    let area = BitMapBackend::with_buffer(&mut bytes, (width, height)).into_drawing_area();
    let style = TextStyle::from(("sans-serif", 21).into_font())
        .color(&RGBColor(40, 44, 52))
        .pos(Pos::new(HPos::Center, VPos::Center));
    for (text, (x, y)) in captions {
        area.draw(&Text::new(*text, (*x as i32, *y as i32), style.clone())).map_err(PlotError::new)?;
    }
    area.present().map_err(PlotError::new)?;
    drop(area);
    RgbImage::from_raw(width, height, bytes)
        .ok_or_else(|| PlotError::new("the picture lost its size while captions were written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_keep_their_pixels_and_captions_are_written_below() {
        let red = RgbImage::from_pixel(60, 20, Rgb([200, 0, 0]));
        let blue = RgbImage::from_pixel(40, 20, Rgb([0, 0, 200]));
        let both = row(&[("one", &red), ("", &blue)]).unwrap();
        assert_eq!(both.dimensions(), (60 + GAP + 40, 20 + CAPTION));
        assert_eq!(
            (both.get_pixel(59, 19), both.get_pixel(60 + GAP, 0)),
            (&Rgb([200, 0, 0]), &Rgb([0, 0, 200]))
        );
        let dark = |from: u32, to: u32| (from..to).any(|x| (20..50).any(|y| both.get_pixel(x, y).0[0] < 120));
        assert!(dark(0, 60) && !dark(60 + GAP, 108), "text under the first only");
        assert_eq!(column(&[both.clone(), red]).dimensions(), (108, 20 + CAPTION + GAP + 20));
    }
}
