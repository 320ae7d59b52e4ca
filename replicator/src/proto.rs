//! The members' messages as compiled from `proto/member.proto`.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

include!(concat!(env!("OUT_DIR"), "/ringpit.member.rs"));
