//! The client's half of the protocol, for tools and tests: requests encoded, answers decoded.
//!
//! `FrameEncoder::requests` and `FrameDecoder::responses` carry both over a connection.

pub mod requests;
pub mod responses;

pub use requests::{BatchEntry, Parameters};
pub use responses::{Answer, PreparedStatement, Response, ResultBody, Rows};
