//! What can go wrong with an SSTable.

use crate::io::IoError;
use crate::mutation::ReadStop;

/// A failed operation on an SSTable. Damage always names the file and where in it.
#[derive(Debug, thiserror::Error)]
pub enum SSTableError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("{file} is damaged at byte {offset_bytes}: {what}")]
    Corrupt { file: String, offset_bytes: u64, what: String },
    /// Damage that a block's decoder has put into words, with file and offset.
    #[error("{0}")]
    Damaged(String),
    #[error("{file} has SSTable format {version}; this version reads formats up to {newest}")]
    NewerVersion { file: String, version: u8, newest: u8 },
    #[error("{file} holds rows of table {found}, not of {wanted}")]
    OtherTable { file: String, found: String, wanted: String },
    #[error("the compaction was stopped")]
    Cancelled,
}

impl SSTableError {
    pub(crate) fn corrupt(file: &str, offset_bytes: u64, what: impl Into<String>) -> Self {
        SSTableError::Corrupt { file: file.to_owned(), offset_bytes, what: what.into() }
    }

    pub fn is_corrupt(&self) -> bool {
        matches!(self, SSTableError::Corrupt { .. } | SSTableError::Damaged(_))
    }
}

/// The same words for a walk that meets damage in a block it decodes.
pub(crate) fn damaged(file: &str, offset_bytes: u64, what: &str) -> ReadStop {
    ReadStop::Corrupt(SSTableError::corrupt(file, offset_bytes, what).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_file_and_offset() {
        let error = SSTableError::corrupt("/d/t/1.sst", 4096, "checksum");
        assert!(error.is_corrupt());
        assert_eq!(error.to_string(), "/d/t/1.sst is damaged at byte 4096: checksum");
        assert_eq!(damaged("f", 7, "x"), ReadStop::Corrupt("f is damaged at byte 7: x".into()));
    }
}
