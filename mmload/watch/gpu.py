"""Utilisation and memory of this host's GPUs, by NVML (`pip install 'mmload[gpu]'`).

Out: `utilisation` (0 to 1, the share of time in which a kernel ran, not how full the GPU was),
`memory_used_bytes`, `memory_total_bytes`. Where there is no NVML, there is no source.
"""

from typing import Any

from mmload.watch.sampler import SourceFailed

PREFIX = "gpu "


class Gpu:
    """A `Source`: one GPU."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = nvml.nvmlDeviceGetName(self._handle)
        said = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        self.name = f"{PREFIX}{index}: {said}"

    def read(self) -> dict[str, float]:
        nvml = self._nvml
        try:
            rates = nvml.nvmlDeviceGetUtilizationRates(self._handle)
            memory = nvml.nvmlDeviceGetMemoryInfo(self._handle)
        except nvml.NVMLError as error:
            raise SourceFailed(str(error)) from None
        return {
            "utilisation": rates.gpu / 100,
            "memory_used_bytes": float(memory.used),
            "memory_total_bytes": float(memory.total),
        }

    def close(self) -> None: ...


def gpus() -> list[Gpu]:
    """All of this host; none without NVML or its Python package."""
    try:
        import pynvml as nvml
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
        return [Gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []
