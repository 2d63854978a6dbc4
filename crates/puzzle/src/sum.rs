//! Arithmetic puzzle: a sum or difference drawn as a picture.

use fastrand::Rng;
use tiny_skia::{Color, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Stroke, Transform};

use crate::{glyphs, picture};

/// Width of the picture, in pixels.
pub const WIDTH: u16 = 220;

/// Height of the picture, in pixels.
pub const HEIGHT: u16 = 72;

/// The first operand, whether the second is added (else subtracted), and the second operand.
fn operands(rng: &mut Rng) -> (i64, bool, i64) {
    let (large, small) = (rng.i64(11..90), rng.i64(2..10));
    (large, rng.bool(), small)
}

/// Draws the puzzle of a seed, as PNG. `None` if the picture cannot be allocated or encoded.
#[must_use]
pub fn draw(seed: u64) -> Option<Vec<u8>> {
    let mut rng = Rng::with_seed(seed);
    let (large, plus, small) = operands(&mut rng);
    let text = format!("{large}{}{small}=", if plus { '+' } else { '-' });
    let mut image = Pixmap::new(WIDTH.into(), HEIGHT.into())?;
    image.fill(Color::from_rgba8(245, 243, 238, 255));
    for _ in 0..7 {
        curve(&mut image, &mut rng);
    }
    let step = f32::from(WIDTH) / (text.chars().count() as f32 + 0.6);
    for (index, character) in text.chars().enumerate() {
        let Some(path) = glyphs::path(character) else { continue };
        let size = 34.0 + rng.f32() * 10.0;
        let (x, y) = ((index as f32 + 0.8) * step + rng.f32() * 5.0, f32::from(HEIGHT) / 2.0 + rng.f32() * 12.0 - 6.0);
        let transform = Transform::from_translate(x, y)
            .pre_concat(Transform::from_rotate(rng.f32() * 36.0 - 18.0))
            .pre_concat(Transform::from_skew(rng.f32() * 0.5 - 0.25, 0.0))
            .pre_scale(size, size)
            .pre_translate(-0.3, -0.5);
        let stroke = Stroke {
            width: 0.09 + rng.f32() * 0.05,
            line_cap: LineCap::Round,
            line_join: LineJoin::Round,
            ..Stroke::default()
        };
        image.stroke_path(&path, &ink(&mut rng, 235), &stroke, transform, None);
    }
    curve(&mut image, &mut rng);
    picture::encode(&image)
}

/// Whether `answer` is the result for `seed`.
#[must_use]
pub fn verify(seed: u64, answer: i64) -> bool {
    let (large, plus, small) = operands(&mut Rng::with_seed(seed));
    answer == if plus { large + small } else { large - small }
}

fn curve(image: &mut Pixmap, rng: &mut Rng) {
    let (width, height) = (f32::from(WIDTH), f32::from(HEIGHT));
    let mut random_point = || (rng.f32() * width, rng.f32() * height);
    let [(x1, y1), (x2, y2), (x3, y3), (x4, y4)] = [random_point(), random_point(), random_point(), random_point()];
    let mut path = PathBuilder::new();
    path.move_to(x1, y1);
    path.cubic_to(x2, y2, x3, y3, x4, y4);
    if let Some(path) = path.finish() {
        let stroke = Stroke { width: 1.0 + rng.f32() * 1.5, ..Stroke::default() };
        image.stroke_path(&path, &ink(rng, 120), &stroke, Transform::identity(), None);
    }
}

fn ink(rng: &mut Rng, alpha: u8) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(rng.u8(10..120), rng.u8(10..110), rng.u8(20..140), alpha);
    paint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_answer_is_correct() {
        for seed in 0..200 {
            assert_eq!((-200..200).filter(|answer| verify(seed, *answer)).count(), 1, "{seed}");
        }
    }

    #[test]
    fn a_sum_is_a_png_image_of_bounded_size() {
        let picture = draw(3).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG") && picture.len() < 40_000, "{} bytes", picture.len());
    }
}
