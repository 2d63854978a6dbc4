//! Creates the `.br` and `.gz` variants of compressible files.

use std::io::Write;

use anyhow::Context;
use brotli::enc::BrotliEncoderParams;
use flate2::{Compression, write::GzEncoder};

use crate::tree::Tree;

/// Minimum size in bytes of a file that is compressed: below it, the response fits into one packet anyway.
const MIN_BYTES: usize = 256;

const COMPRESSIBLE: &[&str] = &["html", "css", "js", "svg", "json", "txt", "webmanifest"];

/// Adds compressed variants that are smaller than their originals.
pub fn with_compressed_variants(tree: Tree) -> anyhow::Result<Tree> {
    let mut served = Tree::new();
    for (path, bytes) in tree {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        if COMPRESSIBLE.contains(&extension) && bytes.len() >= MIN_BYTES {
            for (suffix, compressed) in [("br", brotli(&bytes)?), ("gz", gzip(&bytes)?)] {
                if compressed.len() < bytes.len() {
                    served.insert(format!("{path}.{suffix}"), compressed);
                }
            }
        }
        served.insert(path, bytes);
    }
    Ok(served)
}

fn brotli(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut compressed = Vec::new();
    let params = BrotliEncoderParams { size_hint: bytes.len(), ..Default::default() };
    brotli::BrotliCompress(&mut &bytes[..], &mut compressed, &params).context("brotli failed")?;
    Ok(compressed)
}

fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    // The gzip header contains no name and no time, so that the same input gives the same bytes.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).context("gzip failed")?;
    encoder.finish().context("gzip failed")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;

    use super::*;

    #[test]
    fn both_variants_unpack_to_the_original() {
        let text = "a line that repeats itself\n".repeat(100).into_bytes();
        let served = with_compressed_variants(Tree::from([("a.css".into(), text.clone())])).unwrap();
        let mut plain = Vec::new();
        brotli::BrotliDecompress(&mut &served["a.css.br"][..], &mut plain).unwrap();
        assert_eq!(plain, text);
        plain.clear();
        flate2::read::GzDecoder::new(&served["a.css.gz"][..]).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, text);
    }

    #[test]
    fn a_file_that_does_not_shrink_has_no_variant() {
        // xorshift32: bytes without a pattern.
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[0]
        });
        let served = with_compressed_variants(Tree::from([
            ("noise.txt".into(), noise.take(2 * MIN_BYTES).collect()),
            ("tiny.css".into(), b"a{}".to_vec()),
            ("picture.png".into(), vec![0; 4096]),
        ]))
        .unwrap();
        assert_eq!(served.len(), 3, "{:?}", served.keys());
    }
}
