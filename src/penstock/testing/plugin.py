"""The pytest plugin that the package registers.

pytest imports this module at its start in every project that has Penstock
installed, so it imports nothing of the broker; a fixture does, when a test
asks for it.
"""
