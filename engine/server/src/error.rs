//! What a command ends with when it does not end well: one line that a person can act on, and the exit status.

/// Why a command failed. The text says what failed, where, and what to do about it, on one line.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command line or the configuration asks for something that can't be done. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The command could not do what it was asked, or found what must not be. Exit status 1.
    #[error("{0}")]
    Failed(String),
}

impl CommandError {
    /// A wrong command line or configuration.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// A failure while doing what was asked.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The process's exit status: 2 for usage and configuration, 1 for failures.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
        }
    }
}
