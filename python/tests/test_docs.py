# SPDX-License-Identifier: Apache-2.0
"""Runs the Python snippet of docs/embedding.md, and the tests in it."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "embedding.md"


def test_the_snippet_of_the_documentation_runs():
    [snippet] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    names = {}
    exec(compile(snippet, str(PAGE), "exec"), names)
    tests = [names[name] for name in names if name.startswith("test_")]
    assert tests
    for test in tests:
        test()
