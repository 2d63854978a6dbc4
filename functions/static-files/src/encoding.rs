//! Selects content codings by `accept-encoding` (RFC 9110, 12.5.3).

/// How a file's bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Brotli, in the `.br` file.
    Brotli,
    /// Gzip, in the `.gz` file.
    Gzip,
    /// Not encoded.
    Identity,
}

impl Encoding {
    /// Returns the suffix of the variant's file name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
            Self::Identity => "",
        }
    }

    /// Returns the value of `content-encoding`; `None` for a file that is not encoded.
    pub fn token(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }
}

/// Returns the codings to try, the smallest result first.
///
/// The plain file is always the last. A client that forbids it (`identity;q=0`) gets it as well, which RFC 9110 allows
/// and which is more useful than a `406`.
pub fn accepted(accept_encoding: &str) -> impl Iterator<Item = Encoding> {
    let brotli = is_accepted(accept_encoding, "br").then_some(Encoding::Brotli);
    let gzip = is_accepted(accept_encoding, "gzip").then_some(Encoding::Gzip);
    brotli.into_iter().chain(gzip).chain([Encoding::Identity])
}

fn is_accepted(accept_encoding: &str, coding: &str) -> bool {
    let quality = |wanted: &str| {
        accept_encoding.split(',').find_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next()?;
            name.eq_ignore_ascii_case(wanted).then(|| {
                parts
                    .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
                    .map_or(1.0, |text| text.parse::<f32>().unwrap_or(0.0))
            })
        })
    };
    quality(coding).or_else(|| quality("*")).is_some_and(|quality| quality > 0.0)
}

#[cfg(test)]
mod tests {
    use super::{Encoding::*, *};

    #[test]
    fn brotli_wins_over_gzip_and_a_coding_that_is_not_listed_or_has_quality_zero_is_not_used() {
        for (accept_encoding, expected) in [
            ("gzip, deflate, br, zstd", Brotli),
            ("br;q=0.1, gzip;q=1.0", Brotli),
            ("GZIP", Gzip),
            ("*", Brotli),
            ("", Identity),
            ("br;q=0, gzip ; q=0.000", Identity),
            ("br;q=0, *", Gzip),
            ("br;q=banana", Identity),
            ("brotli", Identity),
        ] {
            assert_eq!(accepted(accept_encoding).next().unwrap_or(Identity), expected, "{accept_encoding}");
        }
    }
}
