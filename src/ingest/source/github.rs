//! `github`: the `issues` webhook of a repository, an organisation or an app.
//!
//! Signed is the body alone. The type of the event and the delivery's GUID stand in headers that
//! the signature does not cover, so neither is trusted far: the body must look like what the header
//! says, and a second key guards against a captured body under a new GUID. Source: GitHub Docs,
//! "Validating webhook deliveries", "Webhook events and payloads".

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, header::CONTENT_TYPE};

use super::EventFilter;
use super::reading::{Reading, labels_of, optional_text, time_of};
use crate::domain::TicketDraft;
use crate::ingest::json::{Node, readable};
use crate::ingest::signature::{
    Algorithm, IdPlace, KeyEncoding, Scheme, SignatureEncoding, SignatureList, Template,
};

/// Types that carry a ticket worth a verdict. Labels, assignees and closing change nothing that a
/// verdict rests on, and our own labels come back as `issues.labeled`.
pub(super) const EVENTS: &[&str] = &["issues.opened", "issues.edited", "issues.reopened"];

const EVENT_HEADER: HeaderName = HeaderName::from_static("x-github-event");

pub(super) fn scheme() -> Scheme {
    Scheme {
        header: HeaderName::from_static("x-hub-signature-256"),
        list: SignatureList::Single { prefix: "sha256=".to_owned() },
        algorithm: Algorithm::Sha256,
        encoding: SignatureEncoding::Hex,
        key_encoding: KeyEncoding::Utf8,
        template: Template::body(),
        time: None,
        id: IdPlace::Header(HeaderName::from_static("x-github-delivery")),
    }
}

pub(super) fn read(headers: &HeaderMap, body: &[u8], events: &EventFilter) -> Reading {
    let Some(event) = headers.get(EVENT_HEADER).and_then(|value| value.to_str().ok()) else {
        return Reading::unreadable(&"header `x-github-event` is missing, so the type is not known");
    };
    if event == "ping" {
        return Reading::Handshake { answer: r#"{"status":"pong"}"#.to_owned() };
    }
    let json = payload(headers, body);
    let text = match json.as_deref().map(readable) {
        Some(Ok(text)) => text,
        Some(Err(fault)) => return unreadable(event, &fault, events),
        None => return unreadable(event, &"the form has no field `payload`", events),
    };
    match Node::parse(&text) {
        Ok(root) => read_event(event, &root, events),
        Err(fault) => unreadable(event, &fault, events),
    }
}

/// A body that cannot be read matters only when its event may carry tickets at all.
fn unreadable(event: &str, fault: &impl ToString, events: &EventFilter) -> Reading {
    if events.concerns(event) {
        Reading::event(event, None, Err(fault.to_string()))
    } else {
        Reading::ignored(event)
    }
}

/// The JSON of a delivery, which a webhook of content type "form" hides in a field.
fn payload<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_form = content_type.trim().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
    if !is_form {
        return Some(Cow::Borrowed(body));
    }
    let field = url::form_urlencoded::parse(body).find(|(name, _)| name == "payload");
    field.map(|(_, value)| Cow::Owned(value.into_owned().into_bytes()))
}

fn read_event(event: &str, root: &Node<'_>, events: &EventFilter) -> Reading {
    let action = root.get("action").and_then(Node::string);
    let event_type = match &action {
        Some(action) => format!("{event}.{action}"),
        None => event.to_owned(),
    };
    if action.is_none() && events.concerns(event) {
        return Reading::event(&event_type, None, Err("`action` is missing".to_owned()));
    }
    if !events.carries_ticket(&event_type) {
        return Reading::ignored(&event_type);
    }
    let occurred_at = root.get("issue").and_then(|issue| time_of(issue.get("updated_at")));
    let ticket = ticket(event, root);
    let fact = if ticket.is_ok() { opened_once(&event_type, root) } else { None };
    Reading::event(&event_type, occurred_at, ticket).with_fact(fact)
}

/// An object is opened once in its life. Where a repository and its organisation both have a
/// webhook, or a captured body comes back under a new GUID, this names the same fact.
fn opened_once(event_type: &str, root: &Node<'_>) -> Option<String> {
    if event_type != "issues.opened" {
        return None;
    }
    let id = root.get("issue")?.get("id")?.id()?;
    Some(format!("opened:{id}"))
}

fn ticket(event: &str, root: &Node<'_>) -> Result<TicketDraft, String> {
    if event == "issues" && root.get("comment").is_some() {
        return Err("header `x-github-event` says `issues`, but the body is of a comment".to_owned());
    }
    let issue = root.get("issue").filter(|issue| issue.is_object()).ok_or("`issue` is missing")?;
    let repository = root.get("repository").and_then(|it| it.get("full_name")).and_then(Node::string);
    let repository = repository.ok_or("`repository.full_name` is missing")?;
    let number = issue.get("number").and_then(Node::integer).ok_or("`issue.number` is no whole number")?;
    let subject = issue.get("title").and_then(Node::string).ok_or("`issue.title` is no text")?;
    let login = issue.get("user").and_then(|user| user.get("login")).and_then(Node::string);
    Ok(TicketDraft {
        external_id: format!("{repository}#{number}"),
        subject,
        body: optional_text(issue.get("body"), "`issue.body`")?,
        requester: login.unwrap_or_default(),
        labels: labels_of(issue.get("labels")),
        external_priority: String::new(),
        url: issue.get("html_url").and_then(Node::string).unwrap_or_default(),
    })
}
