"""The limit that the HTTP API is measured beside: Starlette on uvicorn, and nothing of a broker.

    python -m benchmarks.bare_http      prints its port

An ordinary application on the same loop and with the same parser: it finds the
route, reads the body and answers with as many bytes as the API would:

    POST /v1/topics/{topic}/publish?size=N
"""

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def answer(request: Request) -> Response:
    """Read everything, and say as much as was asked for."""
    await request.body()
    return Response(b"x" * int(request.query_params["size"]), media_type="application/json")


def main() -> None:
    """Until the process is ended."""
    app = Starlette(routes=[Route("/v1/topics/{topic}/publish", answer, methods=["POST"])])
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="error"
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
