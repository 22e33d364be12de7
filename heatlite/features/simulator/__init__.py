"""Simulated cloud in memory, for trials on a laptop and for tests.

It answers as the real services do, but creates nothing. `simulation` holds the objects, the timing and the scripted
faults. `collection` provides the regular verbs of a kind of object. `services` has the services, with their special
verbs. `cloud` is the cloud that the setting `cloud` selects, and `trials` the command that tests templates on it.
"""
