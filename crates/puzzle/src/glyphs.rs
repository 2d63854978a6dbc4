//! Digits and operators as vector strokes in a box of 0.6 by 1, which avoids a font file.

use tiny_skia::{Path, PathBuilder};

/// A stroke from the current point: a line to a point, or a cubic curve with two control points and an end point.
enum Stroke {
    Line(f32, f32),
    Curve(f32, f32, f32, f32, f32, f32),
}

use Stroke::{Curve, Line};

/// The strokes of a character; `None` if it has no glyph.
pub fn path(character: char) -> Option<Path> {
    let strokes: &[(f32, f32, &[Stroke])] = match character {
        '0' => &[(0.3, 0.0, &[Curve(0.7, 0.0, 0.7, 1.0, 0.3, 1.0), Curve(-0.1, 1.0, -0.1, 0.0, 0.3, 0.0)])],
        '1' => &[(0.1, 0.2, &[Line(0.35, 0.0), Line(0.35, 1.0)])],
        '2' => &[(0.02, 0.2, &[Curve(0.1, -0.1, 0.6, -0.1, 0.56, 0.28), Line(0.0, 1.0), Line(0.6, 1.0)])],
        '3' => &[(0.02, 0.1, &[Curve(0.2, -0.1, 0.9, 0.1, 0.25, 0.46), Curve(0.9, 0.5, 0.6, 1.15, 0.0, 0.92)])],
        '4' => &[(0.45, 1.0, &[Line(0.45, 0.0), Line(0.0, 0.68), Line(0.62, 0.68)])],
        '5' => &[(
            0.56,
            0.0,
            &[Line(0.08, 0.0), Line(0.05, 0.44), Curve(0.7, 0.25, 0.8, 1.0, 0.25, 1.0), Line(0.02, 0.92)],
        )],
        '6' => &[(
            0.5,
            0.0,
            &[Curve(0.0, 0.25, -0.1, 1.0, 0.3, 1.0), Curve(0.75, 1.0, 0.65, 0.42, 0.3, 0.45), Line(0.05, 0.62)],
        )],
        '7' => &[(0.0, 0.0, &[Line(0.6, 0.0), Line(0.2, 1.0)])],
        '8' => &[(
            0.3,
            0.47,
            &[
                Curve(-0.1, 0.4, 0.0, 0.0, 0.3, 0.0),
                Curve(0.6, 0.0, 0.7, 0.4, 0.3, 0.47),
                Curve(-0.2, 0.55, -0.05, 1.0, 0.3, 1.0),
                Curve(0.65, 1.0, 0.8, 0.55, 0.3, 0.47),
            ],
        )],
        '9' => &[(
            0.55,
            0.35,
            &[Curve(0.5, 0.65, 0.0, 0.6, 0.03, 0.28), Curve(0.06, -0.1, 0.6, -0.1, 0.56, 0.35), Line(0.4, 1.0)],
        )],
        '+' => &[(0.3, 0.25, &[Line(0.3, 0.75)]), (0.05, 0.5, &[Line(0.55, 0.5)])],
        '-' => &[(0.05, 0.5, &[Line(0.55, 0.5)])],
        '=' => &[(0.05, 0.38, &[Line(0.55, 0.38)]), (0.05, 0.64, &[Line(0.55, 0.64)])],
        _ => return None,
    };
    let mut path = PathBuilder::new();
    for (x, y, parts) in strokes {
        path.move_to(*x, *y);
        for part in *parts {
            match *part {
                Line(x, y) => path.line_to(x, y),
                Curve(x1, y1, x2, y2, x, y) => path.cubic_to(x1, y1, x2, y2, x, y),
            }
        }
    }
    path.finish()
}
