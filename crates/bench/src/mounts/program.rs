//! Programs that people run below a mount point. What they ask of it is theirs, and so is what they leave to the kernel's caches.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Source files in each directory, and how many of them are compiled.
const SOURCES: usize = 25;
const COMPILED: usize = 4;
/// Directories of the whole tree.
const DIRECTORIES: usize = 40;
/// Functions of a source file, which make it 4 KiB long.
const FUNCTIONS: usize = 64;

/// One of them, on a tree of sources in C with so many directories.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Program {
    kind: Kind,
    directories: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Untar,
    Git,
    Make,
}

/// A program with its arguments, and what its time is called.
pub struct Step {
    pub kind: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const fn step(kind: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { kind, program, arguments }
}

/// Says nothing if nothing has changed.
const STATUS: Step = step("status", "git", &["-C", "made/clone", "status", "--porcelain"]);
/// At the end of each: what the kernel has kept goes to the mount point, and lasts.
const SYNC: Step = step("sync", "sync", &["--file-system", "."]);

impl Program {
    /// All of them, with everything divided by `shrink`.
    pub fn all(shrink: u64) -> [Program; 3] {
        let directories = (DIRECTORIES / shrink as usize).max(2);
        [Kind::Untar, Kind::Git, Kind::Make].map(|kind| Program { kind, directories })
    }

    pub fn name(self) -> &'static str {
        match self.kind {
            Kind::Untar => "untar",
            Kind::Git => "git",
            Kind::Make => "make",
        }
    }

    pub fn about(self) -> String {
        let (files, compiled) = (self.directories * SOURCES, self.directories * COMPILED);
        let what = match self.kind {
            Kind::Untar => {
                format!("tar unpacks an archive of {files} source files of 4 KiB that lies beside them")
            }
            Kind::Git => format!(
                "git adds {files} source files of 4 KiB, commits them, clones the repository without hard links, and looks for changes in the clone"
            ),
            Kind::Make => format!(
                "make has cc compile {compiled} of {files} source files of 4 KiB, two at a time, and link them"
            ),
        };
        what + "; then sync of the file system."
    }

    pub fn unit(self) -> &'static str {
        match self.kind {
            Kind::Untar | Kind::Git => "files",
            Kind::Make => "files compiled",
        }
    }

    /// Units of one repetition.
    pub fn amount(self) -> u64 {
        let each = if self.kind == Kind::Make { COMPILED } else { SOURCES };
        (self.directories * each) as u64
    }

    /// What is timed, in this order, in the directory of the client.
    pub fn steps(self) -> Vec<Step> {
        match self.kind {
            Kind::Untar => vec![step("tar", "tar", &["-xf", "sources.tar", "-C", "made"]), SYNC],
            Kind::Git => vec![
                step("add", "git", &["-C", "sources", "add", "--all"]),
                step("commit", "git", &["-C", "sources", "commit", "--quiet", "--message=sources"]),
                step("clone", "git", &["clone", "--quiet", "--no-hardlinks", "sources", "made/clone"]),
                STATUS,
                SYNC,
            ],
            Kind::Make => vec![step("make", "make", &["--silent", "--jobs=2", "--directory=sources"]), SYNC],
        }
    }

    /// Makes what is not measured: the sources, and what a run begins with.
    pub fn prepare(self, folder: &Path) -> Result<()> {
        let sources = folder.join("sources");
        fs::create_dir_all(folder.join("made"))?;
        fs::create_dir_all(&sources)?;
        for (name, text) in self.sources() {
            let path = sources.join(name);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        match self.kind {
            Kind::Untar => step("tar", "tar", &["-cf", "sources.tar", "sources"]).run(folder).map(drop),
            Kind::Git => step("init", "git", &["-C", "sources", "init", "--quiet"]).run(folder).map(drop),
            Kind::Make => Ok(()),
        }
    }

    /// Whether there is what should have been made.
    pub fn check(self, folder: &Path) -> Result<()> {
        let made = match self.kind {
            Kind::Untar => folder.join("made/sources"),
            Kind::Git => folder.join("made/clone"),
            Kind::Make => {
                let program = folder.join("sources/program");
                let length = fs::metadata(&program).context("make has linked nothing")?.len();
                ensure!(length > 0, "{} is empty", program.display());
                return Ok(());
            }
        };
        for (name, text) in self.sources() {
            let path = made.join(name);
            let found = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(found == text.as_bytes(), "{} is another file than was packed", path.display());
        }
        if self.kind == Kind::Git {
            let changes = STATUS.run(folder)?;
            ensure!(changes.is_empty(), "a fresh clone has changes: {changes}");
        }
        Ok(())
    }

    /// The files of the tree, by their paths in it.
    fn sources(self) -> Vec<(String, String)> {
        let files = |directory: usize| (0..SOURCES).map(move |file| (directory, file));
        let mut all: Vec<_> = (0..self.directories)
            .flat_map(files)
            .map(|(directory, file)| (format!("d{directory}/f{file}.c"), source(directory, file)))
            .collect();
        let objects: Vec<_> = (0..self.directories)
            .flat_map(|directory| (0..COMPILED).map(move |file| format!("d{directory}/f{file}.o")))
            .collect();
        all.push(("main.c".into(), "int main(void) { return 0; }\n".into()));
        all.push(("Makefile".into(), format!("program: main.o {}\n\t$(CC) -o $@ $^\n", objects.join(" "))));
        all
    }
}

impl Step {
    /// What it has said. It sees no settings of whoever measures, and no repository of his.
    pub fn run(&self, folder: &Path) -> Result<String> {
        let of_others = |name: &str| name.starts_with("GIT_") || name.starts_with("MAKE");
        let mut command = Command::new(self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| of_others(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        let done = command
            .args(self.arguments)
            .current_dir(folder)
            .envs([("GIT_AUTHOR_NAME", "bench"), ("GIT_AUTHOR_EMAIL", "bench@localhost")])
            .envs([("GIT_COMMITTER_NAME", "bench"), ("GIT_COMMITTER_EMAIL", "bench@localhost")])
            .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1"), ("LC_ALL", "C")])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {}; is it installed?", self.program))?;
        ensure!(
            done.status.success(),
            "{} {} ended with {}: {}",
            self.program,
            self.arguments.join(" "),
            done.status,
            String::from_utf8_lossy(&done.stderr).trim_end()
        );
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

fn source(directory: usize, file: usize) -> String {
    let function = |number| {
        format!("int d{directory}_f{file}_{number}(int x)\n{{\n    return x * {file} + {number};\n}}\n\n")
    };
    (0..FUNCTIONS).map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_make_what_is_looked_for_and_its_lack_is_noticed() {
        for program in Program::all(20) {
            let folder = tempfile::tempdir().unwrap();
            program.prepare(folder.path()).unwrap();
            assert!(program.check(folder.path()).is_err(), "{program:?} has made nothing yet");
            for step in program.steps() {
                step.run(folder.path()).unwrap();
            }
            program.check(folder.path()).unwrap();
        }
    }
}
