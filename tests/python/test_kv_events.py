"""KV events of a real vLLM, in both directions of connection, through the gateway.

    ./test kv_events        installs vLLM once (scripts/install_vllm), builds the gateway with tokenizers and runs this file

Two engines with small caches: one connects to the gateway, the other listens. What the gateway believes them to hold is compared
with what all their events, replayed, leave in their caches. Prompts are first sent to an engine past the gateway, so that nothing
but its events can tell where they are.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from processes import Gateway, wait_for

SIDE = Path(__file__).with_name("vllm_side.py")
BLOCK = 32
ADMIN_TOKEN = "of-this-test"
# So small that what was computed is evicted within the test.
BLOCKS = 100
# Engines load in less than a minute on a machine that does nothing else.
UP_WITHIN_S = 400
REST_WITHIN_S = 60


def ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


class Engine:
    """A vLLM that tells what it holds."""

    def __init__(self, home, model, connects):
        self.home, self.model = home, model
        self.port, self.events, self.replay = ports(3)
        self.where = f"tcp://127.0.0.1:{self.events}" if connects else f"tcp://*:{self.events}"
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.output = tempfile.NamedTemporaryFile("w+b")
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": self.where, "replay_endpoint": f"tcp://127.0.0.1:{self.replay}"}
        environment = {
            **os.environ, "PATH": f"{self.home}/bin:{os.environ['PATH']}", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0-1",
            "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": "127.0.0.1",
            "VLLM_SERVER_DEV_MODE": "1"}
        self.child = subprocess.Popen(
            [f"{self.home}/bin/vllm", "serve", self.model, "--load-format", "dummy", "--host", "127.0.0.1", "--port", str(self.port),
             "--served-model-name", "tiny", "--dtype", "bfloat16", "--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager",
             "--enable-prefix-caching", "--enable-prompt-tokens-details", "--block-size", str(BLOCK), "--num-gpu-blocks-override",
             str(BLOCKS), "--kv-events-config", json.dumps(events)],
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, env=environment, start_new_session=True)

    def is_up(self):
        if self.child.poll() is not None:
            raise AssertionError(f"vLLM ended with {self.child.returncode}:\n{Path(self.output.name).read_text(errors='replace')[-4000:]}")
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self):
        # Its engine is a process of its own.
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        self.output.close()

    def held(self):
        """What all its events leave in its cache."""
        told = subprocess.run(
            [f"{self.home}/bin/python", str(SIDE), "held", f"tcp://127.0.0.1:{self.replay}"], capture_output=True, text=True, timeout=120)
        if told.returncode:
            raise AssertionError(told.stderr)
        return json.loads(told.stdout)


def ask(url, path, body):
    request = urllib.request.Request(url + path, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.headers, json.load(answer)


class KvEventsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.end)
        cls.engines, cls.gateway = {}, None
        cls.home = os.environ["WEIGHBRIDGE_VLLM"]
        cls.model = tempfile.mkdtemp(prefix="weighbridge-test-")
        subprocess.run([f"{cls.home}/bin/python", str(SIDE), "model", cls.model], check=True)
        cls.engines = {"connects": Engine(cls.home, cls.model, True), "listens": Engine(cls.home, cls.model, False)}
        for name, engine in cls.engines.items():
            wait_for(f"the engine that {name} is up", engine.is_up, UP_WITHIN_S)
        cls.dice = random.Random(5)
        # Before the gateway listens: these events are known from the replay alone.
        for engine in cls.engines.values():
            for _ in range(3):
                ask(engine.url, "/v1/completions", cls.completion(200))
        cls.gateway = Gateway(cls.config())

    @classmethod
    def end(cls):
        if cls.gateway:
            cls.gateway.stop()
        for engine in cls.engines.values():
            engine.stop()
        shutil.rmtree(cls.model, ignore_errors=True)

    @classmethod
    def config(cls):
        def endpoint(name):
            engine = cls.engines[name]
            way = "bind" if name == "connects" else "connect"
            place = f"tcp://127.0.0.1:{engine.events}"
            return f"{{name: {name}, url: '{engine.url}', kv_events: {{{way}: '{place}', replay: 'tcp://127.0.0.1:{engine.replay}'}}}}"

        cls.admin = ports(1)[0]
        return f"""
server: {{listen: 127.0.0.1:0, headers: full}}
admin: {{listen: 127.0.0.1:{cls.admin}, token: {ADMIN_TOKEN}}}
pools:
  - name: tiny
    kind: vllm
    tokenizer: {{path: {cls.model}/tokenizer.json, chat_template: {cls.model}/tokenizer_config.json}}
    endpoints: [{endpoint('connects')}, {endpoint('listens')}]
