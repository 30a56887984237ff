"""FastMCP's client, which has no model: what it returns to its caller is written down."""
import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport

config = json.load(open(sys.argv[1]))


async def answer(message, response_type, params, context):
    return ElicitResult(action="accept", content={"answer": "allow once"})


async def main():
    transport = StdioTransport(command=config["command"][0], args=config["command"][1:], env=config["env"])
    options = {"elicitation_handler": answer} if config["answers"] else {}
    told = {"tools": [], "results": {}}
    async with Client(transport, **options) as client:
        for tool in await client.list_tools():
            schema = tool.model_dump(by_alias=True, mode="json")["inputSchema"]
            told["tools"].append({"name": tool.name, "description": tool.description, "schema": schema})
        for turn in config["turns"]:
            # The calls of a turn are made at once.
            made = [client.call_tool(tool, input, raise_on_error=False) for _, tool, input in turn]
            for (step, _, _), result in zip(turn, await asyncio.gather(*made)):
                texts = [block.text for block in result.content if block.type == "text"]
                told["results"][step] = {"texts": texts, "structured": result.structured_content, "failed": result.is_error}
    json.dump(told, open(config["out"], "w"))


asyncio.run(main())
