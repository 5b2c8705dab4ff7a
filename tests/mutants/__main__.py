"""The command line of `python -m tests.mutants`."""

from __future__ import annotations

import argparse
import sys

from tests.mutants import __doc__ as about
from tests.mutants.harness import Rotten, all_mutants, check_all, pass_unchanged, run_many


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="only this mutation; may be given several times")
    parser.add_argument("--list", action="store_true", help="show the mutations and run nothing")
    parser.add_argument("--check", action="store_true", help="only see that every mutation still fits the source (seconds)")
    parser.add_argument("--jobs", type=int, default=2, help="mutations to run at a time")
    args = parser.parse_args()
    mutants = all_mutants()
    if args.only:
        unknown = set(args.only) - {mutant.name for mutant in mutants}
        if unknown:
            parser.error(f"no mutation named {', '.join(sorted(unknown))}; see --list")
        mutants = [mutant for mutant in mutants if mutant.name in args.only]
    if args.list:
        for mutant in mutants:
            print(f"{mutant.name:42} {mutant.file:32} {' '.join(mutant.tests)}")
        print(f"{len(mutants)} mutations")
        return 0
    problems = check_all(mutants)
    if problems or args.check:
        print("\n".join(problems) or f"{len(mutants)} mutations fit the source")
        return 2 if problems else 0
    if not pass_unchanged(test for mutant in mutants for test in mutant.tests):
        print("the tests fail on the unchanged source, so they cannot tell a mutation; mend them first")
        return 2
    survivors = []
    for number, (mutant, outcome) in enumerate(run_many(mutants, args.jobs), start=1):
        print(f"{number:3} of {len(mutants)}  {outcome:10} {mutant.name}", flush=True)
        if outcome == "survived":
            survivors.append(mutant)
    for mutant in survivors:
        print(f"\nSURVIVED {mutant.name} ({mutant.file}), claimed by {' '.join(mutant.tests)}:\n- {mutant.old}\n+ {mutant.new}")
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Rotten as problem:
        print(f"mutation does not fit: {problem}")
        sys.exit(2)
