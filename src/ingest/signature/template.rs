//! What exactly is signed: a sequence of parts.

use http::{Method, Uri};

/// One piece of the signed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest) enum Part {
    Literal(String),
    Id,
    /// The time as the sender wrote it, not as we would write it.
    Timestamp,
    Method,
    /// The configured public URL of this server, then path and query. Never built from `Host` or
    /// `X-Forwarded-*`, which a sender can choose.
    Uri {
        public_url: String,
    },
    Body,
}

/// The parts in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest) struct Template(pub(in crate::ingest) Vec<Part>);

/// What the parts stand for in one delivery.
pub(super) struct Values<'a> {
    pub(super) id: &'a str,
    pub(super) timestamp: &'a str,
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) body: &'a [u8],
}

impl Template {
    /// The body and nothing else.
    pub(in crate::ingest) fn body() -> Self {
        Self(vec![Part::Body])
    }

    pub(in crate::ingest) fn has_id(&self) -> bool {
        self.0.contains(&Part::Id)
    }

    pub(super) fn has_timestamp(&self) -> bool {
        self.0.contains(&Part::Timestamp)
    }

    /// The signed bytes as pieces that borrow, so that a large body is not copied.
    pub(super) fn pieces<'a>(&'a self, values: &Values<'a>) -> Vec<&'a [u8]> {
        let mut pieces = Vec::with_capacity(self.0.len() + 1);
        for part in &self.0 {
            match part {
                Part::Literal(text) => pieces.push(text.as_bytes()),
                Part::Id => pieces.push(values.id.as_bytes()),
                Part::Timestamp => pieces.push(values.timestamp.as_bytes()),
                Part::Method => pieces.push(values.method.as_str().as_bytes()),
                Part::Uri { public_url } => {
                    pieces.push(public_url.as_bytes());
                    pieces.push(values.uri.path_and_query().map_or("/", |it| it.as_str()).as_bytes());
                }
                Part::Body => pieces.push(values.body),
            }
        }
        pieces
    }

    /// Parses `v0:{timestamp}:{body}`.
    ///
    /// `public_url` is what `{uri}` begins with. The id must be kept apart from its neighbours by
    /// a literal: otherwise its end could be moved into the next part without changing the MAC.
    pub(super) fn parse(text: &str, public_url: Option<&str>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let (name, after) = after.split_once('}').ok_or("has a `{` without its `}`")?;
            parts.push(part_named(name, public_url)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        check(&parts)?;
        Ok(Self(parts))
    }
}

fn part_named(name: &str, public_url: Option<&str>) -> Result<Part, String> {
    match name {
        "id" => Ok(Part::Id),
        "timestamp" => Ok(Part::Timestamp),
        "method" => Ok(Part::Method),
        "body" => Ok(Part::Body),
        "uri" => match public_url {
            Some(url) => Ok(Part::Uri { public_url: url.trim_end_matches('/').to_owned() }),
            None => Err("signs `{uri}`, so `public_url` must say how senders reach this server".into()),
        },
        other => Err(format!(
            "has the unknown part `{{{other}}}`; there are {{id}}, {{timestamp}}, {{method}}, {{uri}} and {{body}}"
        )),
    }
}

fn check(parts: &[Part]) -> Result<(), String> {
    if !parts.contains(&Part::Body) {
        return Err("does not sign `{body}`, so anybody could change it".into());
    }
    let is_literal = |part: &Part| matches!(part, Part::Literal(_));
    let touching = parts.windows(2).any(|pair| {
        (pair[0] == Part::Id && !is_literal(&pair[1])) || (pair[1] == Part::Id && !is_literal(&pair[0]))
    });
    if touching {
        return Err("needs a literal such as `.` between `{id}` and its neighbours".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_part_by_part() {
        let template = Template::parse("v0:{timestamp}:{body}", None).expect("valid");
        let literal = |text: &str| Part::Literal(text.to_owned());
        assert_eq!(template.0, [literal("v0:"), Part::Timestamp, literal(":"), Part::Body]);
    }

    #[test]
    fn faults_of_a_template_are_named() {
        let fault = |text| Template::parse(text, None).expect_err("invalid");
        assert!(fault("{timestamp}").contains("{body}"));
        assert!(fault("{body").contains("without its"));
        assert!(fault("{payload}").contains("{payload}"));
        assert!(fault("{uri}{body}").contains("public_url"));
        assert!(fault("{id}{body}").contains("literal"));
        assert!(fault("").contains("{body}"));
    }
}
