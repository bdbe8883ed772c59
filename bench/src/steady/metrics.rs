//! The server's admin endpoint, as far as it is asked here.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The body of an answer to GET.
pub fn get(port: u16, path: &str) -> Result<String, String> {
    ask(port, "GET", path)
}

pub fn post(port: u16, path: &str) -> Result<String, String> {
    ask(port, "POST", path)
}

fn ask(port: u16, method: &str, path: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{method} {path}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{method} {path}: `{answer}`"))?;
    match head.starts_with("HTTP/1.1 200 ") {
        true => Ok(body.to_owned()),
        false => Err(format!("{method} {path}: {head}\n{body}")),
    }
}

/// One answer of `/metrics`: a line's name, its labels, its value.
pub struct Scrape(Vec<(String, String, f64)>);

impl Scrape {
    pub fn parse(text: &str) -> Scrape {
        let line = |line: &str| {
            let (name, rest) = line.split_once('{')?;
            let (labels, value) = rest.rsplit_once("} ")?;
            Some((name.to_owned(), labels.to_owned(), value.trim().parse().ok()?))
        };
        Scrape(text.lines().filter(|text| !text.starts_with('#')).filter_map(line).collect())
    }

    pub fn shards(&self) -> BTreeSet<u16> {
        self.0.iter().filter_map(|(_, labels, _)| shard_of(labels)).collect()
    }

    /// All lines of a metric and shard together, those of other keyspaces than users' left out; `None` where there are
    /// none.
    pub fn sum(&self, metric: &str, shard: u16) -> Option<f64> {
        let mut lines = self.0.iter().filter(|(name, labels, _)| {
            name == metric && shard_of(labels) == Some(shard) && !labels.contains("keyspace=\"system")
        });
        lines.next().map(|(_, _, first)| first + lines.map(|(_, _, value)| value).sum::<f64>())
    }
}

fn shard_of(labels: &str) -> Option<u16> {
    labels.strip_prefix("shard=\"")?.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_by_metric_and_shard() {
        let scrape = Scrape::parse(
            "# TYPE a counter\na{shard=\"0\"} 7\na{shard=\"1\"} 2\n\
             b{shard=\"1\",keyspace=\"k\",table=\"t\"} 3\nb{shard=\"1\",keyspace=\"k\",table=\"u\"} 4\n\
             b{shard=\"1\",keyspace=\"system\",table=\"t\"} 9\n",
        );
        assert_eq!((scrape.sum("a", 0), scrape.sum("a", 1), scrape.sum("b", 1)), (Some(7.0), Some(2.0), Some(7.0)));
        assert_eq!((scrape.sum("b", 0), scrape.sum("c", 1)), (None, None));
        assert_eq!(scrape.shards(), BTreeSet::from([0, 1]));
    }
}
