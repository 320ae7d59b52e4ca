//! Stub until its first commit.
