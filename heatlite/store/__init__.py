"""The only package with SQL. It returns the records of `heatlite.store.records`."""
