//! The one integration-test binary: the house rules, and the real `ringpit` binary over real sockets and real files.

#![forbid(unsafe_code)]

mod structure;
