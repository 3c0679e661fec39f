//! An AWS for tests.
