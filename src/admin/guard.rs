//! What is refused before any route is looked at. A page in a browser can reach loopback: under a name of its own that it
//! had resolved to 127.0.0.1, which shows in `Host`, or from its own place, which shows in `Origin`.

use std::net::IpAddr;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::admin::Failed;

/// Lets through what names this endpoint as its host, comes from no other origin, and has no body.
pub async fn guard(request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    if let Err(failed) = check_source(authority.as_deref(), request.headers()) {
        return failed.into_response();
    }
    let (head, body) = request.into_parts();
    if to_bytes(body, 0).await.is_err() {
        let reason = "a request has no body here: parameters go into the query, as in ?keyspace=NAME";
        return Failed(StatusCode::BAD_REQUEST, reason.into()).into_response();
    }
    next.run(Request::from_parts(head, Body::empty())).await
}

/// `authority`: of a request line that holds a whole URI.
fn check_source(authority: Option<&str>, headers: &HeaderMap) -> Result<(), Failed> {
    let forbidden = |reason: String| Failed(StatusCode::FORBIDDEN, reason);
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let hosts = headers.get_all(header::HOST).iter().map(text).chain(authority.map(str::to_owned));
    let hosts: Vec<String> = hosts.collect();
    if hosts.is_empty() {
        return Err(forbidden("the request names no Host".into()));
    }
    if let Some(foreign) = hosts.iter().find(|host| !is_loopback(host)) {
        return Err(forbidden(format!("Host `{foreign}` is not this endpoint: ask for 127.0.0.1 or localhost")));
    }
    for origin in headers.get_all(header::ORIGIN).iter().map(text) {
        let is_own = origin.strip_prefix("http://").is_some_and(|of| hosts.iter().all(|host| host == of));
        if !is_own {
            return Err(forbidden(format!("requests from the origin `{origin}` are refused")));
        }
    }
    Ok(())
}

/// Whether `host`, of a Host header, is `localhost` or a loopback address. Its port may be any: a tunnel's other end has
/// one of its own, and no page can choose it for a name that is not its own.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    let address = match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').and_then(|inner| inner.parse().ok()).map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_hosts() {
        for host in ["127.0.0.1:9180", "127.0.0.1", "localhost:9180", "LocalHost", "[::1]:9180", "127.1.2.3:1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9180",
            "10.0.0.1:9180",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:9180:1",
            "localhost:x",
            "user@127.0.0.1",
            "0.0.0.0:9180",
            "[::]:9180",
            "::1",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let check = |lines: &[(header::HeaderName, &'static str)], authority| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name.clone(), header::HeaderValue::from_static(value));
            }
            check_source(authority, &headers).map_err(|failed| failed.0)
        };
        let (host, own) = ((header::HOST, "127.0.0.1:9180"), (header::ORIGIN, "http://127.0.0.1:9180"));
        assert_eq!(check(std::slice::from_ref(&host), None), Ok(()));
        assert_eq!(check(&[host.clone(), own.clone()], None), Ok(()));
        let forbidden = Err(StatusCode::FORBIDDEN);
        for origin in ["http://evil.example", "http://127.0.0.1:8080", "https://127.0.0.1:9180", "null", ""] {
            assert_eq!(check(&[host.clone(), (header::ORIGIN, origin)], None), forbidden, "{origin}");
        }
        assert_eq!(check(&[host.clone(), own, (header::ORIGIN, "http://evil.example")], None), forbidden);
        assert_eq!(check(&[host.clone(), (header::HOST, "evil.example")], None), forbidden);
        assert_eq!(check(std::slice::from_ref(&host), Some("evil.example")), forbidden);
        assert_eq!(check(&[], None), forbidden);
    }
}
