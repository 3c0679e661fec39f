//! An error with all that caused it, for a line of the log.

use std::error::Error;
use std::fmt;

/// Writes an error and its sources, from the outermost in: "cannot store it: no answer: connection
/// reset". A log in JSON shows the outermost alone.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            // A transparent error says what its source says.
            if text != said {
                write!(f, ": {text}")?;
                said = text;
            }
            next = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("cannot store it")]
        Store(#[source] Box<Failure>),
        #[error(transparent)]
        Same(Box<Failure>),
        #[error("no answer")]
        Silence,
    }

    #[test]
    fn every_cause_is_said_once() {
        let error = Failure::Store(Box::new(Failure::Same(Box::new(Failure::Silence))));
        assert_eq!(Causes(&error).to_string(), "cannot store it: no answer");
    }
}
