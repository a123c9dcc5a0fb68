//! Where the parts of a ticket stand in a body whose shape we do not prescribe.
//!
//! Each part has a list of JSON pointers; the first that leads to something counts. The defaults
//! fit the shape that Standard Webhooks advises (`type`, `timestamp`, `data`) and the names that
//! people give to a ticket's parts; configuration replaces the list of a part by one pointer.

use thiserror::Error;

use super::reading::{labels_of, optional_text, person_of, time_of};
use crate::domain::TicketDraft;
use crate::ingest::json::{Node, Pointer};

/// Pointers to the type, the time and the parts of a ticket.
#[derive(Clone, Debug)]
pub struct FieldMap {
    event_type: Vec<Pointer>,
    occurred_at: Vec<Pointer>,
    id: Vec<Pointer>,
    subject: Vec<Pointer>,
    body: Vec<Pointer>,
    requester: Vec<Pointer>,
    labels: Vec<Pointer>,
    priority: Vec<Pointer>,
    url: Vec<Pointer>,
}

/// A line of a configured field table that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{field}` {problem}")]
pub struct FieldFault {
    /// The name that was given.
    pub field: String,
    /// What is wrong with it, worded to follow the name.
    pub problem: String,
}

/// The names that a field table may use.
const NAMES: &str =
    "`type`, `occurred_at`, `id`, `subject`, `body`, `requester`, `labels`, `priority`, `url`";

impl FieldMap {
    /// Everything of the ticket under `/data`, as Standard Webhooks advises.
    #[must_use]
    pub fn under_data() -> Self {
        Self::among(&["data"])
    }

    /// Under `/data`, and where that leads nowhere, at the top.
    #[must_use]
    pub fn under_data_or_top() -> Self {
        Self::among(&["data", ""])
    }

    fn among(places: &[&str]) -> Self {
        let under = |names: &[&str]| {
            let mut pointers = Vec::new();
            for place in places {
                for name in names {
                    pointers.push(if place.is_empty() {
                        Pointer::to(&[name])
                    } else {
                        Pointer::to(&[place, name])
                    });
                }
            }
            pointers
        };
        Self {
            event_type: vec![Pointer::to(&["type"])],
            occurred_at: vec![Pointer::to(&["timestamp"])],
            id: under(&["id"]),
            subject: under(&["subject", "title"]),
            body: under(&["body", "description"]),
            requester: under(&["requester"]),
            labels: under(&["labels", "tags"]),
            priority: under(&["priority"]),
            url: under(&["url"]),
        }
    }

    /// The map with the configured pointers in place of its own.
    ///
    /// # Errors
    ///
    /// One [`FieldFault`] for each unknown name and each text that is no pointer.
    pub fn with(mut self, table: &[(String, String)]) -> Result<Self, Vec<FieldFault>> {
        let mut faults = Vec::new();
        for (name, text) in table {
            let fault = |problem: String| FieldFault { field: name.clone(), problem };
            match (self.slot(name), Pointer::parse(text)) {
                (Some(slot), Ok(pointer)) => *slot = vec![pointer],
                (None, _) => faults.push(fault(format!("is no part of a ticket; there are {NAMES}"))),
                (_, Err(problem)) => faults.push(fault(format!("is `{text}`; {problem}"))),
            }
        }
        if faults.is_empty() { Ok(self) } else { Err(faults) }
    }

    fn slot(&mut self, name: &str) -> Option<&mut Vec<Pointer>> {
        match name {
            "type" => Some(&mut self.event_type),
            "occurred_at" => Some(&mut self.occurred_at),
            "id" => Some(&mut self.id),
            "subject" => Some(&mut self.subject),
            "body" => Some(&mut self.body),
            "requester" => Some(&mut self.requester),
            "labels" => Some(&mut self.labels),
            "priority" => Some(&mut self.priority),
            "url" => Some(&mut self.url),
            _ => None,
        }
    }

    /// The type of the event, where the body names one.
    pub(super) fn event_type(&self, root: &Node<'_>) -> Option<String> {
        first(root, &self.event_type)?.string()
    }

    /// When the event happened, where the body says so.
    pub(super) fn occurred_at(&self, root: &Node<'_>) -> Option<chrono::DateTime<chrono::Utc>> {
        time_of(first(root, &self.occurred_at))
    }

