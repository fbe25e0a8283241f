"""Writes the tokenizer and the data that torchtitan's debug model looks for, with random words.

They lie in torchtitan's repository, ``tests/assets``, and not in its package.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = [f"w{number}" for number in range(2000)]
MARKS = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}


def main() -> None:
    """Writes them into a folder, the first argument."""
    assets = Path(sys.argv[1]) / "tests" / "assets"
    vocabulary = {word: place for place, word in enumerate(("<unk>", *MARKS.values(), *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([*MARKS.values()])
    for folder in ("tokenizer", "c4_test"):
        (assets / folder).mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(assets / "tokenizer" / "tokenizer.json"))
    (assets / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(MARKS), "utf-8")
    draw = random.Random(0)
    texts = (json.dumps({"text": " ".join(draw.choices(WORDS, k=200))}) for _ in range(2000))
    (assets / "c4_test" / "data.json").write_text("\n".join(texts) + "\n", "utf-8")


if __name__ == "__main__":
    main()
