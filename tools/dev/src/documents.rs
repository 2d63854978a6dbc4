//! Finds the commands that documents and commented files tell their readers to type.

/// How a command begins in running text and in comments.
const PROGRAMS: [&str; 9] = [
    "scripts/",
    "deploy/production-manifest",
    "cargo ",
    "spin ",
    "sudo ",
    "redis-cli ",
    "certbot ",
    "systemctl ",
    "patronictl ",
];

/// The commands of `text`, in its order: the lines of blocks of `sh` and `sql`, commands between backticks, and commands
/// that stand indented in a comment.
pub fn commands(text: &str) -> Vec<String> {
    let (mut commands, mut block) = (vec![], None);
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language),
            (None, Some("sh" | "sql")) => commands.push(line.split(" #").next().unwrap_or_default().trim()),
            (None, Some(_)) => {}
            (None, None) => commands.extend(mentioned(line)),
        }
    }
    commands.into_iter().filter(|command| !command.is_empty()).map(str::to_owned).collect()
}

fn mentioned(line: &str) -> impl Iterator<Item = &str> {
    let indented = ["#     ", "--     "].iter().filter_map(|comment| line.strip_prefix(comment));
    let quoted = line.split('`').skip(1).step_by(2);
    indented.chain(quoted).filter(|text| PROGRAMS.iter().any(|program| text.starts_with(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_blocks_in_text_and_in_comments() {
        let document = "Run `scripts/up`, not `up`:\n```sh\n\nspin up  # serves\nmake \"#1\"\n```\n```json\n{}\n```\n";
        assert_eq!(commands(document), ["scripts/up", "spin up", "make \"#1\""]);
        let file = "#     redis-cli info\n#     include x\n--     sudo true\nredis-cli ping\n";
        assert_eq!(commands(file), ["redis-cli info", "sudo true"]);
    }
}
