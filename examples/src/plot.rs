//! Plots: energy against iteration, and bars of ratios.

use image::RgbImage;
use plotters::prelude::*;
use plotters::style::FontStyle;

/// Noto Sans, SIL Open Font License 1.1 (its text lies beside the file).
const FONT: &[u8] = include_bytes!("../fonts/NotoSans-Regular.ttf");
const SIZE: (u32, u32) = (900, 560);

/// A plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(String);

impl PlotError {
    pub(crate) fn new(reason: impl ToString) -> PlotError {
        PlotError(reason.to_string())
    }
}

/// Energy against iteration, the energy on a logarithmic axis; `energies[0]` is the energy at the start. Values that are not
/// positive and finite have no place on that axis and are left out.
pub fn energies(title: &str, energies: &[f64]) -> Result<RgbImage, PlotError> {
    register_font()?;
    let points: Vec<(f64, f64)> = energies
        .iter()
        .enumerate()
        .filter(|(_, energy)| energy.is_finite() && **energy > 0.0)
        .map(|(iteration, energy)| (iteration as f64, energy.log10()))
        .collect();
    let mut bytes = vec![255; (SIZE.0 * SIZE.1 * 3) as usize];
    draw(&mut bytes, title, &points, energies.len()).map_err(|error| PlotError(error.to_string()))?;
    RgbImage::from_raw(SIZE.0, SIZE.1, bytes).ok_or_else(|| PlotError("wrong buffer size".to_string()))
}

/// A ratio of times, with the quartiles of its measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Median.
    pub median: f64,
    /// First and third quartile.
    pub quartiles: [f64; 2],
    /// True if the median is a lower bound.
    pub at_least: bool,
}

/// Groups of horizontal bars on a logarithmic axis that starts at 1, a colour for each of `series`. Every group has a name and one ratio
/// per series.
pub fn ratios(title: &str, series: &[&str], groups: &[(String, Vec<Ratio>)]) -> Result<RgbImage, PlotError> {
    register_font()?;
    let size = (SIZE.0, 130 + 70 * groups.len() as u32);
    let mut bytes = vec![255; (size.0 * size.1 * 3) as usize];
    draw_ratios(&mut bytes, size, title, series, groups).map_err(PlotError::new)?;
    RgbImage::from_raw(size.0, size.1, bytes).ok_or_else(|| PlotError::new("wrong buffer size"))
}

/// Colours of the series.
const BARS: [RGBColor; 3] = [RGBColor(31, 90, 158), RGBColor(214, 125, 44), RGBColor(90, 140, 90)];

fn draw_ratios(
    bytes: &mut [u8],
    size: (u32, u32),
    title: &str,
    series: &[&str],
    groups: &[(String, Vec<Ratio>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = BitMapBackend::with_buffer(bytes, size).into_drawing_area();
    area.fill(&WHITE)?;
    let largest =
        groups.iter().flat_map(|(_, all)| all).map(|r| r.quartiles[1].max(r.median)).fold(10.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(250)
        .build_cartesian_2d((1.0..largest * 15.0).log_scale(), 0.0..groups.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_label_formatter(&|x| format!("{x:.0}x"))
        .label_style(("sans-serif", 15))
        .bold_line_style(RGBColor(205, 210, 216))
        .light_line_style(RGBColor(238, 240, 243))
        .draw()?;
    let height = 0.8 / series.len().max(1) as f64;
    for (s, name) in series.iter().enumerate() {
        let colour = BARS[s % BARS.len()];
        let bars = groups.iter().enumerate().filter_map(|(g, (_, all))| Some((g, all.get(s)?)));
        let top = |g: usize| groups.len() as f64 - g as f64 - 0.1 - s as f64 * height;
        chart
            .draw_series(bars.clone().map(|(g, r)| {
                Rectangle::new([(1.0, top(g)), (r.median, top(g) - 0.9 * height)], colour.filled())
            }))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled()));
        chart.draw_series(bars.clone().map(|(g, r)| {
            let middle = top(g) - 0.45 * height;
            PathElement::new(r.quartiles.map(|q| (q, middle)), BLACK.stroke_width(1))
        }))?;
        chart.draw_series(bars.map(|(g, r)| {
            let right = r.quartiles[1].max(r.median) * 1.04;
            let bound = if r.at_least { "> " } else { "" };
            Text::new(format!("{bound}{:.1}", r.median), (right, top(g) - 0.1 * height), ("sans-serif", 15))
        }))?;
    }
    for (g, (name, _)) in groups.iter().enumerate() {
        let (_, y) = chart.backend_coord(&(1.0, groups.len() as f64 - g as f64 - 0.5));
        area.draw(&Text::new(name.clone(), (20, y - 9), ("sans-serif", 16)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 15))
        .border_style(RGBColor(205, 210, 216))
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}

/// Makes the font known to plotters; again does no harm.
pub(crate) fn register_font() -> Result<(), PlotError> {
    plotters::style::register_font("sans-serif", FontStyle::Normal, FONT)
        .map_err(|_| PlotError("the font is damaged".to_string()))
}

/// `points` are (iteration, log10 of the energy): the axis is linear in the exponent, so that any range has few labels.
fn draw(
    bytes: &mut [u8],
    title: &str,
    points: &[(f64, f64)],
    states: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = BitMapBackend::with_buffer(bytes, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let [low, high] = exponents(points);
    let last = states.saturating_sub(1).max(1) as f64;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .margin_right(28)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d(0.0..last, low..high)?;
    chart
        .configure_mesh()
        .x_desc("iteration")
        .y_desc("energy")
        .x_labels(states.clamp(2, 11))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| scientific(10f64.powf(*y)))
        .label_style(("sans-serif", 15))
        .bold_line_style(RGBColor(205, 210, 216))
        .light_line_style(RGBColor(238, 240, 243))
        .draw()?;
    let blue = RGBColor(31, 90, 158);
    chart.draw_series(LineSeries::new(points.iter().copied(), blue.stroke_width(2)))?;
    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, blue.filled())))?;
    area.present()?;
    Ok(())
}

