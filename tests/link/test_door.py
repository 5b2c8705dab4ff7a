"""Connections that nobody is known to be behind: each has its own time, also where a port is used again at once."""

import asyncio

from tandem.link.door import Door

PEER = ("127.0.0.1", 5000)


class Line(asyncio.WriteTransport):
    """A connection of which only the end counts."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_a_port_that_is_used_again_at_once_has_its_own_time_and_its_own_end() -> None:
    async def use_again() -> list[str]:
        problems: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(str(context)))
        door, first, second = Door(limit=8, seconds=0.2), Line(), Line()
        door.opened(PEER, first, loop)
        await asyncio.sleep(0.1)
        door.opened(PEER, second, loop)  # before the end of the first is known
        door.closed(PEER, first)
        await asyncio.sleep(0.15)
        assert not second.aborted, "the first one's time has run out, not its own"
        await asyncio.sleep(0.15)
        assert second.aborted and door.turned_away == 1, "it has shown nothing in its own time either"
        return problems

    assert asyncio.run(use_again()) == []
