//! An AWS for tests.

pub mod api_gateway;
pub mod chance;
pub mod cloud;
mod compute;
pub mod event_bus;
pub mod front;
pub mod invoke_api;
pub mod parts;
pub mod pattern;
mod process;
pub mod region;
pub mod runtime;
pub mod stack;
pub mod streams;
pub mod target;
mod wildcard;
