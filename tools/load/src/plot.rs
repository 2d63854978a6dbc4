//! Draws lines or bars as an SVG.

use std::error::Error;

use anyhow::{Result, anyhow};
use plotters::{coord::Shift, prelude::*};

use crate::statistics::Spread;

const WIDTH: u32 = 900;
/// Height of a picture with lines.
const HEIGHT: u32 = 300;
/// Height of a bar, and of the space around all bars.
const BAR_HEIGHTS: (u32, u32) = (22, 90);
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

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Runs `draw` on a white area and returns the SVG.
fn svg(title: &str, height: u32, draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&area)).and_then(|()| Ok(area.present()?));
    drawn.map_err(|error| anyhow!("cannot draw {title}: {error}"))?;
    drop(area);
    Ok(svg)
}

/// Draws `series` and returns the SVG.
pub fn draw(title: &str, x_axis: &str, unit: &str, series: &[Series]) -> Result<String> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let (from, to) = points().fold((0.0_f64, 1.0_f64), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
    let max_y = points().fold(1.0_f64, |max_y, (_, value)| max_y.max(*value)) * 1.05;
    svg(title, HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(from..to, 0.0..max_y)?;
        chart.configure_mesh().light_line_style(TRANSPARENT).x_desc(x_axis).y_desc(unit).draw()?;
        for (at, (name, points)) in series.iter().enumerate() {
            let style = COLORS[at % COLORS.len()].stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
        Ok(())
    })
}

/// One bar: its length with its range, and a goal.
pub struct Bar {
    pub ratio: Spread,
    pub goal: Option<f64>,
}

/// Draws horizontal bars, the first group at the top, one bar of each group for each of `series`. Returns the SVG.
pub fn draw_bars(title: &str, series: &[String], groups: &[(&str, Vec<Bar>)]) -> Result<String> {
    let bars = u32::try_from(groups.iter().map(|(_, bars)| bars.len()).sum::<usize>())?;
    svg(title, BAR_HEIGHTS.0 * bars + BAR_HEIGHTS.1, |area| {
        let max = groups.iter().flat_map(|(_, bars)| bars).fold(1.0_f64, |max, bar| max.max(bar.ratio.highest)) * 1.05;
        // Positions grow upwards: the first group has the highest.
        let top = groups.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(170)
            .build_cartesian_2d(0.0..max, 0.5..top + 0.5)?;
        let name = |position: &f64| {
            let is_position = (position - position.round()).abs() < 1e-9;
            groups
                .get((top - position.round()) as usize)
                .filter(|_| is_position)
                .map_or("", |(name, _)| name)
                .to_owned()
        };
        chart.configure_mesh().disable_y_mesh().y_labels(groups.len() + 1).y_label_formatter(&name).draw()?;
        let thickness = 0.8 / series.len().max(1) as f64;
        for (number, name) in series.iter().enumerate() {
            let color = COLORS[number % COLORS.len()];
            let of_series = groups.iter().enumerate().filter_map(|(at, (_, bars))| {
                let from = top - at as f64 + 0.4 - number as f64 * thickness;
                Some((from - thickness, from, bars.get(number)?))
            });
            let of_series: Vec<_> = of_series.collect();
            let rectangles = of_series.iter().map(|(from, to, bar)| {
                Rectangle::new([(0.0, *from), (bar.ratio.median, *to)], color.mix(0.6).filled())
            });
            chart
                .draw_series(rectangles)?
                .label(name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 16, y + 5)], color.mix(0.6).filled()));
            let ranges = of_series.iter().map(|(from, to, bar)| {
                let middle = f64::midpoint(*from, *to);
                PathElement::new([(bar.ratio.lowest, middle), (bar.ratio.highest, middle)], BLACK)
            });
            chart.draw_series(ranges)?;
            let goals = of_series.iter().filter_map(|(from, to, bar)| {
                let goal = bar.goal?;
                Some(PathElement::new([(goal, *from), (goal, *to)], RED.stroke_width(2)))
            });
            chart.draw_series(goals)?;
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_has_its_name_and_its_goal() {
        let ratio = Spread { median: 0.5, lowest: 0.4, highest: 0.6 };
        let bar = |goal| Bar { ratio, goal };
        let series = ["16 connections", "64 connections"].map(str::to_owned);
        let groups = [("reserve", vec![bar(Some(0.7)), bar(None)]), ("ticket", vec![bar(None), bar(None)])];
        let svg = draw_bars("Ratios", &series, &groups).unwrap();
        for part in ["reserve", "ticket", "16 connections"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        assert_eq!(svg.matches("#FF0000").count(), 1, "{svg}");
    }
}
