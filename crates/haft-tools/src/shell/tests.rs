//! Tests of single parts; what whole commands come to is in `tests/shell.rs`.
