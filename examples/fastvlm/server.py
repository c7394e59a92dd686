"""A small server of one's own, built like a real one: FastVLM on a CPU (see README.md).

    python server.py MODELS [--port 8000] [--encode loop|thread]

One endpoint, /predict: an image and a prompt in a form, the answer as a stream of plain text. The
vision encoder is an ONNX session in this process; the language model is a child process that takes
one request at a time. `--encode thread` is the remedy that mmload's report asks for.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, File, Form, UploadFile
from fastapi.responses import StreamingResponse
from PIL import Image

with contextlib.suppress(ImportError):  # under `mmload trace` it is there, without it nobody looks
    from mmload.hook import span

if "span" not in globals():

    @contextlib.contextmanager
    def span(stage: str, **facts: Any) -> Any:
        yield None


END = "---END---"
SIDE = 512


class Model:
    """Both halves, loaded once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session = onnxruntime.InferenceSession(
            str(folder / "vision.onnx"), providers=["CPUExecutionProvider"]
        )
        self._child: asyncio.subprocess.Process
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        script = Path(__file__).with_name("language_model.py")
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(script), str(self._folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._child.stderr is not None
        while b"READY" not in await self._child.stderr.readline():
            if self._child.returncode is not None:
                raise RuntimeError("the language model did not start")

    async def stop(self) -> None:
        if self._child.returncode is None:
            self._child.terminate()
            await self._child.wait()

    def encode_image(self, image: Image.Image) -> Any:
        """Embeddings (64, 128). Computes for a while: whoever calls it waits."""
        with span("preprocess", phase="cpu", frames=1):
            pixels = preprocess(image)
        with span("vision_encoder", phase="gpu", measure_thread=True):
            return self._session.run(None, {"pixel_values": pixels})[0][0]

    async def answer(self, embeddings: Any, prompt: str) -> AsyncIterator[str]:
        path = save(embeddings)
        try:
            with span("llm_wait", phase="queueing"):
                await self._one_at_a_time.acquire()
            try:
                with span("llm", phase="gpu"):
                    async for text in self._generate(path, prompt):
                        yield text
            finally:
                self._one_at_a_time.release()
        finally:
            os.unlink(path)

    async def _generate(self, path: str, prompt: str) -> AsyncIterator[str]:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(f"{path}\n{' '.join(prompt.split())}\n".encode())
        await self._child.stdin.drain()
        held = ""
        while True:
            read = await self._child.stdout.read(16)
            if not read:
                raise RuntimeError("the language model has ended")
            held += read.decode(errors="ignore")
            if END in held:
                if text := held.partition(END)[0]:
                    yield text
                return
            safe, held = held[: -len(END)], held[-len(END) :]
            if safe:
                yield safe


def preprocess(image: Image.Image) -> Any:
    """Padded to a square, resized, cut to 512 x 512: float32 (1, 3, 512, 512), 0 to 1."""
    side = max(image.size)
    square = Image.new("RGB", (side, side))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    resized = square.resize((1024, 1024), Image.Resampling.BILINEAR)
    at = (1024 - SIDE) // 2
    cut = resized.crop((at, at, at + SIDE, at + SIDE))
    return (np.asarray(cut, np.float32) / 255).transpose(2, 0, 1)[np.newaxis]


def save(embeddings: Any) -> str:
    with tempfile.NamedTemporaryFile(suffix=".bin", delete=False) as file:
        np.array(embeddings.shape, np.int32).tofile(file)
        embeddings.astype(np.float32).tofile(file)
    return file.name


def make_app(folder: Path, *, in_thread: bool) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.model = Model(folder)
        await app.state.model.start()
        yield
        await app.state.model.stop()

    app = FastAPI(lifespan=lifespan)

    @app.post("/predict")
    async def predict(
        image: Annotated[UploadFile, File()], prompt: Annotated[str, Form()]
    ) -> StreamingResponse:
        model: Model = app.state.model
        picture = Image.open(BytesIO(await image.read())).convert("RGB")
        if in_thread:
            embeddings = await asyncio.to_thread(model.encode_image, picture)
        else:
            embeddings = model.encode_image(picture)  # the fault: the event loop computes
        return StreamingResponse(model.answer(embeddings, prompt), media_type="text/plain")

    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--encode", choices=("loop", "thread"), default="loop")
    given = parser.parse_args()
    app = make_app(given.models, in_thread=given.encode == "thread")
    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
