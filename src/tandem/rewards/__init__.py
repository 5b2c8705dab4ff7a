"""Rewards from what is observed: conditions on entries and object poses, and classifiers that learned from a person's labels.

A rule (`rule.py`) says which stages of a task an observation has reached. The same object judges a robot's steps while they are made
(`acting/rule_reward.py`) and steps that were stored long ago (`recompute.py`), and its name stands in the spec of the data.
"""
