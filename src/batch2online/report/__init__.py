from typing import Any
def html(model: Any, result: dict[str, Any]) -> str: return "x"
