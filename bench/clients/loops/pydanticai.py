"""An agent of PydanticAI. Its user answers forms, if `answers` says so."""
import asyncio
import json
import sys

from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

config = json.load(open(sys.argv[1]))


async def answer(message, response_type, params, context):
    return ElicitResult(action="accept", content={"answer": "allow once"})


def model(url):
    """Another wire for each dialect, so that each is spoken."""
    if config["dialect"] == "claude":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        return AnthropicModel("scripted", provider=AnthropicProvider(api_key="scripted", base_url=url))
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    return OpenAIChatModel("scripted", provider=OpenAIProvider(api_key="scripted", base_url=f"{url}/v1"))


async def main():
    transport = StdioTransport(command=config["command"][0], args=config["command"][1:], env=config["env"])
    tools = MCPToolset(transport, elicitation_handler=answer if config["answers"] else None)
    agent = Agent(model(config["url"]), toolsets=[tools])
    async with agent:
        result = await agent.run(config["prompt"])
    print(result.output)


asyncio.run(main())
