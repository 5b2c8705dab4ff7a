"""Frozen image networks that turn a picture into features once in its life. They are never trained, and need no JAX."""

END_TO_END = "end-to-end"
"""No network at all: the features are the picture at half its size, and a convolutional head learns to see (`networks/heads.py`)."""
COLOURS = 3
"""Channels of such features; those of a network have more."""

SPAN, LARGEST = 5.0, 127
"""The largest number that int8 holds stands for so many standard deviations of a feature; what lies beyond is clipped."""
FEATURE_SCALE = LARGEST / SPAN
"""Features divided by this are of order one."""
