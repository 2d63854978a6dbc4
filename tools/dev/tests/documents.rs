//! The documents name files, tests and headings that exist.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use dev::root;

/// Files that Git tracks and whose path ends in `suffix`.
fn tracked(root: &Path, suffix: &str) -> Vec<String> {
    let output = Command::new("git").current_dir(root).args(["ls-files"]).output().expect("git");
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    listed.lines().filter(|path| path.ends_with(suffix)).map(str::to_owned).collect()
}

/// The anchor that Git hosts give to a heading.
fn heading_anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    heading.chars().filter(|letter| letter.is_alphanumeric() || ['-', '_'].contains(letter)).collect()
}

/// Whether a line of code, not a comment, of the file or of a file in the directory `path` satisfies `is_match`.
fn any_line(path: &Path, is_match: &dyn Fn(&str) -> bool) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).expect("a directory").flatten().any(|entry| any_line(&entry.path(), is_match));
    }
    fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| !is_comment(line) && is_match(line)))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "/*", "*", "--", "#", "\"\"\""].iter().any(|marker| line.starts_with(marker) && !line.starts_with("#["))
}

/// The places of a table's cell: each path, with the names in parentheses after it.
fn places(cell: &str) -> Vec<(&str, Vec<&str>)> {
    let mut places: Vec<(&str, Vec<&str>)> = vec![];
    for part in cell.split("<br>") {
        let mut is_path_known = false;
        for span in part.split('`').skip(1).step_by(2) {
            match places.last_mut() {
                Some((_, names)) if is_path_known && !span.contains('/') => names.push(span),
                // A command.
                _ if span.contains(' ') => break,
                _ => places.push((span, vec![])),
            }
            is_path_known = true;
        }
    }
    places
}

#[test]
fn every_path_and_test_in_the_requirements_and_the_threat_model_exists() {
    let root = root::find().expect("the project");
    for (document, at_least) in [("docs/requirements.md", 200), ("docs/threat-model.md", 20)] {
        let text = fs::read_to_string(root.join(document)).expect("a document");
        let mut checked = 0;
        for row in text.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<_> = row.split(" | ").collect();
            for (column, cell) in cells.iter().enumerate().skip(2) {
                let places = places(cell);
                let paths: BTreeSet<_> = places.iter().map(|(path, _)| path).collect();
                assert_eq!(paths.len(), places.len(), "{document} has a path twice in one cell: {cell}");
                for (path, names) in places {
                    assert!(root.join(path).exists(), "{document}: {path} does not exist: {row}");
                    for name in names {
                        let tests = [format!("fn {name}("), format!("def {name}("), format!("\"{name}\"")];
                        let is_match = |line: &str| match column + 1 == cells.len() {
                            true => tests.iter().any(|test| line.contains(test)),
                            false => line.contains(name),
                        };
                        let is_found = any_line(&root.join(path), &is_match);
                        assert!(is_found, "{document}: {path} does not have {name}: {row}");
                    }
                    checked += 1;
                }
            }
        }
        assert!(checked >= at_least, "only {checked} places were found in {document}");
    }
}

#[test]
fn every_requirement_named_in_the_code_is_in_the_requirements() {
    let root = root::find().expect("the project");
    let text = fs::read_to_string(root.join("docs/requirements.md")).expect("the requirements");
    let known: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()).collect();
    let is_id = |word: &str| {
        let (letter, number) = word.split_at_checked(1).unwrap_or_default();
        "ABCDEFGH".contains(letter) && !letter.is_empty() && !number.is_empty() && number.parse::<u8>().is_ok()
    };
    for path in [".rs", ".lua", ".sql", ".js", ".mjs", ".py"].map(|suffix| tracked(&root, suffix)).concat() {
        let source = fs::read_to_string(root.join(&path)).expect("a tracked file");
        for line in source.lines().filter(|line| is_comment(line)) {
            // Ids stand in parentheses: (C4), (E2, E5; I6).
            for list in line.split('(').skip(1).filter_map(|rest| rest.split_once(')')).map(|(list, _)| list) {
                for word in list.split([',', ';', ' ']) {
                    let is_range = word.split_once('–').is_some_and(|(first, _)| is_id(first));
                    assert!(!is_range, "{path}: write out every id of {word}, so that a search finds it");
                }
                for word in list.split([',', ';', ' ']).filter(|word| is_id(word)) {
                    assert!(known.contains(word), "{path} names {word}, which docs/requirements.md does not have");
                }
            }
        }
    }
}

#[test]
fn every_relative_link_in_a_document_leads_to_a_file_and_a_heading() {
    let root = root::find().expect("the project");
    let (mut checked, mut anchors) = (0, 0);
    for document in tracked(&root, ".md") {
        let text = fs::read_to_string(root.join(&document)).expect("a tracked document");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let document_path = root.join(&document);
            let directory = document_path.parent().expect("a folder");
            let path = if path.is_empty() { document_path.clone() } else { directory.join(path) };
            assert!(path.exists(), "{document} links to {target}, which does not exist");
            if let Some(anchor) = anchor {
                let text = fs::read_to_string(&path).expect("a document with headings");
                let has_anchor = text.lines().any(|line| line.starts_with('#') && heading_anchor(line) == anchor);
                assert!(has_anchor, "{document} links to {target}, a heading that does not exist");
                anchors += 1;
            }
            checked += 1;
        }
    }
    assert!(checked > 10 && anchors > 0, "only {checked} links and {anchors} anchors were found");
}
