"""Mutations of the source that tests must catch: a test that passes on broken code proves nothing.

    python -m tests.mutants                 all of them; exits with 1 if any survives
    python -m tests.mutants --only NAME     this one (may be given several times)
    python -m tests.mutants --list          names, files and tests

Each mutation replaces one exact piece of source by another in a copy of `src`, and runs the tests that claim to catch it. Before
that the same tests must pass on an unchanged copy. A piece of source that is not found exactly once is an error, so that the
list cannot rot: a change of the code updates the mutation. Not part of `make test`; all of them take about half an hour.

Mutations are lists named MUTANTS in the modules of this folder, one module per area.
"""
