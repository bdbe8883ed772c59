//! The operator's side of a server under test: POST to its admin port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A compaction of a test's few megabytes is done long before.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Status and body of the answer to `POST path`.
pub fn post(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let request = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| std::io::Error::other(format!("no HTTP answer: `{answer}`")))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn status_and_body_are_told_apart() {
        let answer = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(parse(answer), Some((500, "{}".to_owned())));
        assert_eq!(parse("HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_post_carries_its_path_and_reads_to_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"done\":true}").unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        assert_eq!(post(address, "/flush?keyspace=k").unwrap(), (200, "{\"done\":true}".to_owned()));
        assert!(server.join().unwrap().starts_with("POST /flush?keyspace=k HTTP/1.1\r\n"));
    }
}
