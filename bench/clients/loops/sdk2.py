"""The official Python SDK, version 2, which has no model: what it returns to its caller is written down."""
import asyncio
import json
import sys

from mcp import Client, StdioServerParameters, types

config = json.load(open(sys.argv[1]))


async def answer(context, params):
    return types.ElicitResult(action="accept", content={"answer": "allow once"})


async def main():
    server = StdioServerParameters(command=config["command"][0], args=config["command"][1:], env=config["env"])
    options = {"elicitation_callback": answer} if config["answers"] else {}
    told = {"tools": [], "results": {}}
    async with Client(server, **options) as client:
        for tool in (await client.list_tools()).tools:
            told["tools"].append({"name": tool.name, "description": tool.description, "schema": tool.input_schema})
        for turn in config["turns"]:
            made = [client.call_tool(tool, input) for _, tool, input in turn]
            for (step, _, _), result in zip(turn, await asyncio.gather(*made)):
                texts = [block.text for block in result.content if block.type == "text"]
                told["results"][step] = {"texts": texts, "structured": result.structured_content, "failed": result.is_error}
    json.dump(told, open(config["out"], "w"))


asyncio.run(main())
