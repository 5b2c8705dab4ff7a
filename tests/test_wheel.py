"""The package works as a normal wheel, not only from its source tree."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMPORT_ALL = """
import importlib, sys
unpacked, *names = sys.argv[1:]
sys.path.insert(0, unpacked)
for name in names:
    place = importlib.import_module(name).__file__
    assert place.startswith(unpacked), f"{name} was found in {place}, not in the wheel"
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of a wheel that was built from a copy, so that nothing is left in the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (copy / "docs").mkdir()
    for name in ("pyproject.toml", "docs/package.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, copy]
    done = subprocess.run(build, capture_output=True, text=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("tandem_rl-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_every_module_is_in_the_wheel_and_can_be_imported_from_it(unpacked: Path) -> None:
    files = sorted((ROOT / "src").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__") for file in files]
    assert "tandem.envs.gear_assembly.task" in names
    # -I: neither PYTHONPATH nor the current folder; what is installed beside it stays, for its dependencies
    done = subprocess.run([sys.executable, "-I", "-c", IMPORT_ALL, unpacked, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_carries_its_types_its_licence_and_its_command(unpacked: Path) -> None:
    assert (unpacked / "tandem/py.typed").exists()
    [info] = unpacked.glob("tandem_rl-*.dist-info")
    assert "Apache License" in (info / "licenses/LICENSE").read_text()
    assert "tandem = tandem.cli:main" in (info / "entry_points.txt").read_text()


def test_a_plain_install_asks_for_no_jax_and_no_page_and_the_version_is_the_packages_own(unpacked: Path) -> None:
    import tandem
    from tandem.errors import EXTRAS

    [info] = unpacked.glob("tandem_rl-*.dist-info")
    lines = (info / "METADATA").read_text().splitlines()
    assert f"Version: {tandem.__version__}" in lines and "Name: tandem-rl" in lines
    required = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    plain = [name for name in required if "extra ==" not in name]
    assert plain and not [name for name in plain if name.startswith(("jax", "equinox", "optax", "nicegui", "tensorboardX", "PyYAML"))]
    for package, extra in EXTRAS.items():  # what an error tells people to install does bring the package
        names = {
            "yaml": "PyYAML",
            "jaxlib": "jax",
            "socketio": "python-socketio",
            "simple_websocket": "simple-websocket",
            "cv2": "opencv-python",
        }
        wanted = names.get(package, package.replace("flask_", "flask-"))
        assert any(name.startswith(wanted) and name.endswith(f'extra == "{extra}"') for name in required), package


def test_it_carries_the_package_alone(unpacked: Path) -> None:
    assert sorted(path.name for path in unpacked.iterdir() if path.suffix != ".dist-info") == ["tandem"]


def test_what_a_browser_loads_is_in_the_wheel(unpacked: Path) -> None:
    assets = ROOT / "src" / "tandem" / "dashboard" / "assets"
    packed = unpacked / "tandem" / "dashboard" / "assets"
    assert {file.name for file in packed.iterdir()} == {file.name for file in assets.iterdir()} >= {"page.html", "page.js", "page.css"}
