//! Processes of this program that do one thing each: what hangs is ended, what breaks a device breaks it for itself alone.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at a child.
const LOOK: Duration = Duration::from_millis(5);

/// The end of a child.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// As it should.
    Well,
    /// By itself, with a failure, in words.
    Badly(String),
    /// It took too long and was ended.
    Late,
}

/// A child that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The manner of its end.
    pub end: End,
    /// Seconds that it took.
    pub seconds: f64,
}

/// This program with arguments.
pub fn own(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// Runs a command, whose output goes to a file, for so long at most.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Ended {
    let start = Instant::now();
    let end = started(command, log).and_then(|mut child| wait(&mut child, start + limit));
    Ended { end: end.unwrap_or_else(|e| End::Badly(e.to_string())), seconds: start.elapsed().as_secs_f64() }
}

fn started(command: &mut Command, log: &Path) -> io::Result<Child> {
    let out = File::create(log)?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()
}

fn wait(child: &mut Child, until: Instant) -> io::Result<End> {
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(End::Well),
            Some(status) => return Ok(End::Badly(words(status))),
            None if Instant::now() >= until => {
                child.kill()?;
                child.wait()?;
                return Ok(End::Late);
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

fn words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_end_in_three_ways() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.txt");
        let end = |script: &str, limit| {
            run(Command::new("sh").args(["-c", script]), &log, Duration::from_millis(limit)).end
        };
        assert_eq!(end("echo so", 60_000), End::Well);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "so\n");
        assert_eq!(end("exit 3", 60_000), End::Badly("exit code 3".into()));
        assert_eq!(end("sleep 60", 50), End::Late);
        assert!(matches!(end("kill -9 $$", 60_000), End::Badly(words) if words.contains("signal")));
    }
}
