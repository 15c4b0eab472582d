"""Maps the top-level folders into the `sentinel_core` name space and compiles the hot modules.

The package list is computed: a list kept by hand would lose new subpackages without a word.
`SENTINEL_PURE=1` leaves the hot modules interpreted; so does a machine without a C compiler (see `script/run`).
"""

import os
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
PARTS = ("rules", "datasources", "audit", "cli", "examples")
HOT_MODULES = [
    line.strip()
    for line in (ROOT / "hot_modules.txt").read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
]

package_dir = {"sentinel_core": "sentinel_core"}
packages = ["sentinel_core"]
packages += [f"sentinel_core.{name}" for name in find_packages("sentinel_core", exclude=[f"{p}*" for p in PARTS])]
for part in PARTS:
    for name in [part, *(f"{part}.{sub}" for sub in find_packages(part))]:
        packages.append(f"sentinel_core.{name}")
        package_dir[f"sentinel_core.{name}"] = name.replace(".", "/")

ext_modules = []
if not os.environ.get("SENTINEL_PURE") and HOT_MODULES:
    from mypyc.build import mypycify

    # The group name puts the shared library inside the package: nothing of ours may lie bare in site-packages.
    # Only they are checked here: what they import may import libraries that a build does not have.
    flags = ["--follow-imports=silent", "--ignore-missing-imports"]
    ext_modules = mypycify([*flags, *HOT_MODULES], group_name="sentinel_core.hot", opt_level="3", debug_level="0")

setup(packages=packages, package_dir=package_dir, ext_modules=ext_modules)
