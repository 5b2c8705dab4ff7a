"""Imports point one way, and the programs of a robot's computer do not import JAX."""

import ast
import subprocess
import sys
from pathlib import Path

import tandem

PACKAGE = Path(tandem.__file__).parent
ORDER = (
    "errors",
    "seeding",
    "spec",
    "types",
    "codec",
    "layouts",
    "decisions",
    "learnable",
    "files",
    "allowed",
    "runs",
    "envs",
    "testing",
    "teleop",
    "networks",
    "agents",
    "data",
    "rewards",
    "link",
    "acting",
    "off_policy",
    "on_policy",
    "doctor",
    "dashboard",
    "programs",
    "cli",
)
"""The order in which a step travels. Each part imports only from those before it; imports inside functions count too."""
WITHOUT_JAX = (
    "tandem.cli",
    "tandem.envs.registry",
    "tandem.teleop.operator",
    "tandem.data.demos",
    "tandem.data.report",
    "tandem.programs.record",
    "tandem.acting.actor",
    "tandem.programs.actor",
    "tandem.programs.teaching",
    "tandem.teleop.devices",
    "tandem.acting.policy",
    "tandem.networks.encoders.encoder",
    "tandem.programs.export",
    "tandem.link.inproc",
    "tandem.link.client",
    "tandem.link.hub",
    "tandem.doctor.command",
    "tandem.doctor.watch",
    "tandem.doctor.replay",
    "tandem.doctor.pages",
    "tandem.doctor.demo_files",
    "tandem.programs.demos",
    "tandem.programs.edit_demos",
    "tandem.programs.show_demos",
    "tandem.dashboard.standalone",
    "tandem.rewards.training",
    "tandem.programs.reward",
)


def imported(file: Path) -> set[str]:
    """The parts of tandem that a file imports, at any depth of nesting."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tandem":
            names = [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
            found.update(names)
        elif isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tandem."))
    return found


def test_imports_point_one_way() -> None:
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        assert part in ORDER, f"add {part} to ORDER"
        allowed = {*ORDER[: ORDER.index(part) + 1], "__version__"}
        wrong += [f"{file.relative_to(PACKAGE)} imports {other}" for other in imported(file) - allowed]
    assert not wrong, "\n".join(wrong)


def test_nothing_outside_of_envs_names_a_task() -> None:
    """Everything that others may know of a task stands in its registration."""
    tasks = {"reach", "gear_assembly", "gear_pick", "gripper", "cartpole", "recall", "locomotion", "arm"}
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        if file.relative_to(PACKAGE).parts[0] == "envs":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named = [module for module in modules if module.startswith("tandem.envs.") and tasks & set(module.split("."))]
            wrong += [f"{file.relative_to(PACKAGE)} imports {module}" for module in named]
    assert not wrong, "\n".join(wrong)


def test_no_object_is_asked_for_attributes_that_it_may_not_have() -> None:
    """`hasattr`, and a default for what an environment lacks, are left to the files that translate foreign environments."""
    for file in PACKAGE.rglob("*.py"):
        if file.name == "foreign.py" or file == PACKAGE / "envs" / "served" / "server.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                default = node.func.id == "getattr" and len(node.args) == 3 and ast.unparse(node.args[0]).endswith("env")
                assert node.func.id != "hasattr" and not default, f"{file.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}"


def test_type_ignores_are_few() -> None:
    lines = [line for file in PACKAGE.rglob("*.py") for line in file.read_text().splitlines()]
    found = [line for line in lines if "pyright: ignore" in line or "type: ignore" in line]
    assert len(found) <= 8, "\n".join(found)


def test_programs_of_a_robots_computer_do_not_import_jax() -> None:
    code = f"import sys, {', '.join(WITHOUT_JAX)}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_eval_exec_or_pickle_load() -> None:
    """No eval, no exec, no pickle.load; pickles are read by data/pickled.py, which knows no code."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "pickle.load", "pickle.loads"), f"{file.name}:{node.lineno} calls {called}"
