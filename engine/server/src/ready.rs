//! The ready file: where a running server is found. Written once it takes orders (a member of a cluster: once it runs,
//! whoever leads), into the data directory and wherever `--ready-file` says; removed at a clean stop, and at the start before anything else.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use replicator::Member;
use serde::{Deserialize, Serialize};

use crate::files::{self, Readers};

/// Name of the ready file in the data directory.
pub const READY_FILE: &str = "ready.json";

const LENGTH_MAX: u64 = 4096;

/// What a ready file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Process id of the server.
    pub process: u32,
    /// Where clients of the native protocol connect.
    pub native: SocketAddr,
    /// Where health, metrics and administration are.
    pub http: SocketAddr,
    /// The data directory, absolute.
    pub data: PathBuf,
    /// `disk` or `memory`; of a member `quorum` or `memory`.
    pub durability: String,
    /// Last frame of the log when it was recovered.
    pub recovered_sequence: u64,
    /// Who this is among the members of its cluster; absent for a server alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
}

impl Ready {
    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string(self).map_err(io::Error::other)?;
        text.push('\n');
        files::write_atomically(path, text.as_bytes(), Readers::All)
    }

    /// Reads a file; `None` where there is none.
    ///
    /// # Errors
    /// The system's, or `InvalidData` where it is not a ready file.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let Some(text) = files::read_small(path, LENGTH_MAX)? else { return Ok(None) };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Reads the file of a data directory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of_data(data: &Path) -> io::Result<Option<Self>> {
        Self::read(&data.join(READY_FILE))
    }
}

#[cfg(test)]
mod tests {
    use replicator::MemberId;

    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let data = tempfile::tempdir().expect("a folder");
        assert_eq!(Ready::of_data(data.path()).expect("none"), None);
        let ready = Ready {
            process: 7,
            native: ([127, 0, 0, 1], 1).into(),
            http: ([127, 0, 0, 1], 2).into(),
            data: data.path().to_owned(),
            durability: "disk".to_owned(),
            recovered_sequence: 9,
            member: Some(Member { id: MemberId(1), ..Member::default() }),
        };
        ready.write(&data.path().join(READY_FILE)).expect("written");
        assert_eq!(Ready::of_data(data.path()).expect("read"), Some(ready));
        std::fs::write(data.path().join(READY_FILE), "{}").expect("written");
        assert!(Ready::of_data(data.path()).is_err());
    }
}
