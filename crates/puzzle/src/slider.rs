//! Slider puzzle: slide a piece that was cut out of a picture into its gap.

use fastrand::Rng;
use tiny_skia::{FillRule, FilterQuality, Mask, Paint, Path, PathBuilder, Pixmap, PixmapPaint, Stroke, Transform};

use crate::{background, picture};

/// Width of the picture, in pixels.
pub const WIDTH: u16 = 320;

/// Height of the picture, in pixels.
pub const HEIGHT: u16 = 160;

/// Width and height of the piece, in pixels.
pub const PIECE_SIZE: u16 = 56;

/// Accepted horizontal distance from the gap, in pixels.
const TOLERANCE: i64 = 2;

const MIN_DURATION_MS: i64 = 250;
const MAX_SAMPLES: usize = 400;

/// A drawn puzzle.
pub struct Slider {
    /// The picture with its gap, as PNG.
    pub image: Vec<u8>,
    /// The piece, as PNG.
    pub piece: Vec<u8>,
    /// Distance of the piece from the picture's top, in pixels.
    pub y: u16,
}

/// A visitor's answer.
#[derive(Debug, Clone)]
pub struct Slide {
    /// Final position of the piece from the picture's left edge, in pixels.
    pub x: i64,
    /// The movement: milliseconds and horizontal positions in pixels.
    pub track: Vec<(i64, i64)>,
}

/// The position of the gap, from the first two random numbers.
fn gap_position(rng: &mut Rng) -> (u16, u16) {
    (rng.u16(PIECE_SIZE + 20..WIDTH - PIECE_SIZE - 4), rng.u16(4..HEIGHT - PIECE_SIZE - 4))
}

/// Draws the puzzle of a seed. `None` if a picture cannot be allocated or encoded.
#[must_use]
pub fn draw(seed: u64) -> Option<Slider> {
    let mut rng = Rng::with_seed(seed);
    let (x, y) = gap_position(&mut rng);
    let mut image = Pixmap::new(WIDTH.into(), HEIGHT.into())?;
    background::paint(&mut image, &mut rng);
    let outline = outline(&mut rng)?;
    let mut piece = cut(&image, &outline, x, y)?;
    // Different noise in picture and piece, so that comparing their pixels does not find the gap.
    background::add_noise(&mut image, &mut rng);
    background::add_noise(&mut piece, &mut rng);

    let mut dark = Paint { anti_alias: true, ..Paint::default() };
    dark.set_color_rgba8(8, 10, 24, 165);
    let mut edge = Paint { anti_alias: true, ..Paint::default() };
    edge.set_color_rgba8(255, 255, 255, 150);
    let at = |x: u16, y: u16| Transform::from_translate(x.into(), y.into());
    // A fainter decoy gap of another size misleads programs that only search for a dark area.
    let (decoy_x, decoy_y) = (rng.u16(4..WIDTH - PIECE_SIZE), rng.u16(4..HEIGHT - PIECE_SIZE));
    let mut faint = Paint { anti_alias: true, ..Paint::default() };
    faint.set_color_rgba8(8, 10, 24, 60);
    image.fill_path(&outline, &faint, FillRule::Winding, at(decoy_x, decoy_y).pre_scale(0.8, 0.8), None);
    image.fill_path(&outline, &dark, FillRule::Winding, at(x, y), None);
    image.stroke_path(&outline, &edge, &Stroke { width: 1.5, ..Stroke::default() }, at(x, y), None);
    Some(Slider { image: picture::encode(&image)?, piece: picture::encode(&piece)?, y })
}

/// Cuts out the piece at a position of the picture.
fn cut(image: &Pixmap, outline: &Path, x: u16, y: u16) -> Option<Pixmap> {
    let mut piece = Pixmap::new(PIECE_SIZE.into(), PIECE_SIZE.into())?;
    let mut mask = Mask::new(PIECE_SIZE.into(), PIECE_SIZE.into())?;
    mask.fill_path(outline, FillRule::Winding, true, Transform::identity());
    let paint = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
    piece.draw_pixmap(-i32::from(x), -i32::from(y), image.as_ref(), &paint, Transform::identity(), Some(&mask));
    let mut edge = Paint { anti_alias: true, ..Paint::default() };
    edge.set_color_rgba8(255, 255, 255, 220);
    piece.stroke_path(outline, &edge, &Stroke { width: 2.0, ..Stroke::default() }, Transform::identity(), None);
    Some(piece)
}

/// A square with a knob at the top and one at the right, each at a random place.
fn outline(rng: &mut Rng) -> Option<Path> {
    let (near, far) = (2.0, f32::from(PIECE_SIZE) - 2.0);
    let (top, right) = (near + 11.0, far - 11.0);
    let mut shift = || (rng.f32() - 0.5) * 16.0;
    let (middle_x, middle_y) = (f32::midpoint(near, right) + shift(), f32::midpoint(top, far) + shift());
    let mut path = PathBuilder::new();
    path.move_to(near, top);
    path.line_to(middle_x - 7.0, top);
    path.cubic_to(middle_x - 12.0, near - 2.0, middle_x + 12.0, near - 2.0, middle_x + 7.0, top);
    path.line_to(right, top);
    path.line_to(right, middle_y - 7.0);
    path.cubic_to(far + 2.0, middle_y - 12.0, far + 2.0, middle_y + 12.0, right, middle_y + 7.0);
    path.line_to(right, far);
    path.line_to(near, far);
    path.close();
    path.finish()
}

