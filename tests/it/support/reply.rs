//! An answer over HTTP, read to its end.

use http::HeaderMap;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    /// Sends a request.
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.text().await.unwrap() }
    }

    /// Reads an answer as it came over a socket, without chunks.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Self { status: status.parse().unwrap(), headers: headers.collect(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|fault| panic!("{fault}: {self:?}"))
    }

    /// The text at a JSON pointer.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> String {
        let json = self.json();
        let text = json.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("no text at {pointer}: {json}")).to_owned()
    }

    /// Asserts that this is a problem document of a code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["code"], code, "{self:?}");
        assert_eq!(body["status"], status, "{self:?}");
        assert_eq!(body["type"], format!("urn:hooktriage:error:{code}"), "{self:?}");
        assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()), "{self:?}");
    }
}
