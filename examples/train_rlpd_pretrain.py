"""The later command line of the same project: learn from the demonstrations alone first, then with the robot.

    python examples/train_rlpd_pretrain.py --exp_name=gear_assembly_pretrain --learner --demo_path=DEMOS.pkl --checkpoint_path=./run

The flags are those of `train_rlpd.py`. A run that begins makes 5,000 learner steps on the demonstrations before the first step of the
robot counts. The discount follows from the length of the demonstrations and is printed with its reason; batches are half demonstrations.
"""

from __future__ import annotations

import sys

from train_rlpd import main

PRETRAIN_STEPS = 5000

if __name__ == "__main__":
    sys.exit(main(PRETRAIN_STEPS))
