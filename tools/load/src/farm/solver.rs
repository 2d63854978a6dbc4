//! How a farm solves human checks: pictures by comparing pixels, work with a budget of processor time.

use std::time::Duration;

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tiny_skia::Pixmap;

/// The colour and the opacity that the app paints over the gap.
const SHADE: ([f32; 3], f32) = ([8.0, 10.0, 24.0], 165.0 / 255.0);

/// Finds the gap of a slider puzzle: where the picture is most like the shaded piece.
pub fn find_gap(captcha: &Value) -> Result<i64> {
    let (image, piece) = (decode(&captcha["image"])?, decode(&captcha["piece"])?);
    let top = captcha["y"].as_u64().context("a piece without a height")? as u32;
    let difference = |x: u32| -> f32 {
        let mut sum = 0.0;
        for (row, column) in (0..piece.height()).flat_map(|row| (0..piece.width()).map(move |column| (row, column))) {
            if let (Some(of_piece), Some(of_image)) = (piece.pixel(column, row), image.pixel(x + column, top + row))
                && of_piece.alpha() == u8::MAX
            {
                let of_piece = [of_piece.red(), of_piece.green(), of_piece.blue()];
                let of_image = [of_image.red(), of_image.green(), of_image.blue()];
                for ((from, shade), found) in of_piece.into_iter().zip(SHADE.0).zip(of_image) {
                    let expected = f32::from(from) * (1.0 - SHADE.1) + shade * SHADE.1;
                    sum += (expected - f32::from(found)).abs();
                }
            }
        }
        sum
    };
    let places = 0..image.width() - piece.width();
    let gap = places.min_by(|a, b| difference(*a).total_cmp(&difference(*b)));
    Ok(gap.context("a picture that is smaller than its piece")?.into())
}

fn decode(url: &Value) -> Result<Pixmap> {
    let data = url.as_str().and_then(|url| url.strip_prefix("data:image/png;base64,")).context("no picture")?;
    Ok(Pixmap::decode_png(&BASE64_STANDARD.decode(data)?)?)
}

/// A solved proof of work.
pub struct Work {
    /// What ALTCHA's widget would send.
    pub payload: String,
    pub tries: u32,
    /// Processor time.
    pub time: Duration,
}

/// Solves a proof of work.
pub fn work(challenge: Challenge) -> Result<Work> {
    let before = thread_time()?;
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge))?.context("no solution")?;
    let (time, tries) = (thread_time()?.saturating_sub(before), solution.counter);
    let payload = BASE64_STANDARD.encode(serde_json::to_string(&Payload { challenge, solution })?);
    Ok(Work { payload, tries, time })
}

fn thread_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

#[cfg(test)]
mod tests {
    use puzzle::slider::{self, Slide};
    use serde_json::json;

    use super::*;

    /// The slider is a speed bump: a program that compares pixels solves it.
    #[test]
    fn the_solver_finds_gaps() {
        let url = |png: &[u8]| format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png));
        let found = (0..100).filter(|seed| {
            let drawn = slider::draw(*seed).unwrap();
            let captcha = json!({"image": url(&drawn.image), "piece": url(&drawn.piece), "y": drawn.y});
            let x = find_gap(&captcha).unwrap();
            let track = (0..=10).map(|step| (step * 40 + step % 3, x * step / 10)).collect();
            slider::verify(*seed, &Slide { x, track }, 1_000)
        });
        let found = found.count();
        println!("{found} of 100 gaps were found");
        assert!(found > 50, "{found}");
    }
}
