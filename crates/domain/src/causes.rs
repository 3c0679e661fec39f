//! An error with its chain of causes, for one line of the log.

use std::error::Error;
use std::fmt;

/// Writes an error and its sources, the outermost first: "cannot store it: no answer: connection reset". A
/// log in JSON shows only the outermost.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = self.0.to_string();
        f.write_str(&written)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            // A transparent error has the text of its source.
            if text != written {
                write!(f, ": {text}")?;
                written = text;
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
    fn every_cause_is_written_once() {
        let error = Failure::Store(Box::new(Failure::Same(Box::new(Failure::Silence))));
        assert_eq!(Causes(&error).to_string(), "cannot store it: no answer");
    }
}
