//! Server configuration as written in `.mcp.json` and in haft's settings. Errors name the server and the key; nothing is
//! guessed. The doc comments of `ServerConfig` are the settings reference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::json as strict;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::server::{Limits, OAuth, Protocol, Server, ServerTransport};

/// The settings of one server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// The server's program, which haft talks to over its standard input and output. A server has this or `url`.
    pub command: Option<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Variables of the program's environment, beside a few that every program needs. It gets no others.
    pub env: BTreeMap<String, String>,
    /// Variables that the program gets from haft's own environment.
    pub pass_env: Vec<String>,
    /// The folder that the program works in: absolute, in the home (`~/x`), or relative to the workspace (default: the
    /// workspace).
    pub cwd: Option<PathBuf>,
    /// The URL of a running server, which haft talks to over Streamable HTTP.
    pub url: Option<String>,
    /// Headers that every request to that server carries.
    pub headers: BTreeMap<String, String>,
    /// A token that every request to that server carries, such as `${GITHUB_TOKEN}`.
    pub bearer_token: Option<String>,
    /// The OAuth client id, for servers that need one registered in advance. `haft mcp login` logs in.
    pub oauth_client_id: Option<String>,
    /// The OAuth client secret.
    pub oauth_client_secret: Option<String>,
    /// The OAuth scopes that haft asks for when it logs in (default: those the server names).
    pub oauth_scopes: Vec<String>,
    /// The transport, `stdio` or `http` (default: by whether `command` or `url` is set).
    pub r#type: Option<String>,
    /// Whether the server is switched off (default: false).
    pub disabled: bool,
    /// Seconds within which the server must have started and listed its tools (default: 30).
    pub startup_seconds: Option<u64>,
    /// Seconds that a call may take (default: 600).
    pub call_seconds: Option<u64>,
    /// Whether the server's word is taken that a tool of it only reads, so that nobody is asked about it (false when
    /// nothing is said).
    pub believe_read_only: bool,
}

/// An error in a server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The server. None if the error concerns the whole file.
    pub server: Option<String>,
    /// The error message.
    pub why: String,
}

impl ConfigError {
    fn file(why: impl Into<String>) -> Self {
        Self { server: None, why: why.into() }
    }

    fn of(server: &str, why: impl Into<String>) -> Self {
        Self { server: Some(server.to_owned()), why: why.into() }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.server {
            Some(server) => write!(f, "the server `{server}`: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Looks up the value of `${NAME}`.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A server of `.mcp.json`, the file that programs share.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedServer {
    /// Its name.
    pub name: String,
    /// Its configuration, or the error in it.
    pub config: Result<ServerConfig, ConfigError>,
}

/// Parses a `.mcp.json` file into its servers, in the order of the file. Unknown keys are skipped, because other programs
/// have keys of their own there. An error in one server does not affect the others.
pub fn parse_mcp_json(text: &str) -> Result<Vec<SharedServer>, ConfigError> {
    let value = strict::parse(text).map_err(|fault| ConfigError::file(fault.message()))?;
    let Value::Object(mut top) = value else {
        return Err(ConfigError::file("it must be an object with `mcpServers`"));
    };
    let servers = match top.remove("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(_) => {
            return Err(ConfigError::file("`mcpServers` must be an object, with a server for each name"));
        }
        None => return Err(ConfigError::file("`mcpServers` is missing")),
    };
    let schema = schemars::schema_for!(ServerConfig);
    let is_known = |key: &str| schema.get("properties").is_some_and(|known| known.get(key).is_some());
    let read = |(name, mut value): (String, Value)| {
        let mut foreign = Vec::new();
        if let Value::Object(fields) = &mut value {
            fields.retain(|key, _| {
                foreign.extend((!is_known(key)).then(|| format!("`{key}`")));
                is_known(key)
            });
        }
        let config = decode(value).map_err(|why| ConfigError::of(&name, why));
        let config = config.and_then(|config: ServerConfig| config.check(&name).map(|()| config));
        let config = config.map_err(|bad| match foreign.as_slice() {
            [] => bad,
            foreign => {
                ConfigError { why: format!("{}; not known here: {}", bad.why, foreign.join(", ")), ..bad }
            }
        });
        SharedServer { name, config }
    };
    Ok(servers.into_iter().map(read).collect())
}

/// Decodes a configuration. Errors name the path of the field.
fn decode(value: Value) -> Result<ServerConfig, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let why = error.inner().to_string();
        if path == "." || why.contains(&path) { why } else { format!("`{path}`: {why}") }
    })
}

