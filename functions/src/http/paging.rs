//! Pages of lists: cursors in requests and answers.

use super::error::ApiError;
use crate::App;
use crate::app::error::AppError;
use canyon_api::page::{Page, PageQuery};
use canyon_domain::ids::OrgUuid;
use canyon_store::page::{self, Cursor, InvalidCursor, PageRequest};

/// The name of a list with all its filters. A cursor is valid only for the same name.
pub(crate) type ListName = String;

/// The prefix of a sealed cursor, which no other cursor contains.
const SEALED: &str = "~";

/// The requested page of a list that omits items which its caller may not see.
pub(crate) async fn request_of_visible(
    app: &App,
    org: OrgUuid,
    query: &PageQuery,
    list: &ListName,
) -> Result<PageRequest, ApiError> {
    let sealed = query.page.as_deref().and_then(|token| token.strip_prefix(SEALED));
    let Some(sealed) = sealed else { return request(query, list) };
    let keys = app.master_keys.get().await.map_err(AppError::from)?;
    let sealed = sealed.replace('-', "+").replace('_', "/");
    let opened = keys.open(&place(org, list), &sealed).ok();
    let token = opened.and_then(|token| String::from_utf8(token).ok()).ok_or(InvalidCursor)?;
    request(&PageQuery { page: Some(token), ..query.clone() }, list)
}

/// Renders a page of such a list. A cursor that names an omitted item is sealed: the caller learns nothing from it.
pub(crate) async fn answer_visible<T, U>(
    app: &App,
    org: OrgUuid,
    page: page::Page<T>,
    list: &ListName,
    render: impl FnMut(T) -> U,
) -> Result<Page<U>, ApiError> {
    let is_secret = page.next.as_ref().is_some_and(Cursor::names_what_is_left_out);
    let mut page = answer(page, list, render);
    if let Some(token) = page.next_page_token.as_mut().filter(|_| is_secret) {
        let keys = app.master_keys.get().await.map_err(AppError::from)?;
        let sealed = keys.seal(&place(org, list), token.as_bytes(), app.entropy.as_ref());
        let sealed = sealed.map_err(|_| ApiError::internal())?;
        *token = format!("{SEALED}{}", sealed.replace('+', "-").replace('/', "_"));
    }
    Ok(page)
}

/// The context in which a sealed cursor is valid.
fn place(org: OrgUuid, list: &ListName) -> String {
    format!("page of {list} of {org}")
}

/// The requested page.
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

/// Renders a page.
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
