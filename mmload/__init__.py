"""mmload: how a multimodal model server behaves under load, and where each request's time goes."""

__version__ = "0.1.0"
