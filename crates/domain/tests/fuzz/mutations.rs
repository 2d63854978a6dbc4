//! Calls a check with mutations of valid inputs. Test programs of other packages include this file, too.

use std::env;

use fastrand::Rng;

/// Bytes that have a meaning in some of the formats.
const SPECIAL: &[u8] = b".,=-_/+\"'{}[]:;%&? \t\r\n\0\xff0aA~";

/// Returns a variant of `input`: up to four bytes or ranges are changed, removed, repeated or inserted.
fn mutate(rng: &mut Rng, input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(0..=bytes.len());
        let end = (at + rng.usize(0..=16)).min(bytes.len());
        match rng.u8(0..7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..at, input[..rng.usize(0..=input.len())].to_vec()).for_each(drop),
            3 => bytes.insert(at, SPECIAL[rng.usize(0..SPECIAL.len())]),
            4 => bytes.insert(at, rng.u8(..)),
            5 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(0..8),
            _ if at < bytes.len() => bytes[at] = SPECIAL[rng.usize(0..SPECIAL.len())],
            _ => {}
        }
    }
    bytes
}

/// Calls `check` with mutations of `inputs`, each from a seed of its own.
pub fn fuzz(inputs: &[&[u8]], check: impl Fn(&[u8])) {
    let cases = if env::args().any(|argument| argument == "--include-ignored") { 1_000_000 } else { 20_000 };
    let only: Option<u64> = env::var("STAMPEDE_SEED").ok().map(|seed| seed.parse().expect("STAMPEDE_SEED is a number"));
    for seed in only.map_or(0..cases, |seed| seed..seed + 1) {
        let mut rng = Rng::with_seed(seed);
        let input = inputs[rng.usize(0..inputs.len())];
        let bytes = mutate(&mut rng, input);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&bytes)));
        assert!(result.is_ok(), "STAMPEDE_SEED={seed} repeats this case: {:?}", String::from_utf8_lossy(&bytes));
    }
}
