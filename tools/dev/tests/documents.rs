//! Links in the documents lead somewhere, and code and tests name every promise of the requirements.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use dev::{documents::commands, root};

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

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "/*", "*", "--", "#", "\"\"\""].iter().any(|marker| line.starts_with(marker) && !line.starts_with("#["))
}

/// The ids of the promises whose lines begin with `marker`.
fn promises<'a>(requirements: &'a str, marker: &str) -> BTreeSet<&'a str> {
    let first_words = requirements.lines().filter_map(|line| line.strip_prefix(marker)?.split([' ', ':']).next());
    first_words.filter(|word| is_id(word)).collect()
}

fn is_id(word: &str) -> bool {
    let (letter, number) = word.split_at_checked(1).unwrap_or_default();
    "ABCDEFGH".contains(letter) && !letter.is_empty() && number.parse::<u8>().is_ok()
}

/// The words in parentheses in a comment: ids stand there, separated by commas.
fn words_in_parentheses(line: &str) -> impl Iterator<Item = &str> {
    let lists = line.split('(').skip(1).filter(|_| is_comment(line)).filter_map(|rest| rest.split_once(')'));
    lists.flat_map(|(list, _)| list.split([',', ';', ' ']))
}

#[test]
fn every_promise_is_named_in_the_code_that_keeps_it_and_in_a_test() {
    let root = root::find().expect("the project");
    let text = fs::read_to_string(root.join("docs/requirements.md")).expect("the requirements");
    let (built, planned) = (promises(&text, "| "), promises(&text, "- "));
    let (mut code, mut tests) = (BTreeSet::new(), BTreeSet::new());
    for path in tracked(&root, "").into_iter().filter(|path| !path.ends_with(".md")) {
        let Ok(source) = fs::read_to_string(root.join(&path)) else { continue };
        let in_tests = ["/test/", "/tests/", "/tests.rs"].iter().any(|part| format!("/{path}").contains(part));
        let mut is_test = in_tests || source.starts_with("//! Tests ");
        for line in source.lines() {
            is_test |= line.starts_with("mod tests {");
            for word in words_in_parentheses(line) {
                let is_range = word.split_once('–').is_some_and(|(first, _)| is_id(first));
                assert!(!is_range, "{path}: write out every id of {word}, so that a search finds it");
                if is_id(word) {
                    let is_known = built.contains(word) || planned.contains(word);
                    assert!(is_known, "{path} names {word}, which docs/requirements.md does not have");
                    let named = if is_test { &mut tests } else { &mut code };
                    named.insert(word.to_owned());
                }
            }
        }
    }
    assert!(built.len() > 50, "only {} promises were found", built.len());
    let missing =
        |named: &BTreeSet<String>| built.iter().filter(|id| !named.contains(**id)).copied().collect::<Vec<_>>();
    let (in_code, in_tests) = (missing(&code), missing(&tests));
    assert!(in_code.is_empty() && in_tests.is_empty(), "not named in code: {in_code:?}; in tests: {in_tests:?}");
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

#[test]
fn every_script_in_a_document_exists_and_knows_the_options_that_it_is_called_with() {
    let root = root::find().expect("the project");
    let mut checked = 0;
    for document in tracked(&root, ".md") {
        for command in commands(&fs::read_to_string(root.join(&document)).expect("a tracked document")) {
            let is_script = |word: &&str| word.starts_with("scripts/") || word.starts_with("deploy/");
            let mut words = command.split_whitespace().skip_while(|word| !is_script(word));
            let Some(script) = words.next() else { continue };
            let source = fs::read_to_string(root.join(script));
            let source = source.unwrap_or_else(|error| panic!("{document}: {command}: {script}: {error}"));
            // Other scripts build a program, which explains itself.
            if source.contains("usage: ") {
                let help = Command::new(root.join(script)).arg("--help").output().expect("help");
                let help = String::from_utf8_lossy(&help.stdout);
                for option in words.filter(|word| word.starts_with("--")) {
                    assert!(help.contains(option), "{document}: {script} does not know {option}: {command}");
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "only {checked} commands were found");
}

const CI: &str = ".github/workflows/ci.yml";

const INSTALLATION: &str = "tests/chaos/restore/installation.rs";

/// The file in which a test runs a command that a reader types, what names the run there, and the commands. A suite does not
/// run itself: CI runs it.
const RUNS: [(&str, &str, &[&str]); 29] = [
    ("tests/e2e/supervision.rs", "join(\"scripts/up\")", &["scripts/up"]),
    ("tests/e2e/supervision.rs", "starts_with(\"scripts/stampede \")", &["scripts/stampede --buyers "]),
    (
        "tests/deploy/run_a_sale.rs",
        "commands[1..]",
        &[
            "URL=https://sale.example SETTINGS=/etc/stampede/env A=@$HOME/stampede.header",
            "umask 077 && sed -n ",
            "admin() ",
            "admin ",
            "curl ",
            "scripts/stampede plan ",
            "scripts/stampede rehearse ",
            "export ",
            "scripts/close ",
        ],
    ),
    ("tests/deploy/release.rs", "commands()[0]", &["tar xzf stampede-*.tar.gz && cd stampede-*/"]),
    ("tests/deploy/release.rs", "commands()[1]", &["scripts/up --services"]),
    ("tests/deploy/release.rs", "commands()[2]", &["spin up"]),
    ("tests/deploy/install.rs", "\"deploy/self-hosted/install\")) =>", &["sudo deploy/self-hosted/install"]),
    ("tests/deploy/install.rs", "(\"sudoedit\", file)) =>", &["sudoedit "]),
    ("tests/deploy/install.rs", "&[\"rollback\"]", &["sudo deploy/self-hosted/install rollback"]),
    (
        "tests/deploy/install.rs",
        "\"--without-nginx\", \"--env\"",
        &["sudo deploy/self-hosted/install --without-nginx "],
    ),
    ("tests/deploy/install.rs", "&[\"--no-start\"]", &["sudo deploy/self-hosted/install --no-start"]),
    ("tests/deploy/install.rs", "commands(\"redis.conf\")", &["redis-cli "]),
    ("tests/deploy/install.rs", "commands(\"postgres.sql\")", &["sudo -u postgres psql "]),
    ("tests/deploy/systemd_units.rs", "starts_with(\"while \")", &["while "]),
    ("tests/deploy/systemd_units.rs", "fn the_production_manifest_", &["deploy/production-manifest"]),
    ("tests/deploy/tls.rs", "acme-challenge/token", &["certbot certonly --webroot -w /var/www/html"]),
    (INSTALLATION, "self.script(\"backup/backup\")", &["sudo deploy/backup/backup "]),
    (INSTALLATION, "self.script(\"backup/restore\")", &["sudo deploy/backup/restore "]),
    (INSTALLATION, "kits.patroni.lose_everything()", &["sudo mv "]),
    ("tests/chaos/restore.rs", "starts_with(\"patronictl \")", &["patronictl "]),
    ("tests/chaos/restore.rs", "\"deploy/backup/postgres.conf\"", &["sudo install ", "sudo cp ", "sudo systemctl "]),
    ("tools/dev/src/manifest.rs", "fn spin_build_builds_", &["spin build", "spin watch"]),
    ("tools/dev/src/suites/plan.rs", "fn rust", &["cargo test --release -p domain"]),
    ("tools/dev/src/suites/plan.rs", "fn lint", &["cargo fmt", "cargo clippy"]),
    ("tools/openapi/src/main.rs", "fn the_committed_documents_are_the_generated_ones", &["cargo run -p openapi"]),
    ("scripts/test", "\nscripts/build\n", &["scripts/build"]),
    (CI, "run: scripts/test ${{ matrix.suite }}", &["scripts/test", "scripts/test unit"]),
    (
        CI,
        "suite: e2e, engine: spin, ledger: postgres",
        &["STAMPEDE_ENGINE=spin STAMPEDE_LEDGER=postgres scripts/test e2e"],
    ),
    (".github/workflows/long.yml", "run --long unit interleavings chaos", &["scripts/test --long chaos"]),
];

#[test]
fn every_command_that_a_reader_types_is_run_by_a_test() {
    let root = root::find().expect("the project");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let is_followed = |path: &String| {
        ["README.md", "CONTRIBUTING.md", "deploy/README.md", "docs/run-a-sale.md"].contains(&&**path)
            || path.starts_with("deploy/self-hosted/")
            || path.starts_with("deploy/backup/")
    };
    let documents: Vec<_> = tracked(&root, "").into_iter().filter(is_followed).collect();
    let typed: Vec<_> = documents.iter().flat_map(|path| commands(&read(path))).collect();
    for (file, place, run) in RUNS {
        assert!(read(file).contains(place), "{file} has no {place}, which runs {run:?}");
        for known in run {
            assert!(typed.iter().any(|command| is_run(command, known)), "no document says {known}");
        }
    }
    let has_run = |command: &&String| RUNS.iter().any(|(.., run)| run.iter().any(|known| is_run(command, known)));
    let untested: Vec<_> = typed.iter().filter(|command| !has_run(command)).collect();
    assert!(untested.is_empty(), "run these in a test, and say in RUNS where: {untested:#?}");
}

/// Whether `known` is the command, or its first words if it ends with a space.
fn is_run(command: &str, known: &str) -> bool {
    command == known || (known.ends_with(' ') && command.starts_with(known))
}
