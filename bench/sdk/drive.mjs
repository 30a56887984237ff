// `haft mcp` as the TypeScript SDK of the protocol meets it, over both transports. Says what does not hold, and fails.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const haft = process.argv[2];
let failed = 0;

function check(what, holds, told = "") {
  console.log(`  ${holds ? "ok  " : "FAIL"} ${what}${holds || !told ? "" : `: ${told}`}`);
  if (!holds) failed += 1;
}

const text = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");

function isRunning(seconds) {
  try {
    execFileSync("pgrep", ["-f", `^sleep ${seconds}$`]);
    return true;
  } catch {
    return false;
  }
}

async function until(holds) {
  for (let round = 0; round < 500 && !holds(); round += 1) await new Promise((done) => setTimeout(done, 20));
  return holds();
}

async function drive(transport, work, mark) {
  const asked = [];
  const capabilities = { elicitation: {}, roots: { listChanged: true } };
  const client = new Client({ name: "drive", version: "1" }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { answer: "allow once" } };
  });
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: `file://${work}` }] }));
  await client.connect(transport);
  const { tools } = await client.listTools();
  check("tools are listed", ["Read", "Write", "Bash"].every((name) => tools.some((tool) => tool.name === name)));
  const read = await client.callTool({ name: "Read", arguments: { file_path: "lines.txt" } });
  check("a file is read", text(read).includes("this is line 199") && !read.isError, text(read));
  check("with figures for programs, apart from what a model is handed",
    read.structuredContent === undefined && read._meta?.["haft/structured"]?.total_lines === 200);
  const missing = await client.callTool({ name: "Read", arguments: { file_path: "nothing.txt" } });
  check("what fails says so", missing.isError === true && text(missing).includes("nothing.txt"));
  const made = { file_path: `made-${mark}.txt`, content: "made\n" };
  const written = await client.callTool({ name: "Write", arguments: made });
  check("the user is asked, with the diff", asked.length === 1 && asked[0].includes("+made"), text(written));
  check("and what they allow is done", existsSync(join(work, made.file_path)));
  const told = [];
  const command = "for n in 1 2 3; do echo step $n; sleep 0.2; done";
  const onprogress = (progress) => told.push(progress.message ?? "");
  await client.callTool({ name: "Bash", arguments: { command } }, undefined, { onprogress });
  check("a command tells its progress", told.some((message) => message.includes("step 1")), told.join("|"));
  const { resources } = await client.listResources();
  check("the journal is a resource", resources.some((resource) => resource.uri === "haft://journal"));
  const stop = new AbortController();
  const sleeping = client.callTool({ name: "Bash", arguments: { command: `sleep ${mark}` } }, undefined, { signal: stop.signal });
  const ended = sleeping.then(() => false, () => true);
  check("a command runs", await until(() => isRunning(mark)));
  stop.abort();
  check("a call that is given up", await ended);
  check("stops", await until(() => !isRunning(mark)));
  const many = await Promise.all(Array.from({ length: 100 }, () => client.callTool({ name: "Read", arguments: { file_path: "lines.txt" } })));
  check("a hundred calls at once are answered", many.every((result) => !result.isError));
  await client.close();
}

const base = realpathSync(mkdtempSync(join(tmpdir(), "haft-sdk-")));
try {
  const [work, home] = [join(base, "work"), join(base, "home")];
  mkdirSync(work);
  mkdirSync(join(home, ".config/haft"), { recursive: true });
  writeFileSync(join(work, "lines.txt"), Array.from({ length: 200 }, (_, n) => `this is line ${n}\n`).join(""));
  writeFileSync(join(home, ".config/haft/config.toml"), '[permissions]\nallow = ["Bash"]\n');
  const env = { HOME: home, PATH: process.env.PATH };
  console.log("the TypeScript SDK, over standard input and output");
  await drive(new StdioClientTransport({ command: haft, args: ["mcp"], cwd: work, env, stderr: "ignore" }), work, 31461);
  console.log("the TypeScript SDK, over HTTP");
  const server = spawn(haft, ["mcp", "--http", "127.0.0.1:0"], { cwd: work, env, stdio: ["ignore", "ignore", "pipe"] });
  const exited = new Promise((done) => server.on("exit", done));
  const address = await new Promise((done) => {
    createInterface({ input: server.stderr }).on("line", (line) => {
      const found = /serving (\S+)/.exec(line);
      if (found) done(found[1]);
    });
  });
  await drive(new StreamableHTTPClientTransport(new URL(address)), work, 31462);
  server.kill("SIGTERM");
  check("the server ends when it is told to", (await exited) === 0);
} finally {
  rmSync(base, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