    /// The ticket. It needs an id, and a subject or a body; either may be empty text or null, since
    /// a ticket without words is a ticket still.
    pub(super) fn ticket(&self, root: &Node<'_>) -> Result<TicketDraft, String> {
        let Some(id) = first(root, &self.id) else {
            return Err(format!("there is no ticket id at {}", list(&self.id)));
        };
        let external_id = id.id().ok_or("the ticket id is neither a text nor a whole number")?;
        let (subject, body) = (first(root, &self.subject), first(root, &self.body));
        if subject.is_none() && body.is_none() {
            let (subjects, bodies) = (list(&self.subject), list(&self.body));
            return Err(format!("there is neither a subject at {subjects} nor a body at {bodies}"));
        }
        Ok(TicketDraft {
            external_id,
            subject: optional_text(subject, "the subject")?,
            body: optional_text(body, "the body")?,
            requester: person_of(first(root, &self.requester)),
            labels: labels_of(first(root, &self.labels)),
            external_priority: first(root, &self.priority).and_then(Node::scalar).unwrap_or_default(),
            url: first(root, &self.url).and_then(Node::string).unwrap_or_default(),
        })
    }
}

/// The first value that is there and not null, else the first null.
fn first<'n, 'a>(root: &'n Node<'a>, pointers: &[Pointer]) -> Option<&'n Node<'a>> {
    let mut found = pointers.iter().filter_map(|pointer| root.at(pointer));
    let first = found.next()?;
    if first.is_null() { Some(found.find(|node| !node.is_null()).unwrap_or(first)) } else { Some(first) }
}

fn list(pointers: &[Pointer]) -> String {
    pointers.iter().map(|pointer| format!("`{pointer}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(map: &FieldMap, body: &str) -> Result<TicketDraft, String> {
        map.ticket(&Node::parse(body).expect("json"))
    }

    #[test]
    fn every_part_is_found_in_its_usual_place() {
        let body = r#"{"data":{"id":"T-1","title":"Broken","description":"It broke.","requester":{"name":"Ada",
            "email":"ada@example.com"},"labels":["a",{"name":"b"}],"priority":2,"url":"https://x.example/1"}}"#;
        let expected = TicketDraft {
            external_id: "T-1".into(),
            subject: "Broken".into(),
            body: "It broke.".into(),
            requester: "ada@example.com".into(),
            labels: vec!["a".into(), "b".into()],
            external_priority: "2".into(),
            url: "https://x.example/1".into(),
        };
        assert_eq!(ticket(&FieldMap::under_data(), body), Ok(expected));
    }

    #[test]
    fn a_flat_body_is_read_only_where_that_was_allowed() {
        let body = r#"{"id":9007199254740993,"subject":"Hi","tags":"vip, eu","requester":"ada"}"#;
        let read = ticket(&FieldMap::under_data_or_top(), body).expect("readable");
        assert_eq!((read.external_id.as_str(), read.requester.as_str()), ("9007199254740993", "ada"));
        assert_eq!(read.labels, ["vip", "eu"]);
        assert!(ticket(&FieldMap::under_data(), body).expect_err("no id").contains("`/data/id`"));
    }

    #[test]
    fn a_ticket_may_be_without_words_but_not_without_their_places() {
        let empty = ticket(&FieldMap::under_data(), r#"{"data":{"id":1,"subject":null,"body":""}}"#);
        assert_eq!(empty.expect("readable").subject, "");
        assert!(
            ticket(&FieldMap::under_data(), r#"{"data":{"id":1}}"#).expect_err("shape").contains("neither")
        );
        assert!(ticket(&FieldMap::under_data(), r#"{"data":{"id":1.5,"body":""}}"#).is_err());
        assert!(ticket(&FieldMap::under_data(), r#"{"data":{"id":1,"body":{"html":"x"}}}"#).is_err());
    }

    #[test]
    fn configured_pointers_replace_the_defaults() {
        let table = [("id".to_owned(), "/case/no".to_owned()), ("body".to_owned(), "/case/text".to_owned())];
        let map = FieldMap::under_data_or_top().with(&table).expect("valid");
        let read = ticket(&map, r#"{"id":1,"case":{"no":"C7","text":"hello"}}"#).expect("readable");
        assert_eq!((read.external_id.as_str(), read.body.as_str()), ("C7", "hello"));
    }

    #[test]
    fn faults_of_a_field_table_are_all_named() {
        let table = [("titel".to_owned(), "/a".to_owned()), ("id".to_owned(), "data.id".to_owned())];
        let faults = FieldMap::under_data().with(&table).expect_err("two faults");
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(texts[0].starts_with("`titel` is no part") && texts[1].contains("begins with `/`"));
    }
}
