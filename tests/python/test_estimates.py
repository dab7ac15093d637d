"""Estimates of tokens beside what real vocabularies count.

    ./test clients          builds what is needed and runs this file

The vocabularies are those of o200k (200,000 entries), Qwen (151,000) and DeepSeek V3 (128,000), from the files of packages
that carry them. A text is a few hundred to a few thousand characters, as a message is.
"""

import base64
import csv
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import unittest

import tiktoken
import tokenizers

from processes import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("WEIGHBRIDGE_DATA") or ROOT.parent / "shared" / "data")
ERROR_MAX = 0.15
# Texts of each kind, so that no file outweighs the others.
TEXTS_MAX = 300

_CASES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CASES + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CASES + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
QWEN = "|".join([
    _CASES, r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def package(name):
    """The folder of an installed package, which is not imported."""
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


def bpe(name, pattern, path):
    """An encoding from a file of lines `base64 rank`."""
    ranks = {}
    for line in path.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def vocabularies():
    carried = package("litellm") / "litellm_core_utils" / "tokenizers"
    # Files are named as tiktoken names its cache: the SHA-1 of their address.
    o200k = carried / "fb374d419588a4632f3f557e76b4b70aebbca790"
    deepseek = tokenizers.Tokenizer.from_file(str(carried / "deepseek_tokenizer.json"))
    return {
        "o200k": bpe("o200k", O200K, o200k),
        "Qwen": bpe("qwen", QWEN, package("dashscope") / "resources" / "qwen.tiktoken"),
        "DeepSeek V3": lambda text: len(deepseek.encode(text, add_special_tokens=False).ids),
    }


def pieces(text, size):
    return [text[at:at + size] for at in range(0, len(text), size) if len(text[at:at + size]) > size // 4]


def pieces_of(paths, size=1500):
    return [piece for path in sorted(paths) for piece in pieces(path.read_text(encoding="utf-8"), size)]


def english():
    with open(DATA / "routing" / "routellm_mmlu_mixtral_vs_gpt4.jsonl", encoding="utf-8") as lines:
        questions = [json.loads(line)["prompt"] for line in lines]
    with open(DATA / "routing" / "banking77_train.csv", encoding="utf-8", newline="") as rows:
        asked = [row["text"] for row in csv.DictReader(rows)]
    # Single questions of customers are short; a dozen is a message.
    messages = [" ".join(asked[at:at + 12]) for at in range(0, len(asked), 12)]
    return [text for text in questions if len(text) > 60] + messages + pieces_of((ROOT / "docs").glob("*.md"))


def chinese():
    """Lines of conversations; the texts of the unit tests."""
    texts = [path.read_text(encoding="utf-8")
             for path in sorted((ROOT / "crates/wire/src/estimate/texts").glob("chinese*.txt"))]
    for path in sorted((package("chatterbot_corpus") / "data" / "chinese").glob("*.yml")):
        said = path.read_text(encoding="utf-8").split("conversations:", 1)[1].splitlines()
        lines = [line.lstrip(" -") for line in said]
        texts += pieces("\n".join(line for line in lines if line), 400)
    return texts


def code():
    return pieces_of([*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("tests/python/*.py"), *ROOT.glob("scripts/**/*.py")])


def json_texts():
    paths = [*(DATA / "wire").glob("*/*.json"), *(DATA / "calib").glob("**/*.json"), *ROOT.glob("console/**/*.json")]
    return pieces_of(path for path in paths if path.stat().st_size < 200_000)


def spread(texts):
    """At most TEXTS_MAX of them, from everywhere."""
    step = max(1, len(texts) // TEXTS_MAX)
    return texts[::step][:TEXTS_MAX]


def estimates(texts):
    tokens = program("examples/tokens")
    ran = subprocess.run([tokens], input=json.dumps(texts).encode(), stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


class Estimates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.vocabularies = vocabularies()

    def check(self, kind, texts):
        texts = spread(texts)
        self.assertGreater(len(texts), 20, kind)
        ours = estimates(texts)
        for name, count in self.vocabularies.items():
            counts = [count(text) for text in texts]
            error = statistics.median(abs(our / real - 1) for our, real in zip(ours, counts))
            characters = sum(map(len, texts)) / sum(counts)
            print(f"{kind}, {len(texts)} texts, {name}: {characters:.2f} characters a token, median error {error:.1%}")
            self.assertLessEqual(error, ERROR_MAX, f"{kind} by {name}")
            # Texts that vary, so that it is no luck of one.
            self.assertGreater(len(set(counts)), len(counts) // 4)

    def test_english(self):
        self.check("English", english())

    def test_chinese(self):
        self.check("Chinese", chinese())

    def test_code(self):
        self.check("code", code())

    def test_json(self):
        self.check("JSON", json_texts())

    def test_no_constant_of_characters_per_token_would_do(self):
        kinds = [spread(texts) for texts in (english(), chinese(), code(), json_texts())]
        for name, count in self.vocabularies.items():
            ratios = [[len(text) / count(text) for text in texts] for texts in kinds]
            for constant in (tenths / 10 for tenths in range(8, 80)):
                worst = max(statistics.median(abs(ratio / constant - 1) for ratio in of_kind) for of_kind in ratios)
                self.assertGreater(worst, 2 * ERROR_MAX, f"{constant} characters a token by {name}")


if __name__ == "__main__":
    unittest.main()
