//! The paging state that a client carries from one page of a SELECT to the next.
//!
//! ```text
//! [version: u8 = 1] [crc32c of what follows: u32] [table id: 16 bytes] [flags: u8]
//! [partition key: vint length, bytes] [rows or groups of the partition before: vint]
//! [clustering of the last row: vint length, bytes]    if AFTER_ROW
//! [rows left of LIMIT: vint]                          if LIMITED
//! ```
//! Integers are big-endian. It names a place in the ring and what is left of the limits, nothing of this process: it
//! holds after a restart, under another shard count and for another page size. It is a client's to send, so every
//! byte is checked.

use crate::base::ids::TableId;
use crate::base::vint;
use crate::mutation::read::{PartitionKey, Resume};
use crate::protocol::CqlError;
use crate::schema::partitioner::token_of;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 5;
const AFTER_ROW: u8 = 1;
const LIMITED: u8 = 2;

/// Where the next page starts, and what may still come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    pub table: TableId,
    /// With the rows (under GROUP BY: the groups) that its partition has given.
    pub resume: Resume,
    /// What is left of LIMIT; `None` where there is none.
    pub rows_left: Option<u64>,
}

impl PagingState {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.table.0.to_vec();
        let after_row = if self.resume.after.is_some() { AFTER_ROW } else { 0 };
        let limited = if self.rows_left.is_some() { LIMITED } else { 0 };
        body.push(after_row | limited);
        put_bytes(&mut body, &self.resume.partition.key);
        vint::write_u64(&mut body, self.resume.partition_rows);
        if let Some(after) = &self.resume.after {
            put_bytes(&mut body, after);
        }
        if let Some(rows) = self.rows_left {
            vint::write_u64(&mut body, rows);
        }
        let mut out = vec![VERSION];
        out.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
        out.extend_from_slice(&body);
        out
    }

    /// The state that a client sent for a SELECT of `table`; `None` where it is empty, which starts anew.
    pub fn decode(bytes: &[u8], table: TableId) -> Result<Option<PagingState>, CqlError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match parse(bytes) {
            Some(state) if state.table == table => Ok(Some(state)),
            _ => Err(CqlError::protocol_error("Invalid value for the paging state")),
        }
    }
}

fn parse(bytes: &[u8]) -> Option<PagingState> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [version, checksum @ ..] = header;
    if *version != VERSION || u32::from_be_bytes(*checksum) != crc32c::crc32c(body) {
        return None;
    }
    let (table, rest) = body.split_first_chunk::<16>()?;
    let (flags, mut rest) = rest.split_first()?;
    if flags & !(AFTER_ROW | LIMITED) != 0 {
        return None;
    }
    let key = take_bytes(&mut rest)?;
    let partition_rows = vint::read_u64(&mut rest)?;
    let after = if flags & AFTER_ROW != 0 { Some(take_bytes(&mut rest)?.to_vec()) } else { None };
    let rows_left = if flags & LIMITED != 0 { Some(vint::read_u64(&mut rest)?) } else { None };
    rest.is_empty().then(|| PagingState {
        table: TableId(*table),
        resume: Resume { partition: PartitionKey { token: token_of(key), key: key.to_vec() }, after, partition_rows },
        rows_left,
    })
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(vint::read_u64(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::protocol::ErrorCode;
    use proptest::prelude::*;

    const TABLE: TableId = TableId([7; 16]);

    fn state(key: &[u8], after: Option<Vec<u8>>, partition_rows: u64, rows_left: Option<u64>) -> PagingState {
        let partition = PartitionKey { token: token_of(key), key: key.to_vec() };
        PagingState { table: TABLE, resume: Resume { partition, after, partition_rows }, rows_left }
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(
            key: Vec<u8>,
            after: Option<Vec<u8>>,
            partition_rows: u64,
            rows_left: Option<u64>,
        ) {
            let state = state(&key, after, partition_rows, rows_left);
            prop_assert_eq!(PagingState::decode(&state.encode(), TABLE).unwrap(), Some(state));
        }

        #[test]
        fn other_bytes_are_a_protocol_error(bytes in prop::collection::vec(any::<u8>(), 1..60)) {
            let error = PagingState::decode(&bytes, TABLE).unwrap_err();
            prop_assert_eq!(error.code(), ErrorCode::ProtocolError);
        }

        #[test]
        fn a_flipped_bit_is_seen(bit in 0usize..8 * 30) {
            let mut bytes = state(b"key", Some(b"row".to_vec()), 3, Some(9)).encode();
            let at = bit / 8 % bytes.len();
            bytes[at] ^= 1 << (bit % 8);
            prop_assert!(PagingState::decode(&bytes, TABLE).is_err());
        }
    }

    #[test]
    fn an_empty_state_starts_anew() {
        assert_eq!(PagingState::decode(b"", TABLE).unwrap(), None);
    }

    #[test]
    fn the_state_of_another_table_is_refused() {
        let bytes = state(b"k", None, 0, None).encode();
        assert!(PagingState::decode(&bytes, TableId([8; 16])).is_err());
    }

    #[test]
    fn what_is_cut_off_or_added_is_refused() {
        let bytes = state(b"k", Some(b"c".to_vec()), 1, Some(2)).encode();
        for len in 1..bytes.len() {
            assert!(PagingState::decode(&bytes[..len], TABLE).is_err(), "{len}");
        }
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert!(PagingState::decode(&longer, TABLE).is_err());
    }
}
