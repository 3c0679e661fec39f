//! Canyon's wiring on AWS: settings, clients, keys in KMS, the event bus.
