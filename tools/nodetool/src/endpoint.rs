//! The admin endpoint, as HTTP.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

pub struct Endpoint {
    base: String,
    agent: ureq::Agent,
}

impl Endpoint {
    pub fn new(host: &str, port: u16) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        Endpoint { base: format!("http://{host}:{port}"), agent: config.into() }
    }

    pub fn get(&self, path: &str, parameters: &[(&str, String)]) -> Result<Value, String> {
        let request = self.agent.get(format!("{}{path}", self.base));
        let request = parameters.iter().fold(request, |request, (name, value)| request.query(*name, value));
        self.answer(request.call())
    }

    pub fn post(&self, path: &str, parameters: &[(&str, String)]) -> Result<Value, String> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = parameters.iter().fold(request, |request, (name, value)| request.query(*name, value));
        self.answer(request.send_empty())
    }

    /// A POST that may take long, with a bar on a terminal.
    pub fn work(&self, what: &str, path: &str, parameters: &[(&str, String)]) -> Result<String, String> {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        let done = self.post(path, parameters);
        bar.finish_and_clear();
        done.map(|_| String::new())
    }

    fn answer(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, String> {
        let mut response = sent.map_err(|error| {
            format!(
                "failed to connect to {}: {error}. Is the server running, with its admin endpoint there?",
                self.base
            )
        })?;
        let text = response.body_mut().read_to_string().map_err(|error| format!("the answer broke off: {error}"))?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if response.status().is_success() {
            return Ok(value);
        }
        let said = value.get("error").and_then(Value::as_str).map_or_else(|| text.clone(), str::to_owned);
        Err(format!("{} ({})", said.trim(), response.status()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_said_so() {
        let error = Endpoint::new("127.0.0.1", 1).get("/status", &[]).expect_err("nothing listens");
        assert!(error.contains("failed to connect to http://127.0.0.1:1"), "{error}");
    }
}
