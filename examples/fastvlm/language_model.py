"""The language model, in a process of its own that lives as long as the server.

    python language_model.py MODELS

On standard input, for each request: the path of a file of embeddings (int32 tokens, int32
dimensions, float32 values), then the prompt, a line each. On standard output: the answer as it is
made, then ---END---. READY on standard error once it is loaded.
"""

import sys
import time
from pathlib import Path

import numpy as np
from make_models import VOCABULARY

TOKENS = 24
STEP_S = 0.004  # a random model of this size would be done at once: the least time of a token


def main() -> None:
    with np.load(Path(sys.argv[1]) / "language.npz") as model:
        tokens, inward, onward, outward = (
            model[name] for name in ("tokens", "inward", "onward", "outward")
        )
    print("READY", file=sys.stderr, flush=True)
    while path := sys.stdin.readline().rstrip("\n"):
        prompt = sys.stdin.readline().rstrip("\n")
        with open(path, "rb") as file:
            n, dim = np.fromfile(file, np.int32, 2)
            embeddings = np.fromfile(file, np.float32, n * dim).reshape(n, dim)
        known = [VOCABULARY.find(c) for c in prompt if c in VOCABULARY]
        state = np.zeros(dim, np.float32)
        for vector in (*embeddings, *tokens[known]):  # prefill: image first, then the prompt
            state = np.tanh(vector @ inward + state @ onward)
        for _ in range(TOKENS):
            time.sleep(STEP_S)
            token = int((state @ outward).argmax())
            sys.stdout.write(VOCABULARY[token])
            sys.stdout.flush()
            state = np.tanh(tokens[token] @ inward + state @ onward)
        sys.stdout.write("---END---")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
