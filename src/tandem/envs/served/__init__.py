"""Environments that run in another Python or on another machine: one file serves them, a client makes them a `TaskEnv`."""
