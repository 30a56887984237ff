//! `haft mcp list`, `haft mcp test` and `haft mcp login`: the MCP servers whose tools haft uses.

use std::io::Write;
use std::process::ExitCode;

use haft_mcp::client::{Loopback, ServerState, ServerStatus, Servers};
use serde_json::{Value, json};

use crate::args::{Common, McpCommand};
use crate::host;
use crate::style::{self, BAD, BOLD, DIM, GOOD, NAME, one_line, sanitize};
use haft_host::Environment;
use haft_host::settings::ConfiguredServer;

pub(super) fn run(common: &Common, command: McpCommand) -> anyhow::Result<ExitCode> {
    let environment = host::lenient_environment(common)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let servers = haft_host::servers(&environment)?;
    let outcome = runtime.block_on(async {
        match command {
            McpCommand::List => list(common, &environment, &servers).await,
            McpCommand::Test { server } => test(common, &environment, &servers, &server).await,
            McpCommand::Login { server } => login(&environment, &servers, &server).await,
        }
    });
    runtime.block_on(servers.close());
    outcome
}

/// Maximum length of a tool's description in the list.
const MAX_ABOUT: usize = 100;

/// A row of the list.
struct Row<'a> {
    found: &'a ConfiguredServer,
    state: &'static str,
    detail: String,
    tools: Option<usize>,
}

async fn list(common: &Common, environment: &Environment, servers: &Servers) -> anyhow::Result<ExitCode> {
    let statuses = servers.start_all().await;
    let loaded = &environment.loaded;
    let rows: Vec<Row<'_>> = loaded.servers.iter().map(|found| row(found, &statuses)).collect();
    let held_back = loaded.untrusted_servers.iter().map(|found| Row {
        found,
        state: "not trusted",
        detail: "`haft trust` shows it, and starts it if you agree".to_owned(),
        tools: None,
    });
    let rows: Vec<Row<'_>> = rows.into_iter().chain(held_back).collect();
    if let Some(why) = &loaded.mcp_json_error {
        style::notice(&format!("the project is not trusted, and its servers cannot be read: {why}"));
    }
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.found.name, "from": row.found.origin, "how": row.found.display_target(),
                    "state": row.state, "detail": row.detail, "tools": row.tools,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        writeln!(
            out,
            "there are no servers: `.mcp.json` or `[mcp.servers.NAME]` in the settings may name some"
        )?;
    }
    for Row { found, state, detail, tools } in &rows {
        let style = match *state {
            "works" => GOOD,
            "fails" => BAD,
            _ => DIM,
        };
        let count = tools.map(|tools| format!(", {tools} tools")).unwrap_or_default();
        writeln!(
            out,
            "{NAME}{}{NAME:#}  {style}{state}{style:#}{count}  {DIM}{} ({}){DIM:#}",
            one_line(&found.name),
            one_line(&found.display_target()),
            one_line(&found.origin)
        )?;
        if !detail.is_empty() {
            sanitize(detail).lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row<'a>(found: &'a ConfiguredServer, statuses: &[ServerStatus]) -> Row<'a> {
    let status = statuses.iter().find(|status| status.server == found.name);
    let (state, detail, tools) = match status.map(|status| (&status.state, status)) {
        Some((ServerState::Up(about), status)) => {
            let detail = format!("{} {}, protocol {}", about.name, about.version, about.protocol);
            let problems = status.problems.iter().map(|problem| format!("\n{problem}")).collect::<String>();
            ("works", format!("{detail}{problems}"), Some(status.tools.len()))
        }
        Some((ServerState::Down(fault), _)) => ("fails", fault.message().to_owned(), None),
        _ => ("disabled", String::new(), None),
    };
    Row { found, state, detail, tools }
}

async fn login(environment: &Environment, servers: &Servers, name: &str) -> anyhow::Result<ExitCode> {
    check_usable(environment, name)?;
    let visitor = Loopback::open(|page| style::notice(&format!("open this page to log in: {page}"))).await?;
    servers.login(name, &visitor).await.map_err(|fault| style::fault_error(&fault))?;
    writeln!(anstream::stdout(), "logged in to {}", one_line(name))?;
    Ok(ExitCode::SUCCESS)
}

fn check_usable(environment: &Environment, name: &str) -> anyhow::Result<()> {
    if environment.loaded.untrusted_servers.iter().any(|found| found.name == name)
        && !environment.loaded.servers.iter().any(|found| found.name == name)
    {
        anyhow::bail!("the server `{name}` is the project's, which is not trusted: `haft trust` shows it");
    }
    if environment.loaded.servers.iter().any(|found| found.name == name && found.config.disabled) {
        anyhow::bail!("the server `{name}` is disabled");
    }
    Ok(())
}

async fn test(
    common: &Common,
    environment: &Environment,
    servers: &Servers,
    name: &str,
) -> anyhow::Result<ExitCode> {
    check_usable(environment, name)?;
    let tested = servers.test(name).await;
    let mut out = anstream::stdout().lock();
    let tested = match tested {
        Ok(tested) => tested,
        Err(fault) if servers.status().iter().all(|status| status.server != name) => {
            return Err(style::fault_error(&fault));
        }
        Err(fault) => {
            if common.json {
                writeln!(out, "{:#}", json!({"server": name, "works": false, "error": fault.message()}))?;
            } else {
                writeln!(out, "{BAD}fails{BAD:#} {}", sanitize(fault.message()))?;
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let ServerState::Up(about) = &tested.status.state else { return Ok(ExitCode::FAILURE) };
    let latency = tested.latency.map(style::duration);
    if common.json {
        let tools: Vec<Value> = tested
            .status
            .tools
            .iter()
            .map(|(name, about)| json!({"name": name, "description": about}))
            .collect();
        let output = json!({
            "server": name, "works": true, "name": about.name, "version": about.version,
            "protocol": about.protocol, "instructions": about.instructions,
            "started_in_ms": tested.started_in.as_millis() as u64,
            "latency_ms": tested.latency.map(|latency| latency.as_secs_f64() * 1e3),
            "tools": tools, "resources": about.has_resources, "prompts": about.has_prompts,
            "problems": tested.status.problems,
        });
        writeln!(out, "{output:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{GOOD}works{GOOD:#} {BOLD}{} {}{BOLD:#}, protocol {}",
        one_line(&about.name),
        one_line(&about.version),
        one_line(&about.protocol)
    )?;
    let answers =
        latency.map_or("does not answer a ping".to_owned(), |latency| format!("answers in {latency}"));
    writeln!(out, "started in {}, {answers}", style::duration(tested.started_in))?;
    let also: Vec<&str> = [("resources", about.has_resources), ("prompts", about.has_prompts)]
        .into_iter()
        .filter_map(|(what, has)| has.then_some(what))
        .collect();
    if !also.is_empty() {
        writeln!(out, "has {}", also.join(" and "))?;
    }
    for (name, about) in &tested.status.tools {
        let first: String = about.lines().next().unwrap_or_default().chars().take(MAX_ABOUT).collect();
        writeln!(out, "  {NAME}{}{NAME:#}  {DIM}{}{DIM:#}", one_line(name), one_line(&first))?;
    }
    for problem in &tested.status.problems {
        writeln!(out, "{BAD}!{BAD:#} {}", one_line(problem))?;
    }
    Ok(ExitCode::SUCCESS)
}