impl ServerConfig {
    /// Checks what the types cannot express. Expands no variables and touches no files.
    pub fn check(&self, name: &str) -> Result<(), ConfigError> {
        let bad = |why: String| Err(ConfigError::of(name, why));
        if name.trim().is_empty() {
            return Err(ConfigError::file("a server has no name"));
        }
        let seconds = [("startup_seconds", self.startup_seconds), ("call_seconds", self.call_seconds)];
        if let Some((key, _)) = seconds.iter().find(|(_, seconds)| *seconds == Some(0)) {
            return bad(format!("`{key}` is 0: it must be 1 at least"));
        }
        let kind = match (&self.command, &self.url) {
            (Some(_), Some(_)) => {
                return bad(
                    "it has both `command` and `url`: it is started, or it is somewhere already".to_owned()
                );
            }
            (None, None) => return bad("it has neither `command` nor `url`".to_owned()),
            (Some(command), None) if command.trim().is_empty() => return bad("`command` is empty".to_owned()),
            (Some(_), None) => "stdio",
            (None, Some(_)) => "http",
        };
        match self.r#type.as_deref() {
            None => {}
            Some(given) if given == kind => {}
            Some("streamable-http" | "streamableHttp") if kind == "http" => {}
            Some("sse") => {
                return bad(
                    "`type` is `sse`, which was given up by the protocol: most servers also speak `http`"
                        .to_owned(),
                );
            }
            Some(given @ ("stdio" | "http")) => {
                return bad(format!("`type` is `{given}`, but what else is said of it makes it `{kind}`"));
            }
            Some(other) => return bad(format!("`type` is `{other}`: it can be `stdio` or `http`")),
        }
        let foreign: &[(&str, bool)] = match kind {
            "stdio" => &[
                ("headers", !self.headers.is_empty()),
                ("bearer_token", self.bearer_token.is_some()),
                ("oauth_client_id", self.oauth_client_id.is_some()),
                ("oauth_client_secret", self.oauth_client_secret.is_some()),
                ("oauth_scopes", !self.oauth_scopes.is_empty()),
            ],
            _ => &[
                ("args", !self.args.is_empty()),
                ("env", !self.env.is_empty()),
                ("pass_env", !self.pass_env.is_empty()),
                ("cwd", self.cwd.is_some()),
            ],
        };
        if let Some((key, _)) = foreign.iter().find(|(_, is_set)| *is_set) {
            let with = if kind == "stdio" { "url" } else { "command" };
            return bad(format!("`{key}` is for servers with `{with}`"));
        }
        Ok(())
    }

    /// Converts the configuration to a server, with variables expanded.
    pub fn expand(&self, name: &str, variables: Variables<'_>) -> Result<Server, ConfigError> {
        self.check(name)?;
        let expanded = |key: &str, text: &str| {
            expand(text, variables).map_err(|why| ConfigError::of(name, format!("`{key}`: {why}")))
        };
        let all =
            |key: &str, of: &BTreeMap<String, String>| -> Result<BTreeMap<String, String>, ConfigError> {
                let one = |(name, value): (&String, &String)| {
                    Ok((name.clone(), expanded(&format!("{key}.{name}"), value)?))
                };
                of.iter().map(one).collect()
            };
        let access = match (&self.command, &self.url) {
            (Some(command), _) => ServerTransport::Command {
                program: expanded("command", command)?,
                args: self.args.iter().map(|arg| expanded("args", arg)).collect::<Result<_, _>>()?,
                dir: self
                    .cwd
                    .as_deref()
                    .map(|cwd| expand_home(cwd, variables))
                    .transpose()
                    .map_err(|why| ConfigError::of(name, format!("`cwd`: {why}")))?,
                env: all("env", &self.env)?,
                pass_env: self.pass_env.clone(),
            },
            (None, url) => {
                let url = expanded("url", url.as_deref().unwrap_or_default())?;
                let parsed = Url::parse(&url).map_err(|error| {
                    ConfigError::of(name, format!("`url` is `{url}`, which is none: {error}"))
                })?;
                if !matches!(parsed.scheme(), "http" | "https") {
                    let scheme = parsed.scheme();
                    return Err(ConfigError::of(
                        name,
                        format!("`url` begins with `{scheme}`: it must be http or https"),
                    ));
                }
                let optional = |key: &str, text: &Option<String>| {
                    text.as_deref().map(|text| expanded(key, text)).transpose()
                };
                ServerTransport::Http {
                    url,
                    headers: all("headers", &self.headers)?,
                    bearer: optional("bearer_token", &self.bearer_token)?,
                    oauth: OAuth {
                        client_id: optional("oauth_client_id", &self.oauth_client_id)?,
                        client_secret: optional("oauth_client_secret", &self.oauth_client_secret)?,
                        scopes: self.oauth_scopes.clone(),
                        client_metadata_url: None,
                    },
                }
            }
        };
        let defaults = Limits::default();
        let seconds =
            |set: Option<u64>, default| set.map_or(default, |set| Duration::from_secs(set.min(86_400)));
        Ok(Server {
            name: name.to_owned(),
            transport: access,
            limits: Limits {
                start: seconds(self.startup_seconds, defaults.start),
                call: seconds(self.call_seconds, defaults.call),
            },
            protocol: Protocol::default(),
            trusts_read_only: self.believe_read_only,
        })
    }
}