routes:
  - name: tiny
    targets: [tiny]
    policies: {{prefix_cache: {{}}}}
"""

    @classmethod
    def completion(cls, tokens):
        """A prompt of random tokens that nobody has seen."""
        return {"model": "tiny", "prompt": [cls.dice.randrange(10, 500) for _ in range(tokens)], "max_tokens": 2, "temperature": 0}

    @classmethod
    def chat(cls, words):
        text = " ".join(cls.dice.choice(["quick", "brown", "fox", "engines", "prompt", "Größe", "狐狸", "<b>"]) for _ in range(words))
        return {"model": "tiny", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}], "max_tokens": 2}

    def shown(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}/api/endpoints", headers={"authorization": f"Bearer {ADMIN_TOKEN}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return {endpoint["name"]: endpoint["kv_events"] for endpoint in json.load(answer)["endpoints"]}

    def rest(self, name, before=0):
        """Waits until the gateway's view of the engine is what its events leave; gives it back. `before`: batches of its earlier lives."""
        truth = self.engines[name].held()

        def equal():
            shown = self.shown()[name]
            return shown if shown["whole"] and shown["batches"] == before + truth["batches"] else None

        try:
            shown = wait_for(f"all batches of the engine that {name}", equal, REST_WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\ntold: {truth}\nshown: {self.shown()[name]}\n{self.gateway.text()[-2000:]}") from None
        self.assertEqual(shown["blocks"], truth["blocks"], (shown, truth))
        self.assertEqual((shown["losses"], shown["unreadable"], shown["unplaced"], shown["waiting"]), (0, 0, 0, 0), shown)
        self.assertEqual(shown["block_tokens"], BLOCK)
        return shown, truth

    def test_1_what_engines_hold_is_known_while_they_evict(self):
        for name in self.engines:
            self.rest(name)
        for turn in range(30):
            _, answer = ask(self.gateway.url, "/v1/completions", self.completion(100 + 20 * turn))
            self.assertEqual(len(answer["choices"]), 1)
        for name in self.engines:
            _, truth = self.rest(name)
            self.assertGreater(truth["events"].get("BlockRemoved", 0), 0, truth)

    def hits(self, path, body, name):
        """Sent to one engine past the gateway, a request goes there through it, and finds itself cached."""
        prompt = ask(self.engines[name].url, path, body)[1]["usage"]["prompt_tokens"]
        self.rest(name)
        for _ in range(3):
            headers, answer = ask(self.gateway.url, path, body)
            self.assertEqual(headers["x-weighbridge-endpoint"], name, path)
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            # The engine computes the last token anew, and with it its block.
            self.assertEqual(cached, (prompt - 1) // BLOCK * BLOCK, path)
        self.rest(name)

    def test_2_a_prompt_goes_to_the_engine_whose_events_have_it(self):
        for turn in range(3):
            for name in self.engines:
                self.hits("/v1/completions", self.completion(150 + turn * 32), name)

    def test_3_so_do_texts_and_chats_by_the_model_s_tokenizer(self):
        for turn in range(2):
            for name in self.engines:
                self.hits("/v1/chat/completions", self.chat(120 + turn), name)
                text = "lazy dogs " + " ".join(self.dice.choice(["over", "while", "keep", "é"]) for _ in range(150))
                self.hits("/v1/completions", {"model": "tiny", "prompt": text, "max_tokens": 2}, name)

    def test_4_an_engine_that_clears_its_cache_is_believed(self):
        name = "connects"
        urllib.request.urlopen(urllib.request.Request(self.engines[name].url + "/reset_prefix_cache", method="POST"), timeout=30).close()
        # The engine tells with its next step.
        ask(self.engines[name].url, "/v1/completions", self.completion(70))
        shown, truth = self.rest(name)
        self.assertEqual(truth["events"].get("AllBlocksCleared"), 1, truth)
        self.assertEqual(shown["blocks"], 2)

    def test_5_an_engine_that_starts_again_holds_nothing_of_before(self):
        for name, engine in self.engines.items():
            before, _ = self.rest(name)
            engine.stop()
            engine.start()
            wait_for(f"the engine that {name} is up again", engine.is_up, UP_WITHIN_S)
            ask(engine.url, "/v1/completions", self.completion(100))
            shown, _ = self.rest(name, before["batches"])
            self.assertEqual((shown["blocks"], shown["restarts"]), (3, 1), shown)


if __name__ == "__main__":
    unittest.main()
