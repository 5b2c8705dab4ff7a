"""The page: a run in a browser, with the controls an operator needs.

    mount.py       adds the page to a hub; a fault in it never ends a run
    socket.py      the WebSocket to each open page: state, views, events, findings
    open_page.py   one open page and its send queues
    page_input.py  a person's commands and steering
    series.py      metrics.jsonl, read once as it grows, reduced to what a screen can show
    plots.py       which metrics are drawn, with their labels
    advice.py      the clocks in words, the phase of a run, and what to do
    episodes.py    stored episodes, for the episode browser
    standalone.py  `tandem dashboard RUN`: a run without a hub
    assets/        what the browser loads; nothing is loaded from other sites

The server sends numbers; everything is drawn in the browser. No control or training loop waits for a page.
"""
