"""OpenCV as this folder uses it: imported in one place, silent, and with names for its arrays.

The tool names what is wrong with a file in its own words, so FFmpeg's and OpenCV's own lines on
stderr are switched off (a user's `OPENCV_FFMPEG_LOGLEVEL` wins). This must never change pixels.
"""

import os
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# AV_LOG_QUIET. OpenCV reads it once, when it first touches a video.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

import cv2  # noqa: E402

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

__all__ = ["Pixels", "Plane", "cv2"]

Pixels: TypeAlias = NDArray[np.uint8]  # height x width x 3, in OpenCV's order blue, green, red
Plane: TypeAlias = NDArray[np.float32]  # height x width, or with a last axis of 3 colours
