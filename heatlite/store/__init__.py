"""The only room with SQL. What leaves it are the records of `heatlite.store.records`."""
