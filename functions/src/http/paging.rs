//! Pages of lists on the wire.

use super::error::ApiError;
use canyon_api::page::{Page, PageQuery};
use canyon_store::page::{self, Cursor, PageRequest};

/// The name of a list with all its filters: a cursor is good for the same name only.
pub(crate) type ListName = String;

/// What the query asks for.
pub(crate) fn request(query: &PageQuery, list: &ListName) -> Result<PageRequest, ApiError> {
    let limit = match query.per_page {
        None => 50,
        Some(limit @ 1..=100) => limit,
        Some(_) => return Err(ApiError::field("per_page", "from 1 to 100")),
    };
    let after = query
        .page
        .as_deref()
        .filter(|token| !token.is_empty())
        .map(|token| Cursor::decode(list, token))
        .transpose()?;
    Ok(PageRequest { limit, after })
}

/// The page as it is answered.
pub(crate) fn answer<T, U>(
    page: page::Page<T>,
    list: &ListName,
    render: impl FnMut(T) -> U,
) -> Page<U> {
    Page {
        next_page_token: page.next.as_ref().map(|cursor| cursor.encode(list)),
        items: page.items.into_iter().map(render).collect(),
    }
}
