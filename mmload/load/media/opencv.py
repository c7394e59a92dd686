"""OpenCV as this folder uses it: imported in one place, silent, and with names for its arrays.

The tool names what is wrong with a file in its own words, so OpenCV's and FFmpeg's own lines on
stderr are switched off (unless the user has set their variables). The environment is left as it
was: a server that mmload starts must not inherit silence. This must never change pixels.
"""

import os
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["Pixels", "Plane", "cv2"]

Pixels: TypeAlias = NDArray[np.uint8]  # height x width x 3, in OpenCV's order blue, green, red
Plane: TypeAlias = NDArray[np.float32]  # height x width, or with a last axis of 3 colours


def _silence() -> None:
    if "OPENCV_LOG_LEVEL" not in os.environ:
        # Version 5 moved it.
        set_level = getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel
        set_level(0)
    if "OPENCV_FFMPEG_LOGLEVEL" not in os.environ:
        # There is no call for FFmpeg's; the variable is read when OpenCV first opens a video.
        os.environ["OPENCV_FFMPEG_LOGLEVEL"] = "-8"  # AV_LOG_QUIET
        cv2.VideoCapture(os.devnull, cv2.CAP_FFMPEG).release()
        del os.environ["OPENCV_FFMPEG_LOGLEVEL"]


_silence()
