//! Installing clients of pinned versions below `target/clients`, each with its language's own tool and lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scratch::target_dir;

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("`{program}` is needed and cannot be run ({source}); install it ({packages})")]
    Missing { program: String, packages: &'static str, source: std::io::Error },
    #[error("`{command}` failed ({status}):\n{output}")]
    Failed { command: String, status: std::process::ExitStatus, output: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
}

/// The languages that clients come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cqlsh,
    Python,
    Node,
    Java,
    Go,
}

/// Where the scripts and lock files are.
pub fn scripts_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

impl Kind {
    /// The folder of its scripts in `tools/campaign/clients`, and of its installation in `target/clients`.
    fn folder(self) -> &'static str {
        match self {
            Kind::Cqlsh | Kind::Python => "python",
            Kind::Node => "node",
            Kind::Java => "java",
            Kind::Go => "go",
        }
    }

    /// The file that pins every version: a change of it installs anew.
    fn lock_files(self) -> &'static [&'static str] {
        match self {
            Kind::Cqlsh | Kind::Python => &["requirements.txt"],
            Kind::Node => &["package.json", "package-lock.json"],
            Kind::Java => &["pom.xml"],
            Kind::Go => &["go.mod", "go.sum", "main.go"],
        }
    }

    /// Where it is installed.
    pub fn cache(self) -> PathBuf {
        target_dir().join("clients").join(self.folder())
    }

    fn source(self) -> PathBuf {
        scripts_dir().join(self.folder())
    }

    /// Installs it, unless what is there was made from the same lock files.
    pub fn install(self) -> Result<(), InstallError> {
        let mut pins = Vec::new();
        for name in self.lock_files() {
            let path = self.source().join(name);
            pins.extend(std::fs::read(&path).map_err(|source| InstallError::File { path, source })?);
        }
        let stamp = self.cache().join("installed-from");
        if std::fs::read(&stamp).is_ok_and(|installed| installed == pins) {
            return Ok(());
        }
        eprintln!("installing clients into {}", self.cache().display());
        let cache = self.cache();
        std::fs::create_dir_all(&cache).map_err(|source| InstallError::File { path: cache.clone(), source })?;
        match self {
            Kind::Cqlsh | Kind::Python => self.install_python()?,
            Kind::Node => self.install_node()?,
            Kind::Java => self.install_java()?,
            Kind::Go => self.install_go()?,
        }
        std::fs::write(&stamp, pins).map_err(|source| InstallError::File { path: stamp, source })
    }

    fn install_python(self) -> Result<(), InstallError> {
        let cache = self.cache();
        finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&cache), "python3, python3-venv")?;
        let requirements = self.source().join("requirements.txt");
        let mut pip = Command::new(cache.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]).arg(requirements);
        finish(&mut pip, "python3-pip")
    }

    fn install_node(self) -> Result<(), InstallError> {
        for name in self.lock_files() {
            let (from, to) = (self.source().join(name), self.cache().join(name));
            std::fs::copy(from, &to).map_err(|source| InstallError::File { path: to, source })?;
        }
        finish(Command::new("npm").args(["ci", "--silent"]).current_dir(self.cache()), "nodejs, npm")
    }

    fn install_java(self) -> Result<(), InstallError> {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(self.source().join("pom.xml"));
        maven.arg("dependency:copy-dependencies").arg(format!("-DoutputDirectory={}", self.cache().display()));
        finish(&mut maven, "maven, openjdk-17-jdk-headless")
    }

    fn install_go(self) -> Result<(), InstallError> {
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-o"]).arg(self.cache().join("gocql-client")).arg(".");
        finish(go.current_dir(self.source()), "golang")
    }

    /// The command that runs its script; the caller adds the script's arguments.
    pub fn command(self) -> Command {
        let cache = self.cache();
        let script = |name: &str| self.source().join(name);
        match self {
            Kind::Cqlsh | Kind::Python => {
                let mut python = Command::new(cache.join("bin/python"));
                python.arg(script(if self == Kind::Cqlsh { "cqlsh_client.py" } else { "driver_client.py" }));
                python
            }
            Kind::Node => {
                let mut node = Command::new("node");
                node.env("NODE_PATH", cache.join("node_modules")).arg(script("client.js"));
                node
            }
            Kind::Java => {
                let mut java = Command::new("java");
                java.arg("-cp").arg(cache.join("*")).arg(script("Client.java"));
                java
            }
            Kind::Go => Command::new(cache.join("gocql-client")),
        }
    }
}

/// Runs an installer to its end; its output is kept for the case that it fails.
fn finish(command: &mut Command, packages: &'static str) -> Result<(), InstallError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| InstallError::Missing { program, packages, source })?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(InstallError::Failed { command: format!("{command:?}"), status: output.status, output: text })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const KINDS: [Kind; 5] = [Kind::Cqlsh, Kind::Python, Kind::Node, Kind::Java, Kind::Go];

    #[test]
    fn every_lock_file_is_there() {
        for kind in KINDS {
            for name in kind.lock_files() {
                assert!(kind.source().join(name).is_file(), "{kind:?}: {name}");
            }
        }
    }

    #[test]
    fn every_go_file_is_among_those_that_cause_a_build() {
        let folder = std::fs::read_dir(Kind::Go.source()).unwrap();
        for entry in folder {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(Kind::Go.lock_files().contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn python_versions_are_all_exact() {
        let text = std::fs::read_to_string(Kind::Python.source().join("requirements.txt")).unwrap();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            assert!(line.contains("=="), "{line}");
        }
    }

    #[test]
    fn an_installer_that_fails_is_told_with_its_output() {
        let error = finish(Command::new("sh").args(["-c", "echo no such package; exit 3"]), "sh").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no such package") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_missing_installer_is_named_with_its_packages() {
        let error = finish(&mut Command::new("/nonexistent/npm"), "nodejs, npm").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nonexistent/npm") && text.contains("nodejs, npm"), "{text}");
    }
}
