//! haft-tools
