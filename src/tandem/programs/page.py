"""The page of a run: `tandem dashboard RUN`, and the page that a hub serves."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from tandem.errors import PackageMissing
from tandem.programs.terminal import say

if TYPE_CHECKING:
    from tandem.link.hub import Hub


def page_installed() -> bool:
    """Whether the packages of the page are installed."""
    return importlib.util.find_spec("nicegui") is not None


def mount_page(hub: Hub, say: Callable[[str], None], mapping: Path | None = None) -> None:
    """Put the page on a hub that does not listen yet. Without the page's packages the run goes on without a page."""
    if not page_installed():
        say(f"[PAGE] no page: {PackageMissing('the page', 'nicegui')}")
        return
    from tandem.dashboard.mount import mount_on_hub

    mount_on_hub(hub, say, mapping)


def dashboard(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    insecure: bool = False,
) -> None:
    """Open the page of a run: live while it trains, from its folder afterwards.

    Args:
        run: A run folder.
        host: Address to listen on, for a run that is over; 0.0.0.0 lets other machines in.
        port: Port to listen on; 0: any free port.
        browser: Open the page in a browser, where there is a screen.
        insecure: Listen without TLS where other machines can read along; without it that is refused.
    """
    if not page_installed():
        raise PackageMissing("`tandem dashboard`", "nicegui")
    from tandem.dashboard.standalone import show_run

    show_run(run, say, host=host, port=port, browser=browser, insecure=insecure)