/// Expands a leading `~` to the home folder.
fn expand_home(folder: &Path, variables: Variables<'_>) -> Result<PathBuf, String> {
    let Ok(rest) = folder.strip_prefix("~") else { return Ok(folder.to_owned()) };
    match variables("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(Path::new(&home).join(rest)),
        None => Err(format!(
            "`{}` begins in the home, and the variable `HOME` is not set; set it, or write the whole path",
            folder.display()
        )),
    }
}

/// Expands `${NAME}`, and `${NAME:-default}` for a variable that may be unset.
fn expand(text: &str, variables: Variables<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = inside.find('}') else {
            return Err(format!("`{}` has no end", &rest[at..]));
        };
        let (name, other) = match inside[..end].split_once(":-") {
            Some((name, other)) => (name, Some(other)),
            None => (&inside[..end], None),
        };
        let is_name = |name: &str| {
            let mut chars = name.chars();
            chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !is_name(name) {
            return Err(format!("`${{{name}}}` names no variable"));
        }
        match (variables(name).filter(|value| !value.is_empty()), other) {
            (Some(value), _) => out.push_str(&value),
            (None, Some(other)) => out.push_str(other),
            (None, None) => {
                return Err(format!(
                    "the variable `{name}` is not set; set it, or write `${{{name}:-something}}`"
                ));
            }
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/people/me".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn only(text: &str) -> Result<Server, String> {
        let SharedServer { name, config } = parse_mcp_json(text).map_err(|bad| bad.to_string())?.remove(0);
        config.map_err(|bad| bad.to_string())?.expand(&name, &variables).map_err(|bad| bad.to_string())
    }

    #[test]
    fn variables_are_expanded_and_may_have_a_default() {
        let expanded = |text| expand(text, &variables);
        assert_eq!(expanded("${HOME}/bin:${X:-y}$z ${EMPTY:-e}"), Ok("/people/me/bin:y$z e".to_owned()));
        assert_eq!(expanded("${X:-}"), Ok(String::new()));
        for (text, why) in
            [("${X}", "`X` is not set"), ("${HOME", "has no end"), ("${a b}", "names no variable")]
        {
            assert!(expanded(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn a_common_file_is_read() {
        let server = only(
            r#"{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "${HOME}"], "env": {"A": "1"}}}}"#,
        );
        let Ok(Server { transport: ServerTransport::Command { program, args, env, .. }, .. }) = &server
        else {
            panic!("{server:?}")
        };
        assert_eq!(
            (program.as_str(), args.as_slice()),
            ("npx", &["-y".to_owned(), "/people/me".to_owned()][..])
        );
        assert_eq!(env["A"], "1");
        let server =
            only(r#"{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp"}}}"#).unwrap();
        assert!(matches!(server.transport, ServerTransport::Http { .. }));
    }

    #[test]
    fn unknown_keys_are_skipped() {
        let text = r#"{"$schema": "x", "inputs": [], "mcpServers": {
            "a": {"command": "x", "timeout": 60000, "alwaysAllow": ["y"]}, "b": {"command": 7}}}"#;
        let servers = parse_mcp_json(text).unwrap();
        let command = servers[0].config.as_ref().map(|config| config.command.as_deref());
        assert_eq!(command, Ok(Some("x")));
        assert!(servers[1].config.as_ref().unwrap_err().why.contains("command"));
    }

    #[test]
    fn errors_name_the_server_and_the_key() {
        let wrong = |server: &str, words: &[&str]| {
            let error = only(&format!(r#"{{"mcpServers": {{"fs": {server}}}}}"#)).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{server}: {error}");
            assert!(error.contains("`fs`"), "{error}");
        };
        wrong(r#"{"command": "a", "url": "http://b"}"#, &["`command`", "`url`"]);
        wrong(r#"{}"#, &["neither `command` nor `url`"]);
        wrong(r#"{"comand": "b"}"#, &["neither `command` nor `url`", "not known here: `comand`"]);
        wrong(r#"{"command": 7}"#, &["command", "7"]);
        wrong(r#"{"command": "a", "args": [1]}"#, &["args[0]"]);
        wrong(r#"{"command": "a", "headers": {"a": "b"}}"#, &["`headers`", "`url`"]);
        wrong(r#"{"url": "http://a", "env": {"a": "b"}}"#, &["`env`", "`command`"]);
        wrong(r#"{"url": "file:///a"}"#, &["`url`", "file"]);
        wrong(r#"{"type": "sse", "url": "http://a"}"#, &["`type`", "sse"]);
        wrong(r#"{"type": "stdio", "url": "http://a"}"#, &["`type`", "`http`"]);
        wrong(r#"{"command": "a", "call_seconds": 0}"#, &["`call_seconds`"]);
        wrong(r#"{"command": "a", "env": {"T": "${NOT_THERE}"}}"#, &["`env.T`", "NOT_THERE"]);
    }

    #[test]
    fn a_malformed_file_is_an_error() {
        for (text, why) in [
            ("[]", "must be an object"),
            ("{}", "`mcpServers` is missing"),
            (r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#, "a"),
            ("{", ""),
        ] {
            let error = parse_mcp_json(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
