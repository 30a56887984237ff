//! Qualified names of tools that MCP servers offer: `mcp__server__tool`, valid for every model API.

/// The longest tool name that every model API accepts.
pub(crate) const MAX_NAME: usize = 64;

/// The two parts of a qualified name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolName<'a> {
    /// The server, sanitized.
    pub server: &'a str,
    /// The tool, sanitized.
    pub tool: &'a str,
}

impl<'a> ToolName<'a> {
    /// Splits a qualified name. The tool's part may contain `__`; the server's may not.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
        (!server.is_empty() && !tool.is_empty()).then_some(Self { server, tool })
    }
}

/// The name under which a model sees a server's tool, which [`ToolName::parse`] splits again. A part with characters or a
/// length that some API would refuse is sanitized and gets a hash of the original as a suffix, so that a rule about one
/// server never applies to another.
pub fn qualified_name(server: &str, tool: &str) -> String {
    let server = server_part(server);
    let sanitized_tool = sanitized(tool, MAX_NAME);
    let name = format!("mcp__{server}__{sanitized_tool}");
    if sanitized_tool == tool && name.len() <= MAX_NAME {
        return name;
    }
    format!("{}_{:08x}", &name[..name.len().min(MAX_NAME - 9)], hash(tool))
}

/// Whether a qualified name belongs to a server's tool.
pub fn belongs_to(name: &str, server: &str) -> bool {
    ToolName::parse(name).is_some_and(|name| name.server == server_part(server))
}

/// The server's part of a qualified name.
fn server_part(server: &str) -> String {
    let sanitized_server = sanitized(server, MAX_SERVER);
    if sanitized_server == server
        && !server.contains("__")
        && !server.starts_with('_')
        && !server.ends_with('_')
    {
        return sanitized_server;
    }
    let words: Vec<&str> = sanitized_server.split('_').filter(|word| !word.is_empty()).collect();
    let plain = if words.is_empty() { "server".to_owned() } else { words.join("_") };
    format!("{}-{:08x}", &plain[..plain.len().min(MAX_SERVER - 9)], hash(server))
}

/// FNV-1a, which tells apart names that are equal once sanitized.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The longest server part of a qualified name.
const MAX_SERVER: usize = 30;

/// A name with other characters than letters, digits, `_` and `-` replaced.
fn sanitized(name: &str, max: usize) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let sanitized: String = name.chars().take(max).map(keep).collect();
    if sanitized.is_empty() { "unnamed".to_owned() } else { sanitized }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualified_name_is_split_again() {
        let name = qualified_name("files", "read_file");
        assert_eq!(name, "mcp__files__read_file");
        assert_eq!(ToolName::parse(&name), Some(ToolName { server: "files", tool: "read_file" }));
    }

    #[test]
    fn a_tool_may_contain_two_underscores_and_a_server_may_not() {
        let name = qualified_name("my__server", "a__b");
        let parsed = ToolName::parse(&name).unwrap();
        assert!(parsed.server.starts_with("my_server-"), "{name}");
        assert_eq!(parsed.tool, "a__b");
    }

    #[test]
    fn hostile_names_are_sanitized_and_stay_distinct() {
        let long = "x".repeat(200);
        let names = [
            qualified_name("s", "a b\u{1b}[2J"),
            qualified_name("s", ""),
            qualified_name("ü", "é"),
            qualified_name("s", &long),
            qualified_name("s", &format!("{long}y")),
            qualified_name(&long, "t"),
        ];
        for name in &names {
            assert!(name.len() <= MAX_NAME, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
        }
        assert_ne!(names[3], names[4]);
        // A rule about all tools of a server must not apply to another server's.
        let long_too = format!("{long}y");
        for (one, other) in [("a b", "a_b"), ("a__b", "a_b"), ("_a", "a"), ("é", "ü"), (&long, &long_too)] {
            let server =
                |name| ToolName::parse(&qualified_name(name, "t")).map(|name| name.server.to_owned());
            assert_ne!(server(one), server(other), "{one} {other}");
            assert!(
                belongs_to(&qualified_name(one, "t"), one) && !belongs_to(&qualified_name(one, "t"), other)
            );
        }
    }

    #[test]
    fn every_name_parses() {
        let long = "x".repeat(100);
        let odd = ["_", "__", "a__b", "___a___", "", "é", "a b", &long, "s", "-", "_x", "x_"];
        for server in odd {
            for tool in odd {
                let name = qualified_name(server, tool);
                assert!(ToolName::parse(&name).is_some(), "{server:?} {tool:?} {name}");
                assert!(name.len() <= MAX_NAME, "{name}");
            }
        }
    }

    #[test]
    fn other_names_do_not_parse() {
        for name in ["Read", "mcp__", "mcp__a", "mcp____b", "mcp__a__"] {
            assert_eq!(ToolName::parse(name), None, "{name}");
        }
    }
}
