//! How many requests an app may make.
