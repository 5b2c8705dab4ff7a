"""The later command line of the same project: learn from the demonstrations alone first, then with the robot.

    python examples/train_rlpd_pretrain.py --exp_name=gear_assembly_pretrain --learner --demo_path=DEMOS.pkl --checkpoint_path=./run

The flags are those of `train_rlpd.py`. A run that begins makes 5,000 learner steps on the demonstrations before the first step of the
robot counts, and the share of demonstrations in a batch then falls from 0.8 to 0.5 over 20,000 learner steps. The discount follows from
the length of the demonstrations and is printed with its reason.
"""

from __future__ import annotations

import sys

from train_rlpd import main

PRETRAIN_STEPS, INITIAL_DEMO_RATIO = 5000, 0.8

if __name__ == "__main__":
    sys.exit(main(PRETRAIN_STEPS, INITIAL_DEMO_RATIO))
