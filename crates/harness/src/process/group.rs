//! A process group: signalled as one, and guarded against being left behind.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::poll::{self, Look};

/// The group that a child leads.
pub struct Group(Pid);

impl Group {
    /// The group of a child that was spawned as the leader of its own.
    pub fn led_by(child: &Child) -> Self {
        Self(Pid::from_raw(child.id().cast_signed()))
    }

    /// Sends a signal to every member. A group that is gone is fine.
    pub fn signal(&self, signal: Signal) {
        let _ = killpg(self.0, signal);
    }

    /// Whether a member runs. One that has ended and that nobody has waited for does not.
    pub fn is_alive(&self) -> bool {
        if killpg(self.0, None).is_err() {
            return false;
        }
        match states() {
            Some(states) => has_living_member(&states, self.0),
            // Nothing is known of the dead, so the group's word counts.
            None => true,
        }
    }

    /// Waits for the last member's end.
    pub fn wait_until_gone(&self, patience: Duration) {
        let _ = poll::until("the end of a process group", patience, || {
            Ok(if self.is_alive() { Look::Waiting("alive") } else { Look::Done(()) })
        });
    }
}

/// Group and state of every process: from `/proc` where there is one, else from `ps`.
fn states() -> Option<Vec<(String, String)>> {
    let pair = |line: &str, group: usize, state: usize| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.get(group)?.to_string(), words.get(state)?.to_string()))
    };
    let Ok(processes) = fs::read_dir("/proc") else {
        let listing = Command::new("ps").args(["-A", "-o", "pgid=,state="]).output().ok()?;
        return Some(String::from_utf8_lossy(&listing.stdout).lines().filter_map(|line| pair(line, 0, 1)).collect());
    };
    let stats = processes.flatten().filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    // `pid (name) state parent group …`: the name may hold anything, so what counts starts after the last bracket.
    Some(stats.filter_map(|stat| pair(stat.rsplit_once(')')?.1, 2, 0)).collect())
}

fn has_living_member(states: &[(String, String)], group: Pid) -> bool {
    let group = group.to_string();
    states.iter().any(|(of, state)| *of == group && !state.starts_with('Z'))
}

/// Ends a group when this program ends, also when it is killed: a shell that waits for the end of a pipe.
pub struct Guard(Child);

impl Guard {
    /// Guards a group for as long as the value lives.
    pub fn over(group: &Group) -> Result<Self> {
        const SCRIPT: &str =
            r#"read -r _; kill -s TERM -- "-$1"; kill -s CONT -- "-$1"; sleep 2; kill -s KILL -- "-$1""#;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "guard", &group.0.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Ok(Self(shell.context("cannot start sh")?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It ends before the pipe closes, so it touches nobody: the group's id may be another's soon.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_do_not_count() {
        let states = [("1", "S"), ("70", "Z"), ("71", "Z+"), ("71", "Sl")];
        let listing = states.map(|(group, state)| (group.to_owned(), state.to_owned()));
        assert!(!has_living_member(&listing, Pid::from_raw(70)));
        assert!(has_living_member(&listing, Pid::from_raw(71)));
        assert!(!has_living_member(&listing, Pid::from_raw(7)));
    }

    #[test]
    fn this_process_is_among_the_living() {
        let group = nix::unistd::getpgrp();
        assert!(has_living_member(&states().expect("states"), group));
    }

    #[test]
    fn a_group_ends_when_the_program_that_guards_it_is_gone() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("sleep");
        let group = Group::led_by(&child);
        let mut guard = Guard::over(&group).expect("a guard");
        assert!(group.is_alive());
        // What the system does with the pipe of a program that ends.
        drop(guard.0.stdin.take());
        group.wait_until_gone(Duration::from_secs(10));
        assert!(!group.is_alive());
        child.wait().expect("its end");
    }
}
