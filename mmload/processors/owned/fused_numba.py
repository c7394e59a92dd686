"""Resized frames to patches in one pass, compiled by Numba: load bytes, normalise, store floats.

Does what `patchify.TablePatcher` does, for patches of 16 pixels and temporal steps of two frames,
without moving bytes first: 48 interleaved bytes, a line of a patch, are loaded as one vector,
separated by colour (Qwen), cast, and taken through the same IEEE operations as stock's: subtract
and divide, or multiply. No fastmath, no reciprocals, no fused multiply-add. Or they stay bytes, as
`patchify.BytesPatcher` leaves them. The GIL is released.

Stores: an output that is larger than what the next reader will find in a cache is stored past the
caches ("streamed"), which saves reading each line before it is overwritten: 4.2 instead of 12.5 ms
for 15 frames of 480p here. Such stores need 64-byte alignment (`buffers.ALIGNMENT`), and a fence
before others may read.

Compiled on first use, a second each, and kept beside this file or in the user's cache. Numba makes
a version of a function for each combination of argument types, so whatever must be known when
compiling is told by a type: `arithmetic` is a tuple of the constants, none (bytes), one or two;
`streamed` is a tuple, empty or not.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy.typing import DTypeLike

from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Frame
from mmload.processors.owned.patchify import Values
from mmload.processors.owned.pixels import VALUES, Pixels

PATCH: Final = 16  # pixels a line, and lanes of a vector
STEP: Final = 2  # frames a temporal step
AREA: Final = PATCH * PATCH
CACHE_LINE: Final = 64
CACHED: Final = ()
STREAMED: Final = (True,)

_I8, _I32, _F32 = ir.IntType(8), ir.IntType(32), ir.FloatType()


def _vector(element: ir.Type, lanes: int) -> ir.VectorType:
    return ir.VectorType(element, lanes)


def _shuffled(builder: Any, vector: Any, order: Sequence[int], other: Any = None) -> Any:
    """A vector whose lane i is lane order[i] of `vector`, or of both, one after the other."""
    mask = ir.Constant(_vector(_I32, len(order)), list(order))
    if other is None:
        other = ir.Constant(vector.type, ir.Undefined)
    return builder.shuffle_vector(vector, other, mask)


def _loaded(builder: Any, address: Any, lanes: int) -> list[Any]:
    """48 bytes, as one vector or as three."""
    kind = _vector(_I8, lanes)
    found = []
    for offset in range(0, 3 * PATCH, lanes):
        at = builder.gep(address, [ir.Constant(_I32, offset)])
        vector = builder.load(builder.bitcast(at, kind.as_pointer()))
        vector.align = 1
        found.append(vector)
    return found


def _picked(builder: Any, line: Sequence[Any], places: Sequence[int]) -> Any:
    """16 of the 48 bytes. From one vector, where they become floats; from three where they do not:
    LLVM 20 aborts on a shuffle of 48 bytes whose result stays bytes."""
    if len(line) == 1:
        return _shuffled(builder, line[0], places)
    low = [place if place < 2 * PATCH else 0 for place in places]
    rest = [i if place < 2 * PATCH else place - PATCH for i, place in enumerate(places)]
    return _shuffled(builder, _shuffled(builder, line[0], low, line[1]), rest, line[2])


def _lanes(builder: Any, scalars: Any, order: Sequence[int]) -> Any:
    """A vector whose lane i is member order[i] of a tuple."""
    few = ir.Constant(_vector(_F32, 3), ir.Undefined)
    for place, scalar in enumerate(cgutils.unpack_tuple(builder, scalars)):
        few = builder.insert_element(few, scalar, ir.Constant(_I32, place))
    return _shuffled(builder, few, order)


def _line_writer(by_colour: bool) -> Any:
    """`write(frame, start, out, to, arithmetic, streamed)`: one line of one patch.

    `start`: byte of the frame; `to`: value of the output. By colour: three times 16 values, a
    temporal step's area apart (Qwen); else 48 values as they lie (Gemma).
    """
    apart = STEP * AREA if by_colour else PATCH
    parts = [
        [3 * x + part if by_colour else PATCH * part + x for x in range(PATCH)] for part in range(3)
    ]

    @intrinsic  # type: ignore[untyped-decorator]
    def write(
        _: Any, frame: Any, start: Any, out: Any, to: Any, arithmetic: Any, store: Any
    ) -> Any:
        streamed = len(store) > 0

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source = arrayobj.make_array(frame)(context, builder, args[0]).data
            target = arrayobj.make_array(out)(context, builder, args[2]).data
            constants = cgutils.unpack_tuple(builder, args[4])
            address = builder.gep(source, [args[1]])
            line = _loaded(builder, address, 3 * PATCH if constants else PATCH)
            for part, places in enumerate(parts):
                made = _picked(builder, line, places)
                colours = [place % 3 for place in places]
                if constants:
                    made = builder.uitofp(made, _vector(_F32, PATCH))
                if len(constants) == 1:
                    made = builder.fmul(made, _lanes(builder, constants[0], colours))
                elif constants:
                    made = builder.fsub(made, _lanes(builder, constants[0], colours))
                    made = builder.fdiv(made, _lanes(builder, constants[1], colours))
                offset = builder.add(args[3], ir.Constant(args[3].type, apart * part))
                place = builder.bitcast(builder.gep(target, [offset]), made.type.as_pointer())
                stored = builder.store(made, place)
                stored.align = CACHE_LINE if streamed else 1
                if streamed:
                    one = builder.module.add_metadata([ir.Constant(_I32, 1)])
                    stored.set_metadata("nontemporal", one)
            return context.get_dummy_value()

        return types.void(frame, start, out, to, arithmetic, store), generate

    return write


_qwen_line = _line_writer(by_colour=True)
_gemma_line = _line_writer(by_colour=False)


@intrinsic  # type: ignore[untyped-decorator]
def _fence(_: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _qwen(
    one: Any, other: Any, merge: int, out: Any, arithmetic: Any, streamed: Any
) -> None:  # pragma: no cover
    height, width, _ = one.shape
    to = 0
    for down in range(height // (PATCH * merge)):
        for across in range(width // (PATCH * merge)):
            for row in range(merge):
                for column in range(merge):
                    top = (down * merge + row) * PATCH
                    left = (across * merge + column) * PATCH
                    for line in range(PATCH):
                        start = ((top + line) * width + left) * 3
                        at = to + line * PATCH
                        _qwen_line(one, start, out, at, arithmetic, streamed)
                        _qwen_line(other, start, out, at + AREA, arithmetic, streamed)
                    to += 3 * STEP * AREA
    _fence()


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _gemma(frame: Any, out: Any, arithmetic: Any, streamed: Any) -> None:  # pragma: no cover
    height, width, _ = frame.shape
    to = 0
    for down in range(height // PATCH):
        for across in range(width // PATCH):
            for line in range(PATCH):
                start = ((down * PATCH + line) * width + across * PATCH) * 3
                _gemma_line(frame, start, out, to, arithmetic, streamed)
                to += 3 * PATCH
    _fence()


class FusedPatcher:
    """The compiled `patchify.Patcher`, for 16-pixel patches and steps of two frames.

    `pixels`: stock's arithmetic; None where the output is the bytes.
    """

    def __init__(self, pixels: Pixels | None) -> None:
        self.name = "numba" if pixels else "bytes, numba"
        self.dtype: DTypeLike = np.float32 if pixels else np.uint8
        constants = (pixels.first, pixels.second) if pixels else ()
        rescales = pixels is not None and pixels.operation == "rescale"
        self._arithmetic = constants[1:] if rescales else constants

    def qwen(
        self, frames: Sequence[Frame], patch: int, merge: int, out: Values, streamed: bool
    ) -> None:
        one, other = frames
        _qwen(one, other, merge, out, self._arithmetic, self._stores(out, streamed))

    def gemma(self, frame: Frame, patch: int, out: Values, streamed: bool) -> None:
        _gemma(frame, out, self._arithmetic, self._stores(out, streamed))

    def _stores(self, out: Values, streamed: bool) -> tuple[bool, ...]:
        aligned = out.ctypes.data % CACHE_LINE == 0 and out.dtype == np.float32
        return STREAMED if streamed and aligned else CACHED

    def reproduces(self, table: Values) -> bool:
        """Whether each compiled version makes of every value of a pixel what the table has."""
        values = np.arange(VALUES, dtype=np.uint8).reshape(PATCH, PATCH, 1)
        frame = np.ascontiguousarray(np.repeat(values, 3, axis=2))
        memory = Buffers()
        for streamed in (False, True):
            out = memory.take((1, 3 * STEP * AREA), self.dtype)
            self.qwen([frame, frame], PATCH, 1, out, streamed)
            by_colour = np.repeat(table[:, None], STEP, axis=1)
            if not _same_bits(out.reshape(by_colour.shape), by_colour):
                return False
            out = memory.take((1, 3 * AREA), self.dtype)
            self.gemma(frame, PATCH, out, streamed)
            if not _same_bits(out.reshape(AREA, 3), table.T):
                return False
        return True


def _same_bits(one: Values, other: Values) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()
