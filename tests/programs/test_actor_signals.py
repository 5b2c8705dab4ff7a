"""An actor that is told to stop again and again stops."""

import subprocess
import sys

CHILD = """
import os, signal, sys
from tandem.programs import actor

left = 50

def again(frame, event, arg):
    global left
    if event == "call" and left:
        left -= 1
        os.kill(os.getpid(), signal.SIGTERM)

def act(args, say, stopped, watch):
    sys.setprofile(again)  # another signal within every function that handles one
    os.kill(os.getpid(), signal.SIGTERM)
    while not stopped():
        pass
    sys.setprofile(None)
    print("stopped")
    return 0

actor.act = act
actor.act_here(None, print)
"""


def test_signals_that_come_close_together_do_not_hang_the_loop_of_a_robot() -> None:
    """A supervisor's SIGTERM and a person's Ctrl-C: the second comes while the first is being handled."""
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=20)
    assert (child.returncode, child.stdout) == (0, "stopped\n"), child.stderr
