//! haft-mcp
