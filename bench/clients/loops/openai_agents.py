"""An agent of the OpenAI Agents SDK, which has no forms."""
import asyncio
import json
import sys

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI

config = json.load(open(sys.argv[1]))


async def main():
    set_tracing_disabled(True)
    params = {"command": config["command"][0], "args": config["command"][1:], "env": config["env"]}
    client = AsyncOpenAI(base_url=f"{config['url']}/v1", api_key="scripted")
    async with MCPServerStdio(params, client_session_timeout_seconds=60) as server:
        model = OpenAIResponsesModel("scripted", client)
        agent = Agent(name="bench", instructions="", model=model, mcp_servers=[server])
        if config["dialect"] == "claude":
            run = Runner.run_streamed(agent, config["prompt"], max_turns=20)
            async for _ in run.stream_events():
                pass
            print(run.final_output)
        else:
            print((await Runner.run(agent, config["prompt"], max_turns=20)).final_output)


asyncio.run(main())
