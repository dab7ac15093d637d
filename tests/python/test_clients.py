"""The official `openai` and `anthropic` clients through a running gateway, in front of scriptable upstreams.

    ./test clients          builds what is needed and runs this file

The upstream does what the last message's [[mock:…]] says (crates/test-engine), so each test writes down its own
upstream behaviour. Clients do not retry here: what they see is what the gateway answered.
"""

import asyncio
import json
import unittest

import anthropic
import openai

from processes import Gateway, Upstreams, wait_for

KEY, KEY_CHAT_ONLY = "sk-test-everything", "sk-test-chat-only"
# A rate limit cools an endpoint down, so each test of one has a pool to itself.
ERROR_POOLS = ["limited", "cooling", "limited-messages", "unavailable", "overloaded", "overloaded-messages"]
SLOW = "[[mock:gap=0.05,chunks=400]]"
TOOL = {"name": "get_weather", "description": "Weather of a city",
        "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
# What the upstream calls it with. The number is one that no float holds, so that re-encoding would show.
TOOL_ARGUMENTS = '{"city":"Paris","id":9007199254740993}'
OPENAI_TOOLS = [{"type": "function", "function": {
    "name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["schema"]}}]
ANTHROPIC_TOOLS = [{"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["schema"]}]


def config(upstreams):
    both = ", ".join(f'{{name: {upstream.name}, url: "{upstream.url}"}}' for upstream in upstreams)
    first = upstreams[0]
    pools = "".join(f'  - {{name: {name}, kind: generic, endpoints: [{{name: {first.name}, url: "{first.url}"}}]}}\n'
                    for name in ["other", *ERROR_POOLS])
    return f"""
version: 1
server: {{listen: "127.0.0.1:0"}}
admin: {{listen: "127.0.0.1:0"}}
keys:
  - {{name: everything, key: {KEY}}}
  - {{name: chat-only, key: {KEY_CHAT_ONLY}, models: [chat]}}
pools:
  - {{name: pair, kind: generic, endpoints: [{both}]}}
{pools}routes:
  - {{name: chat, targets: [pair], route_by: round_robin}}
  - {{name: slow, targets: [pair], heartbeat: 200ms}}
"""


def ask(text, mode=""):
    return [{"role": "user", "content": f"{text} {mode}"}]


class ThroughTheGateway(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.upstreams = Upstreams("A", "B")
        cls.addClassCleanup(cls.upstreams.stop)
        cls.gateway = Gateway(config(cls.upstreams.all))
        cls.addClassCleanup(cls.gateway.stop)

    def setUp(self):
        for upstream in self.upstreams.all:
            upstream.reset()

    def openai(self, key=KEY, kind=openai.OpenAI):
        return kind(api_key=key, base_url=self.gateway.url + "/v1", max_retries=0, timeout=30)

    def anthropic(self, key=KEY):
        client = anthropic.Anthropic(api_key=key, base_url=self.gateway.url, max_retries=0, timeout=30)
        self.addCleanup(client.close)
        return client

    def script_a_tool_call(self):
        """The next request, wherever it goes, is answered with a call of the tool."""
        for upstream in self.upstreams.all:
            upstream.ask("/__script", ["tool,tool_args=" + TOOL_ARGUMENTS.replace(",", "%2C")])

    def log(self):
        return [record for upstream in self.upstreams.all for record in upstream.log()]

    def assert_upstream_was_left(self):
        """The one request of this test ended at its upstream because its client was gone, and nothing is in flight."""
        wait_for("the upstream sees that its client left",
                 lambda: [record.get("outcome") for record in self.log()] == ["peer_gone"])
        self.assertEqual([upstream.in_flight() for upstream in self.upstreams.all], [0, 0])


class OpenAiTest(ThroughTheGateway):
    def setUp(self):
        super().setUp()
        self.client = self.openai()
        self.addCleanup(self.client.close)

    def test_chat(self):
        raw = self.client.chat.completions.with_raw_response.create(model="chat", messages=ask("hello", "[[mock:text=hi]]"))
        answer = raw.parse()
        self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason), ("hi", "stop"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertTrue(raw.headers["x-request-id"])
        self.assertIn(raw.headers["x-weighbridge-endpoint"], ("A", "B"))
        self.assertEqual(raw.headers["x-weighbridge-attempts"], "1")

    def test_the_key_stays_at_the_gateway(self):
        self.client.chat.completions.create(model="chat", messages=ask("hello"))
        self.assertEqual(len(self.log()), 1)
        self.assertNotIn(KEY, str(self.log()))

    def test_chats_spread_over_the_endpoints(self):
        for _ in range(4):
            self.client.chat.completions.create(model="chat", messages=ask("hello"))
        self.assertEqual([len(upstream.log()) for upstream in self.upstreams.all], [2, 2])

    def test_stream(self):
        stream = self.client.chat.completions.create(model="chat", messages=ask("hello", "[[mock:text=one two three]]"), stream=True)
        chunks = list(stream)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "one two three")
        self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")
        self.assertEqual([chunk.usage for chunk in chunks], [None] * len(chunks))

    def test_signs_of_life_are_passed_over(self):
        """Before the answer, and between its events; with ids, after which the client takes every blank line for an event."""
        for mode in ["delay=1", "gap=0.5,chunks=3", "gap=0.5,chunks=3,sse_id"]:
            with self.subTest(mode):
                stream = self.client.chat.completions.create(
                    model="slow", messages=ask("hello", f"[[mock:text=one two three,{mode}]]"), stream=True)
                self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in stream), "one two three")
                stream = self.client.responses.create(model="slow", input=f"hello [[mock:text=one two three,{mode}]]", stream=True)
                self.assertEqual([event.type for event in stream][-1], "response.completed")

    def test_an_error_behind_signs_of_life_is_an_error(self):
        with self.assertRaises(openai.APIError) as raised:
            list(self.client.chat.completions.create(
                model="slow", messages=ask("hello", "[[mock:delay=1,status=400,err_msg=no such tool]]"), stream=True))
        self.assertIn("no such tool", str(raised.exception))

    def test_stream_with_usage(self):
        stream = self.client.chat.completions.create(
            model="chat", messages=ask("hello", "[[mock:usage_in=11,usage_out=7]]"), stream=True, stream_options={"include_usage": True})
        last = list(stream)[-1]
        self.assertEqual(last.choices, [])
        self.assertEqual((last.usage.prompt_tokens, last.usage.completion_tokens), (11, 7))

    def test_tools(self):
        self.script_a_tool_call()
        answer = self.client.chat.completions.create(
            model="chat", messages=ask("weather?"), tools=OPENAI_TOOLS)
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual((call.function.name, call.function.arguments), ("get_weather", TOOL_ARGUMENTS))

    def test_tools_in_a_stream(self):
        self.script_a_tool_call()
        stream = self.client.chat.completions.create(
            model="chat", messages=ask("weather?"), tools=OPENAI_TOOLS, stream=True)
        calls = [call for chunk in stream for call in chunk.choices[0].delta.tool_calls or []]
        self.assertEqual([call.function.name for call in calls if call.function.name], ["get_weather"])
        self.assertEqual("".join(call.function.arguments or "" for call in calls), TOOL_ARGUMENTS)

    def test_tool_results_reach_the_upstream_unchanged(self):
        messages = [*ask("weather?"),
                    {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {
                        "name": "get_weather", "arguments": '{"city":"Paris"}'}}]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "18 °C"}]
        self.client.chat.completions.create(model="chat", messages=messages, tools=OPENAI_TOOLS)
        self.assertIn('"tool_call_id":"call_1","content":"18 °C"', self.log()[0]["body"].replace('": ', '":').replace(", ", ","))

    def test_completions(self):
        answer = self.client.completions.create(model="chat", prompt="hello [[mock:text=hi]]")
        self.assertEqual(answer.choices[0].text, "hi")

    def test_responses(self):
        answer = self.client.responses.create(model="chat", input="hello [[mock:text=hi]]")
        self.assertEqual(answer.output_text, "hi")

    def test_embeddings(self):
        answer = self.client.embeddings.create(model="chat", input=["one", "two"])
        self.assertEqual([(row.index, len(row.embedding)) for row in answer.data], [(0, 3), (1, 3)])

    def test_a_response_is_found_again_where_it_was_made(self):
        first = self.client.responses.create(model="chat", input="hello [[mock:text=hi]]")
        for _ in range(2):
            self.assertEqual(self.client.responses.retrieve(first.id).id, first.id)
        following = self.client.responses.create(model="chat", input="and now", previous_response_id=first.id)
        self.assertEqual(following.id, first.id)  # each upstream gives all of its responses one id
        self.assertEqual(list(self.client.responses.input_items.list(first.id)), [])
        self.assertEqual(self.client.responses.cancel(first.id).status, "cancelled")
        self.assertEqual(sorted(len(upstream.log()) for upstream in self.upstreams.all), [0, 6])
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.responses.retrieve(first.id)
        self.assertEqual(caught.exception.code, "response_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model="chat", input="x", previous_response_id=first.id)
        self.assertEqual(caught.exception.code, "previous_response_not_found")

    def test_transcriptions(self):
        audio = ("a.wav", bytes(range(256)) * 2000, "audio/wav")
        answer = self.client.audio.transcriptions.create(model="chat", file=audio)
        self.assertEqual(answer.text, "what was said")
        self.assertEqual(self.client.audio.translations.create(model="chat", file=audio).text, "what was said")
        self.assertTrue(all(record["body_len"] > 512_000 for record in self.log()))

    def test_a_stream_of_a_transcription(self):
        audio = ("a.wav", b"RIFF [[mock:text=one two three]]", "audio/wav")
        events = list(self.client.audio.transcriptions.create(model="chat", file=audio, stream=True))
        self.assertEqual("".join(event.delta for event in events if event.type == "transcript.text.delta"), "one two three")
        self.assertEqual(events[-1].type, "transcript.text.done")

    def test_speech(self):
        answer = self.client.audio.speech.create(model="chat", voice="alloy", input="hello [[mock:big=300000]]")
        self.assertEqual((answer.response.headers["content-type"], len(answer.content)), ("audio/mpeg", 300000))
        with self.client.audio.speech.with_streaming_response.create(model="chat", voice="alloy", input="hello") as answer:
            self.assertEqual(sum(len(piece) for piece in answer.iter_bytes()), 1000)

    def test_images(self):
        image = ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(5000), "image/png")
        answer = self.client.images.edit(model="chat", image=[image, image], prompt="greener")
        self.assertEqual(answer.data[0].b64_json, "aW1hZ2U=")
        answer = self.client.images.generate(model="chat", prompt="a hill")
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        events = list(self.client.images.generate(model="chat", prompt="a hill [[mock:chunks=3]]", stream=True))
        self.assertEqual([event.type for event in events], ["image_generation.partial_image"] * 3 + ["image_generation.completed"])

    def test_moderations(self):
        self.assertFalse(self.client.moderations.create(model="chat", input="hello").results[0].flagged)

    def test_a_form_without_a_known_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.audio.transcriptions.create(model="nonesuch", file=("a.wav", b"x"))
        self.assertEqual(self.log(), [])

    def test_models_are_those_of_the_key(self):
        self.assertEqual({model.id for model in self.client.models.list()}, {"chat", "slow", "other", *ERROR_POOLS})
        self.assertEqual(self.client.models.retrieve("chat").id, "chat")
        with self.openai(KEY_CHAT_ONLY) as limited:
            self.assertEqual([model.id for model in limited.models.list()], ["chat"])
            with self.assertRaises(openai.NotFoundError):
                limited.models.retrieve("other")

    def refused(self, kind, model="chat", mode="", client=None):
        with self.assertRaises(kind) as caught:
            (client or self.client).chat.completions.create(model=model, messages=ask("hello", mode))
        self.assertTrue(caught.exception.response.headers["x-request-id"])
        return caught.exception

    def test_a_wrong_key_is_an_authentication_error(self):
        with self.openai("sk-wrong") as client:
            error = self.refused(openai.AuthenticationError, client=client)
        self.assertNotIn("sk-wrong", str(error))
        self.assertEqual(self.log(), [])

    def test_an_unknown_model_is_not_found(self):
        error = self.refused(openai.NotFoundError, model="nonesuch")
        self.assertEqual(error.code, "model_not_found")
        self.assertIn("nonesuch", error.message)

    def test_a_model_that_the_key_may_not_use_looks_unknown(self):
        with self.openai(KEY_CHAT_ONLY) as client:
            error = self.refused(openai.NotFoundError, model="other", client=client)
        self.assertEqual(error.code, "model_not_found")
        self.assertEqual(self.log(), [])

    def test_an_upstreams_400_passes_with_its_message(self):
        error = self.refused(openai.BadRequestError, mode="[[mock:status=400,err_msg=top_k is odd]]")
        self.assertIn("top_k is odd", error.message)
        self.assertEqual(len(self.log()), 1)

    def test_a_rate_limit_carries_retry_after(self):
        error = self.refused(openai.RateLimitError, model="limited", mode="[[mock:status=429,retry_after=7]]")
        self.assertEqual(error.response.headers["retry-after"], "7")

    def test_while_the_only_endpoint_cools_down_the_gateway_answers_for_it(self):
        with self.assertRaises(openai.RateLimitError):
            self.client.chat.completions.create(model="cooling", messages=ask("hello", "[[mock:status=429,retry_after=30]]"))
        error = self.refused(openai.RateLimitError, model="cooling")
        self.assertIn(int(error.response.headers["retry-after"]), range(1, 31))
        self.assertEqual(len(self.log()), 1)

    def test_unavailable_is_a_server_error_with_retry_after(self):
        error = self.refused(openai.InternalServerError, model="unavailable", mode="[[mock:status=503,retry_after=9]]")
        self.assertEqual((error.status_code, error.response.headers["retry-after"]), (503, "9"))

    def test_anthropics_529_is_503_here(self):
        error = self.refused(openai.InternalServerError, model="overloaded", mode="[[mock:status=529]]")
        self.assertEqual(error.status_code, 503)

    def test_an_error_inside_a_stream_is_raised(self):
        stream = self.client.chat.completions.create(
            model="other", messages=ask("hello", "[[mock:error_event=3,err_msg=out of memory]]"), stream=True)
        with self.assertRaises(openai.APIError) as caught:
            list(stream)
        self.assertIn("out of memory", caught.exception.message)

    def test_closing_a_stream_stops_the_upstream(self):
        stream = self.client.chat.completions.create(model="chat", messages=ask("hello", SLOW), stream=True)
        next(stream)
        stream.close()
        self.assert_upstream_was_left()

    def test_a_timeout_of_the_client_stops_an_answer_in_one_piece(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.chat.completions.create(model="chat", messages=ask("hello", "[[mock:delay=60]]"), timeout=0.5)
        self.assert_upstream_was_left()

    def test_the_async_client(self):
        async def run():
            async with self.openai(kind=openai.AsyncOpenAI) as client:
                answers = await asyncio.gather(*(client.chat.completions.create(
                    model="chat", messages=ask("hello", f"[[mock:text={n}]]")) for n in range(8)))
                stream = await client.chat.completions.create(model="chat", messages=ask("hello", "[[mock:text=hi]]"), stream=True)
                return [answer.choices[0].message.content for answer in answers], \
                    "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        self.assertEqual(asyncio.run(run()), ([str(n) for n in range(8)], "hi"))


class AnthropicTest(ThroughTheGateway):
    def setUp(self):
        super().setUp()
        self.client = self.anthropic()

    def create(self, mode="", model="chat", client=None, **more):
        return (client or self.client).messages.create(model=model, max_tokens=64, messages=ask("hello", mode), **more)

    def test_message(self):
        answer = self.create("[[mock:text=hi,usage_in=11,usage_out=7]]")
        self.assertEqual((answer.content[0].text, answer.stop_reason), ("hi", "end_turn"))
        self.assertEqual((answer.usage.input_tokens, answer.usage.output_tokens), (11, 7))
        self.assertNotIn(KEY, str(self.log()))

    def test_stream(self):
        with self.client.messages.stream(model="chat", max_tokens=64, messages=ask("hello", "[[mock:text=one two three]]")) as stream:
            self.assertEqual("".join(stream.text_stream), "one two three")
            final = stream.get_final_message()
        self.assertEqual((final.content[0].text, final.stop_reason), ("one two three", "end_turn"))

    def test_signs_of_life_are_passed_over(self):
        for mode in ["delay=1", "gap=0.5,chunks=3"]:
            with self.subTest(mode):
                with self.client.messages.stream(model="slow", max_tokens=64,
                                                 messages=ask("hello", f"[[mock:text=one two three,{mode}]]")) as stream:
                    self.assertEqual("".join(stream.text_stream), "one two three")

    def test_tools(self):
        self.script_a_tool_call()
        answer = self.create(tools=ANTHROPIC_TOOLS)
        call = next(block for block in answer.content if block.type == "tool_use")
        self.assertEqual((call.name, call.input, answer.stop_reason), ("get_weather", json.loads(TOOL_ARGUMENTS), "tool_use"))

    def test_tools_in_a_stream(self):
        self.script_a_tool_call()
        with self.client.messages.stream(model="chat", max_tokens=64, tools=ANTHROPIC_TOOLS,
                                         messages=ask("weather?")) as stream:
            final = stream.get_final_message()
        self.assertEqual([block.input for block in final.content if block.type == "tool_use"], [json.loads(TOOL_ARGUMENTS)])

    def test_count_tokens(self):
        self.assertGreater(self.client.messages.count_tokens(model="chat", messages=ask("hello")).input_tokens, 0)

    def refused(self, kind, **request):
        with self.assertRaises(kind) as caught:
            self.create(**request)
        body = caught.exception.body
        self.assertEqual((body["type"], type(body["error"]["message"])), ("error", str))
        return caught.exception

    def test_a_wrong_key_is_an_authentication_error(self):
        error = self.refused(anthropic.AuthenticationError, client=self.anthropic("sk-wrong"))
        self.assertEqual(error.body["error"]["type"], "authentication_error")

    def test_an_unknown_model_is_not_found(self):
        error = self.refused(anthropic.NotFoundError, model="nonesuch")
        self.assertEqual(error.body["error"]["type"], "not_found_error")

    def test_an_upstreams_400_passes_with_its_message(self):
        error = self.refused(anthropic.BadRequestError, mode="[[mock:status=400,err_msg=top_k is odd]]")
        self.assertIn("top_k is odd", error.body["error"]["message"])

    def test_a_rate_limit_carries_retry_after(self):
        error = self.refused(anthropic.RateLimitError, model="limited-messages", mode="[[mock:status=429,retry_after=7]]")
        self.assertEqual(error.response.headers["retry-after"], "7")
        self.assertEqual(error.body["error"]["type"], "rate_limit_error")

    def test_overloaded_stays_529(self):
        error = self.refused(anthropic.InternalServerError, model="overloaded-messages", mode="[[mock:status=529]]")
        self.assertEqual((error.status_code, error.body["error"]["type"]), (529, "overloaded_error"))

    def test_closing_a_stream_stops_the_upstream(self):
        with self.client.messages.stream(model="chat", max_tokens=64, messages=ask("hello", SLOW)) as stream:
            next(stream.text_stream)
        self.assert_upstream_was_left()


del ThroughTheGateway  # else unittest collects it as a test case of its own

if __name__ == "__main__":
    unittest.main()
