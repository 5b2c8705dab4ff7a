"""Diagnosis of a run: what is wrong, how it was detected, the likely cause, and what to type next.

    records.py     the data of a run: its folder, the hub's live status, or the newest rows of a trainer
    checks/        one small function per finding, from the records to a Finding or None; listed in order of importance
    texts.py       the text of every finding, in English and in Chinese
    diagnosis.py   findings, checklist and clocks in one value; show.py prints it
    probe.py       checks an address instead of a folder: refused, no answer, not a hub, wrong token
    watch.py       runs the same checks inside the trainer's and the actor's loop; reports each finding once
    replay.py      opens the file that a run saved when it met a NaN

The doctor never imports JAX and never changes a run.
"""
