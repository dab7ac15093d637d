#!/usr/bin/env python3
"""Sends three streamed chats through Weighbridge and says which engine answered each and why.

    first_chats.py --url http://127.0.0.1:8800 --admin http://127.0.0.1:8801 --ready-file F [--route smollm2]

Two chats belong to one session and the third to another, so that session affinity shows. Without --route it takes the
first model of /v1/models that looks like a chat model. Python 3.8 or newer and nothing else. Exit code 1 when a chat
fails or its answer is empty.
"""

import argparse
import json
import http.client
import sys
import urllib.parse
from pathlib import Path

import show_decision

# Short questions that even a very small model answers sensibly. With the pool and endpoint names of ./quickstart the two
# sessions have different homes.
CHATS = [("anna", "Write one sentence about the sea."),
         ("anna", "Write one sentence about rain."),
         ("ben", "Why is the sky blue?")]
TIMEOUT_S = 180


class Failed(Exception):
    """A chat that did not work; the message is for a person."""


def connect(url):
    parts = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)


def chat_route(url):
    """The first model that is not an embedding model."""
    connection = connect(url)
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Failed(f"GET /v1/models answered {answer.status}: {body[:300].decode(errors='replace')}")
        names = [model["id"] for model in json.loads(body)["data"]]
    finally:
        connection.close()
    chat = [name for name in names if "embed" not in name.lower()]
    if not chat:
        raise Failed(f"no chat model is served; models: {', '.join(names) or 'none'}")
    return chat[0]


def pieces(answer):
    """The text pieces of a streamed answer."""
    for line in answer:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            raise Failed(f"the stream ended with an error: {event['error']}")
        for choice in event.get("choices") or []:
            yield (choice.get("delta") or {}).get("content") or ""
    raise Failed("the stream ended without its end mark")


def chat(url, route, session, question, tokens):
    """Prints one answer as it arrives; gives back the answer's headers."""
    body = {"model": route, "messages": [{"role": "user", "content": question}], "stream": True, "temperature": 0,
            "max_tokens": tokens}
    connection = connect(url)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"content-type": "application/json", "x-session-id": session})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(f"status {answer.status}: {answer.read(2000).decode(errors='replace')}")
        text = ""
        print("  answer    ", end="", flush=True)
        for piece in pieces(answer):
            text += piece
            print(piece.replace("\n", " "), end="", flush=True)
        print(flush=True)
        if not text.strip():
            raise Failed("the answer was empty")
        return answer.headers
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Failed(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()


def token_of(ready_file):
    """The admin token, from the file that the gateway's ready file names."""
    ready = json.loads(Path(ready_file).read_text(encoding="utf-8"))
    return Path(ready["token_file"]).read_text(encoding="utf-8").strip() if ready.get("token_file") else None


def show(headers, args, route):
    names = {"target": "pool", "endpoint": "engine", "attempts": "attempts"}
    values = [f"{label} {headers[f'x-weighbridge-{name}']}" for name, label in names.items() if headers.get(f"x-weighbridge-{name}")]
    print("  served by ", ", ".join(values) or "(the answer names no engine)", sep="")
    if not args.admin:
        return
    try:
        decision = show_decision.pick(show_decision.fetch(args.admin, token_of(args.ready_file), route), headers.get("x-request-id"))
    except (OSError, ValueError) as error:
        print(f"  why       (the admin API did not say: {error})")
        return
    lines = show_decision.explain(decision) if decision else ["(no record of this decision)"]
    print("  why       " + "\n            ".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8800", help="the gateway (default: %(default)s)")
    parser.add_argument("--admin", help="its admin API, for the reasons")
    parser.add_argument("--ready-file", help="what `weighbridge serve --ready-file` wrote; names the token's file")
    parser.add_argument("--route", help="the model to ask")
    parser.add_argument("--print-route", action="store_true", help="only print which model would be asked")
    parser.add_argument("--tokens", type=int, default=32, help="most tokens of an answer (default: %(default)s)")
    args = parser.parse_args()
    if args.admin and not args.ready_file:
        parser.error("--admin needs --ready-file")
    try:
        route = args.route or chat_route(args.url)
        if args.print_route:
            print(route)
            return
        for index, (session, question) in enumerate(CHATS, 1):
            print(f"\nChat {index} of {len(CHATS)}: session {session}, model {route}")
            print(f"  question  {question}")
            show(chat(args.url, route, session, question, args.tokens), args, route)
    except (Failed, OSError) as error:
        sys.exit(f"\nThe chat failed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
