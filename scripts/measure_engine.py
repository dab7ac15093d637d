#!/usr/bin/env python3
"""Sends streamed requests of known sizes to a server with OpenAI's completions and writes down when each token came.

  scripts/measure_engine.py http://127.0.0.1:8080 --requests 10 --concurrency 4 --out ten.jsonl
  scripts/measure_engine.py http://127.0.0.1:8080 --requests 100 --concurrency 4 --seed 2 --out hundred.jsonl
  scripts/fit_engine.py --measured ten.jsonl --slots 4 --predict hundred.jsonl --out engine.json

One JSON line per request: `sent_s`, `first_s` and `last_s` (seconds since the start), `prompt_tokens`, `cached_tokens`
and `output_tokens` (as the server counts them), `concurrency`. Lengths are drawn between the bounds, so that a fit can
tell their effects apart; prompts share nothing, so that none is found in a cache. The server should have nothing else
to do meanwhile. Python 3 alone is needed; an API key is read from OPENAI_API_KEY.
"""

import argparse
import http.client
import json
import os
import pathlib
import queue
import random
import sys
import threading
import time
import urllib.parse

WORDS = (
    "river stone garden window letter music winter bridge market doctor forest silver engine paper island summer "
    "kitchen yellow morning teacher harbour cotton mountain ticket village mirror blanket station copper thunder"
).split()


def bounds(text):
    low, _, high = text.partition("-")
    low, high = int(low), int(high or low)
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError(f"{text}: write LOW-HIGH, such as 50-400")
    return low, high


class Server:
    """Where requests go, and what they have in common."""

    def __init__(self, args):
        url = urllib.parse.urlsplit(args.url if "//" in args.url else f"http://{args.url}")
        if url.scheme not in ("http", "https") or not url.hostname:
            sys.exit(f"{args.url}: write http://HOST:PORT")
        self.connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self.address, self.timeout = url.netloc, args.timeout
        self.path = url.path.rstrip("/").removesuffix("/v1") + "/v1"
        self.headers = {"content-type": "application/json"}
        if os.environ.get("OPENAI_API_KEY"):
            self.headers["authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
        self.model = args.model or self.first_model()

    def first_model(self):
        """The name of the first model that the server lists."""
        connection = self.connect(self.address, timeout=self.timeout)
        try:
            connection.request("GET", f"{self.path}/models", headers=self.headers)
            listed = json.loads(connection.getresponse().read())
            return listed["data"][0]["id"]
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as e:
            sys.exit(f"{self.address}: {self.path}/models names no model ({e}); give --model")
        finally:
            connection.close()

    def ask(self, prompt, output_tokens, start):
        """Sends one request and waits for its last token; its times and sizes."""
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        connection = self.connect(self.address, timeout=self.timeout)
        times, usage, sent = [], None, time.monotonic()
        try:
            connection.request("POST", f"{self.path}/completions", json.dumps(body), self.headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(f"status {response.status}: {response.read(300).decode(errors='replace')}")
            for line in response:
                now = time.monotonic()
                if not line.startswith(b"data:") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[5:])
                usage = event.get("usage") or usage
                if any(choice.get("text") for choice in event.get("choices", [])):
                    times.append(now)
        finally:
            connection.close()
        if not times or not usage:
            raise ValueError("the answer had no text, or no usage; the server must honour stream_options.include_usage")
        details = usage.get("prompt_tokens_details") or {}
        return {
            "sent_s": round(sent - start, 6),
            "first_s": round(times[0] - start, 6),
            "last_s": round(times[-1] - start, 6),
            "prompt_tokens": usage["prompt_tokens"],
            "cached_tokens": details.get("cached_tokens") or 0,
            "output_tokens": usage["completion_tokens"],
        }


def draw_requests(args):
    """Prompts and lengths. A word of the list is a token or a little more."""
    draw = random.Random(args.seed)
    for number in range(args.requests):
        words = draw.randint(*args.prompt_tokens)
        # The beginning tells prompts apart.
        prompt = f"{args.seed} {number} " + " ".join(draw.choices(WORDS, k=words))
        yield prompt, draw.randint(*args.output_tokens)


def measure(args):
    server, todo, results, errors = Server(args), queue.SimpleQueue(), [], []
    for request in draw_requests(args):
        todo.put(request)
    start = time.monotonic()

    def work():
        while not errors:
            try:
                prompt, output_tokens = todo.get_nowait()
            except queue.Empty:
                return
            try:
                results.append({**server.ask(prompt, output_tokens, start), "concurrency": args.concurrency})
            except (OSError, ValueError, KeyError, http.client.HTTPException) as e:
                errors.append(f"{args.url}: {e}")

    threads = [threading.Thread(target=work) for _ in range(args.concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        sys.exit(errors[0])
    return sorted(results, key=lambda r: r["sent_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server, such as http://127.0.0.1:8080")
    parser.add_argument("--model", help="name of the model; else the first that the server lists")
    parser.add_argument("--requests", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=4, help="requests under way at once")
    parser.add_argument("--prompt-tokens", type=bounds, default=(20, 400), metavar="LOW-HIGH", help="words, in fact")
    parser.add_argument("--output-tokens", type=bounds, default=(10, 120), metavar="LOW-HIGH")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600, help="seconds without a byte until it gives up")
    parser.add_argument("--out", help="file for the JSON lines, instead of standard output")
    args = parser.parse_args()
    if args.requests < 1 or args.concurrency < 1:
        parser.error("--requests and --concurrency start at 1")
    text = "".join(json.dumps(row) + "\n" for row in measure(args))
    if args.out:
        pathlib.Path(args.out).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
