//! Copies the files of components at start-up into a directory that the guest sees as `/`.

use std::{
    fs,
    path::{Component, Path},
};

use anyhow::{Context as _, ensure};

use crate::manifest::App;

/// Copies the directories of every component to `<target>/<component>`.
///
/// # Errors
/// If a directory is missing, is outside the application's directory or its destination outside the component's files, or
/// a file cannot be copied.
pub fn copy(app: &App, target: &Path) -> anyhow::Result<()> {
    for (id, component) in &app.components {
        for files in &component.files {
            let destination = Path::new(files.destination.trim_start_matches('/'));
            ensure!(
                is_inside(&files.source) && is_inside(destination),
                "the files {} of [component.{id}] or their destination lie outside",
                files.source.display()
            );
            let destination = target.join(id).join(destination);
            copy_directory(&app.root.join(&files.source), &destination)
                .with_context(|| format!("cannot copy the files {} of [component.{id}]", files.source.display()))?;
        }
    }
    Ok(())
}

/// Whether a path stays below the directory that it is relative to.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn copy_directory(source: &Path, target: &Path) -> std::io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let target = target.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_directory(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_copied_to_its_destination_inside_the_components_files() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("static/js")).unwrap();
        for path in ["static/index.html", "static/js/a.js", "note.txt"] {
            fs::write(directory.path().join(path), "x").unwrap();
        }
        let copied = |source: &str, destination: &str, path: &str| {
            let app = App::parse(
                &format!(
                    "spin_manifest_version = 2\n[application]\nname = \"a\"\n[[trigger.http]]\nroute = \"/\"\n\
                     component = \"c\"\n[component.c]\nsource = \"c.wasm\"\n\
                     files = [{{ source = {source:?}, destination = {destination:?} }}]"
                ),
                directory.path(),
            )?;
            let target = tempfile::tempdir()?;
            copy(&app, target.path()).map(|()| target.path().join("c").join(path).is_file())
        };
        assert!(copied("static", "/", "index.html").unwrap());
        assert!(copied("static", "/", "js/a.js").unwrap());
        assert!(copied("static/js", "/assets", "assets/a.js").unwrap());
        for (source, destination) in [("static", "/../other"), ("../other", "/"), ("nowhere", "/"), ("note.txt", "/")] {
            assert!(copied(source, destination, "index.html").is_err(), "{source} to {destination} was accepted");
        }
    }
}
