//! Copies the files of components at start-up into a directory that the guest sees as `/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use crate::manifest::{App, FileMount};

/// Copies the files of every component to `<target>/<component>`.
///
/// # Errors
/// If a file is missing, is outside the application's directory, or cannot be copied.
pub fn copy(app: &App, target: &Path) -> anyhow::Result<()> {
    for (id, component) in &app.components {
        if component.files.is_empty() {
            continue;
        }
        let copier = Copier::new(&app.root, &target.join(id), &component.exclude_files)?;
        for mount in &component.files {
            copier.copy_mount(mount).with_context(|| format!("in `files` of [component.{id}]"))?;
        }
    }
    Ok(())
}

struct Copier {
    root: PathBuf,
    target: PathBuf,
    excluded: Vec<glob::Pattern>,
}

impl Copier {
    fn new(root: &Path, target: &Path, excluded: &[String]) -> anyhow::Result<Self> {
        fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
        let excluded = excluded
            .iter()
            .map(|pattern| {
                glob::Pattern::new(pattern).with_context(|| format!("invalid pattern {pattern:?} in `exclude_files`"))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { root: root.to_owned(), target: target.to_owned(), excluded })
    }

    fn copy_mount(&self, mount: &FileMount) -> anyhow::Result<()> {
        match mount {
            FileMount::Pattern(pattern) => self.copy_pattern(pattern),
            FileMount::Placement(placement) => {
                let source = self.root.join(&placement.source);
                let target = self.target.join(placement.destination.trim_start_matches('/'));
                let metadata = fs::metadata(&source).with_context(|| format!("cannot find {:?}", placement.source))?;
                if metadata.is_dir() {
                    self.copy_tree(&source.join("**/*"), &source, &target)
                } else {
                    self.copy_file(&source, &target)
                }
            }
        }
    }

    fn copy_pattern(&self, pattern: &str) -> anyhow::Result<()> {
        let last = Path::new(pattern).components().next_back();
        ensure!(
            !pattern.ends_with("/.") && pattern != "." && !matches!(last, Some(std::path::Component::ParentDir)),
            "the pattern {pattern:?} can't end in '.' or '..'; to include a directory, use \
             {{ source = …, destination = … }} or a pattern that ends in **/*"
        );
        let path = self.root.join(pattern);
        if path.is_dir() {
            self.copy_tree(&path.join("**/*"), &self.root, &self.target.join(pattern))
        } else if path.exists() {
            self.copy_file(&path, &self.target.join(pattern))
        } else if glob::Pattern::escape(pattern) != pattern {
            self.copy_tree(&path, &self.root, &self.target)
        } else {
            bail!("{pattern:?} does not exist and doesn't appear to be a glob pattern")
        }
    }

    /// Copies the files that match `pattern` to `target`, with their paths relative to `prefix`.
    fn copy_tree(&self, pattern: &Path, prefix: &Path, target: &Path) -> anyhow::Result<()> {
        let pattern = pattern.to_str().context("a path is not UTF-8")?;
        fs::create_dir_all(target)?;
        for source in glob::glob(pattern).with_context(|| format!("invalid pattern {pattern:?}"))? {
            let source = source?;
            if !source.is_file() {
                continue;
            }
            let relative = self.relative_to_root(&source)?;
            if self.excluded.iter().any(|excluded| excluded.matches_path(relative)) {
                continue;
            }
            self.copy_file(&source, &target.join(source.strip_prefix(prefix)?))?;
        }
        Ok(())
    }

    fn copy_file(&self, source: &Path, target: &Path) -> anyhow::Result<()> {
        self.relative_to_root(source)?;
        ensure!(
            target.starts_with(&self.target)
                && !target.components().any(|part| part == std::path::Component::ParentDir),
            "the destination {} lies outside the component's files",
            target.display()
        );
        let parent = target.parent().context("a file needs a name")?;
        fs::create_dir_all(parent)?;
        fs::copy(source, target)
            .with_context(|| format!("cannot copy {} to {}", source.display(), target.display()))?;
        Ok(())
    }

    fn relative_to_root<'a>(&self, source: &'a Path) -> anyhow::Result<&'a Path> {
        source.strip_prefix(&self.root).map_err(|_| {
            anyhow::anyhow!("{} is outside the application's directory; files must be inside", source.display())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(files: &str) -> anyhow::Result<Vec<String>> {
        let directory = tempfile::tempdir()?;
        let root = directory.path().join("app");
        for path in ["static/index.html", "static/js/a.js", "static/js/a.js.map", "note.txt"] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap())?;
            fs::write(path, "x")?;
        }
        fs::write(directory.path().join("secret"), "x")?;
        let app = App::parse(
            &format!(
                "spin_manifest_version = 2\n[application]\nname = \"a\"\n[[trigger.http]]\nroute = \"/\"\n\
                 component = \"c\"\n[component.c]\nsource = \"c.wasm\"\nexclude_files = [\"**/*.map\"]\n{files}"
            ),
            &root,
        )?;
        let target = directory.path().join("target");
        copy(&app, &target)?;
        let base = target.join("c");
        let mut names: Vec<String> = glob::glob(&format!("{}/**/*", base.display()))?
            .map(|path| path.unwrap())
            .filter(|path| path.is_file())
            .map(|path| path.strip_prefix(&base).unwrap().display().to_string())
            .collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn a_directory_is_copied_to_its_destination_without_excluded_files() {
        let files = r#"files = [{ source = "static", destination = "/" }]"#;
        assert_eq!(copied(files).unwrap(), ["index.html", "js/a.js"]);
        let files = r#"files = [{ source = "static/js", destination = "/assets" }]"#;
        assert_eq!(copied(files).unwrap(), ["assets/a.js"]);
    }

    #[test]
    fn patterns_keep_their_paths() {
        assert_eq!(copied(r#"files = ["**/*.html", "note.txt"]"#).unwrap(), ["note.txt", "static/index.html"]);
    }

    #[test]
    fn nothing_is_copied_outside_the_components_files() {
        for files in [
            r#"files = ["../secret"]"#,
            r#"files = [{ source = "note.txt", destination = "/../s" }]"#,
            r#"files = ["nope.txt"]"#,
            r#"files = ["static/.."]"#,
        ] {
            assert!(copied(files).is_err(), "{files} was accepted");
        }
    }

    #[test]
    fn a_source_outside_the_application_is_copied_as_in_spin() {
        assert_eq!(copied(r#"files = [{ source = "../secret", destination = "/s" }]"#).unwrap(), ["s"]);
    }
}
