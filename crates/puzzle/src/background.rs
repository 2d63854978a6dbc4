//! Draws the random background of a puzzle picture: a gradient and shapes.

use fastrand::Rng;
use tiny_skia::{
    Color, FillRule, GradientStop, LinearGradient, Paint, PathBuilder, Pixmap, Point, Rect, SpreadMode, Stroke,
    Transform,
};

/// Paints the whole picture.
pub fn paint(image: &mut Pixmap, rng: &mut Rng) {
    let (width, height) = (image.width() as f32, image.height() as f32);
    let (from, to) = (colour(rng, 255), colour(rng, 255));
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    let stops = vec![GradientStop::new(0.0, from), GradientStop::new(1.0, to)];
    let end = Point::from_xy(width * rng.f32(), height);
    match LinearGradient::new(Point::from_xy(0.0, 0.0), end, stops, SpreadMode::Reflect, Transform::identity()) {
        Some(shader) => paint.shader = shader,
        None => paint.set_color(from),
    }
    if let Some(area) = Rect::from_xywh(0.0, 0.0, width, height) {
        image.fill_rect(area, &paint, Transform::identity(), None);
    }
    for _ in 0..26 {
        let mut paint = Paint { anti_alias: true, ..Paint::default() };
        let (x, y, size) = (rng.f32() * width, rng.f32() * height, 6.0 + rng.f32() * 34.0);
        let mut path = PathBuilder::new();
        match rng.u8(0..3) {
            0 => path.push_circle(x, y, size),
            1 => {
                path.move_to(x, y - size);
                path.line_to(x + size, y + size * rng.f32());
                path.line_to(x - size * rng.f32(), y + size);
                path.close();
            }
            _ => {
                path.move_to(x - 2.0 * size, y + size);
                path.cubic_to(x, y, x + 3.0 * size, y - size, x - size, y + 2.0 * size);
            }
        }
        let Some(path) = path.finish() else { continue };
        if rng.bool() {
            paint.set_color(colour(rng, 150));
            image.fill_path(&path, &paint, FillRule::Winding, Transform::identity(), None);
        } else {
            paint.set_color(colour(rng, 190));
            let stroke = Stroke { width: 1.0 + rng.f32() * 4.0, ..Stroke::default() };
            image.stroke_path(&path, &paint, &stroke, Transform::identity(), None);
        }
    }
}

/// Changes the brightness of each block of 4 x 4 opaque pixels by a random amount. Blocks, because noise by pixel would
/// make the encoded picture several times as large.
pub fn add_noise(image: &mut Pixmap, rng: &mut Rng) {
    const BLOCK: usize = 4;
    let width = image.width() as usize;
    let columns = width.div_ceil(BLOCK);
    let mut row_of_noise: Vec<i16> = Vec::new();
    for (index, pixel) in image.pixels_mut().iter_mut().enumerate() {
        let (x, y) = (index % width, index / width);
        if x == 0 && y % BLOCK == 0 {
            row_of_noise = (0..columns).map(|_| rng.i16(-9..=9)).collect();
        }
        let noise = row_of_noise.get(x / BLOCK).copied().unwrap_or_default();
        if pixel.alpha() == u8::MAX {
            let shift = |value: u8| u8::try_from((i16::from(value) + noise).clamp(0, 255)).unwrap_or(value);
            let [red, green, blue] = [pixel.red(), pixel.green(), pixel.blue()].map(shift);
            if let Some(shifted) = tiny_skia::PremultipliedColorU8::from_rgba(red, green, blue, u8::MAX) {
                *pixel = shifted;
            }
        }
    }
}

fn colour(rng: &mut Rng, alpha: u8) -> Color {
    Color::from_rgba8(rng.u8(40..235), rng.u8(40..235), rng.u8(60..245), alpha)
}
