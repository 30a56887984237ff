"""An agent of LangChain with the MCP adapters, as their documentation shows it: `get_tools` starts haft anew for each
call, so that what a session knows is kept under a name."""
import asyncio
import json
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from mcp.types import ElicitResult

config = json.load(open(sys.argv[1]))


async def answer(context, params, callback_context):
    return ElicitResult(action="accept", content={"answer": "allow once"})


async def main():
    connection = {"transport": "stdio", "command": config["command"][0], "env": config["env"],
                  "args": [*config["command"][1:], "--session", "bench"]}
    callbacks = Callbacks(on_elicitation=answer) if config["answers"] else None
    client = MultiServerMCPClient({"haft": connection}, callbacks=callbacks)
    model = ChatOpenAI(model="scripted", base_url=f"{config['url']}/v1", api_key="scripted",
                       streaming=config["dialect"] != "claude", use_responses_api=False)
    agent = create_agent(model, await client.get_tools())
    result = await agent.ainvoke({"messages": [("user", config["prompt"])]})
    print(result["messages"][-1].text)


asyncio.run(main())
