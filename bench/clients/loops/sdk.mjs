// The official TypeScript SDK, which has no model: what it returns to its caller is written down.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
// The SDK is installed in the cache of the bench, not beside this file.
const { resolve } = createRequire(`${config.npm}/package.json`);
const load = (path) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { ElicitRequestSchema } = await load("types.js");

const capabilities = config.answers ? { elicitation: {} } : {};
const client = new Client({ name: "sdk", version: "1" }, { capabilities });
if (config.answers) {
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { answer: "allow once" } }));
}
const [command, ...args] = config.command;
await client.connect(new StdioClientTransport({ command, args, env: config.env }));
const { tools } = await client.listTools();
const told = {
  tools: tools.map(({ name, description, inputSchema }) => ({ name, description, schema: inputSchema })),
  results: {},
};
for (const turn of config.turns) {
  const made = turn.map(([, name, input]) => client.callTool({ name, arguments: input }));
  (await Promise.all(made)).forEach((result, at) => {
    const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
    told.results[turn[at][0]] = { texts, structured: result.structuredContent ?? null, failed: result.isError === true };
  });
}
await client.close();
writeFileSync(config.out, JSON.stringify(told));
