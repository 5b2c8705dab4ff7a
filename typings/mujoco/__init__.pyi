# mujoco's own stubs cover its extension modules but not the names it re-exports at run time.
from typing import Any

def __getattr__(name: str) -> Any: ...
