# ruff: noqa: N802, N815 - names of unittest
"""Run Heat's own tests: a client of the service that tempest.conf names.

Arguments: the folder of the tests, its top folder, this share's number, the count of shares, names of tests and of
modules that are left out. A line of output is the JSON list [test, outcome, text, seconds].
"""

import gc
import json
import sys
import time
import unittest
import zlib


class Lines(unittest.TestResult):
    def _tell(self, test, outcome, text=""):
        spent = round(time.monotonic() - getattr(self, "begun", time.monotonic()), 1)
        print(json.dumps([test.id(), outcome, text, spent]), flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.begun = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        gc.collect()  # closes the connections of its clients, of which services accept a limited number

    def addSuccess(self, test, details=None):
        self._tell(test, "passed")

    def addSkip(self, test, reason=None, details=None):
        self._tell(test, "skipped", reason or str(details["reason"].as_text()))

    def addError(self, test, err=None, details=None):
        self._tell(test, "failed", self._text(test, err, details))

    addFailure = addError

    def addExpectedFailure(self, test, err=None, details=None):
        self._tell(test, "passed")

    def addUnexpectedSuccess(self, test, details=None):
        self._tell(test, "failed", "unexpected success")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._tell(test, "failed", self._text(test, err, None))

    def _text(self, test, err, details):
        if details is None:
            return self._exc_info_to_string(err, test)
        return "\n".join(value.as_text() for key, value in details.items() if "traceback" in key)


def groups(suite):
    """Suites whose tests stay together: of a class, or of one file of requests."""
    items = list(suite)
    if type(suite).__module__.startswith("gabbi") or any(not isinstance(item, unittest.TestSuite) for item in items):
        yield suite
    else:
        for item in items:
            yield from groups(item)


def names(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from names(item)
        else:
            yield item.id()


folder, top, number, count, *without = sys.argv[1:]
sys.path.insert(0, top)
chosen = unittest.TestSuite()
for group in groups(unittest.TestLoader().discover(folder, top_level_dir=top)):
    every = sorted(names(group))
    if not every or zlib.crc32(every[0].encode()) % int(count) != int(number):
        continue
    if type(group).__module__.startswith("gabbi"):  # each request needs those before it
        chosen.addTest(group)
    else:
        chosen.addTests(test for test in group if not test.id().startswith(tuple(without)))
chosen.run(Lines())
