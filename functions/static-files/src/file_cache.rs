//! Reads mounted files, brands the pages among them, and caches their contents per instance.

use std::{collections::HashMap, fs, io::Write as _, path::PathBuf, rc::Rc};

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

use crate::{branded_page, encoding::Encoding, page_data::PageData, settings::Settings};

/// Maximum number of bytes in the cache. The built site is far smaller.
const MAX_CACHED_BYTES: usize = 4 * 1024 * 1024;

/// Reads files below a directory and caches them up to a limit.
pub struct FileCache {
    root: PathBuf,
    files: HashMap<String, StoredFile>,
    cached_bytes: usize,
    limit: usize,
}

/// One stored representation of a file.
#[derive(Clone)]
pub struct StoredFile {
    /// The bytes as stored, in [`encoding`](Self::encoding).
    pub bytes: Rc<[u8]>,
    /// A strong validator of exactly these bytes, so each encoding has its own.
    pub etag: Rc<str>,
    /// The content coding of `bytes`.
    pub encoding: Encoding,
    /// The content security policy: a page's allows its inline styles and scripts.
    pub policy: Rc<str>,
}

impl FileCache {
    /// Creates a cache of the files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), files: HashMap::new(), cached_bytes: 0, limit: MAX_CACHED_BYTES }
    }

    /// Returns the file at `path` in the first of `encodings` that is stored; `None` if there is none. The settings are
    /// those of all calls.
    pub fn load(
        &mut self,
        path: &str,
        encodings: impl Iterator<Item = Encoding>,
        settings: &Settings,
        data: Option<&PageData>,
    ) -> Option<StoredFile> {
        if !is_safe_path(path) {
            return None;
        }
        for encoding in encodings {
            let of = data.map_or(String::new(), |data| format!("?{}", data.key));
            let name = format!("{path}{}{of}", encoding.suffix());
            if let Some(cached) = self.files.get(&name) {
                return Some(cached.clone());
            }
            if let Some(file) = self.read(path, encoding, settings, data) {
                self.insert(name, file.clone());
                return Some(file);
            }
        }
        None
    }

    fn read(&self, path: &str, encoding: Encoding, settings: &Settings, data: Option<&PageData>) -> Option<StoredFile> {
        let (mut bytes, mut policy) = (None, settings.policies.of(path, ""));
        if path.ends_with(".html") {
            // A Brotli encoder would add more to the function than it saves here.
            if data.is_some() && encoding == Encoding::Brotli {
                return None;
            }
            let built = fs::read_to_string(self.root.join(path)).ok()?;
            let page = branded_page::render(&built, &settings.branding);
            policy = settings.policies.of(path, &page);
            if data.is_some() || page != built {
                if encoding == Encoding::Brotli {
                    return None;
                }
                let page = data.map_or(page.clone(), |data| data.render(&page));
                bytes = Some(if encoding == Encoding::Gzip { gzip(&page)? } else { page.into_bytes() });
            }
        }
        let stored = || fs::read(self.root.join(format!("{path}{}", encoding.suffix()))).ok();
        let bytes = bytes.or_else(stored)?;
        let hash = hex::encode(&Sha256::digest(&bytes)[..12]);
        Some(StoredFile { bytes: bytes.into(), etag: format!("\"{hash}\"").into(), encoding, policy: policy.into() })
    }

    fn insert(&mut self, name: String, file: StoredFile) {
        if file.bytes.len() > self.limit {
            return;
        }
        if self.cached_bytes + file.bytes.len() > self.limit {
            self.files.clear();
            self.cached_bytes = 0;
        }
        self.cached_bytes += file.bytes.len();
        self.files.insert(name, file);
    }
}

fn gzip(page: &str) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(page.as_bytes()).ok()?;
    encoder.finish().ok()
}

/// Returns whether `path` can only name a file below the root: names of letters, digits, `.`, `_` and `-` between
/// single slashes, none of which begins with a dot.
fn is_safe_path(path: &str) -> bool {
    path.split('/').all(|part| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn load(cache: &mut FileCache, path: &str) -> Option<StoredFile> {
        let settings = Settings::parse(&domain::settings::Variables(&|_| "".into())).unwrap();
        cache.load(path, [Encoding::Identity].into_iter(), &settings, None)
    }

    #[test]
    fn files_outside_the_root_are_not_served() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        fs::write(folder.path().join("secret.txt"), "s").unwrap();
        fs::write(folder.path().join("site/.env"), "s").unwrap();
        fs::write(folder.path().join("site/open.txt"), "o").unwrap();
        let mut cache = FileCache::new(folder.path().join("site"));
        let absolute = folder.path().join("secret.txt");
        for path in [
            "../secret.txt",
            "a/../../secret.txt",
            "./../secret.txt",
            ".env",
            "",
            "//open.txt",
            "%2e%2e/secret.txt",
            "..\\secret.txt",
            "open.txt\0",
            absolute.to_str().unwrap(),
        ] {
            assert!(load(&mut cache, path).is_none(), "{path}");
        }
        assert!(load(&mut cache, "open.txt").is_some());
    }

    #[test]
    fn the_cached_bytes_stay_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = FileCache { limit: 100, ..FileCache::new(folder.path()) };
        for number in 0..10 {
            let name = format!("{number}.txt");
            fs::write(folder.path().join(&name), [b'x'; 40]).unwrap();
            assert!(load(&mut cache, &name).is_some());
            assert_eq!(cache.cached_bytes, cache.files.values().map(|file| file.bytes.len()).sum::<usize>());
            assert!(cache.cached_bytes <= 100);
        }
        fs::write(folder.path().join("big.txt"), [b'x'; 101]).unwrap();
        assert!(load(&mut cache, "big.txt").is_some());
        assert!(!cache.files.contains_key("big.txt"));
    }

    #[test]
    fn a_file_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "first").unwrap();
        let mut cache = FileCache::new(folder.path());
        let first = load(&mut cache, "a.txt").unwrap();
        fs::write(folder.path().join("a.txt"), "second").unwrap();
        let second = load(&mut cache, "a.txt").unwrap();
        assert_eq!((first.bytes, first.etag), (second.bytes, second.etag));
    }
}
