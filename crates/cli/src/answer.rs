//! Answers of Canyon as JSON, for display.

use crate::error::CliError;
use canyon_domain::json::Json;
use serde::Serialize;
use serde_json::Value;
use std::io;

/// An answer with outputs, for display with every digit of its numbers.
pub(crate) fn exact(answer: &impl Serialize) -> Result<Json, CliError> {
    let text = serde_json::to_string(answer).map_err(io::Error::other)?;
    Ok(Json::parse(&text).map_err(io::Error::other)?)
}

/// An answer as plain JSON, for display.
pub(crate) fn json(answer: &impl Serialize) -> Result<Value, CliError> {
    Ok(serde_json::to_value(answer).map_err(io::Error::other)?)
}
