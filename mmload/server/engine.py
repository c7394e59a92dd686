"""What an engine is to the rest of the server: work in, tokens out, one at a time.

`engine_simulated.py` spends time by a cost model; `engine_torch.py` computes. Which of them serves
is said in the settings, and each stamps its own stages: engine_wait, encoder, prefill, decode.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from mmload.server.inputs import ModelInputs


class Token(NamedTuple):
    """One output token. `at_ns`: when the engine had it."""

    number: int  # from 0
    text: str  # may be empty: a mark, or the first bytes of a character
    at_ns: int
    ended: bool = False  # by this token the model ended its answer itself


class EngineWork(NamedTuple):
    """What the engine has to know of a request. `inputs`: for engines that compute."""

    request_id: str
    patches: int
    prompt_tokens: int
    output_tokens: int  # at most
    ignore_end: bool = False  # go on after the model's own end
    inputs: ModelInputs | None = None


class Engine(Protocol):
    """One device."""

    @property
    def needs_inputs(self) -> bool:
        """Whether `EngineWork.inputs` must be given; else nobody has to keep pixels."""
        ...

    @property
    def ends_answers(self) -> bool:
        """Whether the model can end an answer itself; else the server does, after a while."""
        ...

    def generate(self, work: EngineWork) -> AsyncGenerator[Token, None]:
        """Queues the work and yields its tokens as they come. Closing it withdraws the work."""
        ...

    async def run(self) -> None:
        """The device, until cancelled. Raises when it can serve no more."""
        ...
