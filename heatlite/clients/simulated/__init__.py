"""A cloud in memory: trials on a laptop, and tests. It answers as the real services do, and makes nothing.

`simulation` keeps the objects, and everything that may be set (time that things take, scripted faults); `collection`
gives a kind of object its regular verbs; the other modules are the services, each with the verbs that are its own.
"""
