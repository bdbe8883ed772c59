//! The two fixed ends of a file: the header at its first byte, and the footer in its last, which says where the rest
//! is. See FORMAT.md.

use crate::base::ids::TableId;
use crate::sstable::error::SSTableError;
use crate::sstable::index::Handle;

/// The format that is written; every file starts with this byte.
pub const FORMAT_VERSION: u8 = 1;
pub const HEADER_BYTES: usize = 32;
pub const FOOTER_BYTES: usize = 80;

const HEADER_MAGIC: &[u8; 7] = b"HelSST\n";
const FOOTER_MAGIC: &[u8; 8] = b"HelSSTfo";

/// The first bytes: version, magic, table, checksum.
pub fn write_header(table: TableId, out: &mut [u8; HEADER_BYTES]) {
    out.fill(0);
    out[0] = FORMAT_VERSION;
    out[1..8].copy_from_slice(HEADER_MAGIC);
    out[8..24].copy_from_slice(&table.0);
    let crc = crc32c::crc32c(&out[..28]);
    out[28..].copy_from_slice(&crc.to_le_bytes());
}

/// Checks the first bytes of `file`: that they are an SSTable's, of a version that is known, of `table`.
pub fn check_header(file: &str, table: TableId, bytes: &[u8]) -> Result<(), SSTableError> {
    let corrupt = |what: &str| SSTableError::corrupt(file, 0, what);
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or_else(|| corrupt("shorter than its header"))?;
    if &header[1..8] != HEADER_MAGIC {
        return Err(corrupt("the header's magic: not an SSTable"));
    }
    // A newer header may be laid out otherwise, so nothing after the version is looked at.
    if header[0] > FORMAT_VERSION {
        return Err(SSTableError::NewerVersion { file: file.into(), version: header[0], newest: FORMAT_VERSION });
    }
    if header[0] == 0 || crc32c::crc32c(&header[..28]).to_le_bytes() != header[28..] {
        return Err(corrupt("the header's checksum"));
    }
    let mut found = TableId([0; 16]);
    found.0.copy_from_slice(&header[8..24]);
    if found != table {
        let (found, wanted) = (found.to_string(), table.to_string());
        return Err(SSTableError::OtherTable { file: file.into(), found, wanted });
    }
    Ok(())
}

/// Where everything is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Data blocks stand one after another from the header's end to here.
    pub data_end_bytes: u64,
    /// Leaf blocks stand from there to the root.
    pub root: Handle,
    pub filter: Handle,
    pub statistics: Handle,
    /// Of the whole file, this footer included: a multiple of the direct-I/O alignment.
    pub file_bytes: u64,
}

impl Footer {
    pub fn encode(&self, out: &mut [u8; FOOTER_BYTES]) {
        out.fill(0);
        out[..8].copy_from_slice(&self.data_end_bytes.to_le_bytes());
        for (n, handle) in [self.root, self.filter, self.statistics].into_iter().enumerate() {
            let at = 8 + 12 * n;
            out[at..at + 8].copy_from_slice(&handle.offset_bytes.to_le_bytes());
            out[at + 8..at + 12].copy_from_slice(&handle.len_bytes.to_le_bytes());
        }
        out[44..52].copy_from_slice(&self.file_bytes.to_le_bytes());
        out[67] = FORMAT_VERSION;
        let crc = crc32c::crc32c(&out[..68]);
        out[68..72].copy_from_slice(&crc.to_le_bytes());
        out[72..].copy_from_slice(FOOTER_MAGIC);
    }

    /// From the last bytes of `file`, which is `file_bytes` long.
    pub fn decode(file: &str, bytes: &[u8], file_bytes: u64) -> Result<Self, SSTableError> {
        let corrupt = |what: &str| SSTableError::corrupt(file, file_bytes.saturating_sub(FOOTER_BYTES as u64), what);
        let bytes = bytes.last_chunk::<FOOTER_BYTES>().ok_or_else(|| corrupt("shorter than its footer"))?;
        if &bytes[72..] != FOOTER_MAGIC {
            return Err(corrupt("the footer's magic: the file is cut short or was never finished"));
        }
        if crc32c::crc32c(&bytes[..68]).to_le_bytes() != bytes[68..72] {
            return Err(corrupt("the footer's checksum"));
        }
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let handle = |at: usize| Handle {
            offset_bytes: long(at),
            len_bytes: u32::from_le_bytes(std::array::from_fn(|n| bytes[at + 8 + n])),
        };
        let footer = Footer {
            data_end_bytes: long(0),
            root: handle(8),
            filter: handle(20),
            statistics: handle(32),
            file_bytes: long(44),
        };
        if footer.file_bytes != file_bytes {
            return Err(corrupt("the footer names another length than the file has"));
        }
        let inside = |handle: Handle| {
            handle.offset_bytes >= footer.data_end_bytes
                && handle.offset_bytes.checked_add(u64::from(handle.len_bytes)).is_some_and(|end| end <= file_bytes)
        };
        if ![footer.root, footer.filter, footer.statistics].into_iter().all(inside) {
            return Err(corrupt("the footer points outside the file"));
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const TABLE: TableId = TableId([3; 16]);

    fn header() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        write_header(TABLE, &mut bytes);
        bytes
    }

    #[test]
    fn a_header_is_checked_for_version_table_and_damage() {
        let whole = header();
        check_header("f", TABLE, &whole).unwrap();
        assert!(matches!(check_header("f", TableId([4; 16]), &whole), Err(SSTableError::OtherTable { .. })));
        let mut newer = whole;
        newer[0] = 2;
        assert_eq!(
            check_header("f", TABLE, &newer).unwrap_err().to_string(),
            "f has SSTable format 2; this version reads formats up to 1"
        );
        for at in 0..HEADER_BYTES * 8 {
            let mut damaged = whole;
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(check_header("f", TABLE, &damaged).is_err(), "bit {at}");
        }
        assert!(check_header("f", TABLE, &whole[..31]).unwrap_err().is_corrupt());
    }

    #[test]
    fn a_footer_reads_back_and_every_flip_is_seen() {
        let handle = |offset_bytes| Handle { offset_bytes, len_bytes: 100 };
        let footer = Footer {
            data_end_bytes: 5000,
            root: handle(6000),
            filter: handle(6100),
            statistics: handle(6200),
            file_bytes: 8192,
        };
        let mut bytes = [0; FOOTER_BYTES];
        footer.encode(&mut bytes);
        assert_eq!(Footer::decode("f", &bytes, 8192).unwrap(), footer);
        assert!(Footer::decode("f", &bytes, 4096).is_err());
        assert!(Footer::decode("f", &bytes[1..], 8192).is_err());
        for at in 0..FOOTER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(Footer::decode("f", &damaged, 8192).unwrap_err().is_corrupt(), "bit {at}");
        }
    }

    #[test]
    fn a_footer_that_points_outside_is_refused() {
        let mut bytes = [0; FOOTER_BYTES];
        let far = Handle { offset_bytes: u64::MAX, len_bytes: 2 };
        Footer { root: far, file_bytes: 4096, ..Footer::default() }.encode(&mut bytes);
        assert!(Footer::decode("f", &bytes, 4096).unwrap_err().to_string().contains("outside"));
    }
}
