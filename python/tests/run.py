# SPDX-License-Identifier: Apache-2.0
"""Runs the tests where there is no pytest."""

import test_ruleset

failed = passed = 0
for name, test in sorted(vars(test_ruleset).items()):
    if name.startswith("test_"):
        try:
            test()
            passed += 1
        except Exception as error:  # noqa: BLE001
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}")
print(f"{passed} passed, {failed} failed")
raise SystemExit(failed > 0)
