"""What the test of KV events has vLLM's own Python do, which has the libraries for it.

    vllm_side.py model FOLDER        a model of two layers with random weights, and a tokenizer of its own
    vllm_side.py held ADDRESS        asks an engine's replay socket for all its events; prints what they leave in its cache
"""

import json
import sys
from collections import Counter
from pathlib import Path

WORDS = "The quick brown fox jumps over the lazy dog while engines keep what they computed of every prompt that begins alike "
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def model(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "</s>", "<|im_start|>", "<|im_end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([WORDS] * 10, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    write = lambda name, value: (folder / name).write_text(json.dumps(value), encoding="utf-8")
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "model_max_length": 4096,
        "chat_template": TEMPLATE})
    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1024,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "bos_token_id": 0,
        "eos_token_id": 1, "tie_word_embeddings": True, "torch_dtype": "bfloat16"})
    write("generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})


def held(address):
    import msgspec
    import zmq

    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.RCVTIMEO, 20_000)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(address)
    socket.send_multipart((b"", (0).to_bytes(8, "big")))
    copies, numbers, events = Counter(), [], Counter()
    while True:
        *_, number, payload = socket.recv_multipart()
        if not payload:
            break
        numbers.append(int.from_bytes(number, "big"))
        for event in msgspec.msgpack.decode(payload)[1]:
            events[event["type"]] += 1
            if event["type"] == "BlockStored":
                copies.update(event["block_hashes"])
            elif event["type"] == "BlockRemoved":
                copies.subtract(event["block_hashes"])
            else:
                copies.clear()
    if numbers != list(range(len(numbers))):
        raise SystemExit(f"the engine does not keep all its batches: {numbers[:3]} to {numbers[-1:]}")
    print(json.dumps({"blocks": sum(count > 0 for count in copies.values()), "batches": len(numbers), "events": dict(events)}))


if __name__ == "__main__":
    {"model": model, "held": held}[sys.argv[1]](sys.argv[2])
