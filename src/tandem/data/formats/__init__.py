"""The formats of others: LeRobotDataset v2.1 and v3, robomimic's HDF5, Minari. Each file reads one and writes one.

What a format has no place for (our spec, whether a person acted, the observation after the last step) stands in it under names of our own,
which its readers pass over; so what was exported comes back bit for bit. The packages are those of the extra `formats`.
"""