/// Whether a slide ends in the gap of `seed` and moved as by hand, in at most `elapsed_ms`, the time since the puzzle
/// was issued.
#[must_use]
pub fn verify(seed: u64, slide: &Slide, elapsed_ms: i64) -> bool {
    let (x, _) = gap_position(&mut Rng::with_seed(seed));
    (slide.x - i64::from(x)).abs() <= TOLERANCE && is_human_track(slide, elapsed_ms)
}

/// Whether a track looks human: takes time, has samples between start and end, and does not move evenly.
fn is_human_track(slide: &Slide, elapsed_ms: i64) -> bool {
    let track = &slide.track;
    let (Some(first), Some(last)) = (track.first(), track.last()) else { return false };
    let duration_ms = last.0 - first.0;
    let steps: Vec<_> = track.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1)).collect();
    let uneven = steps.iter().any(|step| Some(step) != steps.first());
    (4..=MAX_SAMPLES).contains(&track.len())
        && track.iter().all(|(t, x)| *t >= 0 && (0..=i64::from(WIDTH)).contains(x))
        && steps.iter().all(|(dt, _)| *dt >= 0)
        && last.1 == slide.x
        && (MIN_DURATION_MS..=elapsed_ms).contains(&duration_ms)
        && uneven
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slide(to: i64) -> Slide {
        let track = (0..=10).map(|step| (step * 40 + step % 3, to * step / 10)).collect();
        Slide { x: to, track }
    }

    fn solution(seed: u64) -> i64 {
        gap_position(&mut Rng::with_seed(seed)).0.into()
    }

    #[test]
    fn a_slide_is_correct_only_within_the_tolerance() {
        for seed in 0..200 {
            let x = solution(seed);
            assert!(verify(seed, &slide(x), 1_000) && verify(seed, &slide(x - 2), 1_000), "{seed}");
            assert!(!verify(seed, &slide(x + 3), 1_000) && !verify(seed, &slide(x - 3), 1_000), "{seed}");
        }
    }

    /// A guess in the middle of the possible places is the best one.
    #[test]
    fn a_blind_guess_passes_less_than_three_times_in_a_hundred() {
        let seeds = 10_000;
        let (from, to) = (i64::from(PIECE_SIZE) + 20, i64::from(WIDTH - PIECE_SIZE) - 4);
        let passed = |x: i64| (0..seeds).filter(|seed| verify(*seed, &slide(x), 1_000)).count();
        for guess in [from + 4, (from + to) / 2, to - 8] {
            let passed = passed(guess);
            assert!(passed < 320, "{passed} of {seeds} at {guess}");
        }
    }

    #[test]
    fn the_pixels_of_the_piece_are_not_those_of_the_gap() {
        let decode = |png: &[u8]| Pixmap::decode_png(png).expect("a picture");
        let mut rng = Rng::with_seed(7);
        let (x, y) = gap_position(&mut rng);
        let drawn = draw(7).expect("a puzzle");
        let (image, piece) = (decode(&drawn.image), decode(&drawn.piece));
        let pixel = |map: &Pixmap, x: u16, y: u16| map.pixel(x.into(), y.into()).expect("a pixel");
        let inner = |at: u16| at + PIECE_SIZE / 2;
        let same = (0..12).flat_map(|dx| (0..12).map(move |dy| (dx, dy))).filter(|(dx, dy)| {
            pixel(&piece, inner(*dx) - 6, inner(*dy) - 6) == pixel(&image, x + inner(*dx) - 6, y + inner(*dy) - 6)
        });
        assert_eq!(same.count(), 0);
    }

    #[test]
    fn a_machine_made_slide_is_refused() {
        let x = solution(1);
        let good = slide(x);
        let with = |track: Vec<(i64, i64)>| Slide { track, ..good.clone() };
        let even = (0..=10).map(|step| (step * 40, x - (10 - step) * 2)).collect();
        let quick = good.track.iter().map(|(t, x)| (t / 4, *x)).collect();
        let back = good.track.iter().rev().map(|(t, x)| (*t, *x)).collect();
        let elsewhere = good.track.iter().map(|(t, x)| (*t, x / 2)).collect();
        let outside = good.track.iter().enumerate().map(|(at, (t, x))| (*t, if at == 3 { 900 } else { *x })).collect();
        for (what, track) in [
            ("none", vec![]),
            ("one jump", vec![(0, 0), (400, x)]),
            ("perfectly even", even),
            ("too quick", quick),
            ("back in time", back),
            ("to another place", elsewhere),
            ("outside the picture", outside),
            ("endless", good.track.iter().copied().cycle().take(5_000).collect()),
        ] {
            assert!(!verify(1, &with(track), 1_000), "{what}");
        }
        assert!(verify(1, &good, 1_000));
        assert!(!verify(1, &good, 200), "longer than the puzzle has existed");
    }

    #[test]
    fn a_puzzle_is_two_png_images_of_bounded_size() {
        let puzzle = draw(7).expect("a puzzle");
        assert!(puzzle.image.starts_with(b"\x89PNG") && puzzle.piece.starts_with(b"\x89PNG"));
        assert!(puzzle.image.len() < 80_000, "{} bytes", puzzle.image.len());
        assert!(puzzle.y + PIECE_SIZE < HEIGHT);
        assert_ne!(draw(8).expect("a puzzle").image, puzzle.image);
    }
}
