"""What the embedded server says at /v1/models: one model, in OpenAI's shape and Anthropic's. Pure.

The two clients read different fields of the same objects, so each gets all of them.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec


def model(name: str, created_s: int) -> dict[str, Any]:
    """One model's object."""
    openai = {"id": name, "object": "model", "created": created_s, "owned_by": "mmload"}
    created_at = datetime.fromtimestamp(created_s, UTC).isoformat().replace("+00:00", "Z")
    return {**openai, "type": "model", "display_name": name, "created_at": created_at}


def listing(name: str, created_s: int) -> bytes:
    """The list, whole: there is no second page."""
    page = {"first_id": name, "last_id": name, "has_more": False}
    return msgspec.json.encode({"object": "list", "data": [model(name, created_s)], **page})
