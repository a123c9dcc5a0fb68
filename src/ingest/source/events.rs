//! Which types of event carry a ticket.
//!
//! An allow-list, because senders add types at will and our own write-backs come back as events: a
//! type that nobody asked for must not cost a model call (botpress/botpress#12707).

/// Things that are tickets under another name.
const NOUNS: [&str; 8] =
    ["ticket", "issue", "issues", "conversation", "case", "thread", "request", "incident"];
/// What may happen to them that is worth a fresh look.
const VERBS: [&str; 5] = ["created", "opened", "reopened", "updated", "edited"];

/// Patterns over the dotted type of an event.
///
/// A pattern matches a type that equals it or ends with it on the border of a part: `ticket.created`
/// matches `ticket.created` and `com.acme.ticket.created`. `*` stands for any one part, so
/// `ticket.*` matches whatever happens to a ticket; alone it matches every type. Parts are
/// separated by `.`, `:` or `/`, and letter case does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter(Vec<Vec<String>>);

impl EventFilter {
    /// The default for senders without words of their own: `created`, `opened`, `reopened`,
    /// `updated` or `edited`, of a `ticket`, `issue`, `issues`, `conversation`, `case`, `thread`,
    /// `request` or `incident`.
    #[must_use]
    pub fn tickets() -> Self {
        let types = NOUNS.iter().flat_map(|noun| VERBS.iter().map(move |verb| format!("{noun}.{verb}")));
        Self(types.map(|text| parts(&text)).collect())
    }

    /// The filter of a preset's own patterns.
    pub(super) fn of(patterns: &[&str]) -> Self {
        Self(patterns.iter().map(|pattern| parts(pattern)).collect())
    }

    /// The filter of configured patterns.
    ///
    /// # Errors
    ///
    /// Those patterns that have an empty part and could never match.
    pub fn parse(patterns: &[String]) -> Result<Self, Vec<String>> {
        let parsed: Vec<Vec<String>> = patterns.iter().map(|pattern| parts(pattern)).collect();
        let is_bad = |pattern: &[String]| pattern.iter().any(String::is_empty);
        let bad: Vec<String> =
            patterns.iter().zip(&parsed).filter(|(_, it)| is_bad(it)).map(|(text, _)| text.clone()).collect();
        if bad.is_empty() { Ok(Self(parsed)) } else { Err(bad) }
    }

    /// Whether events of this type carry a ticket.
    #[must_use]
    pub fn carries_ticket(&self, event_type: &str) -> bool {
        let parts = parts(event_type);
        self.0.iter().any(|pattern| {
            let start = parts.len().checked_sub(pattern.len());
            start.is_some_and(|start| {
                pattern.iter().zip(&parts[start..]).all(|(wanted, part)| wanted == "*" || wanted == part)
            })
        })
    }

    /// Whether something that happens to this noun may carry a ticket, when what happened cannot
    /// be told.
    pub(super) fn concerns(&self, noun: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.as_slice() {
            [.., wanted, _] => wanted == "*" || wanted.eq_ignore_ascii_case(noun),
            _ => true,
        })
    }
}

fn parts(text: &str) -> Vec<String> {
    text.to_ascii_lowercase().split(['.', ':', '/']).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_knows_tickets_by_their_usual_names() {
        let filter = EventFilter::tickets();
        for carries in ["ticket.created", "issue.reopened", "com.acme.Ticket.Created", "conversation:updated"]
        {
            assert!(filter.carries_ticket(carries), "{carries}");
        }
        for other in
            ["ticket.deleted", "created", "", "invoice.created", "ticket.created.v2", "myticket.created"]
        {
            assert!(!filter.carries_ticket(other), "{other}");
        }
    }

    #[test]
    fn a_star_stands_for_one_part() {
        let filter = EventFilter::parse(&["ticket.*".to_owned()]).expect("valid");
        assert!(filter.carries_ticket("ticket.escalated") && filter.carries_ticket("acme.ticket.escalated"));
        assert!(!filter.carries_ticket("ticket") && !filter.carries_ticket("ticket.status.changed"));
        assert!(EventFilter::of(&["*"]).carries_ticket("anything.at.all"));
    }

    #[test]
    fn a_noun_concerns_us_when_any_of_its_events_may_count() {
        let filter = EventFilter::of(&["issues.opened", "issue_comment.*"]);
        assert!(filter.concerns("issues") && filter.concerns("issue_comment") && !filter.concerns("push"));
        assert!(EventFilter::of(&["*"]).concerns("push") && EventFilter::of(&["*.opened"]).concerns("push"));
    }

    #[test]
    fn a_pattern_that_cannot_match_is_named() {
        let faults = EventFilter::parse(&["ticket.created".into(), "ticket.".into(), String::new()]);
        assert_eq!(faults, Err(vec!["ticket.".to_owned(), String::new()]));
    }
}
