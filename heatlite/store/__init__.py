"""The only package with SQL. It returns the records of `heatlite.store.records`."""

import heatlite.store.tables  # noqa: F401 - first, as models of features import the fields below it
