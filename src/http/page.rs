//! Lists: a limit, and an opaque cursor that names the last row of the page before.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::{Code, Problem};

/// Rows on a page when nobody says how many.
const LIMIT_DEFAULT: i64 = 50;
/// Most rows on a page.
const LIMIT_MAX: i64 = 200;

/// Where a page begins and how long it is, as each list takes it beside its own parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct PageParams {
    /// Rows on the page, 1 to 200; 50 when absent.
    pub limit: Option<i64>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// A list as it is sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Page<T> {
    /// The rows, newest first.
    pub items: Vec<T>,
    /// Hand it in as `cursor` for the rows after these; null on the last page.
    pub next_cursor: Option<String>,
}

impl PageParams {
    /// The limit, checked.
    ///
    /// # Errors
    /// [`Code::ParameterInvalid`] when it is outside 1 to 200.
    pub(super) fn limit(&self) -> Result<i64, Problem> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if (1..=LIMIT_MAX).contains(&limit) {
            return Ok(limit);
        }
        Err(Problem::with(Code::ParameterInvalid, format!("limit is {limit}; it must be 1 to {LIMIT_MAX}")))
    }

    /// The id that the cursor names.
    ///
    /// # Errors
    /// [`Code::ParameterInvalid`] when it is none of ours.
    pub(super) fn before(&self) -> Result<Option<Uuid>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
        let id = bytes.and_then(|bytes| Uuid::from_slice(&bytes).ok());
        let refusal =
            || Problem::with(Code::ParameterInvalid, "cursor is none of ours; take next_cursor of a list");
        id.map(Some).ok_or_else(refusal)
    }
}

impl<T> Page<T> {
    /// A page of `limit` rows out of up to `limit + 1` that were read.
    pub(super) fn of<R>(
        mut rows: Vec<R>,
        limit: i64,
        id: impl Fn(&R) -> Uuid,
        item: impl Fn(R) -> T,
    ) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| more).map(|row| URL_SAFE_NO_PAD.encode(id(row).as_bytes()));
        Self { items: rows.into_iter().map(item).collect(), next_cursor: last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_the_round_trip_and_a_foreign_one_is_refused() {
        let ids: Vec<Uuid> = (0..3).map(|_| Uuid::now_v7()).collect();
        let page = Page::of(ids.clone(), 2, |id| *id, |id| id);
        assert_eq!(page.items, ids[..2]);
        let next = PageParams { limit: None, cursor: page.next_cursor };
        assert_eq!(next.before(), Ok(Some(ids[1])));
        for foreign in ["", "x", "../../etc", &"A".repeat(500)] {
            let params = PageParams { limit: None, cursor: Some((*foreign).to_owned()) };
            assert!(params.before().is_err(), "{foreign:?}");
        }
    }

    #[test]
    fn a_limit_outside_its_range_is_refused() {
        for limit in [0, -1, 201, i64::MAX] {
            assert!(PageParams { limit: Some(limit), cursor: None }.limit().is_err(), "{limit}");
        }
    }

    #[test]
    fn the_last_page_has_no_cursor() {
        let ids = vec![Uuid::now_v7()];
        assert_eq!(Page::of(ids, 2, |id| *id, |id| id).next_cursor, None);
    }
}
