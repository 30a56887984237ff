"""The official Python SDK, version 1, which most clients in Python are made of and which has no model: what it returns
to its caller is written down."""
import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

config = json.load(open(sys.argv[1]))


async def answer(context, params):
    return types.ElicitResult(action="accept", content={"answer": "allow once"})


async def main():
    server = StdioServerParameters(command=config["command"][0], args=config["command"][1:], env=config["env"])
    options = {"elicitation_callback": answer} if config["answers"] else {}
    told = {"tools": [], "results": {}}
    async with stdio_client(server) as streams, ClientSession(*streams, **options) as client:
        await client.initialize()
        for tool in (await client.list_tools()).tools:
            told["tools"].append({"name": tool.name, "description": tool.description, "schema": tool.inputSchema})
        for turn in config["turns"]:
            made = [client.call_tool(tool, input) for _, tool, input in turn]
            for (step, _, _), result in zip(turn, await asyncio.gather(*made)):
                texts = [block.text for block in result.content if block.type == "text"]
                told["results"][step] = {"texts": texts, "structured": result.structuredContent, "failed": result.isError}
    json.dump(told, open(config["out"], "w"))


asyncio.run(main())
