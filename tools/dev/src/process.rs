//! Starts a process in its own group, keeps its output, and ends the whole group.

mod group;
mod output;

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};

pub use self::group::{machine_cpu_time, signal_with_children};
use self::{
    group::{Group, Watchdog},
    output::Output,
};
use crate::poll::{self, Probe};

/// Maximum time for a process to exit after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A process in its own process group. The group is killed on drop, and also ends if this program ends, even by a
/// signal.
pub struct Process {
    name: String,
    child: Child,
    group: Group,
    output: Output,
    _watchdog: Watchdog,
}

impl Process {
    /// Starts `command`. Its output is kept in memory and, if given, appended to `log`.
    pub fn spawn(name: &str, command: &mut Command, log: Option<&Path>) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start {program}: is it installed?"))?;
        let group = Group::of_leader(&child);
        let output = Output::drain(&mut child, log)?;
        let watchdog = Watchdog::start(&group)?;
        Ok(Self { name: name.to_owned(), child, group, output, _watchdog: watchdog })
    }

    /// The process id, which is also the id of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of output of the process and its children.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// The output of an ended process: waits until its streams are closed, so that the last lines are included.
    pub fn complete_output(&mut self) -> String {
        self.output.wait_until_complete(EXIT_TIMEOUT);
        self.output()
    }

    /// Waits for the first line for which `find` returns a value.
    pub fn wait_for_line<T>(&mut self, what: &str, timeout: Duration, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let found = poll::until(what, timeout, || {
            // The exit counts only after all output is read: the line may be in the unread part.
            let exited = self.exited().filter(|_| self.output.is_complete());
            match (self.output.find(&find), exited) {
                (Some(found), _) => Ok(Probe::Ready(found)),
                (None, Some(status)) => bail!("{} ended with {status} before {what}", self.name),
                (None, None) => Ok(Probe::Pending("no such line")),
            }
        });
        found.with_context(|| format!("{} wrote:\n{}", self.name, self.output()))
    }

    /// Searches the output so far for a line for which `find` returns a value.
    pub fn find_line<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.output.find(find)
    }

    /// Sends a signal to the group.
    pub fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Sends a signal to the group, and to children that lead groups of their own.
    pub fn signal_with_children(&self, signal: Signal) {
        self.group.signal(signal);
        self.group.signal_children(signal);
    }

    /// Sends a signal to the members of the group whose command line contains `pattern`; returns their number.
    pub fn signal_members(&self, pattern: &str, signal: Signal) -> usize {
        let members = self.group.members(pattern);
        for member in &members {
            // A member that has ended meanwhile is ignored.
            let _ = kill(*member, signal);
        }
        members.len()
    }

    /// Processor time that the running members of the group whose command line contains `pattern` have used; `None`
    /// where the system does not show it.
    pub fn cpu_time(&self, pattern: &str) -> Option<Duration> {
        self.group.cpu_time(pattern)
    }

    /// Kills the group, as a crash would. Waits until its remaining output is kept and logged.
    pub fn kill(&mut self) {
        self.group.signal(Signal::SIGKILL);
        let _ = self.child.wait();
        self.group.wait_until_gone(EXIT_TIMEOUT);
        self.output.wait_until_complete(EXIT_TIMEOUT);
    }

    /// Sends `SIGTERM` to the group, waits up to ten seconds, and kills what is left.
    pub fn stop(&mut self) {
        self.group.signal(Signal::SIGTERM);
        self.group.signal(Signal::SIGCONT);
        let _ = poll::until("the end", EXIT_TIMEOUT, || {
            let gone = self.exited().is_some() && !self.group.is_alive();
            Ok(if gone { Probe::Ready(()) } else { Probe::Pending("alive") })
        });
        self.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn is_alive(pid: &str) -> bool {
        let state = Command::new("ps").args(["-o", "state=", "-p", pid]).output().expect("ps").stdout;
        !state.is_empty() && !state.starts_with(b"Z")
    }

    #[test]
    fn kill_ends_the_children_of_a_leader_that_died_alone() {
        let mut process = Process::spawn("parent", &mut shell("sleep 60 & echo child $!; wait"), None).expect("sh");
        let child = process
            .wait_for_line("the child", EXIT_TIMEOUT, |line| line.strip_prefix("child ").map(str::to_owned))
            .expect("a line");
        kill(nix::unistd::Pid::from_raw(process.id().cast_signed()), Signal::SIGKILL).expect("kill");
        process.child.wait().expect("the parent's end");
        assert!(is_alive(&child));
        process.kill();
        assert!(!is_alive(&child));
    }

    #[test]
    fn a_failure_reports_the_output_before_it() {
        let mut process = Process::spawn("liar", &mut shell("echo no luck >&2; exit 3"), None).expect("sh");
        let error =
            process.wait_for_line("luck", EXIT_TIMEOUT, |line| (line == "luck").then_some(())).expect_err("none");
        let error = format!("{error:#}");
        assert!(error.contains("no luck") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn stop_sends_sigterm_before_sigkill() {
        let temp_dir = TempDir::new().expect("a directory");
        let log = temp_dir.path().join("log");
        let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let mut process = Process::spawn("polite", &mut shell(script), Some(&log)).expect("sh");
        process.wait_for_line("ready", EXIT_TIMEOUT, |line| (line == "ready").then_some(())).expect("a line");
        process.stop();
        let log = fs::read_to_string(&log).expect("a log");
        assert!(log.starts_with("ready\n") && log.contains("bye\n"), "{log}");
    }
}
