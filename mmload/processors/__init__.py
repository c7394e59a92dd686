"""The multimodal processors: owned ones, and the arithmetic of sizes and tokens."""
