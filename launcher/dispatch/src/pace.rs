//! How fast a platform lets itself be called, by all launchers together.

use async_trait::async_trait;
use std::error::Error;
use std::time::Duration;

/// A bucket of calls that fills up again as time goes by: a burst, then a steady rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What is limited, and where: `ecs-run-task/123456789012/eu-west-1`.
    pub name: String,
    /// Calls that may be made at once.
    pub burst: u32,
    /// Calls that each second adds.
    pub per_second: u32,
}

/// Hands out turns.
#[async_trait]
pub trait Pace: Send + Sync {
    /// Takes the next turn of `rate`: how long to wait for it, zero for now. A turn that is further
    /// away than `patience` is not taken.
    ///
    /// # Errors
    ///
    /// If nobody can tell.
    async fn turn(
        &self,
        rate: &Rate,
        patience: Duration,
    ) -> Result<Turn, Box<dyn Error + Send + Sync>>;
}

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Taken: make the call after this time.
    Taken(Duration),
    /// Not taken: ask again after this time.
    Later(Duration),
}