/// Bounds of the energy axis, as powers of ten, with a little room.
fn exponents(points: &[(f64, f64)]) -> [f64; 2] {
    let exponents = || points.iter().map(|&(_, exponent)| exponent);
    let (low, high) =
        (exponents().fold(f64::INFINITY, f64::min), exponents().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return [-1.0, 1.0];
    }
    let room = (0.06 * (high - low)).max(0.15);
    [low - room, high + room]
}

/// A short form of a positive number: `250`, `0.05`, `3e-7`.
fn scientific(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if (1e-3..1e5).contains(&rounded) { format!("{rounded}") } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_from_the_upper_left_to_the_lower_right() {
        let falling: Vec<f64> = (0..20).map(|i| 1e4 * 0.3f64.powi(i)).collect();
        let picture = energies("falling", &falling).unwrap();
        let blue: Vec<(u32, u32)> = picture
            .enumerate_pixels()
            .filter(|(_, _, p)| p.0 == [31, 90, 158])
            .map(|(x, y, _)| (x, y))
            .collect();
        let (first, last) = (blue.iter().min().unwrap(), blue.iter().max().unwrap());
        assert!(first.0 < SIZE.0 / 4 && first.1 < SIZE.1 / 4, "{first:?}");
        assert!(last.0 > SIZE.0 * 3 / 4 && last.1 > SIZE.1 / 2, "{last:?}");
    }

    #[test]
    fn any_numbers_can_be_plotted() {
        let inf = f64::INFINITY;
        for odd in
            [vec![], vec![0.0], vec![1.0], vec![f64::NAN, inf, -1.0], vec![1e308, 1e-308], vec![5.0; 300]]
        {
            energies("odd", &odd).unwrap();
        }
    }

    #[test]
    fn longer_bars_of_larger_ratios() {
        let ratio = |median: f64| Ratio { median, quartiles: [median * 0.9, median * 1.1], at_least: false };
        let groups = [("small".to_string(), vec![ratio(2.0)]), ("large".to_string(), vec![ratio(90.0)])];
        let picture = ratios("bars", &["one"], &groups).unwrap();
        let blue = |rows: std::ops::Range<u32>| {
            rows.flat_map(|y| (260..SIZE.0).map(move |x| (x, y)))
                .filter(|&(x, y)| picture.get_pixel(x, y).0 == [31, 90, 158])
                .count()
        };
        let middle = 50 + (picture.height() - 110) / 2;
        assert!(4 * blue(50..middle) < blue(middle..picture.height()));
    }

    #[test]
    fn labels() {
        assert_eq!(scientific(1000.0), "1000");
        assert_eq!(scientific(0.1), "0.1");
        assert_eq!(scientific(3e-7), "3e-7");
        assert_eq!(scientific(2.5e9), "2.5e9");
    }
}
