//! The command line. A flag beats `--set`, which beats the file.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;
use serde_yaml_ng::Value;

use crate::server::settings::{Settings, SettingsError};

/// Helenus, a wide-column database server that speaks Cassandra's CQL protocol.
#[derive(Clone, Debug, Parser)]
#[command(name = "helenus", version, about, disable_help_subcommand = true)]
pub struct Arguments {
    /// YAML file of settings, with cassandra.yaml's names and units
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of all data [default: ./helenus-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address to listen on for CQL (rpc_address) [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,
    /// CQL port; 0 picks a free one [default: 9042]
    #[arg(long)]
    pub port: Option<u16>,
    /// Port on which a driver chooses its shard; 0 picks a free one [default: 19042]
    #[arg(long, value_name = "PORT")]
    pub shard_aware_port: Option<u16>,
    /// Port of the admin endpoint on 127.0.0.1; 0 picks a free one [default: 9180]
    #[arg(long, value_name = "PORT")]
    pub admin_port: Option<u16>,
    /// Number of shards [default: one per allowed core]
    #[arg(long, value_name = "N")]
    pub shards: Option<u16>,
    /// Cores to pin shards to, such as 0-3,8 [default: those this process may use]
    #[arg(long, value_name = "LIST")]
    pub cpuset: Option<String>,
    /// Pin nothing and measure nothing of the device: for tests beside other work
    #[arg(long)]
    pub overprovisioned: bool,
    /// Any setting of the file; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Arguments {
    /// The settings that file, `--set` and flags come to, with the warnings on the way.
    pub fn settings(&self) -> Result<(Settings, Vec<String>), SettingsError> {
        let mut settings = Settings::default();
        let mut warnings = Vec::new();
        if let Some(path) = &self.config {
            let text = std::fs::read_to_string(path).map_err(|error| SettingsError::Unreadable {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
            warnings.extend(settings.read_yaml(path, &text)?);
        }
        for argument in &self.set {
            warnings.extend(settings.set_argument(argument)?);
        }
        self.apply_flags(&mut settings)?;
        settings.check()?;
        Ok((settings, warnings))
    }

    /// A flag is read as its setting of the file is.
    fn apply_flags(&self, settings: &mut Settings) -> Result<(), SettingsError> {
        let number = |flag: Option<u16>| flag.map(Value::from);
        let flags = [
            ("--listen", "rpc_address", self.listen.map(|address| Value::from(address.to_string()))),
            ("--port", "native_transport_port", number(self.port)),
            ("--shard-aware-port", "shard_aware_port", number(self.shard_aware_port)),
            ("--admin-port", "admin_port", number(self.admin_port)),
            ("--shards", "shards", number(self.shards)),
            ("--cpuset", "cpuset", self.cpuset.as_deref().map(Value::from)),
        ];
        for (flag, key, value) in flags {
            if let Some(value) = value {
                settings.set(flag, key, &value)?;
            }
        }
        if let Some(dir) = &self.data_dir {
            if dir.as_os_str().is_empty() {
                let (place, reason) = ("--data-dir".into(), "expected a directory".into());
                return Err(SettingsError::BadValue { place, key: "data_file_directories".into(), reason });
            }
            settings.data_dir.clone_from(dir);
        }
        settings.overprovisioned |= self.overprovisioned;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let parsed = Arguments::try_parse_from(std::iter::once("helenus").chain(arguments.iter().copied()));
        let parsed = parsed.map_err(|error| error.to_string())?;
        parsed.settings().map(|(settings, _)| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_beats_set_and_set_beats_the_default() {
        let given = settings(&["--set", "shards=3", "--set", "native_transport_port=1", "--port", "0"]).expect("valid");
        assert_eq!((given.shards, given.native_transport_port), (3, 0));
        assert_eq!(given.cluster_name, Settings::default().cluster_name);
        let cpu = crate::io::allowed_cores()[0];
        assert_eq!(settings(&["--cpuset", &cpu.to_string()]).expect("valid").cpuset, Some(vec![cpu]));
    }

    #[test]
    fn what_is_unknown_or_impossible_is_an_error() {
        assert!(settings(&["--list-tools"]).is_err());
        assert!(settings(&["--port", "70000"]).is_err());
        assert!(settings(&["--set", "no_such=1"]).expect_err("unknown").contains("no_such"));
        assert!(settings(&["--cpuset", "x"]).expect_err("no list").contains("cpuset"));
        let refused = settings(&["--cpuset", "4095"]).expect_err("no such CPU");
        assert!(refused.starts_with("--cpuset: `cpuset`: CPU 4095 is not among"), "{refused}");
        assert!(settings(&["--shards", "1025"]).expect_err("too many").contains("`shards`"));
        assert!(settings(&["--data-dir", ""]).expect_err("no name").contains("--data-dir"));
        assert!(settings(&["--port", "7", "--shard-aware-port", "7"]).expect_err("one port").contains("already"));
        assert!(settings(&["--config", "/nonexistent/helenus.yaml"]).expect_err("no file").contains("/nonexistent"));
    }
}
