//! Which segments make up a log. Each segment's blocks name the segment before it and where that ends, so the newest
//! one leads back to the oldest, past everything that an earlier recovery cut off. Pure.

use super::error::ReplayError;
use crate::base::ids::{LogPosition, SegmentId, StreamId};

/// A segment's file and what a valid header of its own in it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: SegmentId,
    /// `None` where it holds no valid header.
    pub previous_end: Option<LogPosition>,
}

/// A segment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub id: SegmentId,
    /// Where it ends, as the segment behind it says; `None` where none says so.
    pub end_bytes: Option<u32>,
}

/// A log's segments, oldest first, and those in which nothing counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub links: Vec<Link>,
    pub dropped: Vec<SegmentId>,
}

/// Follows the chain back from the newest segment that was written. `found` is sorted.
pub fn chain(stream: StreamId, found: &[Found]) -> Result<Chain, ReplayError> {
    let mut links: Vec<Link> = Vec::new();
    let mut next = found.iter().rposition(|one| one.previous_end.is_some()).map(|at| (at, None));
    while let Some((at, end_bytes)) = next {
        let one = found[at];
        links.push(Link { id: one.id, end_bytes });
        next = match one.previous_end {
            // Lost, or damaged throughout: whatever is below it came before it.
            None => at.checked_sub(1).map(|below| (below, None)),
            Some(previous) => match found[..at].iter().position(|other| other.id == previous.segment) {
                Some(before) => Some((before, Some(previous.offset_bytes))),
                None => {
                    let hole = found[..at].iter().any(|other| other.id < previous.segment);
                    if hole && previous.segment != LogPosition::ZERO.segment {
                        return Err(ReplayError::MissingSegment { stream, segment: previous.segment, next: one.id });
                    }
                    None
                }
            },
        };
    }
    links.reverse();
    let is_link = |id| links.iter().any(|link: &Link| link.id == id);
    let dropped = found.iter().map(|one| one.id).filter(|id| !is_link(*id)).collect();
    Ok(Chain { links, dropped })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// `id`, and the segment and offset that it names, if anything.
    fn chained(segments: &[(u64, Option<(u64, u32)>)]) -> Result<Chain, ReplayError> {
        let found: Vec<Found> = segments
            .iter()
            .map(|(id, previous)| Found {
                id: SegmentId(*id),
                previous_end: previous
                    .map(|(segment, offset_bytes)| LogPosition { segment: SegmentId(segment), offset_bytes }),
            })
            .collect();
        chain(StreamId(1), &found)
    }

    fn links(chain: &Chain) -> Vec<(u64, Option<u32>)> {
        chain.links.iter().map(|link| (link.id.0, link.end_bytes)).collect()
    }

    #[test]
    fn a_plain_log_with_its_spare() {
        let chain = chained(&[(4, Some((3, 100))), (5, Some((4, 4096))), (6, None)]).unwrap();
        assert_eq!(links(&chain), [(4, Some(4096)), (5, None)]);
        assert_eq!(chain.dropped, [SegmentId(6)]);
    }

    #[test]
    fn nothing_written_is_an_empty_log() {
        assert_eq!(chained(&[]).unwrap(), Chain::default());
        assert_eq!(chained(&[(1, None), (2, None)]).unwrap().dropped.len(), 2);
    }

    #[test]
    fn what_a_recovery_cut_off_is_dropped() {
        let chain =
            chained(&[(1, Some((0, 0))), (2, Some((1, 8192))), (3, Some((2, 0))), (4, Some((1, 4096)))]).unwrap();
        assert_eq!(links(&chain), [(1, Some(4096)), (4, None)]);
        assert_eq!(chain.dropped, [SegmentId(2), SegmentId(3)]);
    }

    #[test]
    fn a_lost_segment_in_the_chain_stays_a_link() {
        let chain = chained(&[(1, Some((0, 0))), (2, None), (3, Some((2, 8192)))]).unwrap();
        assert_eq!(links(&chain), [(1, None), (2, Some(8192)), (3, None)]);
    }

    #[test]
    fn a_hole_is_named_and_a_released_start_is_none() {
        let hole = chained(&[(1, Some((0, 0))), (3, Some((2, 64)))]);
        assert!(matches!(hole, Err(ReplayError::MissingSegment { segment: SegmentId(2), next: SegmentId(3), .. })));
        assert_eq!(links(&chained(&[(3, Some((2, 64)))]).unwrap()), [(3, None)]);
    }

    #[test]
    fn a_segment_that_names_itself_or_a_later_one_ends_the_chain() {
        assert_eq!(links(&chained(&[(3, Some((3, 64)))]).unwrap()), [(3, None)]);
        assert_eq!(links(&chained(&[(3, Some((4, 64))), (4, Some((3, 0)))]).unwrap()), [(3, Some(0)), (4, None)]);
    }
}
