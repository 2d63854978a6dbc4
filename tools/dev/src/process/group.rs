//! Process groups: signals to all members, and a watchdog that ends them with this program.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use crate::poll::{self, Probe};

/// A process group, named by its leader's process id.
pub struct Group(Pid);

impl Group {
    /// The group of a child that was spawned as a group leader.
    pub fn of_leader(child: &Child) -> Self {
        Self(Pid::from_raw(child.id().cast_signed()))
    }

    /// Sends a signal to every member. Ignored if the group has ended.
    pub fn signal(&self, signal: Signal) {
        let _ = killpg(self.0, signal);
    }

    /// Whether any member is running. Zombies do not count.
    pub fn is_alive(&self) -> bool {
        killpg(self.0, None).is_ok() && list_processes().iter().any(|entry| entry.runs_in(self.0))
    }

    /// The running members whose command line contains `pattern`.
    pub fn members(&self, pattern: &str) -> Vec<Pid> {
        let running = list_processes().into_iter().filter(|entry| entry.runs_in(self.0));
        running
            .filter(|entry| command_line(entry.pid).contains(pattern))
            .map(|entry| Pid::from_raw(entry.pid))
            .collect()
    }

    /// Processor time that the running members whose command line contains `pattern` have used; `None` without `/proc`.
    pub fn cpu_time(&self, pattern: &str) -> Option<Duration> {
        let stats = self.members(pattern).into_iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")));
        stats.map(|stat| parse_cpu_time(&stat.ok()?)).sum()
    }

    /// Sends a signal to the leader's children, which may lead groups of their own.
    pub fn signal_children(&self, signal: Signal) {
        for child in list_processes().iter().filter(|entry| entry.parent == self.0.as_raw()) {
            // A child that has ended meanwhile is ignored.
            let _ = kill(Pid::from_raw(child.pid), signal);
        }
    }

    /// Waits until no member is running, or until the timeout.
    pub fn wait_until_gone(&self, timeout: Duration) {
        let _ = poll::until("the end of a process group", timeout, || {
            Ok(if self.is_alive() { Probe::Pending("alive") } else { Probe::Ready(()) })
        });
    }
}

/// Sends a signal to a process and its children. Unlike a [`Group`], they need not have been started here.
pub fn signal_with_children(pid: i32, signal: Signal) {
    let children = list_processes().into_iter().filter(|entry| entry.parent == pid).map(|entry| entry.pid);
    for pid in [pid].into_iter().chain(children) {
        // A process that has ended meanwhile is ignored.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// A process, as listed by the system.
#[derive(Debug)]
struct ProcessInfo {
    pid: i32,
    parent: i32,
    group: i32,
    state: String,
}

impl ProcessInfo {
    fn runs_in(&self, group: Pid) -> bool {
        self.group == group.as_raw() && !self.state.starts_with('Z')
    }

    /// Parses `pid parent group state`.
    fn parse(words: &[&str]) -> Option<Self> {
        let [pid, parent, group, state] = words else { return None };
        let (pid, parent, group) = (pid.parse().ok()?, parent.parse().ok()?, group.parse().ok()?);
        Some(Self { pid, parent, group, state: (*state).to_owned() })
    }
}

/// Lists all processes, from `/proc` or, without one, from `ps`.
fn list_processes() -> Vec<ProcessInfo> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return ps(&["-A", "-o", "pid=,ppid=,pgid=,state="])
            .lines()
            .filter_map(|line| ProcessInfo::parse(&line.split_whitespace().collect::<Vec<_>>()))
            .collect();
    };
    let stats = processes.flatten().filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| parse_stat(&stat)).collect()
}

/// Parses `pid (name) state parent group …`. The name may contain any character, so the fields after the last `)` are
/// used.
fn parse_stat(stat: &str) -> Option<ProcessInfo> {
    let (pid, _) = stat.split_once(' ')?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent, group) = (words.next()?, words.next()?, words.next()?);
    ProcessInfo::parse(&[pid, parent, group, state])
}

/// Processor time that everything on this machine has used; `None` without `/proc`.
pub fn machine_cpu_time() -> Option<Duration> {
    // user, nice, system, idle, iowait, irq, softirq, in hundredths of a second
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let words: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(Duration::from_millis(10 * [0, 1, 2, 5, 6].iter().filter_map(|at| words.get(*at)).sum::<u64>()))
}

/// Parses user and system time, the 12th and 13th field after the name, in hundredths of a second.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Duration::from_millis(10 * (user + system)))
}

fn command_line(pid: i32) -> String {
    match fs::read_to_string(format!("/proc/{pid}/cmdline")) {
        Ok(words) => words.replace('\0', " "),
        Err(_) => ps(&["-o", "args=", "-p", &pid.to_string()]),
    }
}

fn ps(arguments: &[&str]) -> String {
    let output = Command::new("ps").args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Ends a group when this program ends, even if it is killed.
///
/// It is a shell that reads from a pipe of this program: the pipe closes when the program ends.
pub struct Watchdog(Child);

impl Watchdog {
    /// Watches `group` until the value is dropped.
    pub fn start(group: &Group) -> Result<Self> {
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

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Kills the shell before its pipe closes, so that it sends no signal: the group's id may belong to another
        // group by now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_does_not_count_as_running() {
        let zombie = parse_stat("70 (a) b) Z 1 70 70 0 -1").expect("an entry");
        assert!(!zombie.runs_in(Pid::from_raw(70)));
        let sleeping = parse_stat("71 (sh) S 1 70 70 0 -1").expect("an entry");
        assert!(sleeping.runs_in(Pid::from_raw(70)) && !sleeping.runs_in(Pid::from_raw(71)));
    }

    #[test]
    fn the_machine_has_used_more_time_than_this_process() {
        if let (Some(machine), Ok(stat)) = (machine_cpu_time(), fs::read_to_string("/proc/self/stat")) {
            assert!(machine > parse_cpu_time(&stat).expect("a time"));
        }
    }

    #[test]
    fn processor_time_is_user_and_system_time() {
        let stat = "71 (sh) S 1 70 70 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 1 0 100";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(2)));
    }

    #[test]
    fn this_process_is_a_member_of_its_group() {
        let group = Group(nix::unistd::getpgrp());
        assert!(group.members("deps/dev-").contains(&nix::unistd::getpid()));
        assert!(group.is_alive());
    }

    #[test]
    fn a_group_ends_when_the_pipe_of_its_watchdog_closes() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("sleep");
        let group = Group::of_leader(&child);
        let mut watchdog = Watchdog::start(&group).expect("a guard");
        assert!(group.is_alive());
        // The system closes the pipe of a program that ends.
        drop(watchdog.0.stdin.take());
        group.wait_until_gone(Duration::from_secs(10));
        assert!(!group.is_alive());
        child.wait().expect("its end");
    }
}
