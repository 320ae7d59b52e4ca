//! Curves as SVG files, for docs/plots.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 540);
const FONT: (&str, i32) = ("sans-serif", 14);
/// Told apart without colour vision too.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 180),
    RGBColor(220, 100, 0),
    RGBColor(0, 140, 100),
    RGBColor(170, 60, 140),
    RGBColor(90, 90, 90),
    RGBColor(190, 150, 0),
];

/// The horizontal axis, logarithmic.
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Lines over one axis; both axes are logarithmic.
pub(crate) struct Plot {
    title: String,
    x: Axis,
    y: &'static str,
    lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plot {
    /// One without lines.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: &'static str) -> Self {
        Self { title: title.into(), x, y, lines: Vec::new() }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        self.lines.push((name.into(), points));
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let values =
            || self.lines.iter().flat_map(|(_, points)| points).map(|point| point.1).filter(|y| *y > 0.0);
        let (low, high) = values().fold((f64::MAX, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
        if high == 0.0 {
            return Err(format!("{}: nothing to draw", path.display()).into());
        }
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(84)
            .build_cartesian_2d((self.x.from..self.x.to).log_scale(), (low / 1.5..high * 1.5).log_scale())?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y)
            .light_line_style(TRANSPARENT)
            .label_style(FONT)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        for ((name, points), colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .label_font(FONT)
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        root.present()?;
        Ok(())
    }
}

/// A number in few characters: 2, 1.5k, 3M.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{unit}", (value * 100.0).round() / 100.0)
}
