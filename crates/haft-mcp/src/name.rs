//! Names of tools that other servers offer: `mcp__server__tool`, legal for every model API.

/// The longest name that every model API takes.
pub(crate) const MAX_NAME: usize = 64;

/// The two parts of a qualified name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolName<'a> {
    /// The server.
    pub server: &'a str,
    /// The tool.
    pub tool: &'a str,
}

impl<'a> ToolName<'a> {
    /// Takes a qualified name apart. A tool's own name may hold `__`; a server's may not.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
        (!server.is_empty() && !tool.is_empty()).then_some(Self { server, tool })
    }
}

/// The name under which a model sees a server's tool, which [`ToolName::parse`] takes apart again. Where some
/// API would refuse a character or the length, either part is made legal and told apart from others that look
/// alike by a number made of the original: what is said of one server holds for no other.
pub fn qualified(server: &str, tool: &str) -> String {
    let server = server_part(server);
    let legal_tool = legal(tool, MAX_NAME);
    let name = format!("mcp__{server}__{legal_tool}");
    if legal_tool == tool && name.len() <= MAX_NAME {
        return name;
    }
    format!("{}_{:08x}", &name[..name.len().min(MAX_NAME - 9)], number(tool))
}

/// Whether a qualified name is one of a server's.
pub fn is_of(name: &str, server: &str) -> bool {
    ToolName::parse(name).is_some_and(|name| name.server == server_part(server))
}

fn server_part(server: &str) -> String {
    let legal_server = legal(server, MAX_SERVER);
    if legal_server == server && !server.contains("__") && !server.starts_with('_') && !server.ends_with('_')
    {
        return legal_server;
    }
    let words: Vec<&str> = legal_server.split('_').filter(|word| !word.is_empty()).collect();
    let plain = if words.is_empty() { "server".to_owned() } else { words.join("_") };
    format!("{}-{:08x}", &plain[..plain.len().min(MAX_SERVER - 9)], number(server))
}

/// A number that others of the same look do not have.
fn number(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The longest part of a name that a server takes up.
const MAX_SERVER: usize = 30;

fn legal(name: &str, most: usize) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let legal: String = name.chars().take(most).map(keep).collect();
    if legal.is_empty() { "unnamed".to_owned() } else { legal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualified_name_comes_apart_again() {
        let name = qualified("files", "read_file");
        assert_eq!(name, "mcp__files__read_file");
        assert_eq!(ToolName::parse(&name), Some(ToolName { server: "files", tool: "read_file" }));
    }

    #[test]
    fn a_tool_may_hold_two_underscores_and_a_server_may_not() {
        let name = qualified("my__server", "a__b");
        let parsed = ToolName::parse(&name).unwrap();
        assert!(parsed.server.starts_with("my_server-"), "{name}");
        assert_eq!(parsed.tool, "a__b");
    }

    #[test]
    fn hostile_names_become_legal_and_stay_apart() {
        let long = "x".repeat(200);
        let names = [
            qualified("s", "a b\u{1b}[2J"),
            qualified("s", ""),
            qualified("ü", "é"),
            qualified("s", &long),
            qualified("s", &format!("{long}y")),
            qualified(&long, "t"),
        ];
        for name in &names {
            assert!(name.len() <= MAX_NAME, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
        }
        assert_ne!(names[3], names[4]);
        // What is said of all tools of a server holds for those of no other.
        let long_too = format!("{long}y");
        for (one, other) in [("a b", "a_b"), ("a__b", "a_b"), ("_a", "a"), ("é", "ü"), (&long, &long_too)] {
            let server = |name| ToolName::parse(&qualified(name, "t")).map(|name| name.server.to_owned());
            assert_ne!(server(one), server(other), "{one} {other}");
            assert!(is_of(&qualified(one, "t"), one) && !is_of(&qualified(one, "t"), other));
        }
    }

    #[test]
    fn every_name_comes_apart_again() {
        let long = "x".repeat(100);
        let odd = ["_", "__", "a__b", "___a___", "", "é", "a b", &long, "s", "-", "_x", "x_"];
        for server in odd {
            for tool in odd {
                let name = qualified(server, tool);
                assert!(ToolName::parse(&name).is_some(), "{server:?} {tool:?} {name}");
                assert!(name.len() <= MAX_NAME, "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_qualified_name_is_none() {
        for name in ["Read", "mcp__", "mcp__a", "mcp____b", "mcp__a__"] {
            assert_eq!(ToolName::parse(name), None, "{name}");
        }
    }
}
