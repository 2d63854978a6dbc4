//! Draws lines as an SVG.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 300);
/// Distinguishable with red-green colour blindness.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(213, 94, 0),
    RGBColor(0, 130, 100),
    RGBColor(150, 60, 140),
    RGBColor(90, 90, 90),
    RGBColor(0, 0, 0),
];

/// Name and points of a line.
pub type Series = (String, Vec<(f64, f64)>);

pub struct XAxis<'a> {
    pub title: &'a str,
    /// Labels of the positions 0, 1, 2 and so on; `None` for numbers.
    pub labels: Option<&'a [String]>,
}

/// Draws `series` and returns the SVG.
pub fn draw(title: &str, x_axis: &XAxis<'_>, unit: &str, series: &[Series]) -> Result<String> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let (from, to) = points().fold((0.0_f64, 1.0_f64), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
    let max_y = points().fold(1.0_f64, |max_y, (_, value)| max_y.max(*value)) * 1.05;
    let mut svg = String::new();
    render(&mut svg, title, x_axis, unit, series, (from, to, max_y))
        .map_err(|error| anyhow!("cannot draw {title}: {error}"))?;
    Ok(svg)
}

fn render(
    svg: &mut String,
    title: &str,
    x_axis: &XAxis<'_>,
    unit: &str,
    series: &[Series],
    (from, to, max_y): (f64, f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(from..to, 0.0..max_y)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).x_desc(x_axis.title).y_desc(unit);
    let label = |at: &f64| {
        let labels = x_axis.labels.unwrap_or_default();
        let is_position = (at - at.round()).abs() < 1e-9;
        labels.get(at.round() as usize).filter(|_| is_position).cloned().unwrap_or_default()
    };
    if let Some(labels) = x_axis.labels {
        mesh.x_labels(labels.len()).x_label_formatter(&label);
    }
    mesh.draw()?;
    for (at, (name, points)) in series.iter().enumerate() {
        let style = COLORS[at % COLORS.len()].stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_have_their_labels() {
        let labels = ["none", "many"].map(str::to_owned);
        let x_axis = XAxis { title: "orders", labels: Some(&labels) };
        let svg = draw("Growth", &x_axis, "times", &[("stats".to_owned(), vec![(0.0, 1.0), (1.0, 0.9)])]).unwrap();
        for part in ["none", "many", "orders", "times", "stats", "<polyline"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
    }
}
