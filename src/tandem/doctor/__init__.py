"""Is it healthy, and if not: what is wrong, how do we know, why, and what to type next.

    records.py     what is known of a run: its folder, its hub's live view, or the row a trainer has just logged
    checks/        small functions, each from the records to a finding or to nothing; a table in the order of importance
    texts.py       every word that is shown, in English and in Chinese
    diagnosis.py   all checks, the checklist and the clocks as one value; show.py prints it
    probe.py       an address instead of a folder: refused, silent, no hub, wrong token, each told apart
    watch.py       the same checks inside the trainer's and the actor's loop, each finding said once
    replay.py      opens what a run left when it broke numerically

Nothing here imports JAX, and nothing here changes a run.
"""
