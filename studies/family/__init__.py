"""PAMD on the sphere, in the ball and with a learned scale, and the dimension that distances need.

docs/family.md and docs/exact.md have the results.
"""
