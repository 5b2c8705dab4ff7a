"""The page: what a run does, drawn in a browser, and the controls a person needs beside it.

    mount.py       puts the page on a hub; a fault in it never ends a run
    socket.py      the channel to each open page: one state for all of them, views as they come, orders back
    series.py      metrics.jsonl, read once as it grows, thinned out
    plots.py       which metrics are drawn, and how they are called
    advice.py      the clocks in words, the phase of a run, and what to do in it
    episodes.py    stored episodes, for the browser of episodes
    standalone.py  `tandem dashboard RUN`: a run whose hub is gone
    assets/        what the browser loads; nothing comes from anywhere else

The server sends numbers; everything is drawn in the browser. Nothing that computes or controls waits for a page.
"""
